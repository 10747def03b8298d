"""Question by question: who was right, and every answer that was not, one link away."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from optim.report.markup import Child, Markup, breakable, joined, tag
from optim.report.tables import scrolling
from optim.report.wording import NOTHING, count, number, percent, shortened

if TYPE_CHECKING:
    from optim.records import Record
    from optim.report.studies import Study
    from pb_graph.state import StepReport

__all__ = ["Answers"]

_MOST_SHOWN, _LEAST_SHOWN = 6000, 400  # characters of one answer
_WHOLE_PAGE = 6_000_000  # characters of answers in one page, about
_STEP_SHOWN = 1500
_LINES_OF_TARGET = 300


class Answers:
    """The last part of a study: a grid of questions and methods, and what its links lead to.

    Every answer that is not fully right is there; the more there are, the less is shown of each.

    Args:
        study: What to show.
        prefix: Of the ids of this study's elements, unique in the page.
        sharing: How many answers that are not right the whole page holds.
    """

    def __init__(self, study: Study, prefix: str, sharing: int) -> None:
        self._study = study
        self._prefix = prefix
        self._shown = max(_LEAST_SHOWN, min(_MOST_SHOWN, _WHOLE_PAGE // max(sharing, 1)))
        self._questions = {question: place for place, question in enumerate(study.questions)}
        self._methods = {method: place for place, method in enumerate(study.methods)}
        self._cells: dict[tuple[str, str], list[Record]] = {}
        for record in study.records:
            self._cells.setdefault((record.question, record.method), []).append(record)

    @staticmethod
    def faulty(records: Sequence[Record]) -> list[Record]:
        """The answers that are not fully right, or have no score."""
        return [record for record in records if record.score is None or record.score < 1]

    def grid(self) -> Markup:
        """A row for each question, a column for each method; what is not right is a link."""
        head = [
            tag("th", breakable(name), scope="col")
            for name in ["question", "level", *self._methods]
        ]
        body = [
            tag(
                "tr",
                tag("th", self._link(question), scope="row"),
                tag("td", self._level(question)),
                [self._cell(question, method) for method in self._methods],
            )
            for question in self._questions
        ]
        caption = tag("caption", "Which question was answered how", class_="unseen")
        table = tag("table", caption, tag("thead", tag("tr", head)), tag("tbody", body))
        return scrolling("Which question was answered how", table)

    def questions(self) -> Iterator[Markup]:
        """Each question that somebody got wrong, with those answers."""
        for question in self._questions:
            if wrong := self._wrong(question):
                yield self._question(question, wrong)

    def _question(self, question: str, wrong: dict[str, list[Record]]) -> Markup:
        first = next(iter(wrong.values()))[0]
        asked, _ = shortened(first.question_text, _MOST_SHOWN)
        target, _ = shortened(first.target, _LINES_OF_TARGET)
        level = None if first.level is None else f"level {first.level}"
        return tag(
            "article",
            tag("h4", question, tag("span", level, class_="quiet")),
            tag("p", asked, class_="asked", dir="auto"),
            tag("p", tag("b", "Wanted "), tag("code", target, dir="auto"), class_="wanted"),
            [self._method(question, method, found) for method, found in wrong.items()],
            id=self._id(question),
        )

    def _method(self, question: str, method: str, found: Sequence[Record]) -> Markup:
        first = found[0]
        verdict = _verdict(first)
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        return tag(
            "details",
            tag("summary", tag("b", method), " ", tag("span", verdict + more, class_="quiet")),
            # The id stands inside: a browser opens the details around what a link leads to.
            tag("div", [self._answer(record) for record in found], id=self._id(question, method)),
        )

    def _answer(self, record: Record) -> Markup:
        output, _ = shortened(record.output or "(no answer)", self._shown)
        epoch = f"epoch {record.epoch}: " if record.epoch > 1 else ""
        return joined(
            tag("p", tag("b", epoch + _verdict(record)), f" \N{MIDDLE DOT} {_cost(record)}"),
            _error(record.error),
            tag("pre", output, dir="auto"),
            _steps(record.report["steps"]),
            _warnings(record.report["warnings"]),
        )

    def _cell(self, question: str, method: str) -> Markup:
        found = self._cells.get((question, method), [])
        if not found:
            return tag("td", NOTHING, class_="quiet")
        wrong = self.faulty(found)
        if not wrong:
            return tag("td", tag("span", "\N{CHECK MARK}", class_="right", title="right"))
        words, meaning = _mark(found)
        label = f"{method}, {question}: {meaning}"
        link = tag("a", words, href=f"#{self._id(question, method)}", aria_label=label)
        return tag("td", link, class_="wrong")

    def _wrong(self, question: str) -> dict[str, list[Record]]:
        """The answers to a question that are not right, by method."""
        every = {m: self.faulty(self._cells.get((question, m), [])) for m in self._methods}
        return {method: found for method, found in every.items() if found}

    def _link(self, question: str) -> Child:
        if not self._wrong(question):
            return breakable(question)
        return tag("a", breakable(question), href=f"#{self._id(question)}")

    def _level(self, question: str) -> str:
        found = next(f for m in self._methods if (f := self._cells.get((question, m))))
        return NOTHING if found[0].level is None else str(found[0].level)

    def _id(self, question: str, method: str | None = None) -> str:
        """By number: names of questions and methods are anything."""
        tail = "" if method is None else f"-{self._methods[method]}"
        return f"{self._prefix}q{self._questions[question]}{tail}"


def _mark(found: Sequence[Record]) -> tuple[str, str]:
    """What a cell of the grid says: a cross, a share, or that there was an error."""
    scores = [record.score for record in found if record.score is not None]
    if not scores:
        return "error", "error"
    if len(found) == 1 and scores[0] == 0:
        return "\N{BALLOT X}", "wrong"
    mean = sum(scores) / len(scores)
    return percent(100 * mean), f"mean score {percent(100 * mean)} of {count(len(found), 'answer')}"


def _cost(record: Record) -> str:
    planning, budget = record.tokens - record.solving_tokens, record.report["budget"]
    parts = [count(record.tokens, "token")]
    if planning:
        parts.append(f"{number(planning)} of them planning")
    if budget is not None:
        parts.append(f"budget {number(budget)}")
    return ", ".join(parts)


def _verdict(record: Record) -> str:
    if record.score is None:
        return "no score"
    said = record.explanation or ("wrong" if record.score == 0 else f"score {record.score:.2f}")
    return shortened(said, _LINES_OF_TARGET)[0]


def _error(reason: str | None) -> Markup | None:
    if reason is None:
        return None
    return tag("p", "error: ", shortened(reason, _STEP_SHOWN)[0], class_="bad")


def _warnings(warnings: Sequence[str]) -> Markup | None:
    if not warnings:
        return None
    shown = [tag("li", shortened(warning, _STEP_SHOWN)[0]) for warning in warnings]
    return tag("ul", shown, class_="warnings")


def _steps(steps: Sequence[StepReport]) -> Markup | None:
    if not steps:
        return None
    heads = ["step", "level", "credit", "budget", "tokens", "finish"]
    rows = [
        tag(
            "tr",
            tag("td", _step(step), class_="text"),
            [tag("td", _or_dash(step[field])) for field in heads[1:]],  # type: ignore[literal-required]
        )
        for step in steps
    ]
    head = tag("tr", [tag("th", name, scope="col") for name in heads])
    return scrolling("Steps", tag("table", tag("thead", head), tag("tbody", rows), class_="steps"))


def _step(step: StepReport) -> Markup:
    """The sub-question, its hint, and its answer where it has one of its own."""
    question, _ = shortened(step["question"], _STEP_SHOWN)
    hint, _ = shortened(step["hint"], _STEP_SHOWN)
    answer, _ = shortened(step["answer"] or "", _STEP_SHOWN)
    return joined(
        f"{step['index'] + 1}. {question}",
        tag("p", hint, class_="quiet") if hint else None,
        tag("pre", answer, dir="auto") if answer else None,
    )


def _or_dash(value: object) -> str:
    if value is None:
        return NOTHING
    return f"{value:.0f}" if isinstance(value, float) else str(value)
