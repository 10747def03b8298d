"""Which questions a run tunes on, and which it keeps for the comparison at the end."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from optim.evaluate.identity import digest, question_identity
from pb_graph.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optim.datasets import Question

__all__ = ["Split", "in_lots", "part", "split_of"]

_FEWEST = 6  # of dev and held-out together: two to compare on, so that there is an interval
_HELD_OUT = 3  # every third question
_NAMED = 5


@dataclass(frozen=True, slots=True)
class Split:
    """Three sets without a common question.

    Attributes:
        train: What optimizers learn from.
        dev: What candidates are chosen by.
        held_out: What decides whether a choice is adopted.
    """

    train: Sequence[Question]
    dev: Sequence[Question]
    held_out: Sequence[Question]

    @property
    def identity(self) -> dict[str, str]:
        """A digest of each set, with its targets: they bear on the scores."""
        sets = {"train": self.train, "dev": self.dev, "held_out": self.held_out}
        return {name: _identity(questions) for name, questions in sets.items()}


def split_of(
    train: Sequence[Question],
    dev: Sequence[Question],
    held_out: Sequence[Question] | None,
    seed: int,
) -> Split:
    """Check the sets, and take the held-out third from dev where none is given.

    Args:
        train: May be empty; then optimizers learn from dev.
        dev: The dev questions.
        held_out: A set of one's own for the last comparison; None for a third of dev, drawn
            evenly over the levels.
        seed: Of the draw.

    Raises:
        InputError: Too few dev questions, or a question that is in two sets.
    """
    if not dev:
        msg = "the dev split is empty: give questions to choose candidates by"
        raise InputError(msg)
    if held_out is None:
        if len(dev) < _FEWEST:
            msg = (
                f"{len(dev)} dev questions are too few, as a third of them is held out for the "
                f"last comparison: give {_FEWEST} at least, better 60"
            )
            raise InputError(msg)
        held_out, dev = part(dev, 1, _HELD_OUT, seed)
    for one, other, names in (
        (train, dev, "dev and train"),
        (train, held_out, "held-out and train"),
        (dev, held_out, "held-out and dev"),
    ):
        _check_apart(one, other, names)
    return Split(train or dev, dev, held_out)


def part(
    questions: Sequence[Question], parts: int, of: int, seed: int
) -> tuple[list[Question], list[Question]]:
    """Draw ``parts`` of every ``of`` questions of each level; give them, and the rest in order.

    What levels cannot give evenly is made up for over all of them, so the size is as near to
    ``len(questions) * parts / of`` as whole questions allow.
    """
    levels: dict[int | None, list[Question]] = defaultdict(list)
    for question in in_lots(questions, seed):
        levels[question.level].append(question)
    lined_up = [item for level in sorted(levels, key=str) for item in levels[level]]
    chosen = {item.id for place, item in enumerate(lined_up) if place % of < parts}
    return (
        [item for item in questions if item.id in chosen],
        [item for item in questions if item.id not in chosen],
    )


def in_lots(questions: Sequence[Question], seed: int) -> list[Question]:
    """Put questions in an order drawn by the seed, the same on every machine."""
    return sorted(questions, key=lambda item: _lot(seed, item.id))


def _check_apart(one: Sequence[Question], other: Sequence[Question], names: str) -> None:
    texts = {_plain(question) for question in one}
    both = [question.id for question in other if _plain(question) in texts]
    if both:
        msg = (
            f"{names} share {len(both)} questions ({', '.join(both[:_NAMED])}"
            f"{', …' if len(both) > _NAMED else ''}): a score on what was learnt from proves "
            "nothing. Leave them out of one."
        )
        raise InputError(msg)


def _plain(question: Question) -> str:
    return " ".join(question.question.casefold().split())


def _identity(questions: Sequence[Question]) -> str:
    rows = [[question_identity(q), list(q.targets)] for q in questions]
    return digest(rows)


def _lot(seed: int, name: str) -> bytes:
    return hashlib.sha256(f"{seed}:{name}".encode()).digest()
