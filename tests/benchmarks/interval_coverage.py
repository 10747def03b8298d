"""How often 95 % intervals hold the truth: run `python tests/benchmarks/interval_coverage.py`.

Prints the coverage in percent for 5 to 60 questions; by chance it is off by about 0.3 with 5,000
runs a cell. Questions differ in difficulty and in length; harder ones are longer, wrong answers
are 1.6 times as long as right ones, tokens are log-normal, and two methods find the same questions
hard and long. A runaway is a wrong answer of 8192 tokens, 20 times the usual: no interval reckons
with what has not been seen once. The last lines give how often `probability_higher` reaches 0.9
for the first of two methods with the same truth. An argument sets the number of runs.
"""

import math
import sys
from collections.abc import Callable, Sequence
from functools import partial
from statistics import NormalDist

import numpy as np

from optim.e3 import Sample, accuracy_interval, compare, interval

COUNTS = (5, 10, 20, 30, 60)
RUNS = 5_000
_SHARED = 0.5  # of the variance of being right, that of the question's difficulty
_LONGER = 1.6  # a wrong answer, times a right one
_HARDER = 0.2  # log tokens by a standard deviation of difficulty
_SPREAD = 0.35  # standard deviation of log tokens: by question, and by answer
_CUTOFF = 8192.0
_NORMAL = NormalDist()

Answers = tuple[np.ndarray, np.ndarray]
"""Scores and tokens, each of shape (questions, epochs)."""


def answers(  # noqa: PLR0913, PLR0917 - the world's dials
    random: np.random.Generator,
    accuracies: list[float],
    costs: list[float],
    questions: int,
    epochs: int = 1,
    runaways: float = 0.0,
) -> list[Answers]:
    """Draw what methods of these accuracies (0 to 1) and relative costs answer."""
    shape = (questions, epochs)
    difficulty, length = random.standard_normal((2, questions, 1))
    found = []
    for accuracy, cost in zip(accuracies, costs, strict=True):
        luck = random.standard_normal(shape) * math.sqrt(1 - _SHARED)
        right = _NORMAL.inv_cdf(accuracy) - math.sqrt(_SHARED) * difficulty + luck > 0
        noise = random.standard_normal(shape)
        log = 6 + _HARDER * difficulty + _SPREAD * (length + noise) + math.log(cost)
        tokens = np.exp(log) * np.where(right, 1.0, _LONGER)
        lost = random.random(shape) < runaways
        found.append((np.where(lost, 0.0, right), np.where(lost, _CUTOFF, tokens)))
    return found


def truth(accuracy: float, cost: float, runaways: float = 0.0) -> float:
    """E³ of a method for unlimited questions."""
    # Weighting by exp(_HARDER * difficulty) moves the mean difficulty by _HARDER.
    right = _NORMAL.cdf(_NORMAL.inv_cdf(accuracy) - _HARDER * math.sqrt(_SHARED))
    usual = math.exp(6 + _SPREAD**2 + _HARDER**2 / 2) * cost
    mean = (1 - runaways) * usual * (right + _LONGER * (1 - right)) + runaways * _CUTOFF
    return (100 * accuracy * (1 - runaways)) ** 2 / mean


def samples(found: Answers) -> list[Sample]:
    """Return answers as `compare` takes them."""
    return [
        Sample(str(question), float(score), float(spent))
        for question, row in enumerate(zip(*found, strict=True))
        for score, spent in zip(*row, strict=True)
    ]


def covers(lower: float | None, true: float, upper: float | None) -> bool:
    return (lower or 0.0) <= true <= (math.inf if upper is None else upper)


def single(
    accuracy: float, questions: int, runs: int, epochs: int = 1, runaways: float = 0.0
) -> float:
    """Return the share of runs whose interval of E³ holds the truth."""
    random, true = np.random.default_rng(questions), truth(accuracy, 1.0, runaways)
    clusters, covered = np.repeat(np.arange(questions), epochs).tolist(), 0
    for _ in range(runs):
        ((scores, tokens),) = answers(random, [accuracy], [1.0], questions, epochs, runaways)
        found = interval(scores.ravel(), tokens.ravel(), clusters=clusters)
        covered += covers(found.lower, true, found.upper)
    return covered / runs


def of_accuracy(accuracy: float, questions: int, runs: int, epochs: int = 1) -> float:
    """Return the share of runs whose interval of A holds the truth."""
    random, covered = np.random.default_rng(questions), 0
    clusters = np.repeat(np.arange(questions), epochs).tolist()
    for _ in range(runs):
        ((scores, _),) = answers(random, [accuracy], [1.0], questions, epochs)
        low, high = accuracy_interval(scores.ravel(), clusters=clusters)
        covered += covers(low, 100 * accuracy, high)
    return covered / runs


def paired(
    accuracies: Sequence[float], cost: float, questions: int, runs: int, epochs: int = 1
) -> tuple[float, float]:
    """Compare two methods, of which the second costs more by a factor.

    Returns:
        The share of runs whose interval of the ratio of E³ holds the truth, and the share in which
        the first is higher with a probability of 0.9 or more.
    """
    random = np.random.default_rng(questions)
    true = truth(accuracies[0], 1.0) / truth(accuracies[1], cost)
    covered = higher = 0
    for _ in range(runs):
        first, second = answers(random, [*accuracies], [1.0, cost], questions, epochs)
        found = compare(samples(first), samples(second))
        covered += covers(found.lower, true, found.upper)
        higher += (found.probability_higher or 0.0) >= 0.9
    return covered / runs, higher / runs


def row(name: str, share: Callable[[int], float]) -> None:
    """Print a line of percentages, one for each number of questions."""
    print(f"{name:<44}", *(f"{100 * share(count):6.1f}" for count in COUNTS), flush=True)


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else RUNS
    print(f"{'questions':<44}", *(f"{count:>6}" for count in COUNTS))
    for epochs, many in ((1, ""), (5, ", 5 epochs")):
        for a in (0.1, 0.4, 0.6, 0.8, 0.9, 0.97):
            row(f"E³, A = {100 * a:.0f} %{many}", partial(single, a, runs=runs, epochs=epochs))
        for a in (0.4, 0.8, 0.9):
            row(f"A, A = {100 * a:.0f} %{many}", partial(of_accuracy, a, runs=runs, epochs=epochs))
    for a in (0.4, 0.8):
        name = f"E³, A = {100 * a:.0f} %, 9 % runaways besides"
        row(name, partial(single, a, runs=runs, runaways=0.09))
    for pair, cost in (
        ((0.4, 0.4), 1.0),
        ((0.9, 0.9), 1.0),
        ((0.5, 0.35), 1.3),
        ((0.9, 0.8), 1.0),
        ((0.8, 0.8), 2.0),
        ((0.05, 0.05), 1.0),
    ):
        name = f"ratio, A = {100 * pair[0]:.0f} and {100 * pair[1]:.0f} %, T 1 : {cost:g}"
        row(name, lambda count, p=pair, c=cost: paired(p, c, count, runs)[0])
    row(
        "ratio, A = 50 and 35 %, T 1 : 1.3, 5 epochs",
        lambda count: paired((0.5, 0.35), 1.3, count, runs // 5, 5)[0],
    )
    for a in (0.1, 0.45, 0.9):
        name = f"surely higher, A = {100 * a:.0f} % on both sides"
        row(name, lambda count, a=a: paired((a, a), 1.0, count, runs)[1])


if __name__ == "__main__":
    main()
