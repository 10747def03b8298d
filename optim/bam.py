"""Split tokens by the Budget Allocation Model, and fit its parameters.

A sub-question with b tokens keeps the uncertainty U = c / b^beta + aleatoric (the paper's Eq. 1
and 2). Its utility is 1 - U (Eq. 3 with alpha = 1), and the utility of a question is the sum over
its sub-questions (Eq. 4). `tests/benchmarks/schedules.py` simulates every schedule.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from optim.statistics.estimates import Floats
from pb_graph.budget.allocation import LEVELS, optimal_allocation
from pb_graph.errors import InputError
from pb_graph.settings import Settings

_CLIP = 1e-3  # the lowest and highest modelled chance of an error, so that no answer is impossible
_PARAMETERS = 3  # of Eq. 2
_GRID = np.geomspace(0.05, 8.0, 201)  # values of beta at which the profile is taken


def level_shares(settings: Settings | None = None, total: float = 500) -> dict[str, list[float]]:
    """Return the split of `total` tokens across one sub-question of each level, easiest first.

    Args:
        settings: Settings whose `bam` gives c and beta of each level; the defaults if None.
        total: Tokens to split.

    Returns:
        Tokens by rule: ``closed_form`` (Eq. 6), which rises and falls again with the difficulty,
        and ``optimal``, the exact optimum of Eq. 5.
    """
    shape = (settings or Settings()).shape
    c, beta = ([values[level] for level in LEVELS] for values in (shape.c, shape.beta))
    shares = [(one * rate) ** (1 / (rate + 1)) for one, rate in zip(c, beta, strict=True)]
    return {
        "closed_form": [total * share / sum(shares) for share in shares],
        "optimal": optimal_allocation(c, beta, total),
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
    inside = _GRID[losses <= losses[at] + chi2.ppf(0.95, 1) / 2]
    rest, floor = profile[at].x
    beta = float(_GRID[at])
    lower, upper = float(inside.min()), float(inside.max())
    return Fit(float(rest) * smallest**beta, beta, lower, upper, float(floor))
