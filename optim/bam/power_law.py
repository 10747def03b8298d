"""Fits a power law of errors against tokens to counts of right answers, with intervals.

The chance of a wrong answer with b tokens is aleatoric + c / b^beta (the paper's Eq. 2), kept
within [0.001, 0.999]: no lucky guess or slip may outweigh all other answers. What fits best is
sought by likelihood, and an interval holds every value of a parameter that, with the best values
of the others, is not refuted at its confidence (profile likelihood). So where answers say little
the interval is as wide as what was searched, and `Curve.identified` is False.

The search is by lattices, each laid along what the one before left possible. It needs no start,
and neither the kinks at the two bounds nor the ridges of a sparse table lead it astray.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from optim.statistics.checks import Floats, check_confidence
from pb_graph.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

BETA_RANGE: Final = (0.05, 8.0)
"""Where beta is sought. Below, a doubling of tokens removes 3 % of the error; above, 99.6 %."""

_REST = 1e-3  # chance left to a lucky guess and to a slip
# What is searched: log of c / b^beta at the middle budget, log beta, aleatoric.
_LOWEST = np.array([math.log(1e-4), math.log(BETA_RANGE[0]), 0.0])
_HIGHEST = np.array([math.log(1e3), math.log(BETA_RANGE[1]), 0.99])
_POINTS = 25  # of the lattice, along each axis
_LATTICE = np.stack(
    np.meshgrid(*[np.linspace(-1.0, 1.0, _POINTS)] * 3, indexing="ij"), axis=-1
).reshape(-1, 3)
# How many times the interval's cutoff a point may exceed to be searched closer. A first lattice
# can miss a narrow peak by much; the last ones lie around the interval itself.
_LENIENCE = (1e5, 3e4, 1e4, 3e3, 1e3, 300.0, 100.0, 30.0, 10.0, 3.0, 1.0, 1.0, 1.0)
_NEAR = 0.01  # of what is searched: an interval that ends so near its limit has no end
_ZOOMS, _ELITE = 12, 200  # times the best few points get a lattice of their own


@dataclass(frozen=True, slots=True)
class Estimate:
    """A parameter's best value and the ends of its interval."""

    value: float
    lower: float
    upper: float


@dataclass(frozen=True, slots=True)
class Curve:
    """A fitted power law.

    Attributes:
        c: Epistemic uncertainty after one token (extrapolated: no answer has one token).
        beta: How fast tokens reduce it.
        aleatoric: Errors that no number of tokens removes; lower = value = upper when it was given.
        identified: Whether the interval of beta ends within what was searched on both sides.
    """

    c: Estimate
    beta: Estimate
    aleatoric: Estimate
    identified: bool

    def accuracy(self, tokens: float) -> float:
        """Chance of a right answer with so many tokens."""
        epistemic = self.c.value / tokens**self.beta.value
        return float(1.0 - error_chance(np.array(epistemic), np.array(self.aleatoric.value)))


def error_chance(epistemic: Floats, aleatoric: Floats) -> Floats:
    """Chance of a wrong answer for these uncertainties, broadcast."""
    return np.clip(epistemic + aleatoric, _REST, 1.0 - _REST)


def fit_curve(
    tokens: Sequence[float],
    answers: Sequence[float],
    right: Sequence[float],
    *,
    aleatoric: float | None = None,
    confidence: float = 0.95,
) -> Curve:
    """Fit the power law to counts, one for each number of tokens.

    Answers count as independent. Where scores are fractions their sum stands for the number of
    right answers, which is a quasi-likelihood: such scores vary less than the coin flips it
    assumes, so intervals are rather too wide.

    Args:
        tokens: Distinct, each above 0.
        answers: How many there were with so many tokens, each above 0.
        right: How many of these were right, from 0 to all.
        aleatoric: Known error that no number of tokens removes; None to fit it.
        confidence: Nominal coverage of the intervals, each by itself.

    Raises:
        InputError: Fewer distinct numbers of tokens than parameters, or a value out of range.
    """
    check_confidence(confidence)
    table = _checked(tokens, answers, right)
    limits = _limits(aleatoric)
    if len(table.tokens) < (parameters := 3 if aleatoric is None else 2):
        few = f"{len(table.tokens)} different budgets"
        msg = f"{few} cannot tell {parameters} parameters: measure at more"
        raise InputError(msg)
    cutoff = NormalDist().inv_cdf(0.5 + confidence / 2.0) ** 2
    frame = _Frame.over(limits)
    peak = np.empty((0, 3))  # the best point so far, which a finer lattice may step over
    for lenience in _LENIENCE:
        points = np.vstack([frame.points(limits), peak])
        fit = _log_likelihood(table, points)
        peak = points[[fit.argmax()]]
        possible = points[2.0 * (fit.max() - fit) <= lenience * cutoff]
        frame = frame.around(possible)
    best = _top(table, frame, limits)
    possible = np.vstack([possible, best])
    log_c = _log_c(possible, table.middle)
    low, high = possible.min(axis=0), possible.max(axis=0)
    near = _NEAR * (limits[1][1] - limits[0][1])
    return Curve(
        c=_exp(_log_c(best, table.middle), log_c.min(), log_c.max()),
        beta=_exp(best[1], low[1], high[1]),
        aleatoric=Estimate(float(best[2]), float(low[2]), float(high[2])),
        identified=bool(low[1] - near > limits[0][1] and high[1] + near < limits[1][1]),
    )


class _Table(NamedTuple):
    """Counts by tokens, each of shape (cells,)."""

    tokens: Floats
    answers: Floats
    right: Floats

    @property
    def middle(self) -> float:
        """A budget in the middle: there the epistemic error says least about beta."""
        return float(np.exp(np.log(self.tokens).mean()))


_Limits = tuple[Floats, Floats]
"""Lower and upper ends of log epistemic error at the middle budget, log beta, and aleatoric."""


@dataclass(frozen=True, slots=True)
class _Frame:
    """A lattice turned and stretched to lie along a cloud of points.

    Attributes:
        centre: Shape (3,).
        axes: Half-widths along each direction as columns, shape (3, 3).
    """

    centre: Floats
    axes: Floats

    @classmethod
    def over(cls, limits: _Limits) -> _Frame:
        """The whole box."""
        low, high = limits
        return cls((low + high) / 2.0, np.diag((high - low) / 2.0))

    def points(self, limits: _Limits) -> Floats:
        """The lattice, shape (points, 3); what sticks out of the limits lies on them instead."""
        return np.clip(self.centre + _LATTICE @ self.axes.T, *limits)

    def around(self, cloud: Floats) -> _Frame:
        """The frame along the principal axes of a cloud, with a step to spare on each side."""
        step = self.axes * (2.0 / (_POINTS - 1))
        spare = step @ step.T
        spread = cloud - cloud.mean(axis=0)
        _, directions = np.linalg.eigh(spread.T @ spread / len(cloud) + spare)
        along = cloud @ directions
        low, high = along.min(axis=0), along.max(axis=0)
        margin = np.sqrt(np.einsum("ij,ik,kj->j", directions, spare, directions))
        half = (high - low) / 2.0 + margin
        return _Frame(directions @ ((low + high) / 2.0), directions * half)


def _checked(tokens: Sequence[float], answers: Sequence[float], right: Sequence[float]) -> _Table:
    table = _Table(*(np.asarray(given, dtype=np.float64) for given in (tokens, answers, right)))
    fits = len({len(column) for column in table}) == 1 and np.isfinite(np.array(table)).all()
    if not (
        fits
        and (table.tokens > 0.0).all()
        and (table.answers > 0.0).all()
        and (table.right >= 0.0).all()
        and (table.right <= table.answers).all()
    ):
        msg = "give tokens and answers above 0, and of the answers how many were right, of each one"
        raise InputError(msg)
    if len(set(table.tokens.tolist())) < len(table.tokens):
        msg = "a number of tokens is there twice: add up the answers that had it"
        raise InputError(msg)
    return table


def _limits(aleatoric: float | None) -> _Limits:
    low, high = _LOWEST.copy(), _HIGHEST.copy()
    if aleatoric is not None:
        if not low[2] <= aleatoric <= high[2]:
            msg = f"aleatoric error lies between {low[2]:g} and {high[2]:g}, not {aleatoric}"
            raise InputError(msg)
        low[2] = high[2] = aleatoric
    return low, high


def _log_likelihood(table: _Table, points: Floats) -> Floats:
    log_epistemic, log_beta, aleatoric = points.T
    beta = np.exp(log_beta)
    total: Floats = np.zeros(len(points))
    for tokens, answers, right in zip(*table, strict=True):
        epistemic = np.exp(log_epistemic - beta * math.log(tokens / table.middle))
        wrong = error_chance(epistemic, aleatoric)
        total += right * np.log1p(-wrong) + (answers - right) * np.log(wrong)
    return total


def _top(table: _Table, frame: _Frame, limits: _Limits) -> Floats:
    """The likeliest point in a frame, shape (3,)."""
    for _ in range(_ZOOMS):
        points = frame.points(limits)
        likeliest = points[np.argsort(_log_likelihood(table, points))[-_ELITE:]]
        frame = frame.around(likeliest)
    return np.asarray(likeliest[-1])


def _log_c(points: Floats, middle: float) -> Floats:
    return np.asarray(points[..., 0] + np.exp(points[..., 1]) * math.log(middle))


def _exp(log_value: Floats, log_lower: float, log_upper: float) -> Estimate:
    return Estimate(math.exp(log_value), math.exp(log_lower), math.exp(log_upper))
