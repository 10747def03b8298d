r"""Generate questions that no model has seen with reasoning-gym: ``--dataset reasoning_gym:TASK``.

The package has more than 100 tasks, such as ``leg_counting`` or ``countdown``. The level is that
of the task's curriculum: 1 is the easiest setting of every attribute, 5 the hardest. A task
without a curriculum has no levels. Answers are scored by the task's own checker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from optim.datasets.dataset import LEVELS, Question, Row, dataset
from optim.extras import import_or_explain
from pb_graph.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterator

SIZE = 100
"""Questions of each level."""


def generate(task: str, seed: int) -> Iterator[dict[str, Any]]:
    """Make the rows of a task, `SIZE` of each level.

    Args:
        task: A name of reasoning-gym's tasks.
        seed: Seed of the questions.

    Raises:
        InputError: There is no task with this name.
        MissingPackageError: reasoning-gym is not installed.
    """
    factory = import_or_explain("reasoning_gym.factory")
    if task not in factory.DATASETS:
        msg = f"reasoning-gym has no task {task!r}{did_you_mean(task, factory.DATASETS)}"
        raise InputError(msg)
    for level in LEVELS if task in factory.CURRICULA else (None,):
        made = task_at(task, level, seed)
        for index in range(SIZE):
            entry = made[index]
            place = {"task": task, "level": level, "seed": seed, "index": index}
            yield place | {"question": entry["question"], "answer": entry["answer"]}


def task_at(task: str, level: int | None, seed: int) -> Any:  # noqa: ANN401 -- ProceduralDataset
    """Make reasoning-gym's data set of a task at one level.

    Args:
        task: A name of reasoning-gym's tasks.
        level: From 1 to 5, or None for the task's default settings.
        seed: Seed of the questions.
    """
    factory = import_or_explain("reasoning_gym.factory")
    chosen = {"seed": seed, "size": SIZE}
    if level is None:
        return factory.create_dataset(task, **chosen)
    curriculum = factory.create_curriculum(task)
    steps = max(len(attribute.levels) for attribute in curriculum.attributes.values()) - 1
    curriculum.set_global_level(round((level - 1) / (len(LEVELS) - 1) * steps))
    made = curriculum.generate_configuration(chosen)
    return factory.DATASETS[task][0](config=made)


@dataset(
    "reasoning_gym",
    domain="reasoning",
    instruction="Solve this problem.",
    answer_format=(
        r"Close with the answer alone, in the form that the problem asks for, inside the braces of "
        r"one \boxed command."
    ),
    scorer="reasoning_gym",
    generate=generate,
)
def parse(row: Row) -> Question:
    """Read one row of `generate`; the scorer makes its entry again."""
    names = ("task", "level", "seed", "index")
    place = {name: row[name] for name in names}
    return Question(
        id="-".join(str(value) for value in place.values() if value is not None),
        question=row["question"],
        level=row["level"],
        targets=() if row["answer"] is None else (str(row["answer"]),),
        metadata=place,
    )
