"""Drawing questions evenly over the levels, the same ones on every run and machine.

Order comes from SHA-256 of seed and id: neither the file's order nor Python's version matters.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from itertools import islice
from typing import TYPE_CHECKING

from pb_graph.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from optim.datasets.dataset import Question

_LONGEST_EXAMPLE = 400  # characters; a planner compares kinds of problems, not their details


def sample(questions: Sequence[Question], n: int, seed: int) -> list[Question]:
    """Draw n questions without replacement, as evenly over the levels present as they allow.

    30 questions of 5 levels are 6 of each. Where a level runs out, the others make up for it.
    Samples are nested: the first 30 of a sample of 60 are the sample of 30. Questions without a
    level count as one level of their own.

    Args:
        questions: Where to draw from; ids are unique.
        n: How many, at least 1; all of them, in drawn order, when there are fewer.
        seed: Another seed draws others.

    Raises:
        InputError: n below 1.
    """
    if n < 1:
        msg = f"the number of questions to draw must be at least 1, not {n}"
        raise InputError(msg)
    levels = drawn_by_level(questions, seed)
    # One question of each level in turn; which level goes first is drawn for each round.
    rounds = (
        question
        for turn in range(max(map(len, levels.values()), default=0))
        for level in sorted(levels, key=lambda item: _lot(seed, f"{turn}:{item}"))
        for question in levels[level][turn : turn + 1]
    )
    return list(islice(rounds, n))


def level_examples(pool: Iterable[Question], evaluated: Iterable[Question], seed: int) -> str:
    """Problems of known level to compare with, one of each: lines of "Level 2: text".

    None of them is evaluated, by id or by text (case and spacing aside). They are the last that
    `sample` would draw, so they stay the same when more questions are evaluated.

    Returns:
        The lines, easiest first, long problems shortened; "" when the pool has no other levels.
    """
    held_out = list(evaluated)
    ids = {question.id for question in held_out}
    texts = {folded(question.question) for question in held_out}
    left = [
        question
        for question in pool
        if question.level is not None
        and question.id not in ids
        and folded(question.question) not in texts
    ]
    lines = []
    for level, drawn in sorted(drawn_by_level(left, seed).items(), key=lambda pair: str(pair[0])):
        text = " ".join(drawn[-1].question.split())
        if len(text) > _LONGEST_EXAMPLE:
            text = text[: _LONGEST_EXAMPLE - 2].rstrip() + " …"
        lines.append(f"Level {level}: {text}")
    return "\n".join(lines)


def drawn_by_level(questions: Collection[Question], seed: int) -> dict[int | None, list[Question]]:
    """Give the questions of each level in drawn order."""
    levels: dict[int | None, list[Question]] = defaultdict(list)
    for question in sorted(questions, key=lambda item: _lot(seed, item.id)):
        levels[question.level].append(question)
    return levels


def _lot(seed: int, name: str) -> bytes:
    return hashlib.sha256(f"{seed}:{name}".encode()).digest()


def folded(text: str) -> str:
    """A text up to case and spacing."""
    return " ".join(text.casefold().split())
