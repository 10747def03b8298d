"""Prove that a cheaper method loses less accuracy than a bound, on paired questions.

The loss of a method is the accuracy of the baseline minus that of the method. **Right or wrong, one
answer each:** the loss is at most the chance of a harmful flip (the baseline is right, and the
method wrong), so the exact binomial bound of the flips holds (Clopper & Pearson 1934). Helpful
flips are ignored, which errs on the safe side. **Other scores from 0 to 1, or several answers to a
question:** the mean difference of each question lies in [-1, 1], and the bound is that of a bet
against "the loss is m" (Waudby-Smith & Ramdas 2024, the upper half of their hedged capital). Nobody
can expect to win such a bet, so a capital of 1/alpha refutes m (Ville). There gains count, too.

**Several methods:** each is tested at the full level in an order that was fixed without the answers
of the test, and the first failure ends the testing (fixed-sequence testing). So the chance that
any method is certified whose loss is above the bound stays below 1 - confidence.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from scipy.special import betaincinv

from optim.statistics.estimates import check_confidence, validate_scores
from pb_graph.errors import InputError

Scores: TypeAlias = Mapping[str, Sequence[float]]
"""Scores of one method, from 0 to 1, by question."""

_BISECTIONS = 40  # far finer than any bound is shown
_STAKE = 0.75  # of the capital that a bet may lose at once


class NonInferiorityTest(NamedTuple):
    """Result of testing one method against the baseline. Losses are shares from -1 to 1."""

    method: str
    loss: float
    worse: int  # questions on which the method scores lower than the baseline
    better: int
    bound: float  # upper confidence bound of the loss
    kind: Literal["exact", "betting"]
    is_proven: bool  # whether the bound is at most the allowed loss


def run_in_order(
    order: Sequence[str],
    baseline: Scores,
    methods: Mapping[str, Scores],
    *,
    loss: float,
    confidence: float,
) -> Iterator[NonInferiorityTest]:
    """Test methods in an order that was fixed without these scores, up to the first failure.

    Allowed loss and confidence lie between 0 and 1.

    Raises:
        InputError: If a method shares no question with the baseline, or a number is out of range.
    """
    check_confidence(confidence)
    if not 0.0 < loss < 1.0:
        msg = f"the allowed loss must lie between 0 and 100 points, not {100 * loss:g}"
        raise InputError(msg)
    for name in order:
        shared = [question for question in baseline if question in methods[name]]
        if not shared:
            msg = f"{name!r} and the baseline share no question, so nothing can be proven"
            raise InputError(msg)
        pairs = [(baseline[question], methods[name][question]) for question in shared]
        losses = [fmean(theirs) - fmean(ours) for theirs, ours in pairs]
        worse, better = sum(x > 0 for x in losses), sum(x < 0 for x in losses)
        scores = [score for pair in pairs for each in pair for score in each]
        kind: Literal["exact", "betting"] = "betting"
        if len(scores) == 2 * len(shared) and set(scores) <= {0.0, 1.0}:
            kind, bound = "exact", _clopper_pearson_upper(worse, len(shared), confidence)
        else:
            bound = betting_upper_bound(losses, confidence)
        yield NonInferiorityTest(name, fmean(losses), worse, better, bound, kind, bound <= loss)
        if bound > loss:
            return


def order_for_testing(methods: Mapping[str, tuple[float, float]], baseline: str) -> list[str]:
    """Order methods by their mean tokens and accuracy on other questions, dearest first.

    Methods that cost at least as much as the baseline are left out. Methods that a cheaper method
    matches in accuracy are left out, too, because their failure would end the tests.
    """
    order: list[str] = []
    best = -math.inf
    for name in sorted(methods, key=lambda name: (methods[name][0], -methods[name][1], name)):
        tokens, accuracy = methods[name]
        if name != baseline and tokens < methods[baseline][0] and accuracy > best:
            order.append(name)
            best = accuracy
    return order[::-1]


def _clopper_pearson_upper(flips: int, questions: int, confidence: float) -> float:
    """Return the exact one-sided upper bound of a chance, after `flips` in `questions` trials."""
    if flips == questions:
        return 1.0
    return float(betaincinv(flips + 1, questions - flips, confidence))


def betting_upper_bound(losses: Sequence[float], confidence: float) -> float:
    """Return a one-sided upper bound of the mean of losses in [-1, 1], by betting.

    The order of the losses, one a question, must not depend on them.
    """
    values = validate_scores([(1.0 + loss) / 2.0 for loss in losses])
    level = math.log(1.0 / (1.0 - confidence))
    # The share of the capital to set on each value depends on the spread of those before it.
    places = np.arange(2, len(values) + 2)
    means = (0.5 + np.cumsum(values)) / places
    spread = (0.25 + np.cumsum((values - means) ** 2)) / places
    before = np.concatenate([[0.25], spread[:-1]])
    bets = np.sqrt(2.0 * level / (len(values) * before))
    low, high = float(values.min()), 1.0
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        # A bet that values lie below the middle refutes it once it has won 1/alpha.
        stakes = np.minimum(bets, _STAKE / max(1.0 - middle, 1e-12))
        won = np.cumsum(np.log1p(stakes * (middle - values))).max()
        low, high = (low, middle) if won >= level else (middle, high)
    return max(2.0 * high - 1.0, fmean(losses))  # the bet may be won before a late loss
