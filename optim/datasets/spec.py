"""What one data set is: where it comes from, how a row is read, what the solver is told."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from optim.datasets.question import Question

__all__ = ["DataSet", "Generator", "HubSource", "Row"]

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class HubSource:
    """A data set on the Hugging Face hub.

    Attributes:
        path: Repository, as `datasets.load_dataset` takes it.
        name: Configuration, or None for the only one.
        split: The split that is evaluated unless another is asked for.
    """

    path: str
    name: str | None
    split: str


class Generator(Protocol):
    """Makes questions where nothing is read."""

    def __call__(
        self, count: int, *, seed: int, levels: Iterable[int], split: str
    ) -> list[Question]:
        """Make that many questions, as evenly over the levels as possible."""


@dataclass(frozen=True, slots=True)
class DataSet:
    """How to come by the questions of one data set, and who scores the answers.

    Attributes:
        name: The name that `load` takes.
        domain: As in `Question.domain`.
        instruction: As in `Question.instruction`.
        answer_format: As in `Question.answer_format`.
        scorer: The scorer's name: "math", "rouge" or "travelplanner".
        columns: The columns that `parse` looks at; a field map renames others to them.
        parse: Reads one row into a question; raises InputError with the reason when it cannot.
        hub: Where it lives on the hub, or None when only a local file will do.
        expand: Turns a JSON object that holds many items into rows, or None.
        generate: Makes the questions itself, or None.
    """

    name: str
    domain: str
    instruction: str
    answer_format: str
    scorer: str
    columns: tuple[str, ...]
    parse: Callable[[Row], Question]
    hub: HubSource | None = None
    expand: Callable[[Row], Iterable[Row]] | None = None
    generate: Generator | None = None
