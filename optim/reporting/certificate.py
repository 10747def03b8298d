"""Find the cheapest method of a study whose loss of accuracy is proven to stay below a bound.

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
from dataclasses import dataclass
from statistics import fmean
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
import pandas as pd
from scipy.special import betaincinv

from optim.datasets.dataset import digest
from optim.reporting.formatting import PAIR_COLUMNS
from optim.reporting.tables import STUDY, choose_baseline, figures, paired, to_rows
from optim.statistics.estimates import PERCENT, check_confidence, validate_scores
from pb_graph.errors import InputError

Scores: TypeAlias = Mapping[str, Sequence[float]]
"""Scores of one method, from 0 to 1, by question."""

_CHOOSE = 5  # one of every five questions chooses the order of the tests
_BISECTIONS = 40  # far finer than any bound is shown
_STAKE = 0.75  # of the capital that a bet may lose at once


@dataclass(frozen=True, slots=True)
class Certificate:
    """Result of `certify`.

    Attributes:
        certified: Name of the cheapest method whose loss is proven; None if there is none.
        sentence: The result in words.
        baseline: Method to compare with.
        loss: Allowed loss of accuracy, in percentage points.
        confidence: Confidence of the test, in percent.
        ordering_questions: Questions that chose the order; no test uses them.
        rows: The figures of every method on the questions of the tests, and for tested methods
            ``place`` (in the order), ``worse``, ``better``, ``loss``, ``bound`` (points), ``kind``
            and ``is_proven``.
    """

    certified: str | None
    sentence: str
    baseline: str
    loss: float
    confidence: float
    ordering_questions: int
    rows: pd.DataFrame


def certify(
    table: pd.DataFrame,
    *,
    loss: float = 3.0,
    confidence: float = 95.0,
    baseline: str = "vanilla",
    is_partial: bool = False,
) -> Certificate:
    """Find the cheapest method whose loss of accuracy is proven to stay below a bound.

    A fifth of the questions chooses the order of the tests, and the others test. A failed answer
    counts as wrong, and so does one that is missing: an interrupted run lacks the long, hard
    answers. In the baseline a failed answer is left out, because a wrong one would make the
    baseline easier to match.

    Args:
        table: Answers of one data set, solver and planner, from `optim.reporting.answers`.
        loss: Allowed loss of accuracy, in percentage points above 0.
        confidence: In percent.
        baseline: Name of the method to compare with.
        is_partial: Whether to take an unfinished run as it is.

    Raises:
        InputError: If the method is unknown, the records are of several studies or of an unfinished
            run, there are too few questions, or a number is out of range.
    """
    _check(table, is_partial=is_partial)
    choose_baseline(table, baseline)
    table = table[(table.method != baseline) | table.score.notna()]
    questions = table.question[table.method == baseline].unique()
    sample = sorted(questions, key=digest)
    places = table.question.map({question: place for place, question in enumerate(sample)})
    table = table.assign(drawn=places, right=table.score.fillna(0.0).astype(float))
    table = table.sort_values("drawn", kind="stable")
    count = len(sample) // _CHOOSE
    if not count:
        msg = f"{len(sample)} questions are too few: a fifth of them chooses the order of the tests"
        raise InputError(msg)
    first = table[table.drawn < count]
    costs = first.assign(tokens=first.tokens.where(first.score.notna()))
    known = costs.groupby("method")[["tokens", "right"]].mean().dropna()
    order = order_for_testing({str(name): (t, a) for name, t, a in known.itertuples()}, baseline)
    rest = table[table.drawn >= count]
    scores = {
        name: group.groupby("question", sort=False).right.agg(list).to_dict()
        for name, group in rest.groupby("method")
    }
    share, level = loss / PERCENT, confidence / PERCENT
    tests = list(run_in_order(order, scores[baseline], scores, loss=share, confidence=level))
    trials = pd.DataFrame(tests, columns=NonInferiorityTest._fields)
    trials = trials.astype({"loss": float, "bound": float}).assign(place=range(1, len(tests) + 1))
    trials[["loss", "bound"]] *= PERCENT
    rows = figures(rest, ("method",)).merge(trials, on="method", how="left")
    proven = rows[rows.is_proven.eq(True)].sort_values("tokens", kind="stable")
    certified = None if proven.empty else str(proven.method.iloc[0])
    goal = f"at most {loss:g} points against {baseline}, with {confidence:g} % confidence"
    if certified is not None:
        [pair] = to_rows(paired(rest[rest.method.isin([certified, baseline])], baseline))
        ratio = PAIR_COLUMNS["ratio of T"].show(pair)
        sentence = f"{certified} loses {goal}, at {ratio} times its tokens."
    elif tests:
        fewest = _fewest(tests[-1].kind, share, level)
        sentence = f"No method is proven to lose {goal}. A proof needs at least {fewest} questions,"
        sentence += " even if both methods have the same scores."
    else:
        sentence = f"No method is cheaper than {baseline} on the questions that chose the order."
    return Certificate(certified, sentence, baseline, loss, confidence, count, rows)


def _check(table: pd.DataFrame, *, is_partial: bool) -> None:
    """Raise an `InputError` where the answers are of several studies, or of an unfinished run."""
    if len(table[list(STUDY)].drop_duplicates()) != 1:
        msg = "a certificate is about one data set, solver and planner: read their logs only"
        raise InputError(msg)
    made = zip(table.method, table.made_by, strict=True)
    gaps = {f"{method}: {about['gaps']}" for method, about in made if about.get("gaps")}
    if gaps and not is_partial:
        msg = f"the run is not finished ({'; '.join(sorted(gaps))}). Run the same command again, "
        raise InputError(msg + "or take it as it is with --partial.")


def _fewest(kind: str, share: float, level: float) -> int:
    """Return the questions that a proof needs where both methods have the same scores."""
    equal = math.ceil(math.log(1 - level) / math.log(1 - share))
    while kind == "betting" and betting_upper_bound([0.0] * equal, level) > share:
        equal += 1
    return equal + (equal - 1) // (_CHOOSE - 1)  # a fifth chooses the order


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

    A question that only the baseline has counts as wrong. Allowed loss and confidence lie between 0
    and 1.

    Raises:
        InputError: If a number is out of range.
    """
    check_confidence(confidence)
    if not 0.0 < loss < 1.0:
        msg = f"the allowed loss must lie between 0 and 100 points, not {100 * loss:g}"
        raise InputError(msg)
    for name in order:
        pairs = [(theirs, methods[name].get(each, [0.0])) for each, theirs in baseline.items()]
        losses = [fmean(theirs) - fmean(ours) for theirs, ours in pairs]
        worse, better = sum(x > 0 for x in losses), sum(x < 0 for x in losses)
        scores = [score for pair in pairs for each in pair for score in each]
        kind: Literal["exact", "betting"] = "betting"
        if len(scores) == 2 * len(pairs) and set(scores) <= {0.0, 1.0}:
            kind, bound = "exact", _clopper_pearson_upper(worse, len(pairs), confidence)
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
