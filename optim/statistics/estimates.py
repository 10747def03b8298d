"""Estimate A, T and E³ = A²/T of one method, with an interval for each.

**Delta method.** On log E³ = 2 log A - log T the influence of answer i is psi_i / n, with
psi_i = 2(a_i - A)/A - (t_i - T)/T. Questions are independent; several answers to one question are
not, so their influences are first added up by question ("cluster"). Quantiles are Student's t.

**Pseudo-questions.** Where few questions are answered, and all or none of them right, the data show
no spread, and an interval built on them alone promises far too much. As Agresti & Coull (1998) do
for a proportion, and Agresti & Caffo (2000) and Agresti & Min (2005) for a difference of two, a few
imaginary questions are added: some right, some wrong, all at the mean tokens, so that T stays what
it is. Each has as many answers as a question has on average, all of them right or all wrong, and
counts with a weight: in the means, and in the sum of squared influences. With one answer to a
question this is the ordinary formula on the extended data; copies of all answers change nothing.
Scores between 0 and 1 vary less than right and wrong, so for them the intervals err on the wide
side. For one method three quarters of a right and of a wrong question are added: with halves, the
interval of E³ covers 92 % instead of 95 for 10 questions at A = 80 %, since the imaginary wrong
answer is no longer than the others (`tests/benchmarks/interval_coverage.py`).

What has not been seen once is in no interval: with 9 % of the answers running on to 8192 tokens at
A = 80 % of the others, that of E³ covers 80 to 81 % for 5 and 10 questions, 92 % for 30.

An interval is centred at the estimate with pseudo-questions (centred at the plain one it covers
down to 90 %); what is reported as the estimate stays plain, and an interval that would miss it is
widened to hold it.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from pb_graph.errors import InputError

Floats: TypeAlias = NDArray[np.float64]
Groups: TypeAlias = NDArray[np.intp]

PERCENT: Final = 100.0
_LARGEST_LOG = 700.0  # what a double can hold


class PseudoQuestions(NamedTuple):
    """Imaginary questions: the score of each, and how much of a question each of them counts."""

    scores: tuple[float, ...] = ()
    weight: float = 0.0


class Mean(NamedTuple):
    """A mean, and the influence on it of each question and then of each pseudo-question."""

    value: float
    influence: Floats

    def relative(self) -> Floats:
        """Return the influences on the logarithm of the mean."""
        return self.influence / self.value


class Answers(NamedTuple):
    """Answers of one method.

    Attributes:
        scores: Shape (answers,), in [0, 1].
        tokens: Completion tokens, shape (answers,).
        groups: Number of the question of each answer, from 0.
    """

    scores: Floats
    tokens: Floats
    groups: Groups

    @classmethod
    def of(
        cls,
        scores: Sequence[float],
        tokens: Sequence[float],
        clusters: Sequence[Hashable] | None = None,
    ) -> Answers:
        """Check scores and tokens, and number the questions in order of first appearance.

        Raises:
            InputError: If the lengths differ, a value is invalid, or there is no token at all.
        """
        a, t = validate_scores(scores), validate_tokens(tokens)
        if len(a) != len(t):
            msg = f"{len(a)} scores but {len(t)} tokens: give one of each per query, in the same "
            raise InputError(msg + "order")
        if not t.any():
            msg = "no query was charged any token, so E³ is undefined; check that usage is measured"
            raise InputError(msg)
        return cls(a, t, _cluster_ids(clusters, len(a)))

    @property
    def questions(self) -> int:
        """The number of questions."""
        return int(self.groups.max()) + 1

    @property
    def score(self) -> Mean:
        """The mean score."""
        return mean_of(self.scores, self.groups)

    @property
    def cost(self) -> Mean:
        """The mean of tokens."""
        return mean_of(self.tokens, self.groups)

    @property
    def e3(self) -> float:
        """E³ without pseudo-questions."""
        return (PERCENT * self.score.value) ** 2 / self.cost.value

    def log_e3(self, pseudo: PseudoQuestions) -> tuple[float, Floats]:
        """Return log E³ and the influences of all questions; pseudo-questions stand last.

        Pseudo-questions are added at the mean tokens.
        """
        costs = PseudoQuestions((float(self.tokens.mean()),) * len(pseudo.scores), pseudo.weight)
        a, t = mean_of(self.scores, self.groups, pseudo), mean_of(self.tokens, self.groups, costs)
        log = 2.0 * math.log(PERCENT * a.value) - math.log(t.value)
        return log, 2.0 * a.relative() - t.relative()


_NONE: Final = PseudoQuestions()
_FOR_E3: Final = PseudoQuestions((1.0, 0.0), 0.75)
_FOR_ACCURACY: Final = PseudoQuestions((1.0, 0.0), 2.0)  # Agresti & Coull's two of each
_FOR_RANKING: Final = PseudoQuestions((1.0, 0.0), 0.5)


@dataclass(frozen=True, slots=True)
class Interval:
    """E³ with a confidence interval.

    Attributes:
        e3: The estimate, without pseudo-questions; below 30 questions it is biased upwards.
        lower: Lower end. All ends are None with a single question.
        upper: Upper end; None also when it is beyond the range of a double.
        log_se: Standard error of log E³ with pseudo-questions; None with a single question.
        clusters: Number of independent questions.
    """

    e3: float
    lower: float | None
    upper: float | None
    log_se: float | None
    clusters: int


def e3(scores: Sequence[float], tokens: Sequence[float]) -> float:
    """Return E³ = A²/T, in percent² per token (the paper's section 3).

    Args:
        scores: One per query, each in [0, 1].
        tokens: Completion tokens of the same queries, planning included, in the same order.

    Raises:
        InputError: If there are no answers, the lengths differ, a score is outside [0, 1], a number
            of tokens is negative, missing or infinite, or all are 0 (T = 0).
    """
    return Answers.of(scores, tokens).e3


def smoothed_e3(scores: Sequence[float], tokens: Sequence[float]) -> float:
    """Return E³ with half a right and half a wrong question more, at the mean tokens.

    Ranks programs after few questions: one lucky answer in three counts for less, and of two
    programs without a right answer the cheaper one is ahead.

    Args:
        scores: One per query, each in [0, 1].
        tokens: Completion tokens of the same queries.

    Raises:
        InputError: As for `e3`.
    """
    return math.exp(Answers.of(scores, tokens).log_e3(_FOR_RANKING)[0])


def interval(
    scores: Sequence[float],
    tokens: Sequence[float],
    *,
    clusters: Sequence[Hashable] | None = None,
    confidence: float = 0.95,
) -> Interval:
    """Return E³ with its confidence interval, by the delta method with pseudo-questions.

    The interval is that of log E³, centre ± t SE with C - 1 degrees of freedom for C questions,
    also when nothing is right; then its lower end is 0. The upper end is at most 100²/T_low, what
    all answers right would give at the lower end of T. Benchmarked, 95 % nominal is 93 % or more
    for 3 to 60 questions at A from 10 to 97 %.

    Args:
        scores: One per sample, each in [0, 1].
        tokens: Completion tokens of the same samples.
        clusters: The question of each sample where questions were sampled several times; None
            when every sample is a question of its own.
        confidence: Nominal coverage, between 0 and 1.

    Raises:
        InputError: As for `e3`, or if the confidence is outside (0, 1).
    """
    answers = Answers.of(scores, tokens, clusters)
    if answers.questions == 1:
        return Interval(answers.e3, None, None, None, 1)
    centre, influence = answers.log_e3(_FOR_E3)
    error = standard_error(influence, _FOR_E3)
    reach = t_quantile(confidence, answers.questions - 1) * error
    low, high = exp_interval(centre, reach)
    cheapest, _ = _token_ends(answers.tokens, answers.groups, confidence)
    if high is not None:
        high = max(answers.e3, min(high, PERCENT**2 / cheapest if cheapest else math.inf))
    return Interval(answers.e3, min(low, answers.e3), high, error, answers.questions)


def accuracy_interval(
    scores: Sequence[float], *, clusters: Sequence[Hashable] | None = None, confidence: float = 0.95
) -> tuple[float, float]:
    """Return the interval of A, in percent: Agresti & Coull's, for clusters and graded scores too.

    Two right and two wrong pseudo-questions are added, and t has their number in its degrees of
    freedom (C + 3), so that a single question has an interval as well. For right and wrong answers
    it covers 94.4 % or more from 1 to 200 questions at any A from 2 to 98 %.

    Args:
        scores: One per sample, each in [0, 1].
        clusters: The question of each sample, as in `interval`.
        confidence: Nominal coverage, between 0 and 1.

    Raises:
        InputError: If there is no score, or a score or the confidence is out of range.
    """
    a = validate_scores(scores)
    mean = mean_of(a, _cluster_ids(clusters, len(a)), _FOR_ACCURACY)
    questions = len(mean.influence) - len(_FOR_ACCURACY.scores)
    reach = t_quantile(confidence, questions + 3) * standard_error(mean.influence, _FOR_ACCURACY)
    point = float(a.mean())
    low, high = min(point, mean.value - reach), max(point, mean.value + reach)
    return PERCENT * max(0.0, low), PERCENT * min(1.0, high)


def token_interval(
    tokens: Sequence[float], *, clusters: Sequence[Hashable] | None = None, confidence: float = 0.95
) -> tuple[float | None, float | None]:
    """Return the interval of T, by the delta method on the log scale.

    Args:
        tokens: Completion tokens, one per sample.
        clusters: The question of each sample, as in `interval`.
        confidence: Nominal coverage, between 0 and 1.

    Returns:
        Both ends; (None, None) with a single question, or where nothing was spent.

    Raises:
        InputError: If the tokens are missing or invalid, or the confidence is outside (0, 1).
    """
    t = validate_tokens(tokens)
    groups = _cluster_ids(clusters, len(t))
    return _token_ends(t, groups, confidence) if groups.any() and t.any() else (None, None)


def _token_ends(tokens: Floats, groups: Groups, confidence: float) -> tuple[float, float | None]:
    mean = mean_of(tokens, groups)
    reach = t_quantile(confidence, len(mean.influence) - 1) * standard_error(mean.relative())
    return exp_interval(math.log(mean.value), reach)


def mean_of(values: Floats, groups: Groups, pseudo: PseudoQuestions = _NONE) -> Mean:
    """Return the mean of a value per answer, extended by pseudo-questions that have these values.

    Args:
        values: Shape (answers,).
        groups: Number of the question of each answer, from 0.
        pseudo: Pseudo-questions.
    """
    answers = len(values) / (int(groups.max()) + 1)  # mean number for a question
    extra = np.array(pseudo.scores)
    size = len(values) + answers * pseudo.weight * len(extra)
    value = float((values.sum() + answers * pseudo.weight * extra.sum()) / size)
    ours = np.bincount(groups, weights=values - value)
    return Mean(value, np.concatenate([ours, answers * (extra - value)]) / size)


def standard_error(influence: Floats, pseudo: PseudoQuestions = _NONE) -> float:
    """Return sqrt(W/(W-1) * weighted sum of squares), with W the sum of the weights.

    Args:
        influence: Influence of each question and then of each pseudo-question.
        pseudo: The pseudo-questions with their weight; a question has the weight 1.
    """
    imaginary = len(pseudo.scores)
    weights = np.repeat([1.0, pseudo.weight], [len(influence) - imaginary, imaginary])
    total = float(weights.sum())
    return math.sqrt(total / (total - 1.0) * float(weights @ influence**2))


def exp_interval(centre: float, reach: float) -> tuple[float, float | None]:
    """Return exp(centre - reach) and exp(centre + reach); None for what no double can hold."""
    high = None if centre + reach > _LARGEST_LOG else math.exp(centre + reach)
    return math.exp(centre - reach), high


def validate_scores(values: Sequence[float]) -> Floats:
    """Return scores as an array; raise `InputError` if one is missing or outside [0, 1]."""
    return _within(values, 1.0, "scores lie in [0, 1], not in percent")


def validate_tokens(values: Sequence[float]) -> Floats:
    """Return tokens as an array; raise `InputError` if one is missing, infinite or negative."""
    return _within(values, sys.float_info.max, "the tokens of a query are known and 0 or more")


def _within(values: Sequence[float], maximum: float, rule: str) -> Floats:
    numbers = np.array(values, dtype=np.float64)
    outside = numbers[~((numbers >= 0.0) & (numbers <= maximum))]  # NaN is outside, too
    if not numbers.size:
        msg = "there are no scores or tokens: the set of questions is empty"
        raise InputError(msg)
    if outside.size:
        msg = f"{rule}: got {outside[0]:g}"
        raise InputError(msg)
    return numbers


def check_confidence(confidence: float) -> None:
    """Raise `InputError` if a nominal coverage is outside (0, 1)."""
    if not 0.0 < confidence < 1.0:
        msg = f"confidence must lie between 0 and 1, such as 0.95, not {confidence!r}"
        raise InputError(msg)


def _cluster_ids(clusters: Sequence[Hashable] | None, size: int) -> Groups:
    """Number the clusters of the samples, from 0 on, in order of first appearance."""
    if clusters is None:
        return np.arange(size, dtype=np.intp)
    ids: dict[Hashable, int] = {}
    return np.array([ids.setdefault(c, len(ids)) for c in clusters], dtype=np.intp)


def t_quantile(confidence: float, degrees: int) -> float:
    """Return the half-width of a two-sided t interval, in standard errors.

    Args:
        confidence: Coverage of the interval, between 0 and 1.
        degrees: Degrees of freedom, at least 1.

    Raises:
        InputError: If the confidence is outside (0, 1).
    """
    check_confidence(confidence)
    return float(stdtrit(degrees, (1.0 + confidence) / 2.0))
