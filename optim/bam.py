"""Simulate the Budget Allocation Model, and fit its parameters.

A sub-question with b tokens keeps the uncertainty U = c / b^beta + aleatoric (the paper's Eq. 1
and 2). Its utility is 1 - U (Eq. 3 with alpha = 1), and the utility of a question is the sum over
its sub-questions (Eq. 4).

The paper does not say which accuracy an uncertainty stands for. This module assumes that a
sub-question is solved with probability 1 - U, clipped to [0, 1], and that a question is right when
all of its sub-questions are solved, independently of each other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optim.statistics.estimates import Floats
from pb_graph.budget import LEVELS
from pb_graph.budget.allocation import ScheduleName
from pb_graph.errors import InputError
from pb_graph.settings import Settings

_SCHEDULES: Final[tuple[ScheduleName, ...]] = get_args(ScheduleName)
RULES: Final = (*_SCHEDULES, "bam", "closed_form", "optimal")
"""Rules that split a budget: by position and credits, by level, and by the true parameters."""

_C_SPREAD, _BETA_SPREAD = 0.5, 0.1  # standard deviations of the logarithms, in a simulated world
_ALEATORIC = 0.1  # the largest aleatoric uncertainty there
_LAST_STEP = 1e-12  # relative size of a Newton step that changes nothing
_MAX_STEPS = 64
_CLIP = 1e-3  # the lowest and highest modelled chance of an error, so that no answer is impossible
_MAX_BETA = 8.0
_MIN_BETA = 0.05
_PARAMETERS = 3  # of Eq. 2
_CONFIDENCE = 0.95  # coverage of the interval of beta
_GRID = np.geomspace(_MIN_BETA, _MAX_BETA, 201)  # values of beta at which the profile is taken


def utility(c: ArrayLike, beta: ArrayLike, b: ArrayLike, aleatoric: ArrayLike = 0.0) -> Floats:
    """Return the utility 1 - c / b^beta - aleatoric of sub-questions with b tokens (Eq. 1 to 3).

    Args:
        c: Shape (...), above 0.
        beta: Shape (...), above 0.
        b: Tokens, shape (...).
        aleatoric: Uncertainty that no token removes, shape (...), from 0 to 1.
    """
    with np.errstate(divide="ignore"):
        spent = np.asarray(c) / np.asarray(b, dtype=np.float64) ** np.asarray(beta)
    return np.asarray(1.0 - spent - np.asarray(aleatoric))


def closed_form_allocation(c: ArrayLike, beta: ArrayLike, total: ArrayLike) -> Floats:
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


def optimal_allocation(c: ArrayLike, beta: ArrayLike, total: ArrayLike) -> Floats:
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


@dataclass(frozen=True, slots=True)
class World:
    """Distribution of the simulated questions, whose hardest sub-questions come first.

    `settings.shape` gives the median c and beta of each level. Levels are uniform. Credits
    follow the levels, or are `credits` by position.
    """

    settings: Settings = field(default_factory=Settings)
    steps: int = 5
    credits: Sequence[float] | None = None


class Outcome(NamedTuple):
    """Mean result of one rule at one budget.

    `accuracy` is in percent, `accuracy_se` its standard error, `utility` that of Eq. 4, and `e3` is
    accuracy² / budget: every token is spent.
    """

    rule: str
    budget: int
    utility: float
    accuracy: float
    accuracy_se: float
    e3: float


def simulate(
    world: World, budgets: Sequence[int], *, questions: int = 20_000, seed: int = 0
) -> list[Outcome]:
    """Split every budget by every rule, on the same simulated questions.

    Args:
        world: Distribution of the questions.
        budgets: Tokens of a question, each at least 1.
        questions: Number of simulated questions, at least 2.
        seed: Seed of the random numbers.

    Returns:
        One outcome for each budget and rule, in the order of `RULES`.
    """
    rng = np.random.default_rng(seed)
    shape = (world.steps, questions)
    level = -np.sort(-rng.integers(LEVELS.start, LEVELS.stop, shape), axis=0)
    usual_c, usual_beta = _typical(world.settings, level)
    c = usual_c * np.exp(_C_SPREAD * rng.standard_normal(shape))
    beta = usual_beta * np.exp(_BETA_SPREAD * rng.standard_normal(shape))
    aleatoric = _ALEATORIC * rng.random(shape)
    # Schedules know the credits, `bam` the levels, and only the last two rules the true c and beta.
    credit = level if world.credits is None else np.array(world.credits)[:, None]
    shares: dict[str, Floats] = {}
    for name in _SCHEDULES:
        rho = world.settings.shape.model_copy(update={"name": name}).weights(world.steps)
        shares[name] = np.array(rho)[:, None] * (1 if name == "uniform" else credit)
    outcomes = []
    for budget in budgets:
        splits = {name: share * (budget / share.sum(axis=0)) for name, share in shares.items()}
        splits["bam"] = optimal_allocation(usual_c.T, usual_beta.T, budget).T
        splits["closed_form"] = closed_form_allocation(c.T, beta.T, budget).T
        splits["optimal"] = optimal_allocation(c.T, beta.T, budget).T
        for rule, tokens in splits.items():
            left = utility(c, beta, tokens, aleatoric)
            right = 100 * np.clip(left, 0.0, 1.0).prod(axis=0)
            a, error = float(right.mean()), float(right.std(ddof=1)) / math.sqrt(questions)
            worth = float(left.sum(axis=0).mean())
            outcomes.append(Outcome(rule, budget, worth, a, error, a**2 / budget))
    return outcomes


def level_shares(settings: Settings | None = None, total: float = 500) -> dict[str, list[float]]:
    """Return the split of `total` tokens across one sub-question of each level, easiest first.

    Args:
        settings: Settings whose `bam` gives c and beta of each level; the defaults if None.
        total: Tokens to split.

    Returns:
        Tokens by rule: ``closed_form`` (Eq. 6), which rises and falls again with the difficulty,
        and ``optimal``, the exact optimum of Eq. 5.
    """
    c, beta = _typical(settings or Settings(), np.array(LEVELS))
    return {
        "closed_form": closed_form_allocation(c, beta, total).tolist(),
        "optimal": optimal_allocation(c, beta, total).tolist(),
    }


@dataclass(frozen=True, slots=True)
class Fit:
    """Parameters of Eq. 2 that fit best to measured error rates.

    `beta_lower` and `beta_upper` are the ends of beta's 95 % profile-likelihood interval. If the
    answers do not determine beta, they are the limits of the search, 0.05 and 8.
    """

    c: float
    beta: float
    beta_lower: float
    beta_upper: float
    aleatoric: float


def fit(tokens: ArrayLike, answers: ArrayLike, right: ArrayLike) -> Fit:
    """Fit c, beta and the aleatoric part to the accuracy at several budgets, by maximum likelihood.

    The error rate at b tokens is taken to be aleatoric + c / b^beta. Take b from the budget that
    was granted, not from the tokens that were spent: wrong answers run long.

    Args:
        tokens: Budgets, shape (n,), above 0 and all different.
        answers: Number of answers at each budget, shape (n,).
        right: Number of right ones among them, shape (n,).

    Raises:
        InputError: If there are fewer budgets than parameters.
    """
    from scipy.optimize import minimize  # noqa: PLC0415 -- of the extra [eval]
    from scipy.stats import chi2  # noqa: PLC0415

    b, n, hits = (np.asarray(values, dtype=np.float64) for values in (tokens, answers, right))
    if len(b) < _PARAMETERS:
        msg = f"{len(b)} budgets do not determine {_PARAMETERS} parameters: measure more"
        raise InputError(msg)
    smallest = float(b.min())

    def loss(point: Floats, beta: float) -> float:
        wrong = np.clip(point[1] + point[0] * (b / smallest) ** -beta, _CLIP, 1 - _CLIP)
        return -float((hits * np.log1p(-wrong) + (n - hits) * np.log(wrong)).sum())

    # For one beta the likelihood is concave in the other two, so one start is enough.
    how = {"bounds": [(0.0, 1.0), (0.0, 1.0)], "options": {"xatol": 1e-6, "fatol": 1e-8}}
    search = partial(minimize, loss, (0.4, 0.2), method="Nelder-Mead", **how)
    profile = [search(args=(beta,)) for beta in _GRID]
    losses = np.array([result.fun for result in profile])
    at = int(losses.argmin())
    inside = _GRID[losses <= losses[at] + chi2.ppf(_CONFIDENCE, 1) / 2]
    rest, floor = profile[at].x
    beta = float(_GRID[at])
    lower, upper = float(inside.min()), float(inside.max())
    return Fit(float(rest) * smallest**beta, beta, lower, upper, float(floor))


def _typical(settings: Settings, level: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """Return the settings' c and beta at these levels."""
    bam = settings.shape
    c, beta = ([values[each] for each in LEVELS] for values in (bam.c, bam.beta))
    return np.array(c)[level - LEVELS.start], np.array(beta)[level - LEVELS.start]
