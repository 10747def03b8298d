r"""Generate questions that no model has seen with reasoning-gym: ``--dataset reasoning_gym:TASK``.

Level 1 is the easiest setting of every attribute in the task's curriculum, and level 5 the hardest.
A task without a curriculum has no levels. Answers are scored by the task's own checker.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

from optim.datasets.dataset import Question, Row, dataset
from optim.extras import import_or_explain
from pb_graph.budget.allocation import LEVELS
from pb_graph.errors import InputError, did_you_mean

_log = logging.getLogger(__name__)
_SIZE = 100  # questions of each level


def _generate(task: str, seed: int) -> Iterator[dict[str, Any]]:
    """Yield the rows of a task; raise `InputError` if reasoning-gym has no such task."""
    factory = import_or_explain("reasoning_gym.factory")
    if task not in factory.DATASETS:
        msg = f"reasoning-gym has no task {task!r}{did_you_mean(task, factory.DATASETS)}"
        raise InputError(msg)
    for level in LEVELS if task in factory.CURRICULA else (None,):
        try:
            made = make_task(task, level, seed)
            questions = [made[index] for index in range(_SIZE)]
        except (AssertionError, ValueError) as error:  # some curricula go beyond their task
            _log.warning("reasoning_gym:%s: level %s is left out: %s", task, level, error)
            continue
        for index, each in enumerate(questions):
            place = {"task": task, "level": level, "seed": seed, "index": index}
            yield place | {name: each[name] for name in ("question", "answer")}


def make_task(task: str, level: int | None, seed: int) -> Any:  # noqa: ANN401 -- ProceduralDataset
    """Make reasoning-gym's data set of a task, at a level from 1 to 5 or with default settings."""
    factory = import_or_explain("reasoning_gym.factory")
    if level is None:
        return factory.create_dataset(task, seed=seed, size=_SIZE)
    curriculum = factory.create_curriculum(task)
    steps = max(len(attribute.levels) for attribute in curriculum.attributes.values()) - 1
    curriculum.set_global_level(round((level - 1) / (len(LEVELS) - 1) * steps))
    config = curriculum.generate_configuration({"seed": seed, "size": _SIZE})
    return factory.DATASETS[task][0](config=config)


@dataset(
    "reasoning_gym",
    domain="reasoning",
    instruction="Solve this problem.",
    answer_format=(
        r"Close with the answer alone, in the form that the problem asks for, inside the braces of "
        r"one \boxed command."
    ),
    scorer="reasoning_gym",
    generate=_generate,
)
def parse(row: Row) -> Question:
    """Read one row of a task. The metadata says how the scorer makes the question again."""
    place = {name: row[name] for name in ("task", "level", "seed", "index")}
    return Question(
        id="-".join(str(value) for value in place.values() if value is not None),
        question=row["question"],
        level=row["level"],
        targets=() if row["answer"] is None else (str(row["answer"]),),
        metadata=place,
    )
