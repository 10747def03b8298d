"""How fast budgets are computed: run `python tests/benchmarks/budget_speed.py`.

Prints how many times faster one vectorised optimum of 100,000 queries is than a loop of
`scipy.optimize.brentq` over them, written in plain Python and in numpy, and what one `allocate`
costs. The slower numpy loop runs over a part of the queries and is scaled up. Last, what a call
costs that is reserved and settled within a shared `Budget`, also one with many grants, or below
many limits.
"""

from collections.abc import Callable
from functools import partial
from math import exp, log
from time import perf_counter

import numpy as np
from scipy.optimize import brentq

from optim import bam as exact
from optim.statistics.checks import Floats as FloatArray
from pb_graph import Budget
from pb_graph.budget import allocate

QUERIES, STEPS = 100_000, 5


def python_loop(c: FloatArray, beta: FloatArray, total: FloatArray) -> FloatArray:
    """Solve query by query; plain floats beat numpy on five numbers."""
    allocations = []
    for c_row, beta_row, budget in zip(c.tolist(), beta.tolist(), total.tolist(), strict=True):
        gain = [log(x * y) for x, y in zip(c_row, beta_row, strict=True)]
        power = [1 / (y + 1) for y in beta_row]
        terms = list(zip(gain, power, strict=True))

        def excess(x: float, terms: list[tuple[float, float]], budget: float) -> float:
            return log(sum([exp(p * (g - x)) for g, p in terms]) / budget)

        low = max(g - log(budget) / p for g, p in terms)
        high = max(g - log(budget / STEPS) / p for g, p in terms)
        root = brentq(excess, low - 1e-9, high + 1e-9, args=(terms, budget))
        allocations.append([exp(p * (g - root)) for g, p in terms])
    return np.array(allocations)


def numpy_loop(c: FloatArray, beta: FloatArray, total: FloatArray) -> FloatArray:
    """Solve query by query, as one would write it first."""

    def tokens(log_lambda: float, c: FloatArray, beta: FloatArray) -> FloatArray:
        return np.asarray((c * beta / np.exp(log_lambda)) ** (1 / (beta + 1)))

    def excess(log_lambda: float, c: FloatArray, beta: FloatArray, budget: float) -> float:
        return float(np.log(tokens(log_lambda, c, beta).sum() / budget))

    rows = zip(c, beta, total, strict=True)
    roots = [brentq(excess, -100, 100, args=row) for row in rows]
    return np.array([tokens(x, *row) for x, *row in zip(roots, c, beta, strict=True)])


def seconds(work: Callable[[], object], repeat: int = 5) -> float:
    """Return the least of several timings, the one least disturbed by other processes."""

    def once() -> float:
        start = perf_counter()
        work()
        return perf_counter() - start

    return min(once() for _ in range(repeat))


def a_call(account: Budget) -> None:
    """Reserve and settle, as a call does."""
    account.reserve(100).settle(0)


def shared() -> None:
    """One call within a shared budget, against one within a budget that has nothing else."""
    alone, rounds = 0.0, 300
    for grants, levels in ((0, 0), (100, 0), (1_000, 0), (0, 10), (0, 100)):
        budget = Budget(10**9)
        granted = [budget.grant(1_000) for _ in range(grants)]
        account = budget
        for _ in range(levels):
            account = account.limit(10**8)
        taken = seconds(lambda of=account: [a_call(of) for _ in range(rounds)]) / rounds  # type: ignore[misc]
        alone = alone or taken
        print(
            f"a call within a Budget of {len(granted):,} grants, below {levels} limits: "
            f"{taken * 1e6:.1f} µs, {taken / alone:.1f} times as long"
        )


def main() -> None:
    rng = np.random.default_rng(0)
    c, beta = rng.uniform(0.1, 10, (QUERIES, STEPS)), rng.uniform(1, 3, (QUERIES, STEPS))
    total = rng.integers(200, 600, QUERIES).astype(np.float64)

    at_once = seconds(lambda: exact.optimal_allocation(c, beta, total))
    optimum = exact.optimal_allocation(c, beta, total)
    print(f"optimal_allocation, {QUERIES:,} queries of {STEPS} steps: {at_once * 1e3:.1f} ms")
    for loop, part in ((python_loop, QUERIES), (numpy_loop, QUERIES // 20)):
        arguments = (c[:part], beta[:part], total[:part])
        taken = seconds(partial(loop, *arguments), repeat=1) * QUERIES / part
        worst = np.abs(loop(*(a[:500] for a in arguments)) / optimum[:500] - 1).max()
        print(
            f"  brentq, {loop.__name__}: {taken:.2f} s, {taken / at_once:.0f} times as long"
            f" (largest relative difference {worst:.0e})"
        )

    weights, rounds = [10.0, 20.0, 30.0, 25.0, 15.0], 2_000
    for minimum in (0, 24):
        allocating = partial(allocate, weights, 450, minimum=minimum)
        taken = seconds(lambda work=allocating: [work() for _ in range(rounds)]) / rounds  # type: ignore[misc]
        print(f"allocate, {STEPS} steps, minimum={minimum}: {taken * 1e6:.1f} µs")
    shared()


if __name__ == "__main__":
    main()
