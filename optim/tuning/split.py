"""Questions as DSPy users have them, and the three sets that a tuning needs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from optim.datasets.dataset import digest
from optim.datasets.loading import drawn_by_level, normalized
from optim.evaluation.identity import question_identity
from optim.tangent import question_of
from pb_graph.errors import InputError

if TYPE_CHECKING:
    from optim.datasets import Question

_FEWEST = 6  # of dev and held-out together: two to compare on, so that there is an interval
_HELD_OUT = 3  # every third question
_NAMED = 5  # question ids that an error names


@dataclass(frozen=True, slots=True)
class Split:
    """Three sets without a common question.

    Attributes:
        train: Questions that optimizers learn from; those of dev where there are none.
        dev: Questions that candidates are chosen by.
        held_out: Questions that decide whether the choice is better than the original.
    """

    train: Sequence[Question]
    dev: Sequence[Question]
    held_out: Sequence[Question]

    @property
    def identity(self) -> dict[str, str]:
        """A digest of each set, targets included: they bear on the scores."""
        sets = {"train": self.train, "dev": self.dev, "held_out": self.held_out}
        return {
            name: digest([[question_identity(q), list(q.targets)] for q in questions])
            for name, questions in sets.items()
        }


def questions_of(given: Iterable[Any]) -> list[Question]:
    """Return questions as they are, and examples as questions.

    Raises:
        InputError: An example that is no question, or one that is there twice.
    """
    found: dict[str, Question] = {}
    for place, item in enumerate(given, start=1):
        try:
            question = question_of(item)
        except InputError as error:
            msg = f"example {place}: {error}"
            raise InputError(msg) from error
        if question.id in found:
            msg = f"example {place} is a question that is there already ({question.id})"
            raise InputError(msg)
        found[question.id] = question
    return list(found.values())


def split_of(
    train: Sequence[Question],
    dev: Sequence[Question],
    held_out: Sequence[Question] | None,
    seed: int,
) -> Split:
    """Check the sets; without held-out questions, hold out a third of dev, evenly by level.

    Args:
        train: Questions to learn from; when empty, optimizers learn from dev.
        dev: Questions to choose by.
        held_out: Questions to judge by, or None.
        seed: Of the draw.

    Raises:
        InputError: Too few dev questions, none held out, or a question that is in two sets.
    """
    if not dev or (held_out is not None and not held_out):
        empty, purpose = ("held-out", "judge the winner") if dev else ("dev", "choose candidates")
        msg = f"the {empty} split is empty: give questions to {purpose} by"
        raise InputError(msg)
    if held_out is None:
        if len(dev) < _FEWEST:
            msg = (
                f"{len(dev)} dev questions are too few, as a third of them is held out for the "
                f"last comparison: give at least {_FEWEST}, better 60"
            )
            raise InputError(msg)
        held_out, dev = split_fraction(dev, 1, _HELD_OUT, seed)
    for one, other, names in (
        (train, dev, "dev and train"),
        (train, held_out, "held-out and train"),
        (dev, held_out, "held-out and dev"),
    ):
        texts = {normalized(question.question) for question in one}
        both = [question.id for question in other if normalized(question.question) in texts]
        if both:
            named = ", ".join(both[:_NAMED]) + (", …" if len(both) > _NAMED else "")
            msg = (
                f"{names} share {len(both)} questions ({named}): a score on learnt questions "
                "proves nothing. Remove them from one set."
            )
            raise InputError(msg)
    return Split(train or dev, dev, held_out)


def split_fraction(
    questions: Sequence[Question], parts: int, of: int, seed: int
) -> tuple[list[Question], list[Question]]:
    """Draw ``parts`` of every ``of`` questions of each level; return them, and the rest.

    Levels that cannot give evenly make up for each other, so the size is as near to
    ``len(questions) * parts / of`` as whole questions allow. Both lists keep the order.
    """
    levels = drawn_by_level(questions, seed)
    lined_up = [item for level in sorted(levels, key=str) for item in levels[level]]
    chosen = {item.id for place, item in enumerate(lined_up) if place % of < parts}
    return (
        [item for item in questions if item.id in chosen],
        [item for item in questions if item.id not in chosen],
    )
