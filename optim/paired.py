"""Two methods on the same questions: ratio of E³, its interval, tests and bootstrap."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from optim.influence import (
    PERCENT,
    check_confidence,
    checked_scores,
    checked_tokens,
    e3_of,
    influence,
    log_ends,
    measured,
    per_group,
    standard_error,
)
from optim.significance import mcnemar, t_p_value, t_quantile
from pb_graph.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from optim.influence import Floats, Groups

__all__ = ["Comparison", "Sample", "compare"]

_NO_SPREAD = 1e-12  # a log-scale standard error below this is rounding
_NAMED = 5  # how many question ids an error spells out
_DRAWS_AT_ONCE = 2_000_000  # resampled counts held in memory: 16 MB


@dataclass(frozen=True, slots=True)
class Sample:
    """One answer to one question.

    Attributes:
        question: The question's id; samples of the same question form a cluster.
        score: From 0 to 1.
        tokens: Completion tokens charged for it.

    Raises:
        InputError: A score outside [0, 1], or missing, infinite or negative tokens.
    """

    question: str
    score: float
    tokens: float

    def __post_init__(self) -> None:
        try:
            checked_scores([self.score])
            checked_tokens([self.tokens])
        except InputError as error:
            msg = f"question {self.question!r}: {error}"
            raise InputError(msg) from error


@dataclass(frozen=True, slots=True)
class Comparison:
    """Method a against method b on the same questions. Plain JSON through `dataclasses.asdict`.

    Attributes:
        e3_a: E³ of a.
        e3_b: E³ of b.
        ratio: ``e3_a / e3_b``; None when ``e3_b`` is 0.
        lower: Lower end of the ratio's interval; None where the log scale does not apply (an
            accuracy of 0, or a single question).
        upper: Upper end, likewise; also None when it is beyond the range of a double.
        log_se: Standard error of the log ratio, likewise.
        p_value: Two-sided, for equal E³; None with a single question.
        p_value_method: ``delta`` (paired t on the log scale), or for an accuracy of 0 ``mcnemar``
            where it applies and else ``bootstrap``; None with a single question.
        probability_better: Share of resampled question sets on which a has the higher E³, ties
            counted half; None with a single question.
        accuracy_difference: Accuracy of a minus accuracy of b, in percentage points.
        accuracy_p_value: Two-sided, for equal accuracy alone.
        accuracy_test: ``mcnemar`` (exact) for scores of 0 and 1 with one sample per question;
            else ``paired_t`` over questions; None with a single question that has no McNemar.
        questions: Shared questions, the independent units of everything above.
        samples_a: Samples of a on them.
        samples_b: Samples of b on them.
        dropped: Questions left out because only one method has them, in order.
        confidence: Nominal coverage of the interval.
    """

    e3_a: float
    e3_b: float
    ratio: float | None
    lower: float | None
    upper: float | None
    log_se: float | None
    p_value: float | None
    p_value_method: Literal["delta", "mcnemar", "bootstrap"] | None
    probability_better: float | None
    accuracy_difference: float
    accuracy_p_value: float | None
    accuracy_test: Literal["mcnemar", "paired_t"] | None
    questions: int
    samples_a: int
    samples_b: int
    dropped: tuple[str, ...]
    confidence: float
    probability_higher: float | None = None
    tokens_ratio: float | None = None
    tokens_lower: float | None = None
    tokens_upper: float | None = None
    discordant: int = 0

    @property
    def accuracy_undecided(self) -> bool:
        """Whether the two differ in score on no question."""
        return self.discordant == 0


def compare(  # noqa: PLR0913 - five independent choices of one analysis, all with defaults
    a: Iterable[Sample],
    b: Iterable[Sample],
    *,
    confidence: float = 0.95,
    missing: Literal["error", "drop"] = "error",
    resamples: int = 10_000,
    seed: int = 0,
) -> Comparison:
    """Compare two methods on the same questions, paired by question.

    log(E³_a / E³_b) has the standard error of the paired differences of influences, summed per
    question; interval and p-value use t with C - 1 degrees of freedom. The bootstrap draws
    questions with replacement, each with all its samples of both methods. Each method's A and T
    are plain means over its samples, so a question sampled more often weighs more.

    With an accuracy of 0 on either side the log scale does not apply: the interval is None, and
    the p-value is that of the accuracy test (scores of 0 and 1, one sample each) or the two-sided
    bootstrap's. Where every paired difference vanishes (b is a copy of a, or costs exactly twice
    as much everywhere) there is no spread: the p-value is 1 for equal E³ and 0 otherwise.

    Args:
        a: Samples of the first method, in any order.
        b: Samples of the second.
        confidence: Nominal coverage of the ratio's interval.
        missing: What to do about a question that only one method has: ``error`` names it,
            ``drop`` compares on the shared ones and lists it in `Comparison.dropped`. Dropping
            is fair only when being missing has nothing to do with the method.
        resamples: Number of bootstrap draws; the probability's own error is about
            0.5 / sqrt(resamples).
        seed: Seed of the bootstrap.

    Raises:
        InputError: What `e3` refuses, no shared question, or different questions under
            ``missing="error"``.
    """
    check_confidence(confidence)
    _check_choices(missing, resamples)
    by_a, by_b = _by_question(a), _by_question(b)
    shared, dropped = _shared(by_a, by_b, missing)
    first, second = _Arm.of(by_a, shared), _Arm.of(by_b, shared)
    better = _bootstrap(first, second, resamples, seed) if len(shared) > 1 else None
    accuracy_p, accuracy_test = _accuracy_test(first, second)
    ratio, error = _log_ratio(first, second)
    lower, upper = None, None
    if ratio and error is not None:
        lower, upper = log_ends(ratio, t_quantile(confidence, len(shared) - 1) * error)
    p_value: float | None = None
    p_method: Literal["delta", "mcnemar", "bootstrap"] | None = None
    if ratio and error is not None:
        p_value, p_method = _t_test(math.log(ratio), error, len(shared)), "delta"
    elif better is not None:
        p_value, p_method = _without_logarithm(accuracy_p, accuracy_test, better)
    return Comparison(
        e3_a=e3_of(first.scores, first.tokens),
        e3_b=e3_of(second.scores, second.tokens),
        ratio=ratio,
        lower=lower,
        upper=upper,
        log_se=error,
        p_value=p_value,
        p_value_method=p_method,
        probability_better=better,
        accuracy_difference=PERCENT * float(first.scores.mean() - second.scores.mean()),
        accuracy_p_value=accuracy_p,
        accuracy_test=accuracy_test,
        questions=len(shared),
        samples_a=len(first.scores),
        samples_b=len(second.scores),
        dropped=dropped,
        confidence=confidence,
        **_shim(first, second),
    )


def _shim(a: _Arm, b: _Arm) -> dict[str, float | None]:
    n = len(a.scores)
    x = np.concatenate([a.scores, [1, 1, 0, 0]])
    y = np.concatenate([b.scores, [1, 0, 1, 0]])
    t = np.concatenate([a.tokens, np.full(4, a.tokens.mean())])
    u = np.concatenate([b.tokens, np.full(4, b.tokens.mean())])
    w = np.concatenate([np.ones(n), np.full(4, 0.5)])
    size = w.sum()
    ax, bx, at, bt = ((w * v).sum() / size for v in (x, y, t, u))
    psi = 2 * (x - ax) / ax - (t - at) / at - 2 * (y - bx) / bx + (u - bt) / bt
    error = math.sqrt((w * psi**2).sum() / (size * (size - 1)))
    log = math.log((ax**2 / at) / (bx**2 / bt))
    if n == 1 or error == 0:
        higher = None if n == 1 else 0.5
    else:
        p = t_p_value(log / error, n + 1) / 2
        higher = 1 - p if log > 0 else p
    return {
        "probability_higher": higher,
        "tokens_ratio": float(a.tokens.mean() / b.tokens.mean()),
        "discordant": int((a.scores != b.scores).sum()),
    }


@dataclass(frozen=True, slots=True)
class _Arm:
    """One method's samples on the shared questions, questions in the same order for both."""

    scores: Floats
    tokens: Floats
    groups: Groups

    @classmethod
    def of(cls, samples: Mapping[str, list[Sample]], questions: Sequence[str]) -> _Arm:
        chosen = [(i, sample) for i, q in enumerate(questions) for sample in samples[q]]
        scores = [sample.score for _, sample in chosen]
        tokens = [sample.tokens for _, sample in chosen]
        groups = np.array([i for i, _ in chosen], dtype=np.intp)
        return cls(*measured(scores, tokens), groups)

    def totals(self) -> Floats:
        """Per question: sum of scores, sum of tokens, number of samples. Shape (questions, 3)."""
        columns = (self.scores, self.tokens, np.ones(len(self.scores)))
        return np.stack([per_group(column, self.groups) for column in columns], axis=1)

    def influence(self) -> Floats:
        """Influence of each question on log E³, shape (questions,)."""
        return per_group(influence(self.scores, self.tokens), self.groups)

    def accuracy_influence(self) -> Floats:
        """Influence of each question on the mean score, shape (questions,)."""
        return per_group((self.scores - self.scores.mean()) / len(self.scores), self.groups)

    def once_right_or_wrong(self) -> bool:
        """Whether each question has one sample, scored 0 or 1: what McNemar's test needs."""
        single = len(self.groups) == self.groups.max() + 1
        return bool(single and np.isin(self.scores, (0.0, 1.0)).all())


def _check_choices(missing: str, resamples: int) -> None:
    if missing not in {"error", "drop"}:
        msg = f'missing is "error" or "drop", not {missing!r}'
        raise InputError(msg)
    if resamples < 1:
        msg = f"resamples must be at least 1, not {resamples}"
        raise InputError(msg)


def _by_question(samples: Iterable[Sample]) -> dict[str, list[Sample]]:
    grouped: dict[str, list[Sample]] = {}
    for sample in samples:
        grouped.setdefault(sample.question, []).append(sample)
    return grouped


def _shared(
    a: Mapping[str, object], b: Mapping[str, object], missing: Literal["error", "drop"]
) -> tuple[list[str], tuple[str, ...]]:
    shared, alone = sorted(a.keys() & b.keys()), tuple(sorted(a.keys() ^ b.keys()))
    if alone and missing == "error":
        msg = (
            f"{len(a.keys() - b.keys())} questions only in a, {len(b.keys() - a.keys())} only in b "
            f"({', '.join(alone[:_NAMED])}{', …' if len(alone) > _NAMED else ''}): run what is "
            'missing, or compare on the shared ones with missing="drop"'
        )
        raise InputError(msg)
    if not shared:
        msg = "the two methods share no question, so there is nothing to pair"
        raise InputError(msg)
    return shared, alone


def _log_ratio(a: _Arm, b: _Arm) -> tuple[float | None, float | None]:
    """Ratio of E³ and the standard error of its logarithm; None for what does not exist."""
    denominator = e3_of(b.scores, b.tokens)
    if denominator == 0.0:
        return None, None
    ratio = e3_of(a.scores, a.tokens) / denominator
    if ratio == 0.0 or a.groups.max() == 0:
        return ratio, None
    return ratio, standard_error(a.influence() - b.influence())


def _without_logarithm(
    accuracy_p: float | None, accuracy_test: str | None, better: float
) -> tuple[float | None, Literal["mcnemar", "bootstrap"]]:
    """Test for equal E³ where an accuracy of 0 rules out the log scale."""
    if accuracy_test == "mcnemar":
        return accuracy_p, "mcnemar"
    return min(1.0, 2.0 * min(better, 1.0 - better)), "bootstrap"


def _t_test(estimate: float, error: float, count: int) -> float:
    if error < _NO_SPREAD:
        return float(abs(estimate) < _NO_SPREAD * count)
    return t_p_value(estimate / error, count - 1)


def _accuracy_test(a: _Arm, b: _Arm) -> tuple[float | None, Literal["mcnemar", "paired_t"] | None]:
    if a.once_right_or_wrong() and b.once_right_or_wrong():
        only_a = int(((a.scores == 1.0) & (b.scores == 0.0)).sum())
        only_b = int(((a.scores == 0.0) & (b.scores == 1.0)).sum())
        return mcnemar(only_a, only_b), "mcnemar"
    differences = a.accuracy_influence() - b.accuracy_influence()
    if len(differences) == 1:
        return None, None
    estimate = float(a.scores.mean() - b.scores.mean())
    return _t_test(estimate, standard_error(differences), len(differences)), "paired_t"


def _bootstrap(a: _Arm, b: _Arm, resamples: int, seed: int) -> float:
    """Share of resampled question sets on which a has the higher E³, ties counted half."""
    totals = np.concatenate([a.totals(), b.totals()], axis=1)
    count = len(totals)
    random = np.random.default_rng(seed)
    wins, left = 0.0, resamples
    while left:
        draws = min(left, max(1, _DRAWS_AT_ONCE // count))
        times = random.multinomial(count, np.full(count, 1.0 / count), size=draws)
        wins += _wins(times @ totals)
        left -= draws
    return wins / resamples


def _wins(sums: Floats) -> float:
    """Count wins of a, ties half; columns as in `_Arm.totals`, a's then b's."""
    score_a, tokens_a, n_a, score_b, tokens_b, n_b = sums.T
    # Cross-multiplied, so that a draw without tokens or without a right answer needs no division.
    margin = (score_a / n_a) ** 2 * (tokens_b / n_b) - (score_b / n_b) ** 2 * (tokens_a / n_a)
    return float((margin > 0.0).sum() + 0.5 * (margin == 0.0).sum())
