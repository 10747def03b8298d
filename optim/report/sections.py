"""The sections of a study, each a heading, what it shows, and what to know when reading it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from optim.experiments.levels import by_level
from optim.report.bars import part_class, stacked
from optim.report.markup import Child, Markup, breakable, joined, tag
from optim.report.panels import Series, budget_panel, level_panel
from optim.report.scatter import KINDS, kind_of, marker, points, scatter
from optim.report.spending import PARTS, Spent, mean_parts, spent
from optim.report.svg import svg, ticks
from optim.report.tables import (
    budget_table,
    figures_table,
    level_table,
    paired_table,
    position_table,
    published_of,
    published_table,
)
from optim.report.wording import count, factor, number, span

if TYPE_CHECKING:
    from optim.report.studies import Study
    from optim.summary import Row

__all__ = [
    "against_tokens", "budgets", "figures", "findings", "levels", "method", "paired", "parts",
    "provenance", "published",
]  # fmt: skip

_ALPHA = 0.05
_MANY = 5  # names that a sentence can hold
_NOTES = (
    """E³ = A²/T: the mean score in percent, squared, over the mean of completion tokens per query,
    planning included. Its interval is the delta method's on the log scale, with Student's t.""",
    """Answers without a score (errors) are left out of all figures but “E³, errors as 0”, which
    counts them as wrong at the tokens they cost. Where the two differ, read the errors first.""",
    """Questions are the independent units: several answers to one count as one cluster.""",
    """Comparisons are paired by question, on those that both methods have a score for. p is for
    equal E³; “p, Holm” allows for the number of methods compared. P(better) is the share of 10,000
    resampled sets of questions on which the method has the higher E³. The p of the score is
    McNemar's exact test where every question has one answer that is right or wrong, else a paired
    t-test.""",
    """The best figure of a column is the best as measured; without a comparison it says nothing
    about the next set of questions.""",
)


def provenance(study: Study) -> Markup:
    """Who solved and planned, on how many questions."""
    epochs = max(record.epoch for record in study.records)
    facts = {
        "solver": study.model,
        "planner": study.planner,
        "questions": number(len(study.questions)),
        "answers to each": number(epochs),
        "methods": number(len(study.rows)),
    }
    return tag("dl", [tag("div", tag("dt", k), tag("dd", v)) for k, v in facts.items()])


def findings(study: Study) -> Markup:
    """In sentences: the best, what differs from the baseline, and what makes the figures weak."""
    notes = [*_conclusions(study), *_doubts(study)]
    return tag("ul", [tag("li", note) for note in notes], class_="findings")


def figures(study: Study) -> Markup:
    """The table."""
    return joined(tag("h3", "The figures"), figures_table(study))


def against_tokens(study: Study) -> Markup | None:
    """Score against tokens."""
    found = points(study)
    if not found:
        return None
    caption = (
        "Up and to the left is better. Bars are 95 % intervals (score: Wilson; T: log scale); "
        "dotted lines join equal E³; the solid line is the Pareto front."
    )
    drawn = [scatter(found, 760, 440, "broad"), scatter(found, 350, 430, "slim")]
    kinds = {kind_of(record) for record in study.records}
    keys = [
        tag("li", svg(14, 14, "", marker(kind, 7, 7), class_="key"), KINDS[kind])
        for kind in sorted(kinds)
    ]
    return joined(tag("h3", "Score against tokens"), _figure(drawn, caption, keys))


def paired(study: Study) -> Markup | None:
    """Differences to the baseline."""
    if not study.versus:
        return None
    note = (
        f"Each method against {study.baseline}, on the same questions. A ratio above 1 is better; "
        "the dot is filled where its interval leaves 1 out."
    )
    return joined(tag("h3", "Paired differences"), tag("p", note), paired_table(study))


def levels(study: Study) -> Markup | None:
    """Score and tokens by level, a panel for each method, over the baseline."""
    if not study.levels:
        return None
    series = {key: _series(study, key) for key in ("accuracy", "T")}
    most = max((v for s in series["T"].values() for v in s.values() if v is not None), default=0)
    tops = {"accuracy": 100.0, "T": _round_up(most)}
    names = {"accuracy": "score, %", "T": "T"}
    panels = [
        _panel(
            name,
            [
                level_panel(name, series[key][name], _other(study, name, series[key]), tops[key],
                            names[key])
                for key in series
            ],
        )
        for name in study.methods
    ]  # fmt: skip
    ghost = f" In grey: {study.baseline}." if study.baseline else ""
    note = f"By the data set's own labels, 1 the easiest.{ghost}"
    return joined(
        tag("h3", "By level"),
        tag("p", note),
        tag("div", panels, class_="panels"),
        tag("details", tag("summary", "The same as a table"), level_table(study)),
    )


def parts(study: Study) -> Markup | None:
    """Where the tokens went."""
    bars = {name: mean_parts(study.of(name)) for name in study.methods}
    bars = {name: split for name, split in bars.items() if split}
    if not bars:
        return None
    used = [part for part in PARTS if any(part in split for split in bars.values())]
    used += sorted({part for split in bars.values() for part in split} - set(PARTS))
    keys = [
        tag("li", svg(14, 14, "", tag("rect", x=1, y=1, width=12, height=12,
                                      class_=f"part {part_class(part)}"), class_="key"),
            PARTS.get(part, part))
        for part in used
    ]  # fmt: skip
    drawn = [stacked(bars, 760, "broad"), stacked(bars, 350, "slim")]
    caption = "Mean completion tokens per query; the parts add up to T. " + _wasted(study)
    return joined(tag("h3", "Where the tokens went"), _figure(drawn, caption, keys))


def budgets(study: Study) -> Markup | None:
    """Budget against use."""
    table = budget_table(study)
    if table is None:
        return None
    used = {name: spent(study.of(name)) for name in study.methods}
    every = [one for _, found in used.values() for one in found]
    top = _top(every)
    panels = [
        _panel(name, [budget_panel(name, found, top, unit)])
        for name, (unit, found) in used.items()
        if found
    ]
    beyond = sum(one.tokens > top for one in every)
    edge = f" {count(beyond, 'dot')} lie above the frame, at its edge." if beyond else ""
    note = (
        "A dot is a step where steps are solved one by one, else the solving of a whole question. "
        f"On the line, the budget was used exactly; above it, exceeded.{edge}"
    )
    return joined(
        tag("h3", "Budget against use"),
        tag("p", note),
        tag("div", panels, class_="panels"),
        table,
        _steps(study),
    )


def published(study: Study) -> Markup:
    """What the paper printed about this data set."""
    rows = published_of(study.dataset)
    title = tag("h3", "In the paper")
    if not rows:
        return joined(title, tag("p", f"The paper has no table about {study.dataset}."))
    note = (
        "The paper's T leaves planning out; so do the figures of “here” in these tables. Its "
        "solvers are other models, with other limits: compare the order of the methods and the "
        "ratios between them, not the figures."
    )
    planners = dict.fromkeys(row.planner for row in rows)
    tables = [
        joined(
            tag("h4", f"Planned by {planner}"),
            published_table(study, [row for row in rows if row.planner == planner]),
        )
        for planner in planners
    ]
    return joined(title, tag("p", note), tables)


def method() -> Markup:
    """How the figures come about."""
    return tag("ul", [tag("li", note) for note in _NOTES])


def _conclusions(study: Study) -> list[Child]:
    known = [row for row in study.rows if row.e3 is not None]
    if not known:
        return ["Nothing has a score yet."]
    if all(row.e3 == 0 for row in known):
        return ["No answer is right: E³ is 0 for every method, and its interval only an upper end."]
    said: list[Child] = [] if study.incomplete() else [_highest(known)]
    return said + ([_differing(study)] if study.versus else [])


def _highest(known: Sequence[Row]) -> Markup:
    best = max(known, key=lambda row: row.e3 or 0.0)
    bounds = span(best.e3_lower, best.e3_upper)
    return joined("Highest E³: ", tag("b", best.method), f", {factor(best.e3)} (95 %: {bounds}).")


def _differing(study: Study) -> str:
    clear = [v for v in study.versus if v.adjusted_p is not None and v.adjusted_p < _ALPHA]
    if not clear:
        return (
            f"After Holm's correction no method's E³ differs from that of {study.baseline} at the "
            "5 % level: the order of the methods may be chance."
        )
    named = ", ".join(_better_or_worse(versus.method, versus.comparison) for versus in clear)
    return f"Against {study.baseline}, at the 5 % level after Holm's correction: {named}."


def _better_or_worse(name: str, comparison: object) -> str:
    higher = getattr(comparison, "e3_a", 0.0) > getattr(comparison, "e3_b", 0.0)
    return f"{name} {'higher' if higher else 'lower'}"


def _doubts(study: Study) -> list[str]:
    doubts = []
    if errors := sum(row.errors for row in study.rows):
        doubts.append(f"{count(errors, 'answer')} ended in an error and have no score.")
    if missing := study.incomplete():
        names = [f"{name} ({lacks} missing)" for name, lacks in missing.items()]
        more = f" and {len(names) - _MANY} more" if len(names) > _MANY else ""
        doubts.append(
            f"Not every method was asked every question: {', '.join(names[:_MANY])}{more}. So the "
            "rows are about different questions, and none is marked as the best; each paired "
            "difference is about the questions that two methods share."
        )
    if not all(row.measured for row in study.rows):
        doubts.append("Some tokens are estimated: the server reports none.")
    return doubts


def _wasted(study: Study) -> str:
    scored = [record for record in study.records if record.score is not None]
    total = sum(record.tokens for record in scored)
    lost = sum(record.tokens * (1 - (record.score or 0.0)) for record in scored)
    return f"{number(100 * lost / total)} % of all tokens went into wrong answers." if total else ""


def _figure(drawn: Sequence[Markup], caption: str, keys: Sequence[Markup]) -> Markup:
    return tag("figure", drawn, tag("ul", keys, class_="keys"), tag("figcaption", caption))


def _steps(study: Study) -> Markup | None:
    table = position_table(study)
    if table is None:
        return None
    note = "Mean budget of each step, and what was used of it where steps are solved one by one."
    return joined(tag("p", note), table)


def _panel(name: str, drawn: Sequence[Markup]) -> Markup:
    return tag("figure", tag("figcaption", breakable(name)), drawn, class_="panel-of")


def _series(study: Study, key: str) -> dict[str, Series]:
    cells = {(cell["method"], cell["level"]): cell[key] for cell in by_level(study.records)}
    return {
        method: {level: _float(cells.get((method, level))) for level in study.levels}
        for method in study.methods
    }


def _other(study: Study, name: str, series: dict[str, Series]) -> Series | None:
    return series[study.baseline] if study.baseline and name != study.baseline else None


def _float(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _top(every: Sequence[Spent]) -> float:
    """End of the axes: all budgets, and what was used, but for the few that ran far away."""
    tokens = sorted(one.tokens for one in every)
    usual = tokens[int(0.98 * (len(tokens) - 1))]
    return _round_up(max([usual, *(one.budget for one in every)]))


def _round_up(value: float) -> float:
    marks = ticks(0, value, 3) if value > 0 else [0.0, 1.0]
    step = marks[1] - marks[0] if len(marks) > 1 else value
    return marks[-1] if marks[-1] >= value else marks[-1] + step
