"""How often tuning's verdict is `better`: run `python tests/benchmarks/verdict_simulation.py`.

The judging is the package's own (`winner_of`, `Trial.against`, `decide`); only the answers
are drawn. A program is right on 45 % of the questions, and programs are alike on a question: what
is hard for one is hard for the others. Tokens are log-normal, wrong answers 1.6 times as long.
Dev has twice as many questions as are held out.

Prints two tables. The first: programs that do not differ at all; the share of runs that end in
`better`, which has to be at most 12 % everywhere. The second: one of the candidates is truly
better by a factor; the share of runs in which a `better` is found.
"""

from __future__ import annotations

import argparse
import json
from functools import partial
from statistics import NormalDist
from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from optim.tuning.search import Trial, decide, winner_of

HELD_OUT = (3, 6, 10, 30, 100)
CANDIDATES = (1, 3, 10, 30)
FACTORS = (1.3, 1.5, 2.0)
ACCURACY, ALIKE = 0.45, 0.6  # mean score; correlation of two programs' luck on a question
TOKENS, SPREAD, LONGER = 300.0, 0.4, 1.6
MOST = 0.12

Floats = np.ndarray[Any, np.dtype[np.float64]]


def answers(rng: np.random.Generator, hardness: Floats, factor: float = 1.0) -> Trial:
    """Return a program's answers to questions of this hardness; E³ is higher by the factor.

    Half of the factor comes from right answers and half from tokens.
    """
    accuracy = min(0.99, ACCURACY * factor**0.25)
    noise, length = rng.standard_normal((2, len(hardness)))
    right = np.sqrt(ALIKE) * hardness + np.sqrt(1 - ALIKE) * noise < NormalDist().inv_cdf(accuracy)
    tokens = TOKENS * np.exp(SPREAD * (0.7 * hardness + 0.7 * length)) * np.where(right, 1, LONGER)
    usual, mean = (1 - p + p / LONGER for p in (ACCURACY, accuracy))
    tokens *= factor**-0.5 * usual / mean
    rows = zip(right, tokens, strict=True)
    records: list[Any] = [
        SimpleNamespace(
            question=str(number),
            score=float(score),
            cost=partial(lambda paid, _: paid, round(cost)),
        )
        for number, (score, cost) in enumerate(rows)
    ]
    return Trial(cast("Any", None), records)


def run(rng: np.random.Generator, held_out: int, candidates: int, factor: float) -> str:
    """Return the verdict of one tuning; the first candidate is better by the factor."""
    dev, rest = rng.standard_normal(2 * held_out), rng.standard_normal(held_out)
    original = answers(rng, dev)
    trials = [answers(rng, dev, factor if number == 0 else 1.0) for number in range(candidates)]
    winner = winner_of([original, *trials])
    if winner is None:
        return "kept"
    before = answers(rng, rest)
    after = answers(rng, rest, factor if winner is trials[0] else 1.0)
    return decide(after, before, after.against(before))


def show(title: str, runs: int, factor: float, seed: int) -> float:
    """Print shares of `better` and of `undecided`; return the highest share of `better`."""
    print(f"\n{title}\ncandidates | held out " + " ".join(f"{n:>12}" for n in HELD_OUT))
    highest = 0.0
    for candidates in CANDIDATES:
        cells = []
        for held_out in HELD_OUT:
            rng = np.random.default_rng([seed, candidates, held_out, round(100 * factor)])
            verdicts = [run(rng, held_out, candidates, factor) for _ in range(runs)]
            better, open_ = (verdicts.count(one) / runs for one in ("better", "undecided"))
            cells.append(f"{100 * better:5.1f} ({100 * open_:4.1f})")
            highest = max(highest, better)
        print(f"{candidates:>10} |          " + " ".join(f"{cell:>12}" for cell in cells))
    return highest


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    print("percent of runs that end in better (in brackets: undecided)")
    highest = show("identical programs", options.runs, 1.0, options.seed)
    for factor in FACTORS:
        show(f"one candidate better by {factor:g}", options.runs, factor, options.seed)
    print(json.dumps({"highest_between_identical": highest, "allowed": MOST}))
    if highest > MOST:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
