"""One page of HTML that holds everything: it loads nothing and runs nothing."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from optim.report import sections
from optim.report.answers import Answers
from optim.report.markup import Child, Markup, joined, tag
from optim.report.wording import count

if TYPE_CHECKING:
    from optim.report.studies import Study

__all__ = ["document", "page", "style_sheet"]


def page(found: Sequence[Study], *, paper: bool = False, title: str = "Plan-and-Budget") -> str:
    """Make the page.

    There is no script in it, and its Content-Security-Policy forbids any, as it forbids to load
    anything; the one style sheet is allowed by its hash. So text of a model that should ever get
    past the escaping could still do nothing.

    Args:
        found: What to show, a study after the other.
        paper: Whether to show what the paper printed about the same data sets.
        title: Of the page.
    """
    return document(title, _content(found, title, paper=paper))


def document(title: str, content: Child) -> str:
    """Put content into a page of its own, with the style sheets and the policy."""
    style = style_sheet()
    head = [
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_policy(style)),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("title", title),
        tag("style", Markup(style)),
    ]
    body = tag("body", tag("main", content), class_="pb")
    return "<!doctype html>\n" + tag("html", tag("head", head), body, lang="en") + "\n"


@cache
def style_sheet(*names: str) -> str:
    """The style sheets of the package, those of these names or all."""
    folder = files("optim.report")
    wanted = names or ("charts.css", "page.css")
    return "\n".join(folder.joinpath(name).read_text(encoding="utf-8") for name in wanted)


def _policy(style: str) -> str:
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"


def _content(found: Sequence[Study], title: str, *, paper: bool) -> Iterator[Child]:
    yield tag("header", tag("h1", title), tag("p", _about(found), class_="quiet"))
    if len(found) > 1:
        links = [tag("li", tag("a", _name(s), href=f"#s{i}")) for i, s in enumerate(found)]
        yield tag("nav", tag("ul", links), aria_label="Studies")
    sharing = sum(len(Answers.faulty(study.records)) for study in found)
    for place, study in enumerate(found):
        yield tag("section", _study(study, place, sharing, paper=paper), id=f"s{place}")
    yield tag("footer", tag("h2", "How to read this"), sections.method())


def _study(study: Study, place: int, sharing: int, *, paper: bool) -> Iterator[Child]:
    yield tag("h2", study.dataset)
    yield sections.provenance(study)
    yield sections.findings(study)
    yield sections.figures(study)
    yield sections.against_tokens(study)
    yield sections.paired(study)
    yield sections.levels(study)
    yield sections.parts(study)
    yield sections.budgets(study)
    if paper:
        yield sections.published(study)
    yield _answers(Answers(study, f"s{place}", sharing), study)


def _answers(answers: Answers, study: Study) -> Child:
    faulty = Answers.faulty(study.records)
    note = (
        f"{count(len(faulty), 'answer')} of {len(study.records)} are not fully right or have no "
        "score. Each mark leads to the answer: what was asked and wanted, what came, its steps "
        "with their budgets, and the warnings. Long texts lose their middle."
    )
    return joined(
        tag("h3", "Question by question"),
        tag("p", note if faulty else "Every answer is right."),
        answers.grid(),
        tag("h3", "Answers that are not right") if faulty else None,
        list(answers.questions()),
    )


def _about(found: Sequence[Study]) -> str:
    answers = sum(len(study.records) for study in found)
    tokens = sum(record.tokens for study in found for record in study.records)
    return (
        f"{count(answers, 'answer')}, {count(tokens, 'completion token')}. A plan that several "
        "methods share is charged to each."
    )


def _name(study: Study) -> str:
    return f"{study.dataset}: {study.model}, planned by {study.planner}"
