"""One page of HTML that holds everything: it loads nothing and runs nothing."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from optim.e3 import describe
from optim.report import formatting
from optim.report.figures import KINDS, key, kind_of, points, scatters
from optim.report.panels import RatioAxis, Series, budget_panel, level_panel, part_class, stacked
from optim.report.published import PublishedRow, published_of
from optim.report.svg import svg, tag, ticks
from optim.report.template import render
from optim.report.terminal import COLUMNS, RATE_COLUMNS
from optim.scorers.travelplanner import by_constraint
from optim.statistics.comparison import FEW
from optim.summary import (
    PARTS,
    budget_use,
    by_position,
    mean_parts,
    samples,
    scored,
    summarize,
)

if TYPE_CHECKING:
    from optim.report.groups import Study
    from optim.summary import BudgetUse

_ALPHA = 0.05
_MANY = 5  # names that a sentence can hold


def page(found: Sequence[Study], *, paper: bool = False, title: str | None = None) -> str:
    """Make the page.

    There is no script in it, and its Content-Security-Policy forbids any, as it forbids to load
    anything; the one style sheet is allowed by its hash. So text of a model that should ever get
    past the escaping could still do nothing.
    """
    if title is None:
        names = (dict.fromkeys(s.dataset for s in found), dict.fromkeys(s.model for s in found))
        title = ": ".join(", ".join(part) for part in names)
    every = [record for study in found for record in study.records]
    views = [_view(study, f"s{n}", paper=paper) for n, study in enumerate(found)]
    return render(
        "report/page.html.j2", title=title, views=views, paper=paper, few=FEW,
        answers=len(every), tokens=sum(r.tokens for r in every),
    )  # fmt: skip


def _view(study: Study, name: str, *, paper: bool) -> dict[str, Any]:
    """What the template shows of a study."""
    pairs = [v.comparison for v in study.versus if v.comparison]
    return {
        "id": name,
        "study": study,
        "facts": _facts(study),
        "settings": {
            m: formatting.lines_of(a["settings"])
            for m, a in study.made_by().items()
            if "settings" in a
        },
        "findings": list(_findings(study)),
        "doubts": list(_doubts(study)),
        "columns": [column for column in COLUMNS if column.among(study.rows)],
        "rates": RATE_COLUMNS,
        "best": {c.field: c.top(study.rows) for c in COLUMNS if not study.incomplete()},
        "drawn": _drawn(study),
        "axis": RatioAxis([e for c in pairs for e in (c.ratio, c.lower, c.upper) if e is not None]),
        "constraints": {
            row.method: by_constraint(r.score_metadata for r in scored(study.of(row.method)))
            for row in study.rows
            if row.rates
        },
        "by_level": _levels(study),
        "parts": _parts(study),
        "budgets": _budgets(study),
        "published": _published(study) if paper else None,
    }


def _facts(study: Study) -> dict[str, str]:
    """Who solved and planned, and how the rows came about; what differs by row is listed."""
    made = list(study.made_by().values())
    told: dict[str, list[str]] = {}
    for name in dict.fromkeys(name for about in made for name in about if name != "settings"):
        values = [about[name] for about in made if about.get(name) is not None]
        written = [shlex.join(v) if isinstance(v, list) else formatting.setting(v) for v in values]
        told[name] = sorted(set(written)) if name == "date" else list(dict.fromkeys(written))
    dates = [date[:16].replace("T", " ") for date in told.pop("date", [])]
    return {
        "solver": study.model,
        "planner": study.planner,
        "questions": formatting.number(len(study.questions)),
        "answers to each": formatting.number(max(record.epoch for record in study.records)),
        "date": f" {formatting.NOTHING} ".join(dict.fromkeys(dates[:1] + dates[-1:])),
    } | {name.replace("_", " "): "; ".join(values) for name, values in told.items()}


def _findings(study: Study) -> Iterator[str]:
    """In sentences: the best, and what differs from the baseline."""
    known = [row for row in study.rows if row.e3 is not None]
    if not known:
        yield "Nothing has a score yet."
        return
    if all(row.e3 == 0 for row in known):
        yield "No answer is right: E³ is 0 for every method, and its interval only an upper end."
        return
    if not study.incomplete():
        best = max(known, key=lambda row: row.e3 or 0.0)
        ends = formatting.span(best.e3_lower, best.e3_upper)
        yield Markup("Highest E³: <b>{}</b>, {} (95 %: {}).").format(
            best.method, formatting.factor(best.e3), ends
        )
    if study.versus:
        yield _differing(study)
    for versus in study.versus:
        if versus.comparison is not None and versus.comparison.accuracy_undecided:
            against = f"{versus.method} against {study.baseline}"
            yield f"{against}: {describe(versus.comparison)}."


def _differing(study: Study) -> str:
    clear = [v for v in study.versus if v.adjusted_p is not None and v.adjusted_p < _ALPHA]
    if not clear:
        return (
            f"After Holm's correction no method's E³ differs from that of {study.baseline} at the "
            "5 % level: the order of the methods may be chance."
        )
    known = [(v.method, v.comparison) for v in clear if v.comparison]
    named = ", ".join(f"{name} {'higher' if c.e3_a > c.e3_b else 'lower'}" for name, c in known)
    return f"Against {study.baseline}, at the 5 % level after Holm's correction: {named}."


def _doubts(study: Study) -> Iterator[str]:
    """What makes the figures weak."""
    if errors := {row.method: row.errors for row in study.rows if row.errors}:
        each = _some([f"{name} ({number})" for name, number in errors.items()])
        total = formatting.count(sum(errors.values()), "answer")
        yield f"{total} ended in an error and have no score: {each}. They are in no figure."
    if missing := study.incomplete():
        yield (
            "Not every method was asked every question: "
            f"{_some([f'{name} ({lacks} missing)' for name, lacks in missing.items()])}. So the "
            "rows are about different questions, and none is marked as the best; each paired "
            "difference is about the questions that two methods share."
        )
    lacking: dict[str, list[str]] = {}
    for name, made in study.made_by().items():
        lacking.setdefault(made.get("gaps", ""), []).append(name)
    for gaps, names in lacking.items():
        if gaps:
            yield f"Not all of {_some(names)} is here: {gaps}. What is missing is in no figure."
    if any(row.e3 is not None and row.questions < FEW for row in study.rows):
        yield f"E³ of fewer than {FEW} questions is biased upwards, and so are ratios of it."
    if told := [row.method for row in study.rows if row.level == "label"]:
        yield (
            f"Level: label. {_some(told)} took the questions' levels from the data set, free of "
            "charge; whoever has no labels pays for an estimate."
        )
    if not all(row.measured for row in study.rows):
        yield "Some tokens are estimated: the server reports none."


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MANY} more" if len(names) > _MANY else ""
    return f"{', '.join(names[:_MANY])}{more}"


def _drawn(study: Study) -> dict[str, Any] | None:
    """Score against tokens, wide and narrow, with its key."""
    found = points(study)
    if not found:
        return None
    kinds = sorted({kind_of(record) for record in study.records})
    return {"figures": scatters(found), "keys": [(key(k), KINDS[k]) for k in kinds]}


def _levels(study: Study) -> dict[str, Any] | None:
    """Score and tokens by level: a panel for each method, over the baseline, and the rows."""
    if not study.levels:
        return None
    rows = summarize(study.records, ("method", "level"))
    most = max((row.tokens or 0.0 for row in rows.values()), default=0.0)
    ends = [row.tokens_upper or 0.0 for row in rows.values()]
    tops = {"accuracy": 100.0, "tokens": _round_up(max(most, min(max(ends), 1.5 * most)))}
    names = {"accuracy": "score, %", "tokens": "T"}

    def series(method: str, field: str) -> Series:
        found = {level: rows.get((method, level)) for level in study.levels}
        lower, upper = f"{field}_lower", f"{field}_upper"
        return {
            level: (getattr(row, field, None), getattr(row, lower, None), getattr(row, upper, None))
            for level, row in found.items()
        }

    panels = {
        name: [
            level_panel(
                name, series(name, f), series(study.baseline, f)
                if study.baseline and name != study.baseline else None, tops[f], names[f],
            )
            for f in names
        ]
        for name in study.methods
    }  # fmt: skip
    return {"panels": panels, "rows": rows}


def _parts(study: Study) -> dict[str, Any] | None:
    """Where the tokens went."""
    bars = {name: mean_parts(study.of(name)) for name in study.methods}
    bars = {name: split for name, split in bars.items() if split}
    if not bars:
        return None
    every = {part for split in bars.values() for part in split}
    used = [part for part in PARTS if part in every] + sorted(every - set(PARTS))
    boxes = [
        (part, tag("rect", x=1, y=1, width=12, height=12, class_=f"part {part_class(part)}"))
        for part in used
    ]
    judged = samples(study.records)
    total = sum(sample.tokens for sample in judged)
    lost = sum(sample.tokens * (1 - sample.score) for sample in judged)
    return {
        "figures": [stacked(bars, 560, "broad"), stacked(bars, 350, "slim")],
        "keys": [
            (svg(14, 14, "", box, class_="key"), PARTS.get(part, part)) for part, box in boxes
        ],
        "wasted": 100 * lost / total if total else None,
    }


def _budgets(study: Study) -> dict[str, Any] | None:
    """Budget against use: a panel for each method, and means of all and by step."""
    used = {name: budget_use(study.of(name)) for name in study.methods}
    used = {name: (unit, found) for name, (unit, found) in used.items() if found}
    if not used:
        return None
    every = [one for _, found in used.values() for one in found]
    # The end of the axes: all budgets, and what was used, but for the few that ran far away.
    tokens = sorted(one.tokens for one in every)
    usual = tokens[int(0.98 * (len(tokens) - 1))]
    top = _round_up(max([usual, *(one.budget for one in every)]))
    steps = {name: {p[0]: p for p in by_position(study.of(name))} for name in used}
    return {
        "panels": {n: [budget_panel(n, found, top, unit)] for n, (unit, found) in used.items()},
        "beyond": sum(one.tokens > top for one in every),
        "used": [_use(name, *found) for name, found in used.items()],
        "steps": {name: places for name, places in steps.items() if places},
        "most": max((max(places) for places in steps.values() if places), default=0),
    }


def _use(name: str, unit: str, found: Sequence[BudgetUse]) -> dict[str, Any]:
    budget, tokens = fmean(one.budget for one in found), fmean(one.tokens for one in found)
    return {
        "method": name,
        "unit": unit,
        "units": len(found),
        "budget": budget,
        "tokens": tokens,
        "share": 100 * tokens / budget if budget else None,
        "over": 100 * fmean(one.tokens > one.budget for one in found),
    }


def _round_up(value: float) -> float:
    marks = ticks(0, value, 3) if value > 0 else [0.0, 1.0]
    step = marks[1] - marks[0] if len(marks) > 1 else value
    return marks[-1] if marks[-1] >= value else marks[-1] + step


def _published(study: Study) -> list[dict[str, Any]]:
    """The paper's tables about this data set, one for each planner."""
    tables: dict[str, dict[tuple[str, str], PublishedRow]] = {}
    for row in published_of(study.dataset):
        tables.setdefault(row.planner, {})[row.method, row.model] = row
    return [
        {
            "planner": planner,
            "models": list(dict.fromkeys(model for _, model in printed)),
            "methods": list(dict.fromkeys(method for method, _ in printed)),
            "rows": printed,
        }
        for planner, printed in tables.items()
    ]
