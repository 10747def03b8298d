"""From records to the table: a row for each method, with E³ and what it is made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from optim.e3 import a_over_t, e3, interval

if TYPE_CHECKING:
    from optim.e3 import Interval
    from optim.records import Record

__all__ = ["Row", "rows", "table"]

PERCENT = 100.0
_NOTHING = "–"  # noqa: RUF001 -- an en dash stands for nothing


@dataclass(frozen=True, slots=True)
class Row:
    """One method's figures on one data set.

    An answer without a score (an error) is neither right nor wrong, so it is no part of the
    figures, and `errors` says how many there are. Where the errors are the method's own fault,
    leaving them out flatters it; so `e3_with_errors` is E³ over all answers, with errors as
    score 0 at the tokens they cost. When the two differ, believe neither before you have looked.

    Attributes:
        dataset: Name of the data set.
        method: Name of the method.
        model: Name of the model that solved.
        planner: Name of the model that planned.
        n: Answers with a score.
        errors: Answers without.
        accuracy: A: mean score in percent; None without any score, like all that follow.
        tokens: T: mean completion tokens per query, planning included.
        solving_tokens: T without planning.
        e3: A²/T.
        e3_lower: Lower end of its 95 % interval, clustered by question; None when undefined.
        e3_upper: Upper end, likewise.
        e3_with_errors: E³ over all answers, errors counted as 0.
        a_over_t: A/T, in percentage points per token.
        seconds: Mean seconds of model time per query, those of the plan included.
        measured: Whether all tokens were reported by the provider, none estimated.
    """

    dataset: str
    method: str
    model: str
    planner: str
    n: int
    errors: int
    accuracy: float | None
    tokens: float | None
    solving_tokens: float | None
    e3: float | None
    e3_lower: float | None
    e3_upper: float | None
    e3_with_errors: float | None
    a_over_t: float | None
    seconds: float | None
    measured: bool

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        return asdict(self)


def rows(records: Sequence[Record]) -> list[Row]:
    """Sum up records by data set, planner, model and method, in order of first appearance."""
    groups: dict[tuple[str, ...], list[Record]] = {}
    for record in records:
        key = (record.dataset, record.model, record.planner, record.method)
        groups.setdefault(key, []).append(record)
    return [_row(group) for group in groups.values()]


def table(summary: Sequence[Row], title: str | None = None) -> Table:
    """Lay the rows out for a terminal; a column that says nothing new is left out."""
    several = {
        name: len({getattr(row, name) for row in summary}) > 1
        for name in ("dataset", "model", "planner")
    }
    with_errors = any(row.errors for row in summary)
    grid = Table(title=title, box=None, header_style="bold", pad_edge=False)
    for name in [name for name, shown in several.items() if shown] + ["method"]:
        grid.add_column(name)
    heads = ["n", "errors", "accuracy %", "T", "T solving", "E³", "95 % interval"]
    for name in [*heads, *(["E³, errors 0"] if with_errors else []), "A/T", "seconds"]:
        grid.add_column(name, justify="right", no_wrap=True)
    for row in summary:
        labels = [getattr(row, name) for name, shown in several.items() if shown]
        grid.add_row(
            *(Text(label) for label in [*labels, row.method]), *_cells(row, with_errors=with_errors)
        )
    return grid


def _row(group: Sequence[Record]) -> Row:
    first = group[0]
    scored = [record for record in group if record.score is not None]
    figures = _figures(scored)
    return Row(
        dataset=first.dataset,
        method=first.method,
        model=first.model,
        planner=first.planner,
        n=len(scored),
        errors=len(group) - len(scored),
        e3_with_errors=_e3(group),
        measured=all(record.report["usage"]["measured"] for record in group),
        **figures,
    )


def _figures(scored: Sequence[Record]) -> dict[str, Any]:
    scores = [record.score or 0.0 for record in scored]
    tokens = [record.tokens for record in scored]
    spread = _interval(scored)
    return {
        "accuracy": PERCENT * fmean(scores) if scores else None,
        "tokens": fmean(tokens) if tokens else None,
        "solving_tokens": fmean(record.solving_tokens for record in scored) if scored else None,
        "e3": spread.e3 if spread else None,
        "e3_lower": spread.lower if spread else None,
        "e3_upper": spread.upper if spread else None,
        "a_over_t": a_over_t(scores, tokens) if spread else None,
        "seconds": fmean(r.report["usage"]["seconds"] for r in scored) if scored else None,
    }


def _interval(scored: Sequence[Record]) -> Interval | None:
    """E³ with its interval, unless nothing was scored or no token spent."""
    tokens = [record.tokens for record in scored]
    if not any(tokens):
        return None
    clusters = [record.question for record in scored]
    return interval([record.score or 0.0 for record in scored], tokens, clusters=clusters)


def _e3(group: Sequence[Record]) -> float | None:
    tokens = [record.tokens for record in group]
    return e3([record.score or 0.0 for record in group], tokens) if any(tokens) else None


def _cells(row: Row, *, with_errors: bool) -> list[str]:
    span = _NOTHING
    if row.e3_lower is not None:
        span = f"{row.e3_lower:.2f} – {_number(row.e3_upper)}"  # noqa: RUF001 -- a range
    return [
        str(row.n),
        str(row.errors),
        _number(row.accuracy, 1),
        _number(row.tokens, 0),
        _number(row.solving_tokens, 0),
        _number(row.e3),
        span,
        *([_number(row.e3_with_errors)] if with_errors else []),
        _number(row.a_over_t, 3),
        _number(row.seconds, 1),
    ]


def _number(value: float | None, digits: int = 2) -> str:
    return _NOTHING if value is None else f"{value:.{digits}f}"
