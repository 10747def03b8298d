"""Fits the Budget Allocation Model's c and beta of each level to logged answers.

What a log measures of Eq. 1 is how often questions of a level are answered wrongly when their
budget is b tokens. We take the error rate for the uncertainty: its chance is
aleatoric + c / b^beta (`optim.bam.power_law`). That b is what a question was granted, not what it
spent: those that go wrong run long, so spending follows difficulty.

A log scores whole questions, so these are a whole question's c and beta. With `global_budget` a
question is one call with one budget, as a sub-question is; that sub-questions of a level fare as
whole questions of that level do is an assumption.

Questions count as independent, and so do answers of one question with different budgets. As such
answers really rise and fall together, what differs between budgets is rather better known than
beta's interval says. Several answers with the same budget count as one, with their mean score.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal

from optim.bam.power_law import Curve, fit_curve
from optim.records import level_of
from optim.report.formatting import count
from optim.statistics.estimates import PERCENT
from pb_graph.budget import LEVELS
from pb_graph.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from optim.records import Record

_OVERSPENT = 1.25  # times its budget: then the budget was a word only
_WIDE = 4.0  # ratio of beta's upper end to its lower one that is worth a warning
_TOO_WIDE = 10.0  # and that says nothing: between such betas, tokens remove little or nearly all


@dataclass(frozen=True, slots=True)
class Cell:
    """Questions of one level with one budget."""

    tokens: int
    questions: int
    right: float

    @property
    def accuracy(self) -> float:
        """In percent."""
        return PERCENT * self.right / self.questions


@dataclass(frozen=True, slots=True)
class LevelFit:
    """One level's parameters."""

    level: int
    source: Literal["fit", "pooled"]
    curve: Curve
    cells: Sequence[Cell]


@dataclass(frozen=True, slots=True)
class Calibration:
    """Parameters of every level, and what to know about them."""

    levels: Sequence[LevelFit]
    warnings: Sequence[str]

    def settings(self) -> dict[str, Any]:
        """The fields of a `Settings` that allocates by them, plain JSON."""
        return {
            "schedule": "bam",
            "bam": {
                "c": {str(fit.level): fit.curve.c.value for fit in self.levels},
                "beta": {str(fit.level): fit.curve.beta.value for fit in self.levels},
            },
        }

    def to_dict(self) -> dict[str, Any]:
        """Everything, plain JSON."""
        return asdict(self) | {"settings": self.settings()}


def calibrate(
    records: Iterable[Record],
    *,
    method: str | None = None,
    aleatoric: float | None = None,
    pool: bool = False,
    confidence: float = 0.95,
) -> Calibration:
    """Fit c and beta of each level.

    A level counts as identified when the answers refute both a very small and a very large beta,
    and the upper end of beta's interval is at most ten times the lower one.
    A method's name is taken without its grid point: ``global_budget`` for ``global_budget[50+0L]``.

    Args:
        records: What `optim.records.read_records` read.
        method: Whose answers to take; None when there is only one with a budget.
        aleatoric: Error rate that no number of tokens removes, if known; None to fit it.
        pool: Give levels that are not identified the parameters of all answers together, marked so.
        confidence: Nominal coverage of the intervals.

    Raises:
        InputError: Nothing to fit, answers of several methods, models or data sets, or a level
            that is not identified; each with what to do.
    """
    chosen = _chosen(records, method)
    cells = {level: _cells([r for r in chosen if level_of(r) == level]) for level in LEVELS}
    found = {level: _fit(cells[level], aleatoric, confidence) for level in LEVELS}
    fits = {level: curve for level, curve in found.items() if isinstance(curve, Curve)}
    faults = {level: why for level, why in found.items() if isinstance(why, str)}
    common = None
    if faults:
        mixed = _mixed(cells, chosen, aleatoric, confidence) if pool else "--pool was not given"
        if isinstance(mixed, str):
            raise InputError(_refusal(faults, mixed, pool=pool))
        common = mixed
    levels = [
        LevelFit(level, "pooled", common, cells[level])
        if common and level in faults
        else LevelFit(level, "fit", fits[level], cells[level])
        for level in LEVELS
    ]
    wide = [
        f"Level {level}: beta lies anywhere from {beta.lower:.2g} to {beta.upper:.2g}; more "
        "questions would tell."
        for level, fit in fits.items()
        if (beta := fit.beta).upper > _WIDE * beta.lower
    ]
    borrowed = [
        f"Level {level} has the parameters of all levels together: {fault}."
        for level, fault in faults.items()
    ]
    return Calibration(levels, [*_doubts(chosen), *wide, *borrowed])


def _chosen(records: Iterable[Record], method: str | None) -> list[Record]:
    """The answers that can tell something: with a budget, a score and a level."""
    usable = [
        r
        for r in records
        if None not in (r.score, r.report["budget"], level_of(r)) and method in (None, _family(r))
    ]
    if not usable:
        whose = f"of the method {method!r} " if method else ""
        msg = (
            f"no answer {whose}has a budget, a score and a level. Measure some with pb-optim eval "
            "--methods global_budget --grid-initial 50,100,200,400 --grid-per-level 0"
        )
        raise InputError(msg)
    _check_alone("methods", {_family(r) for r in usable}, "choose one with --method")
    _check_alone("models", {r.model for r in usable}, "give a folder that has one")
    _check_alone("data sets", {r.dataset for r in usable}, "give a folder that has one")
    return usable


def _family(record: Record) -> str:
    """The method without the point of a grid of budgets."""
    return record.method.partition("[")[0]


def _check_alone(what: str, names: set[str], advice: str) -> None:
    if len(names) > 1:
        msg = f"the logs hold answers of several {what} ({', '.join(sorted(names))}): {advice}"
        raise InputError(msg)


def _cells(records: Iterable[Record]) -> list[Cell]:
    """Count questions by budget, from small to large."""
    scores: defaultdict[int, defaultdict[tuple[int | None, str], list[float]]]
    scores = defaultdict(lambda: defaultdict(list))
    for record in records:
        question = (level_of(record), record.question)
        scores[record.report["budget"] or 0][question].append(record.score or 0.0)
    return [
        Cell(tokens, len(answers), sum(map(fmean, answers.values())))
        for tokens, answers in sorted(scores.items())
    ]


def _fit(cells: Sequence[Cell], aleatoric: float | None, confidence: float) -> Curve | str:
    """The curve through these cells, or why there is none."""
    if not cells:
        return "no answers"
    needed = 3 if aleatoric is None else 2
    if len(cells) < needed:
        spare = "" if len(cells) == 1 or needed == 2 else ", or tell --aleatoric"  # noqa: PLR2004
        return f"only {count(len(cells), 'budget')}, and {needed} are needed{spare}"
    curve = fit_curve(
        [cell.tokens for cell in cells],
        [cell.questions for cell in cells],
        [cell.right for cell in cells],
        aleatoric=aleatoric,
        confidence=confidence,
    )
    wide = curve.beta.upper > _TOO_WIDE * curve.beta.lower
    return _why(cells, curve) if wide or not curve.identified else curve


def _why(cells: Sequence[Cell], curve: Curve) -> str:
    """How the answers fail to bound beta."""
    asked = f"{count(min(c.questions for c in cells), 'question')} a budget"
    seen = ", ".join(f"{cell.accuracy:.0f} % with {cell.tokens}" for cell in cells)
    low, high = curve.beta.lower, curve.beta.upper
    width = f", wider than a factor of {_TOO_WIDE:g}" if high > _TOO_WIDE * low else ""
    return f"beta is anything from {low:.2g} to {high:.2g}{width} ({asked}: {seen})"


def _mixed(
    cells: Mapping[int, Sequence[Cell]],
    chosen: Sequence[Record],
    aleatoric: float | None,
    confidence: float,
) -> Curve | str:
    """One curve for all levels, or why there is none."""
    if len({tuple(cell.tokens for cell in own) for own in cells.values() if own}) > 1:
        return "they had different budgets, which cannot be told from their difficulty"
    return _fit(_cells(chosen), aleatoric, confidence)


def _refusal(faults: Mapping[int, str], why_not_pooled: str, *, pool: bool) -> str:
    listed = "; ".join(f"level {level}: {fault}" for level, fault in faults.items())
    advice = "Measure more questions, at budgets that range from too little to more than enough"
    other = (
        f" (all levels together do not tell either: {why_not_pooled})"
        if pool
        else ", or let these levels have what all levels together tell: --pool"
    )
    return f"the answers do not tell c and beta. {listed}. {advice}{other}"


def _doubts(chosen: Sequence[Record]) -> list[str]:
    """What weakens the meaning of the fit as a whole."""
    doubts = []
    granted = fmean(record.report["budget"] or 0 for record in chosen)
    spent = fmean(record.solving_tokens for record in chosen) / granted
    if spent > _OVERSPENT:
        doubts.append(
            f"Answers took {spent:.1f} times the tokens they were granted, so the curve is not "
            "about tokens really had; measure with --set enforcement=force."
        )
    if any(record.report["steps"] for record in chosen):
        doubts.append(
            "These questions were planned: c and beta are those of whole questions over all "
            "their steps. The method global_budget has one step."
        )
    return doubts
