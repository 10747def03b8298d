"""Compare two methods on the same questions: the ratio of E³, its interval, and tests."""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
from scipy.special import bdtr, stdtr

from optim.statistics.estimates import (
    PERCENT,
    Answers,
    PseudoQuestions,
    exp_interval,
    mean_of,
    standard_error,
    t_quantile,
)
from pb_graph.errors import InputError

K = TypeVar("K", bound=Hashable)

MIN_UNBIASED_QUESTIONS = 30
"""Questions below which an E³, and a ratio of two, is noticeably biased upwards."""

_SAME = 1e-12  # scores and standard errors that differ by less differ by rounding
# Right/right, right/wrong, wrong/right and wrong/wrong, half a question each.
_CELLS_A = PseudoQuestions((1.0, 1.0, 0.0, 0.0), 0.5)
_CELLS_B = PseudoQuestions((1.0, 0.0, 1.0, 0.0), 0.5)


class Sample(NamedTuple):
    """One answer to one question.

    Attributes:
        question: The question's id; samples of the same question form a cluster.
        score: From 0 to 1.
        tokens: Completion tokens charged for it.
    """

    question: str
    score: float
    tokens: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Method a against method b on the same questions. Plain JSON through `dataclasses.asdict`.

    With a single question there is no interval and no test, except McNemar's.

    Attributes:
        e3_a: E³ of a; ``e3_b`` is that of b.
        ratio: ``e3_a / e3_b``, without pseudo-questions; None when ``e3_b`` is 0.
        lower: Lower end of the ratio's interval.
        upper: Upper end; None where b alone has nothing right, or beyond the range of a double.
        log_se: Standard error of the log ratio, with pseudo-questions.
        p_value: Two-sided, for equal E³, below 1 - confidence exactly where the interval excludes
            1.
        probability_higher: One-sided confidence that a's E³ is the higher one, from the same t;
            0.5 where nothing speaks for either.
        tokens_ratio: Mean tokens of a over those of b.
        tokens_lower: Lower end of its interval; ``tokens_upper`` is the upper one.
        accuracy_difference: Accuracy of a minus accuracy of b, in percentage points.
        accuracy_lower: Lower end of its interval; ``accuracy_upper`` is the upper one.
        accuracy_p_value: Two-sided, for equal accuracy alone.
        accuracy_test: ``mcnemar`` (exact) for scores of 0 and 1 with one sample per question;
            else ``paired_t`` over questions.
        discordant: Questions on which the two mean scores differ.
        gained: Number of these questions with a higher score of a; ``lost``: with one of b.
        questions: Shared questions, the independent units of everything above.
        dropped: Questions left out because only one method has them, in order.
        confidence: Nominal coverage of the intervals.
    """

    e3_a: float
    e3_b: float
    ratio: float | None
    lower: float | None = None
    upper: float | None = None
    log_se: float | None = None
    p_value: float | None = None
    probability_higher: float | None = None
    tokens_ratio: float
    tokens_lower: float | None = None
    tokens_upper: float | None = None
    accuracy_difference: float
    accuracy_lower: float | None = None
    accuracy_upper: float | None = None
    accuracy_p_value: float | None
    accuracy_test: Literal["mcnemar", "paired_t"] | None
    discordant: int
    gained: int
    lost: int
    questions: int
    dropped: tuple[str, ...]
    confidence: float


def compare(
    a: Iterable[Sample],
    b: Iterable[Sample],
    *,
    confidence: float = 0.95,
    missing: Literal["error", "drop"] = "error",
) -> Comparison:
    """Compare two methods on the same questions, paired by question.

    log(E³_a / E³_b) has the standard error of the paired differences of influences, summed per
    question, with half a pseudo-question in each of the four cells right/wrong x right/wrong, at
    each side's mean tokens (Agresti & Min 2005; see `optim.statistics.estimates`). Interval and
    p-value are centred at the ratio with pseudo-questions and use t with C - 1 degrees of freedom;
    so a few equal scores do not prove that the accuracies are equal. The interval
    is widened to hold the plain ratio where it would not, and where the two ratios lie on
    different sides of 1, or both methods have nothing right, the p-value is 1. A question that was
    sampled more often weighs more. Benchmarked, 95 % nominal is 95 % or more for 5 to 60 questions.

    Args:
        a: Samples of the first method, in any order.
        b: Samples of the second.
        confidence: Nominal coverage of the intervals.
        missing: Treatment of a question that only one method answered: ``error`` names it,
            ``drop`` compares on the shared ones and lists it in `Comparison.dropped`. Dropping
            is fair only when being missing has nothing to do with the method.

    Raises:
        InputError: If `e3` would raise it, no question is shared, or the questions differ under
            ``missing="error"``.
    """
    arms = list(a), list(b)
    asked, asked_b = ({sample.question for sample in arm} for arm in arms)
    shared, dropped = asked & asked_b, tuple(sorted(asked ^ asked_b))
    if dropped and missing != "drop":
        msg = (
            f"only one method answered {', '.join(dropped[:5])}. Answer them with both methods, or "
            'compare on the shared questions with missing="drop".'
        )
        raise InputError(msg)
    if not shared:
        msg = "the two methods share no question, so there is nothing to pair"
        raise InputError(msg)
    first, second = (_answers_to(shared, arm) for arm in arms)
    ours, theirs = (
        np.bincount(x.groups, x.scores) / np.bincount(x.groups) for x in (first, second)
    )
    differences = ours - theirs
    gained, lost = int((differences > _SAME).sum()), int((differences < -_SAME).sum())
    accuracy_p_value, accuracy_test = _accuracy_test(first, second)
    return Comparison(
        e3_a=first.e3,
        e3_b=second.e3,
        ratio=first.e3 / second.e3 if second.e3 else None,
        tokens_ratio=first.cost.value / second.cost.value,
        accuracy_difference=PERCENT * (first.score.value - second.score.value),
        accuracy_p_value=accuracy_p_value,
        accuracy_test=accuracy_test,
        discordant=gained + lost,
        gained=gained,
        lost=lost,
        questions=len(shared),
        dropped=dropped,
        confidence=confidence,
        **_intervals(first, second, confidence) if len(shared) > 1 else {},
    )


def describe(comparison: Comparison) -> str:
    """Describe a comparison of a with b in one sentence, with its interval."""
    one = comparison
    accuracy = f"accuracy {one.accuracy_difference:+.1f} points"
    if one.accuracy_lower is not None:
        accuracy += f" ({one.accuracy_lower:+.1f} to {one.accuracy_upper:+.1f})"
    if one.discordant == 0:
        accuracy = "accuracy undecided: no question differs"
    tokens = f"tokens {_times(one.tokens_ratio, one.tokens_lower, one.tokens_upper)}"
    ratio = "E³ has no ratio: the second has no right answer"
    if one.ratio is not None:
        ratio = f"E³ {_times(one.ratio, one.lower, one.upper)}"
    sentence = f"{accuracy}; {tokens}; {ratio}; n = {one.questions}"
    if one.questions > 1:
        sentence += f", {PERCENT * one.confidence:g} % intervals"
    if one.questions < MIN_UNBIASED_QUESTIONS:
        sentence += f"; below {MIN_UNBIASED_QUESTIONS} questions an E³ ratio is biased upwards"
    return sentence


def _times(ratio: float, lower: float | None, upper: float | None) -> str:
    if lower is None:
        return f"{ratio:.2f} times"
    high = "∞" if upper is None else f"{upper:.2f}"
    return f"{ratio:.2f} times ({lower:.2f} to {high})"


def holm(p_values: Mapping[K, float]) -> dict[K, float]:
    """Return p-values adjusted for their number by Holm's method (1979), in the order given."""
    adjusted: dict[K, float] = {}
    running = 0.0
    for place, name in enumerate(sorted(p_values, key=lambda name: p_values[name])):
        running = max(running, min(1.0, p_values[name] * (len(p_values) - place)))
        adjusted[name] = running
    return {name: adjusted[name] for name in p_values}


def _answers_to(questions: Collection[str], samples: Iterable[Sample]) -> Answers:
    """Return the answers to these questions, in the same order for every method."""
    kept = sorted((one for one in samples if one.question in questions), key=lambda one: one[0])
    ids, scores, tokens = zip(*kept, strict=True)
    return Answers.of(scores, tokens, ids)


def _intervals(a: Answers, b: Answers, confidence: float) -> dict[str, Any]:
    """Return the fields of `Comparison` that need at least two questions."""
    degrees = a.questions - 1
    quantile = t_quantile(confidence, degrees)

    log_a, influence_a = a.log_e3(_CELLS_A)
    log_b, influence_b = b.log_e3(_CELLS_B)
    centre, error = log_a - log_b, standard_error(influence_a - influence_b, _CELLS_A)
    low, high = exp_interval(centre, quantile * error)
    # The plain figures say 1 where they are equal, also when both are 0.
    ratio = 1.0 if a.e3 == b.e3 else a.e3 / b.e3 if b.e3 else math.inf
    agree = (centre > 0.0 and ratio > 1.0) or (centre < 0.0 and ratio < 1.0)
    p = _t_p_value(centre / error, degrees) if agree else 1.0

    cost_error = standard_error(a.cost.relative() - b.cost.relative())
    log_ratio = math.log(a.cost.value / b.cost.value)
    tokens_lower, tokens_upper = exp_interval(log_ratio, quantile * cost_error)

    ours, theirs = mean_of(a.scores, a.groups, _CELLS_A), mean_of(b.scores, b.groups, _CELLS_B)
    reach = quantile * standard_error(ours.influence - theirs.influence, _CELLS_A)
    middle, difference = ours.value - theirs.value, a.score.value - b.score.value
    return {
        "lower": min(low, ratio),
        "upper": None if high is None or math.isinf(ratio) else max(high, ratio),
        "log_se": error,
        "p_value": p,
        "probability_higher": 1.0 - p / 2.0 if centre > 0.0 else p / 2.0,
        "tokens_lower": tokens_lower,
        "tokens_upper": tokens_upper,
        "accuracy_lower": PERCENT * max(-1.0, min(difference, middle - reach)),
        "accuracy_upper": PERCENT * min(1.0, max(difference, middle + reach)),
    }


def _accuracy_test(
    a: Answers, b: Answers
) -> tuple[float | None, Literal["mcnemar", "paired_t"] | None]:
    """Return a p-value and its test: McNemar's exact one where it applies, else a paired t."""
    if all(len(x.groups) == x.questions and np.isin(x.scores, (0, 1)).all() for x in (a, b)):
        gained, lost = int((a.scores > b.scores).sum()), int((a.scores < b.scores).sum())
        pairs = gained + lost
        p = min(1.0, 2.0 * float(bdtr(min(gained, lost), pairs, 0.5))) if pairs else 1.0
        return p, "mcnemar"
    differences = a.score.influence - b.score.influence
    count, estimate = len(differences), a.score.value - b.score.value
    if count == 1:
        return None, None
    error = standard_error(differences)
    if error > _SAME:
        return _t_p_value(estimate / error, count - 1), "paired_t"
    # All differ by the same, so there is no spread: the sign test, a coin that always falls alike.
    return (1.0 if abs(estimate) <= _SAME else 2.0 ** (1 - count)), "paired_t"


def _t_p_value(statistic: float, degrees: int) -> float:
    """Return the two-sided p-value of a t statistic."""
    return min(1.0, 2.0 * float(stdtr(degrees, -abs(statistic))))
