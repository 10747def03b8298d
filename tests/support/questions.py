"""Made-up questions for tests, in any number and of every level."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from optim.datasets import Question
from optim.datasets.arithmetic import parse
from optim.datasets.dataset import LEVELS


def generate(
    count: int, *, seed: int = 0, levels: Sequence[int] = LEVELS, split: str = "test"
) -> list[Question]:
    """Make questions, the levels in turn. The first 30 of 60 are the 30 of another call."""
    made = []
    for index in range(count):
        level, place = levels[index % len(levels)], index // len(levels)
        key = f"{split}-{seed}-{level}-{place}"
        a, b = hashlib.sha256(key.encode()).digest()[:2]
        question = f"In draw {key}, Ada has {a} beads. She finds {b} more. How many are there now?"
        row = {"id": f"arithmetic-{key}", "question": question, "answer": a + b, "level": level}
        made.append(parse(row))
    return made
