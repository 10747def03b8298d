"""The Budget Allocation Model as a world: what each split of a budget is worth where Eq. 1 holds.

A sub-question with b tokens keeps the uncertainty U = c / b^beta + aleatoric (the paper's Eq. 1
and 2). Its utility is 1 - U (Eq. 3 with alpha = 1) and a query's the sum of these (Eq. 4), which
can be negative: nothing in the paper bounds U.

The paper does not say what accuracy an uncertainty means. Our assumption: a sub-question is solved
with chance 1 - U, at least 0 and at most 1, which makes Eq. 3 the chance of solving it; and a
query is right when all its sub-questions are, each by its own luck: the product of the chances.
So the best utility need not be the best accuracy. T is the budget: every token of it is spent.

What is drawn, all of it independent: levels, uniformly from 1 to 5; c and beta, log-normally about
those that the settings give the level; aleatoric uncertainty, uniformly from 0 to a maximum. A
planner sees the level alone: credits are in proportion to it, or all equal, and the schedule `bam`
takes the settings' c and beta for it. `closed_form` and `optimal` know the true c and beta.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple, get_args

import numpy as np
from rich.progress import track

from optim.statistics.checks import Floats
from optim.statistics.estimates import PERCENT
from pb_graph.budget import LEVELS, Schedule, bam, schedule_weights
from pb_graph.errors import InputError
from pb_graph.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray
    from rich.console import Console

_SCHEDULES: Final[tuple[Schedule, ...]] = get_args(Schedule)

RULES: Final = (*_SCHEDULES, "bam", "closed_form", "optimal")
"""Every way to split that is compared: by position and credits, by level, by true parameters."""

BLOCK: Final = 1 << 15
"""Queries drawn at once, from a random stream of their own: few enough to stay in the cache.

The numbers drawn depend on it, so it is no option: what a seed gives is the same on any machine.
"""

_LARGEST_SPREAD = 3.0  # a factor of 400 between one query in fifty and the median


@dataclass(frozen=True, slots=True)
class World:
    """Where queries come from.

    Attributes:
        settings: `bam` gives c and beta for each level; power, gamma and epsilon shape schedules.
        steps: Sub-questions of a query.
        front_loaded: Whether the hardest sub-questions come first; else they come in no order.
        graded: Whether credits follow the levels; else they are all equal.
        c_spread: Standard deviation of log c about the level's, from 0 to 3.
        beta_spread: Likewise of log beta.
        aleatoric: The most aleatoric uncertainty that a sub-question has, from 0 to 1.
        credits: Credits by position instead, whatever the levels are: above 0, one for each step.

    Raises:
        InputError: A value outside its range, or a schedule that leaves a sub-question no token.
    """

    settings: Settings = field(default_factory=Settings)
    steps: int = 5
    front_loaded: bool = True
    graded: bool = True
    c_spread: float = 0.5
    beta_spread: float = 0.1
    aleatoric: float = 0.1
    credits: Sequence[float] | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.steps <= 20:  # noqa: PLR2004 -- as many as a plan may have
            msg = f"a query has 1 to 20 steps, not {self.steps}"
            raise InputError(msg)
        for name in ("c_spread", "beta_spread"):
            if not 0.0 <= getattr(self, name) <= _LARGEST_SPREAD:
                msg = f"{name} lies between 0 and {_LARGEST_SPREAD:g}, not {getattr(self, name)}"
                raise InputError(msg)
        if not 0.0 <= self.aleatoric <= 1.0:
            msg = f"aleatoric uncertainty lies between 0 and 1, not {self.aleatoric}"
            raise InputError(msg)
        if self.credits is not None and not (
            len(self.credits) == self.steps and min(self.credits) > 0
        ):
            msg = f"give a credit above 0 for each of the {self.steps} steps, not {self.credits}"
            raise InputError(msg)
        if self.steps > 1 and not self.settings.epsilon:
            msg = (
                "epsilon=0 gives the last step no token under the cosine schedule, and so endless "
                "uncertainty; set it above 0"
            )
            raise InputError(msg)


class Queries(NamedTuple):
    """Queries as arrays of shape (steps, queries)."""

    level: NDArray[np.int64]
    c: Floats
    beta: Floats
    aleatoric: Floats


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one rule achieves with one budget, on average; `_se` is the standard error.

    Attributes:
        rule: One of `RULES`.
        budget: Tokens of a query, all of them spent.
        utility: Of a query (Eq. 4), at most the number of its steps.
        shortfall: Utility that the optimum has beyond it, query by query.
        accuracy: In percent.
        e3: accuracy² / budget.
    """

    rule: str
    budget: int
    utility: float
    utility_se: float
    shortfall: float
    shortfall_se: float
    accuracy: float
    accuracy_se: float
    e3: float
    e3_se: float

    def to_dict(self) -> dict[str, str | int | float]:
        """Plain JSON."""
        return asdict(self)


def simulate(
    world: World,
    budgets: Sequence[int],
    *,
    queries: int = 1_000_000,
    seed: int = 0,
    console: Console | None = None,
) -> list[Outcome]:
    """Play every rule with every budget on the same queries.

    A seed's queries are always the same: n of them are the first n of any longer run. Memory does
    not grow with their number.

    Args:
        world: Where the queries come from.
        budgets: Tokens of a query, each at least 1, in any order and none twice.
        queries: How many, at least 2.
        seed: Of the draw, at least 0.
        console: Where progress is shown, when it is a terminal.

    Returns:
        Budget by budget, the rules in the order of `RULES`.

    Raises:
        InputError: A value outside its range.
    """
    _check(budgets, queries, seed)
    starts = track(
        range(0, queries, BLOCK),
        description="simulating",
        console=console,
        transient=True,
        disable=console is None or not console.is_terminal,
    )
    blocks = []
    for start in starts:
        drawn = draw(world, min(BLOCK, queries - start), seed=seed, block=start // BLOCK)
        values = np.stack([_measures(world, drawn, budget) for budget in budgets])
        mean = values.mean(axis=-1)
        squares = np.square(values - mean[..., None]).sum(axis=-1)
        blocks.append((values.shape[-1], mean, squares))
    means, errors = _joined(blocks)
    return [
        _outcome(rule, budget, means[i, j].tolist(), errors[i, j].tolist())
        for i, budget in enumerate(budgets)
        for j, rule in enumerate(RULES)
    ]


def draw(world: World, n: int, *, seed: int = 0, block: int = 0) -> Queries:
    """Draw the first `n` queries, at most `BLOCK`, of one block of a seed's stream."""
    rng = np.random.default_rng([seed, block])
    shape = (world.steps, BLOCK)
    level = rng.integers(LEVELS.start, LEVELS.stop, shape)
    off_c, off_beta = rng.standard_normal(shape), rng.standard_normal(shape)
    aleatoric = world.aleatoric * rng.random(shape)
    typical_c, typical_beta = _typical(world, level)
    c = typical_c * np.exp(world.c_spread * off_c)
    beta = typical_beta * np.exp(world.beta_spread * off_beta)
    if world.front_loaded:
        hardest_first = np.argsort(-level, axis=0, kind="stable")
        level, c, beta, aleatoric = (
            np.take_along_axis(level, hardest_first, axis=0),
            *(np.take_along_axis(each, hardest_first, axis=0) for each in (c, beta, aleatoric)),
        )
    return Queries(level[:, :n], c[:, :n], beta[:, :n], aleatoric[:, :n])


def allocations(world: World, queries: Queries, total: float) -> Iterator[tuple[str, Floats]]:
    """Give each rule with its split of `total` tokens, real numbers of shape (steps, queries)."""
    for name in _SCHEDULES:
        yield name, _by_schedule(world, name, queries.level, total)
    c, beta = _typical(world, queries.level)
    yield "bam", bam.optimal_allocation(c.T, beta.T, total).T
    yield "closed_form", bam.closed_form_allocation(queries.c.T, queries.beta.T, total).T
    yield "optimal", bam.optimal_allocation(queries.c.T, queries.beta.T, total).T


def worth(queries: Queries, tokens: Floats) -> tuple[Floats, Floats]:
    """Give each query's utility and accuracy (a chance), both of shape (queries,)."""
    each = bam.utility(queries.c, queries.beta, tokens, aleatoric=queries.aleatoric)
    return each.sum(axis=0), np.clip(each, 0.0, 1.0).prod(axis=0)


def _joined(blocks: Sequence[tuple[int, Floats, Floats]]) -> tuple[Floats, Floats]:
    """Mean and standard error over all blocks, each given as its size, mean and squares about it.

    Joined so, nothing cancels.
    """
    sizes = np.array([size for size, _, _ in blocks], dtype=np.float64)
    means = np.array([mean for _, mean, _ in blocks])
    n = sizes.sum()
    mean = np.tensordot(sizes, means, 1) / n
    squares = sum(own for _, _, own in blocks) + np.tensordot(sizes, np.square(means - mean), 1)
    return mean, np.sqrt(squares / (n - 1) / n)


def _measures(world: World, queries: Queries, budget: int) -> Floats:
    """Utility, shortfall and accuracy of each rule, shape (rules, 3, queries)."""
    played = [worth(queries, tokens) for _, tokens in allocations(world, queries, budget)]
    best, _ = played[RULES.index("optimal")]
    return np.array([(utility, best - utility, accuracy) for utility, accuracy in played])


def _outcome(rule: str, budget: int, mean: Sequence[float], error: Sequence[float]) -> Outcome:
    (utility, shortfall, chance), (utility_se, shortfall_se, chance_se) = mean, error
    a, a_se = PERCENT * chance, PERCENT * chance_se
    found = (utility, utility_se, shortfall, shortfall_se, a, a_se)
    return Outcome(rule, budget, *found, e3=a**2 / budget, e3_se=2.0 * a * a_se / budget)


def _by_schedule(world: World, name: Schedule, level: NDArray[np.int64], total: float) -> Floats:
    """Eq. 7 without its rounding down; `uniform` does not look at credits."""
    credited: Floats | NDArray[np.int64] = np.ones(level.shape)
    if name != "uniform" and world.credits is not None:
        credited = credited * np.array(world.credits)[:, None]
    elif name != "uniform" and world.graded:
        credited = level
    rho = schedule_weights(name, len(level), **world.settings.shape)
    share = credited * np.array(rho)[:, None]
    return np.asarray(share * (total / share.sum(axis=0)))


def _typical(world: World, level: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """What the settings say of c and beta at these levels."""
    known = world.settings.bam
    c, beta = ([values[each] for each in LEVELS] for values in (known.c, known.beta))
    return np.array(c)[level - LEVELS.start], np.array(beta)[level - LEVELS.start]


def _check(budgets: Sequence[int], queries: int, seed: int) -> None:
    if not budgets or min(budgets) < 1 or len(set(budgets)) < len(budgets):
        msg = f"give budgets of at least 1 token, each once, not {list(budgets)}"
        raise InputError(msg)
    if queries < 2:  # noqa: PLR2004 -- a standard error needs as many
        msg = f"simulate at least 2 queries, not {queries}"
        raise InputError(msg)
    if seed < 0:
        msg = f"a seed is at least 0, not {seed}"
        raise InputError(msg)
