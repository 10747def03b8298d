"""The tables of a report: figures, paired comparison, by level, budgets, and the paper's rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from optim.experiments.levels import by_level
from optim.published import PublishedRow, published_rows
from optim.report.bars import RatioAxis
from optim.report.markup import Child, Markup, breakable, joined, tag
from optim.report.spending import by_position, spent
from optim.report.wording import NOTHING, factor, number, p_value, percent, span

if TYPE_CHECKING:
    from optim.report.studies import Study, Versus
    from optim.summary import Row

__all__ = [
    "budget_table",
    "figures_table",
    "level_table",
    "paired_table",
    "position_table",
    "published_of",
    "published_table",
    "scrolling",
]

_PAPERS_NAME = {
    "math500": "MATH-500",
    "natural_instructions": "NaturalInstructions",
    "travelplanner": "TravelPlanner",
}
_Best = Callable[[Iterable[float]], float]
# Heading, field of a row, which is best, decimals (None: three digits).
_FIGURES: tuple[tuple[str, str, _Best | None, int | None], ...] = (
    ("score,\N{NO-BREAK SPACE}%", "accuracy", max, 1),
    ("T", "tokens", min, 0),
    ("T without planning", "solving_tokens", min, 0),
    ("E³", "e3", max, None),
    ("95\N{NO-BREAK SPACE}% interval", "", None, None),
    ("A/T", "a_over_t", max, 3),
    ("seconds", "seconds", min, 1),
)


def figures_table(study: Study) -> Markup:
    """The row of each method.

    The best figure of a column is marked when there are several, all about the same questions.
    """
    with_errors = any(row.errors for row in study.rows)
    heads = ["method", *(name for name, *_ in _FIGURES), "n", "errors"]
    heads += ["E³, errors as 0"] if with_errors else []
    comparable = [] if study.incomplete() else study.rows
    best = {field: _best(comparable, field, of) for _, field, of, _ in _FIGURES if of}
    return _table(
        "Figures of each method",
        heads,
        [
            [*(_figure(row, field, best, digits) for _, field, _, digits in _FIGURES),
             number(row.n), _errors(row), *([factor(row.e3_with_errors)] if with_errors else [])]
            for row in study.rows
        ],
        study.methods,
    )  # fmt: skip


def paired_table(study: Study) -> Markup:
    """Each method against the baseline, with the ratios drawn on one axis."""
    pairs = [v.comparison for v in study.versus if v.comparison]
    axis = RatioAxis([e for c in pairs for e in (c.ratio, c.lower, c.upper) if e is not None])
    heads: list[Child] = [
        "method",
        "ratio of E³",
        axis.header(),
        "95\N{NO-BREAK SPACE}% interval",
        "p",
        "p, Holm",
    ]
    heads += ["P(better)", "score difference, points", "p of score", "better / worse", "questions"]
    rows = [_paired(versus, axis) for versus in study.versus]
    names = [versus.method for versus in study.versus]
    return _table(f"Each method against {study.baseline}", heads, rows, names)


def level_table(study: Study) -> Markup:
    """Score, tokens and number of answers of each method at each level."""
    cells = {(cell["method"], cell["level"]): cell for cell in by_level(study.records)}
    rows = []
    for method in study.methods:
        row: list[Child] = []
        for level in study.levels:
            cell = cells.get((method, level), {})
            row += [_of(cell.get("accuracy")), _of(cell.get("T")), _of(cell.get("n"))]
        rows.append(row)
    groups = [tag("th", f"level {n}", scope="colgroup", colspan=3) for n in study.levels]
    heads = ["method", *["score,\N{NO-BREAK SPACE}%", "T", "n"] * len(groups)]
    above = tag("tr", tag("td"), groups)
    return _table("Score and tokens by level", heads, rows, study.methods, above)


def budget_table(study: Study) -> Markup | None:
    """Mean budget against mean use, for methods that have one."""
    rows: list[list[Child]] = []
    names = []
    for method in study.methods:
        unit, found = spent(study.of(method))
        if found:
            budget = sum(one.budget for one in found) / len(found)
            tokens = sum(one.tokens for one in found) / len(found)
            over = sum(one.tokens > one.budget for one in found)
            share = percent(100 * over / len(found))
            used = percent(100 * tokens / budget) if budget else NOTHING
            rows.append([unit, number(len(found)), number(budget), number(tokens), used, share])
            names.append(method)
    heads = ["method", "unit", "units", "mean budget", "mean use", "use / budget", "over budget"]
    return _table("Budget and use", heads, rows, names) if rows else None


def position_table(study: Study) -> Markup | None:
    """Mean budget, and use where it is known, of each step in turn."""
    places = {method: by_position(study.of(method)) for method in study.methods}
    places = {method: found for method, found in places.items() if found}
    if not places:
        return None
    steps = max(found[-1][0] for found in places.values())
    rows: list[list[Child]] = []
    for found in places.values():
        cells: dict[int, Child] = {p: _share(budget, tokens) for p, _, budget, tokens in found}
        rows.append([cells.get(step, NOTHING) for step in range(1, steps + 1)])
    heads = ["method", *(f"step {step}" for step in range(1, steps + 1))]
    return _table("Mean budget by step", heads, rows, list(places))


def published_of(dataset: str) -> list[PublishedRow]:
    """The paper's rows on a data set; none where it has none."""
    return [row for row in published_rows() if row.dataset == _PAPERS_NAME.get(dataset)]


def published_table(study: Study, rows: Sequence[PublishedRow]) -> Markup:
    """Figures of this study beside those of the paper, for one planner of the paper.

    The paper's T leaves planning out; so do the study's own figures here.
    """
    models = list(dict.fromkeys(row.model for row in rows))
    names = list(dict.fromkeys(row.method for row in rows))
    printed = {(row.method, row.model): row for row in rows}
    ours = {row.method: row for row in study.rows}
    sources = [tag("th", name, scope="colgroup", colspan=3) for name in ["here", *models]]
    heads = ["method", *["score,\N{NO-BREAK SPACE}%", "T", "E³"] * len(sources)]
    lines = []
    for name in names:
        cells: list[Child] = list(_without_planning(ours.get(name)))
        for model in models:
            one = printed[name, model]
            cells += [number(one.score, 1), number(one.tokens), factor(one.e3)]
        lines.append(cells)
    above = tag("tr", tag("td"), sources)
    caption = f"Here and in the paper, planned by {rows[0].planner}"
    return _table(caption, heads, lines, names, above)


def scrolling(label: str, content: Child) -> Markup:
    """A region that scrolls by itself where the page is narrow, also by keyboard."""
    return tag("div", content, class_="wide", role="region", aria_label=label, tabindex="0")


def _table(
    caption: str,
    heads: Sequence[Child],
    rows: Sequence[Sequence[Child]],
    names: Sequence[str],
    above: Markup | None = None,
) -> Markup:
    head = joined(above, tag("tr", [tag("th", name, scope="col") for name in heads]))
    body = [
        tag("tr", tag("th", breakable(name), scope="row"), [_cell(cell) for cell in row])
        for name, row in zip(names, rows, strict=True)
    ]
    hidden = tag("caption", caption, class_="unseen")
    return scrolling(caption, tag("table", hidden, tag("thead", head), tag("tbody", body)))


def _cell(content: Child) -> Markup:
    if isinstance(content, Markup) and content.startswith("<td"):
        return content
    return tag("td", content)


def _best(rows: Sequence[Row], field: str, of: _Best) -> float | None:
    values = [getattr(row, field) for row in rows if getattr(row, field) is not None]
    return of(values) if len(values) > 1 else None


def _figure(row: Row, field: str, best: dict[str, float | None], digits: int | None) -> Markup:
    if not field:
        return tag("td", span(row.e3_lower, row.e3_upper), class_="quiet")
    value = getattr(row, field)
    words = factor(value) if digits is None else number(value, digits)
    if value is None or value != best[field]:
        return tag("td", words)
    return tag("td", tag("strong", words), tag("span", " best", class_="unseen"), class_="best")


def _errors(row: Row) -> Markup:
    return tag("td", number(row.errors), class_="bad" if row.errors else None)


def _paired(versus: Versus, axis: RatioAxis) -> list[Child]:
    found = versus.comparison
    if found is None:
        return [NOTHING, tag("td", versus.why_not, class_="note"), *[NOTHING] * 8]
    clear = versus.adjusted_p is not None and versus.adjusted_p < 0.05  # noqa: PLR2004
    adjusted = p_value(versus.adjusted_p)
    return [
        factor(found.ratio),
        tag("td", axis.draw(found.ratio, found.lower, found.upper), class_="drawn"),
        tag("td", span(found.lower, found.upper), class_="quiet"),
        p_value(found.p_value),
        tag("strong", adjusted) if clear else adjusted,
        percent(None if found.probability_better is None else 100 * found.probability_better),
        number(found.accuracy_difference, 1),
        p_value(found.accuracy_p_value),
        f"{versus.gained} / {versus.lost}",
        number(found.questions),
    ]


def _of(value: object) -> str:
    return number(value) if isinstance(value, int | float) else NOTHING


def _share(budget: float, tokens: float | None) -> Child:
    if tokens is None:
        return number(budget)
    return joined(number(budget), tag("span", f" used {number(tokens)}", class_="quiet"))


def _without_planning(row: Row | None) -> tuple[str, str, str]:
    if row is None or row.accuracy is None or not row.solving_tokens:
        return NOTHING, NOTHING, NOTHING
    e3 = row.accuracy**2 / row.solving_tokens
    return number(row.accuracy, 1), number(row.solving_tokens), factor(e3)
