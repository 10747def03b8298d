"""How often a certificate is false: run `python tests/benchmarks/certificates.py`.

In a world, questions differ in difficulty, and a few cheaper rows answer them beside a reference.
A certificate is false when the certified row's true loss of accuracy is above the bound of 3 points
at 95 % confidence; so 5 % of the worlds are allowed to have one (with 2,000 worlds, 6.0 % would
still be chance). Printed for each kind of world: the share of false certificates in all worlds, of
worlds that certified any row, and of those in which some row really was below the bound; and the
tokens of certified rows over those of the reference.

At the bound: every row loses a little more than 3 points, all of it as harmful flips, which is the
worst there can be for the exact bound. Mixed: losses from 0 to 8 points, some gains, the order by
tokens on a fifth of the questions. Sampled: the same with four answers to each question at
temperature, where the bound bets. Graded: scores between 0 and 1, a loss just above the bound, the
worst for betting. The argument sets the number of worlds.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from optim.reporting.certificate import order_for_testing, run_in_order

WORLDS = 2_000
LOSS, CONFIDENCE = 0.03, 0.95
_OVER = 1e-6  # points above the bound, where nothing may be certified
_SPLIT = 0.2

Floats = np.ndarray


class World(NamedTuple):
    """Scores by row, each of shape (questions, epochs), mean tokens, and the true losses."""

    scores: dict[str, Floats]
    tokens: dict[str, float]
    losses: dict[str, float]


Draw = Callable[[np.random.Generator, int], World]


def at_the_bound(random: np.random.Generator, questions: int, rows: int = 4) -> World:
    """Return rows that lose just too much, by flips of right answers of the reference alone."""
    reference = random.random((questions, 1)) < 0.7
    scores = {"reference": reference.astype(float)}
    lost = LOSS + _OVER
    for row in range(rows):
        flips = random.random((questions, 1)) < lost / 0.7
        scores[f"row {row}"] = (reference & ~flips).astype(float)
    tokens = {name: 1.0 - 0.1 * place for place, name in enumerate(scores)}
    return World(scores, tokens, dict.fromkeys(list(scores)[1:], lost))


def mixed(random: np.random.Generator, questions: int, epochs: int = 1, rows: int = 6) -> World:
    """Return rows that lose between nothing and 8 points, in no order, each with its own cost."""
    ease = random.beta(1.2, 0.6, (questions, 1))
    reference = _answered(random, ease, epochs)
    scores, tokens, losses = {"reference": reference}, {"reference": 1.0}, {}
    mean = 1.2 / 1.8
    for row in range(rows):
        name, factor, gain = f"row {row}", random.uniform(0.88, 1.0), random.uniform(0, 0.02)
        chance = np.clip(factor * ease + gain * (1 - ease), 0, 1)
        together = random.random((questions, 1)) < random.uniform(0.3, 0.95)
        own = _answered(random, chance, epochs)
        kept = reference * (random.random(reference.shape) < factor)
        gained = (1 - reference) * (random.random(reference.shape) < gain)
        scores[name] = np.where(together, kept + gained, own)
        tokens[name] = float(random.uniform(0.3, 1.2))
        losses[name] = mean - (factor * mean + gain * (1 - mean))
    return World(scores, tokens, losses)


def graded(random: np.random.Generator, questions: int, rows: int = 4) -> World:
    """Return scores that move in both directions, with a loss a little above the bound."""
    reference = random.beta(2, 1, (questions, 1)) * 0.8 + 0.1
    scores = {"reference": reference}
    for row in range(rows):
        change = random.choice([-0.1, 0.1], p=[0.65 + _OVER, 0.35 - _OVER], size=reference.shape)
        scores[f"row {row}"] = reference + change
    tokens = {name: 1.0 - 0.1 * place for place, name in enumerate(scores)}
    return World(scores, tokens, dict.fromkeys(list(scores)[1:], LOSS + 2 * _OVER * 0.1))


def _answered(random: np.random.Generator, chance: Floats, epochs: int) -> Floats:
    return (random.random((len(chance), epochs)) < chance).astype(float)


def certified(world: World, *, split: bool) -> str | None:
    """Return the row that is certified, as `optim.reporting.certificate` does it."""
    count = len(world.scores["reference"])
    told = round(_SPLIT * count) if split else 0
    order = [name for name in world.scores if name != "reference"]
    if split:
        figures = {n: (world.tokens[n], float(s[:told].mean())) for n, s in world.scores.items()}
        order = order_for_testing(figures, "reference")
    kept = {
        name: {str(place): scores[place].tolist() for place in range(told, count)}
        for name, scores in world.scores.items()
    }
    found = run_in_order(order, kept["reference"], kept, loss=LOSS, confidence=CONFIDENCE)
    proven = [one.method for one in found if one.is_proven]
    return proven[-1] if proven else None


def line(draw: Draw, questions: int, worlds: int, *, split: bool) -> str:
    """Return the figures of a kind of world, for a number of questions."""
    false, possible, tokens = 0, 0, list[float]()
    random = np.random.default_rng(questions)
    for _ in range(worlds):
        world = draw(random, questions)
        row = certified(world, split=split)
        possible += any(world.tokens[n] < 1 for n, loss in world.losses.items() if loss <= LOSS)
        if row is not None:
            false += world.losses[row] > LOSS
            tokens.append(world.tokens[row])
    shares = [100 * value / worlds for value in (false, len(tokens), possible)]
    saved = f"{np.mean(tokens):.2f}" if tokens else "-"
    return f"{questions:11d}{shares[0]:9.2f}{shares[1]:13.1f}{shares[2]:12.1f}{saved:>8}"


def main(worlds: int = WORLDS) -> None:
    """Print a line for each kind of world and number of questions."""
    print("kind of world   questions  false %  certified %  possible %  tokens")
    kinds: list[tuple[str, Draw, bool]] = [
        ("at the bound", at_the_bound, False),
        ("mixed", mixed, True),
        ("sampled", lambda random, questions: mixed(random, questions, epochs=4), True),
        ("graded", graded, False),
    ]
    for name, draw, split in kinds:
        for questions in (150, 300, 1000):
            print(f"{name:14}{line(draw, questions, worlds, split=split)}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
