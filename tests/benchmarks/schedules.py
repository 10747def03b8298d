"""Which split of a budget is right most often: run `python tests/benchmarks/schedules.py`.

The sub-questions of simulated questions follow the Budget Allocation Model (`optim.bam`), with
c and beta of each level as the settings assume them, the hardest first. The paper does not say
which accuracy an uncertainty U stands for. Here a sub-question is solved with probability 1 - U,
clipped to [0, 1], and a question is right when all of its sub-questions are solved, independently
of each other. Printed: the percentage of right questions at 400 tokens, for credits that follow the
levels and for credits that rise by position. The argument sets the number of questions.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pb_graph import Settings
from pb_graph.budget.allocation import LEVELS, ScheduleName

QUESTIONS, BUDGET, STEPS = 200_000, 400, 5
RISING = (16, 18, 20, 22, 24)
SCHEDULES: Final[tuple[ScheduleName, ...]] = get_args(ScheduleName)
RULES: Final = (*SCHEDULES, "bam", "closed_form", "optimal")
"""Rules that split a budget: by position and credits, by level, and by the true parameters."""

_C_SPREAD, _BETA_SPREAD = 0.5, 0.1  # standard deviations of the logarithms
_ALEATORIC = 0.1  # the largest aleatoric uncertainty
_LAST_STEP = 1e-12  # relative size of a Newton step that changes nothing
_MAX_STEPS = 64

Floats = NDArray[np.float64]


class Outcome(NamedTuple):
    """Percentage of right questions, and the mean utility of the paper's Eq. 4."""

    accuracy: float
    utility: float


def closed_form(c: ArrayLike, beta: ArrayLike, total: ArrayLike) -> Floats:
    """Return the paper's allocation, b_j in proportion to (c_j beta_j)^(1 / (beta_j + 1)) (Eq. 6).

    It is optimal only if all beta of a question are equal.

    Args:
        c: Shape (..., m), above 0.
        beta: Shape (..., m), above 0.
        total: Shape (...), tokens to split, above 0.

    Returns:
        Tokens as real numbers, shape (..., m).
    """
    power = np.asarray(beta, dtype=np.float64)
    log_share = np.log(np.asarray(c) * power) / (power + 1.0)
    share = np.exp(log_share - log_share.max(axis=-1, keepdims=True))
    return np.asarray(share * (np.asarray(total)[..., None] / share.sum(axis=-1, keepdims=True)))


def optimum(c: ArrayLike, beta: ArrayLike, total: ArrayLike) -> Floats:
    """Return the split that leaves the least uncertainty, sum_j c_j / b_j^beta_j (Eq. 5).

    At the optimum one more token has the same value everywhere: c_j beta_j / b_j^(beta_j + 1) is
    one multiplier for all j. Its logarithm x is the root of g(x) = log sum_j b_j(x) / total, which
    is decreasing and convex, so Newton's method from its left needs no bracket.

    Args:
        c: Shape (..., m), above 0.
        beta: Shape (..., m), above 0.
        total: Shape (...), tokens to split, above 0.

    Returns:
        Tokens as real numbers, shape (..., m).
    """
    power = 1.0 / (np.asarray(beta, dtype=np.float64) + 1.0)
    gain = np.log(np.asarray(c) * np.asarray(beta))
    totals = np.asarray(total, dtype=np.float64)[..., None]
    x = (gain - np.log(totals) / power).max(axis=-1, keepdims=True)
    for _ in range(_MAX_STEPS):
        share = np.exp(power * (gain - x) - np.log(totals))
        sums = share.sum(axis=-1, keepdims=True)
        step = np.log(sums) * sums / (power * share).sum(axis=-1, keepdims=True)
        x = x + step
        if (step <= _LAST_STEP * (1.0 + np.abs(x))).all():
            break
    share = np.exp(power * (gain - x))
    return np.asarray(share * (totals / share.sum(axis=-1, keepdims=True)))


def simulate(
    budget: int,
    credits: Sequence[float] | None = None,  # noqa: A002
    questions: int = QUESTIONS,
    seed: int = 0,
) -> dict[str, Outcome]:
    """Split a budget by every rule, on the same simulated questions.

    Args:
        budget: Tokens of a question.
        credits: Credits by position; None for those that follow the levels.
        questions: Number of simulated questions.
        seed: Seed of the random numbers.
    """
    rng, shape, settings = np.random.default_rng(seed), (STEPS, questions), Settings().shape
    level = -np.sort(-rng.integers(LEVELS.start, LEVELS.stop, shape), axis=0)
    usual_c, usual_beta = (
        np.array([values[each] for each in LEVELS])[level - LEVELS.start]
        for values in (settings.c, settings.beta)
    )
    c = usual_c * np.exp(_C_SPREAD * rng.standard_normal(shape))
    beta = usual_beta * np.exp(_BETA_SPREAD * rng.standard_normal(shape))
    aleatoric = _ALEATORIC * rng.random(shape)
    # Schedules know the credits, `bam` the levels, and only the last two rules the true c and beta.
    credit = level if credits is None else np.array(credits)[:, None]
    splits = {}
    for name in SCHEDULES:
        rho = np.array(settings.model_copy(update={"name": name}).weights(STEPS))[:, None]
        share = rho * (1 if name == "uniform" else credit)
        splits[name] = share * (budget / share.sum(axis=0))
    splits["bam"] = optimum(usual_c.T, usual_beta.T, budget).T
    splits["closed_form"] = closed_form(c.T, beta.T, budget).T
    splits["optimal"] = optimum(c.T, beta.T, budget).T
    outcomes = {}
    for rule, tokens in splits.items():
        with np.errstate(divide="ignore"):
            utility = 1.0 - c / tokens**beta - aleatoric  # Eq. 1 to 3
        right = np.clip(utility, 0.0, 1.0).prod(axis=0)
        outcomes[rule] = Outcome(100 * float(right.mean()), float(utility.sum(axis=0).mean()))
    return outcomes


if __name__ == "__main__":
    questions = int(sys.argv[1]) if sys.argv[1:] else QUESTIONS
    for about, given in (("follow difficulty", None), ("rise from 16 to 24", RISING)):
        found = simulate(BUDGET, given, questions)
        print(about, {rule: round(outcome.accuracy, 1) for rule, outcome in found.items()})
