"""Fits the policy of ``method="auto"`` to logged answers: how short to try, when to ask at length.

Nothing is asked. A question that was answered once after worked examples and once `by_kind`,
both with ample room, tells what any policy would have come to: an answer written greedily under a
smaller cap is the beginning of the longer one. Where the long answer is cut, it counts as wrong,
though `auto` has a forced ending: what is fitted is, if anything, too careful.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from optim.records import Record, cut_off
from optim.statistics.comparison import Comparison, Sample, compare
from optim.statistics.estimates import PERCENT, Interval, interval, smoothed_e3
from pb_graph.errors import InputError
from pb_graph.program import PlannerProgram
from pb_graph.settings import AutoPolicy, Settings

SHORT, PLAIN = "worked_examples", "by_kind"
"""The rows that the two ways of `auto` are read from; a name may go on: ``by_kind@1500``."""

_SHORT_CAPS = (40, 60, 80, 100, 120, 160, 200, 250, 300, 400, 600)
_PLAIN_CAPS = (200, 300, 400, 500, 600, 800, 1000, 1500, 2000)
_LEVELS = (None, 5, 4, 3, 2, 1)
_CONFIDENCES = (0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8)
_FOLDS = 5
_FEWEST = 20


@dataclass(frozen=True, slots=True)
class Trace:
    """One question, asked both ways: score, completion tokens, and whether it ended by itself.

    ``question`` names its data set as well: ids of two may be equal.
    ``confidence`` is the model's in the short answer; None where its server did not tell.
    """

    question: str
    level: int | None
    short: tuple[float, int, bool]
    plain: tuple[float, int, bool]
    confidence: float | None = None

    def under(self, policy: AutoPolicy) -> tuple[float, int]:
        """Score and completion tokens that the question would have come to."""
        paid = 0
        told = self.confidence is not None or policy.believes(None)
        if told and policy.starts_short(self.level):
            score, tokens, ended = self.short
            if ended and tokens <= policy.short and policy.believes(self.confidence):
                return score, tokens
            paid = min(tokens, policy.short)
        score, tokens, ended = self.plain
        cap = tokens if policy.plain is None else policy.plain
        return score if ended and tokens <= cap else 0.0, paid + min(tokens, cap)


@dataclass(frozen=True, slots=True)
class AutoFit:
    """What was fitted, and what to expect of it.

    Attributes:
        policy: Chosen on all questions.
        expected: E³ of policies chosen without the questions that they were tried on.
        plain: E³ of asking at length only, `by_kind`, with ample room.
        against_plain: The first against the second, paired by question.
        folds: The policy that each part of the cross-validation chose.
    """

    policy: AutoPolicy
    expected: Interval
    plain: Interval
    against_plain: Comparison
    folds: Sequence[AutoPolicy]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        found: dict[str, Any] = TypeAdapter(AutoFit).dump_python(self, mode="json")
        return found


def program_of(fit: AutoFit, base: str | Path | None = None) -> PlannerProgram:
    """A program file that answers by the policy; prompts and other settings are those of ``base``.

    Raises:
        PlannerProgramError: ``base`` is no program file.
    """
    from pb_graph.planner.planner import Planner  # noqa: PLC0415 -- DSPy takes a second

    program = PlannerProgram.load(base) if base else Planner().program()
    settings = (program.settings or Settings()).model_copy(
        update={"method": "auto", "auto": fit.policy}
    )
    return program.model_copy(update={"settings": settings, "tuning": None})


def traces(records: Iterable[Record]) -> list[Trace]:
    """The questions that were answered both ways, in the order of their data sets and ids.

    Raises:
        InputError: There are too few, several models, or two rows of one way; it says what to do.
    """
    found: dict[tuple[str, str], dict[str, Record]] = defaultdict(dict)
    models = set()
    for record in records:
        way = record.method.partition("@")[0].partition("[")[0]
        if way in (SHORT, PLAIN) and record.score is not None and record.epoch == 1:
            other = found[record.dataset, record.question].setdefault(way, record)
            if other.method != record.method:
                msg = (
                    f"the logs answer the same questions by {other.method} and by {record.method}, "
                    "and a policy goes by one of them: give the logs of one with --logs."
                )
                raise InputError(msg)
            models.add(record.model)
    both = [pair for pair in sorted(found.items()) if len(pair[1]) == len((SHORT, PLAIN))]
    if len(both) < _FEWEST or len(models) > 1:
        msg = (
            f"a policy is fitted to at least {_FEWEST} questions that one model answered both "
            f"ways; here are {len(both)}, by {len(models)} models. Run `pb-optim eval --methods "
            f"{SHORT},{PLAIN} --set budget=600` on them, and give its log folder."
        )
        raise InputError(msg)
    return [
        Trace(
            "/".join(asked),
            ways[PLAIN].level,
            _seen(ways[SHORT]),
            _seen(ways[PLAIN]),
        )
        for asked, ways in both
    ]


def fit_policy(seen: Sequence[Trace], *, loss: float = 3.0) -> AutoFit:
    """Choose the policy with the best E³ that keeps the accuracy of asking at length.

    E³ alone would crown answers that are short and mostly wrong, hence the bound. What is to be
    expected is measured by cross-validation in five parts: each part is answered by the policy
    that the other four would have chosen.

    Args:
        seen: Of `traces`.
        loss: Points of accuracy that a policy may lose on the questions it is chosen on.
    """
    folds = [
        _best([trace for place, trace in enumerate(seen) if place % _FOLDS != fold], loss)
        for fold in range(_FOLDS)
    ]
    outcomes = [trace.under(folds[place % _FOLDS]) for place, trace in enumerate(seen)]
    plain = [(trace.plain[0], trace.plain[1]) for trace in seen]
    return AutoFit(
        policy=_best(seen, loss),
        expected=interval(*_columns(outcomes)),
        plain=interval(*_columns(plain)),
        against_plain=compare(_samples(seen, outcomes), _samples(seen, plain)),
        folds=folds,
    )


def _best(seen: Sequence[Trace], loss: float) -> AutoPolicy:
    """Ties go to the earlier policy of the grid, which is the shorter one."""
    least = sum(trace.plain[0] for trace in seen) / len(seen) - loss / PERCENT
    grid = _grid(told=any(trace.confidence is not None for trace in seen))
    measured = [(policy, *_columns([t.under(policy) for t in seen])) for policy in grid]
    kept = [row for row in measured if sum(row[1]) / len(seen) >= least - 1e-9]
    if not kept:  # every cap that is tried cuts right answers off
        kept = [max(measured, key=lambda row: sum(row[1]))]
    return max(kept, key=lambda row: smoothed_e3(row[1], row[2]))[0]


@cache
def _grid(*, told: bool) -> list[AutoPolicy]:
    """Every policy that is tried; a least confidence only where some answer's is told."""
    policy = partial(AutoPolicy, surprisal=0)  # what the logs have was read to its end
    return [
        policy(tries=1, short=short, confidence=confidence, plain=plain, plain_from=level)
        for short, confidence, plain, level in itertools.product(
            _SHORT_CAPS, _CONFIDENCES if told else (0.0,), _PLAIN_CAPS, _LEVELS
        )
    ] + [policy(tries=0, plain=plain) for plain in _PLAIN_CAPS]


def _seen(record: Record) -> tuple[float, int, bool]:
    assert record.score is not None  # noqa: S101 -- `traces` took no other
    return record.score, record.solving_tokens, not cut_off(record)


def _columns(outcomes: Sequence[tuple[float, int]]) -> tuple[list[float], list[float]]:
    return [score for score, _ in outcomes], [float(tokens) for _, tokens in outcomes]


def _samples(seen: Sequence[Trace], outcomes: Sequence[tuple[float, int]]) -> list[Sample]:
    return [
        Sample(trace.question, score, tokens)
        for trace, (score, tokens) in zip(seen, outcomes, strict=True)
    ]
