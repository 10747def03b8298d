"""Proof that a cheaper row loses less accuracy than a bound, on paired questions.

The loss of a row is the accuracy of the reference minus its own. **Right or wrong, one answer
each:** it is at most the chance of a harmful flip (the reference is right and the row wrong), and
flips are counted, so the exact binomial bound holds (Clopper & Pearson 1934), whatever the
questions are, as long as they are drawn alike. Gains elsewhere are left out, which errs on the
safe side. **Any other scores from 0 to 1, or several answers to a question:** the mean difference
of each question lies in [-1, 1], and the bound is that of a bet against "the loss is m" (Waudby-
Smith & Ramdas 2024, the upper half of their hedged capital): whoever bets on what came before
cannot expect to win, so a capital of 1/alpha refutes m (Ville). There gains count, too.

**Several rows:** each is tested at the full level in an order that was fixed without a look at the
answers of the test, and the first failure ends it (fixed-sequence testing), so the chance that any
row is certified whose loss is above the bound stays below 1 - confidence.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

import numpy as np

from optim.statistics.checks import Floats, check_confidence, checked_scores
from pb_graph.errors import InputError

_BISECTIONS = 40  # far finer than any bound is shown
_STAKE = 0.75  # of the capital that a bet may lose at once


@dataclass(frozen=True, slots=True)
class Trial:
    """What the answers prove of one row.

    Attributes:
        row: Its name.
        questions: How many both have answered.
        loss: The measured loss of accuracy, from -1 to 1.
        harmed: Questions on which it scores lower than the reference.
        helped: Questions on which it scores higher.
        bound: What the loss is below, at the confidence.
        method: ``exact`` (flips) or ``betting``.
        proven: Whether the bound is at most the loss that is allowed.
    """

    row: str
    questions: int
    loss: float
    harmed: int
    helped: int
    bound: float
    method: Literal["exact", "betting"]
    proven: bool


def flip_bound(flips: int, questions: int, confidence: float) -> float:
    """Give the exact one-sided upper bound of a chance, from so many flips in so many questions.

    Raises:
        InputError: A number outside its range.
    """
    check_confidence(confidence)
    if not 0 <= flips <= questions or questions < 1:
        msg = f"{flips} flips in {questions} questions: give 0 to that many, of at least 1"
        raise InputError(msg)
    if flips == questions:
        return 1.0
    low, high = flips / questions, 1.0
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        likely = _at_most(flips, questions, middle) > 1.0 - confidence
        low, high = (middle, high) if likely else (low, middle)
    return high


def loss_bound(losses: Sequence[float], confidence: float) -> float:
    """Give a one-sided upper bound of the mean of losses, by betting; valid for any in [-1, 1].

    Args:
        losses: One per question, in an order that has nothing to do with them.
        confidence: Of the bound, between 0 and 1.

    Raises:
        InputError: No loss, one outside [-1, 1], or a confidence outside (0, 1).
    """
    check_confidence(confidence)
    values = checked_scores([(1.0 + loss) / 2.0 for loss in losses])
    level = math.log(1.0 / (1.0 - confidence))
    bets = _bets(values, level)
    low, high = float(values.min()), 1.0
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        # A bet that values lie below the middle refutes it once it has won 1/alpha.
        stakes = np.minimum(bets, _STAKE / max(1.0 - middle, 1e-12))
        won = np.cumsum(np.log1p(stakes * (middle - values))).max()
        low, high = (low, middle) if won >= level else (middle, high)
    return max(2.0 * high - 1.0, fmean(losses))  # by chance the bet was won before a late loss


def least_questions(method: Literal["exact", "betting"], loss: float, confidence: float) -> int:
    """Give how many questions a proof takes where both score alike on each of them.

    The loss that is allowed, and the confidence, lie between 0 and 1.
    """

    def proves(count: int) -> bool:
        exact = method == "exact"
        bound = flip_bound(0, count, confidence) if exact else loss_bound([0] * count, confidence)
        return bound <= loss

    most = 1
    while not proves(most):
        most *= 2
    return 1 + bisect_left(range(1, most), True, key=proves)


def trial(
    row: str,
    reference: Mapping[str, Sequence[float]],
    scores: Mapping[str, Sequence[float]],
    *,
    loss: float,
    confidence: float,
) -> Trial:
    """Test one row against the reference, on the questions that both have answered.

    Scores, and the loss of accuracy that is allowed, lie between 0 and 1.

    Raises:
        InputError: No shared question, or a number out of its range.
    """
    if not 0.0 < loss < 1.0:
        msg = f"the loss that is allowed lies between 0 and 100 points, not at {100 * loss:g}"
        raise InputError(msg)
    shared = [question for question in reference if question in scores]
    if not shared:
        msg = f"{row!r} and the reference share no question, so nothing can be proven"
        raise InputError(msg)
    theirs, ours = ([fmean(of[q]) for q in shared] for of in (reference, scores))
    losses = [before - after for before, after in zip(theirs, ours, strict=True)]
    harmed = sum(value > 0 for value in losses)
    once = all(len(of[q]) == 1 for of in (reference, scores) for q in shared)
    exact = once and {*theirs, *ours} <= {0.0, 1.0}
    bound = flip_bound(harmed, len(shared), confidence) if exact else loss_bound(losses, confidence)
    return Trial(
        row=row,
        questions=len(shared),
        loss=fmean(losses),
        harmed=harmed,
        helped=sum(value < 0 for value in losses),
        bound=bound,
        method="exact" if exact else "betting",
        proven=bound <= loss,
    )


def trials(
    order: Sequence[str],
    reference: Mapping[str, Sequence[float]],
    scores: Mapping[str, Mapping[str, Sequence[float]]],
    *,
    loss: float,
    confidence: float,
) -> Iterator[Trial]:
    """Test rows in an order that was fixed without these scores, up to the first that fails."""
    for row in order:
        found = trial(row, reference, scores[row], loss=loss, confidence=confidence)
        yield found
        if not found.proven:
            return


def front(rows: Mapping[str, tuple[float, float]], reference: str) -> list[str]:
    """Order rows for testing, by what another set of questions tells: the dearest first.

    Rows that cost no less than the reference are left out, and those that a cheaper one matches in
    accuracy: to fail at them would end the testing for nothing.
    """
    kept: list[str] = []
    best = -math.inf
    for row in sorted(rows, key=lambda name: (rows[name][0], -rows[name][1], name)):
        tokens, accuracy = rows[row]
        if row != reference and tokens < rows[reference][0] and accuracy > best:
            kept.append(row)
            best = accuracy
    return kept[::-1]


def _at_most(flips: int, questions: int, chance: float) -> float:
    """P(X <= flips) for a binomial X."""
    yes, no = math.log(chance), math.log1p(-chance)
    whole = math.lgamma(questions + 1)
    logs = [
        whole - math.lgamma(k + 1) - math.lgamma(questions - k + 1) + k * yes + (questions - k) * no
        for k in range(flips + 1)
    ]
    top = max(logs)
    return math.exp(top) * sum(math.exp(log - top) for log in logs)


def _bets(values: Floats, level: float) -> Floats:
    """What share of the capital to set on each value, by the spread of those before it."""
    count = len(values)
    places = np.arange(1, count + 1)
    means = (0.5 + np.cumsum(values)) / (places + 1)
    spread = (0.25 + np.cumsum((values - means) ** 2)) / (places + 1)
    before = np.concatenate([[0.25], spread[:-1]])
    return np.asarray(np.sqrt(2.0 * level / (count * before)), dtype=np.float64)
