"""Define questions, rows and data sets, and the registry of data sets."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from optim.extras import named_object
from pb_graph.budget.allocation import LEVELS
from pb_graph.errors import InputError, did_you_mean

if TYPE_CHECKING:
    import dspy

INPUTS = ("question", "reference", "instruction", "answer_format", "domain", "level")
"""The fields of a question that the graph is given."""

EXAMPLE = "dspy.Example"
"""The key in a question's metadata of the example that the question was made of."""

_LEVEL = re.compile(r"(?:level\s*)?([1-5])(?:\.0+)?", re.IGNORECASE)


class SkipRow(InputError):  # noqa: N818 -- an order to `load`
    """Raised by a reader for an unanswerable item; `load` leaves the item out."""


@dataclass(frozen=True, slots=True)
class Question:
    r"""One item to solve and to score.

    Attributes:
        id: Unique within its data set, and the same on every run.
        question: The text of the question.
        level: Difficulty from 1 (easiest) to 5, or None where the data set has no label.
        targets: Accepted answers. Empty where the scorer checks constraints instead.
        reference: Material that the solver needs besides the question, or None.
        instruction: The kind of task, for the solver.
        answer_format: The form of the answer, for the solver.
        domain: The field, for the planner: "mathematics".
        metadata: The data set's own fields, as plain JSON. They may hold the solution, so none of
            them belongs into a prompt.

    Raises:
        InputError: If the id or the question is empty, or the level is not from 1 to 5.
    """

    id: str
    question: str
    level: int | None = None
    targets: tuple[str, ...] = ()
    reference: str | None = None
    instruction: str = ""
    answer_format: str = ""
    domain: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        if not self.id.strip() or not self.question.strip():
            msg = "a question needs an id and a text"
            raise InputError(msg)
        if self.level is not None and self.level not in LEVELS:
            msg = f"level {self.level!r} is outside 1 to 5"
            raise InputError(msg)

    def inputs(self) -> dict[str, Any]:
        """Return the inputs of the graph that are set, by name."""
        return {name: value for name in INPUTS if (value := getattr(self, name))}

    @property
    def identity(self) -> str:
        """A digest of all fields that an answer depends on: all except targets and metadata."""
        fields = asdict(self)
        del fields["metadata"], fields["targets"]
        return digest(fields)


class Row(dict[str, Any]):
    """One row of a data set, with readers for its columns that raise errors for wrong values."""

    def text(self, column: str) -> str:
        """Return a column that must hold some text; a number is taken as its digits.

        Raises:
            InputError: If the column is absent or empty, or holds no text.
        """
        value = self.optional_text(column)
        if value is None:
            missing = f"no {column!r} (columns: {', '.join(self)})"
            raise InputError(f"{column!r} is empty" if column in self else missing)
        return value

    def optional_text(self, column: str) -> str | None:
        """Return a column's text without outer white space, or None if it is absent or empty.

        Raises:
            InputError: If the column holds no text and no number.
        """
        value = self.get(column)
        if value is not None and not isinstance(value, str | int | float):
            msg = f"{column!r} holds {type(value).__name__}, not text"
            raise InputError(msg)
        is_missing = value is None or value != value  # noqa: PLR0124 -- NaN, as pandas writes it
        return None if is_missing else str(value).strip() or None

    def targets(self, *columns: str) -> tuple[str, ...]:
        """Return the accepted answers from the first of these columns that is present.

        A column may hold one answer or a list of them; "answers" also the list as JSON text. Empty
        answers and duplicates are removed.

        Raises:
            InputError: If all columns are absent (the error names the last), or one holds no text.
        """
        filled = (name for name in columns if self.get(name) not in (None, "", []))
        column = next(filled, columns[-1])
        value = self.get(column)
        if column == "answers" and isinstance(value, str) and value.lstrip().startswith("["):
            with suppress(ValueError):
                value = json.loads(value)
        if not isinstance(value, list):
            return (self.text(column),)
        texts = [Row({column: item}).optional_text(column) for item in value]
        return tuple(dict.fromkeys(filter(None, texts))) or (Row({column: ""}).text(column),)

    def level(self) -> int | None:
        """Return the column ``level`` as 1 to 5, or None without one; "Level 3" is read as 3.

        Raises:
            InputError: If the level is not from 1 to 5.
        """
        value = self.optional_text("level")
        match = None if value is None else _LEVEL.fullmatch(value)
        if value is not None and match is None:
            msg = f"level {value!r} is outside 1 to 5"
            raise InputError(msg)
        return int(match[1]) if match else None


Reader = Callable[[Row], Question]
Parser = Callable[[Mapping[str, Any]], Question]


class HubSource(NamedTuple):
    """A data set on the Hugging Face hub."""

    path: str  # as `datasets.load_dataset` takes it
    name: str | None  # of the configuration, None for the only one
    split: str  # that is evaluated by default


@dataclass(frozen=True, slots=True)
class DataSet:
    """The source of one data set's questions, and the scorer of its answers.

    Without hub, file and generate, the user gives a local file.
    """

    name: str  # that `load` takes
    domain: str  # default of `Question.domain`, as the next two are of theirs
    instruction: str
    answer_format: str
    scorer: str  # name of the default scorer
    read: Reader  # of a row; raises InputError with the reason when it cannot
    hub: HubSource | None = None
    file: Path | None = None  # of this package
    # Turns a JSON object that holds many items into rows, or into None.
    expand: Callable[[Row], Iterable[Mapping[str, Any]] | None] | None = None
    # Makes the rows of a task from its name and a seed, for data sets that are named NAME:TASK.
    generate: Callable[[str, int], Iterable[Mapping[str, Any]]] | None = None
    task: str = ""  # of a generated data set

    def parse(self, row: Mapping[str, Any]) -> Question:
        """Read one row into a question, with the data set's defaults.

        Raises:
            InputError: If the row is not a valid question; the message says why.
        """
        question = self.read(Row(row))
        return replace(
            question,
            domain=question.domain or self.domain,
            instruction=question.instruction or self.instruction,
            answer_format=question.answer_format or self.answer_format,
        )


DATASETS: dict[str, DataSet] = {}
"""The data sets by name: those of this folder, and all that `dataset` registers."""


def dataset(name: str, **about: Any) -> Callable[[Reader], Parser]:  # noqa: ANN401 - see below
    """Register a data set by the function that reads one of its rows.

    The keywords are the other fields of `DataSet`. The decorated function reads a row into a whole
    question.
    """

    def register(read: Reader) -> Parser:
        DATASETS[name] = DataSet(name, read=read, **about)
        return DATASETS[name].parse

    return register


def data_set(name: str) -> DataSet:
    """Return the data set with this name.

    ``NAME:TASK`` names a task of a generated data set, ``file.py:NAME`` and ``module:NAME`` a
    function under `dataset` in a file or module of your own.

    Raises:
        InputError: If there is no data set with this name, or the task is missing.
    """
    base, _, task = name.partition(":")
    entry = DATASETS.get(base)
    if entry is None and (own := named_object(name)) is not None:
        entry = getattr(own, "__self__", own)  # `dataset` returns the entry's `parse`
        if isinstance(entry, DataSet):
            return entry
        msg = f"{name} is no data set: put @dataset(NAME, ...) above its function"
        raise InputError(msg)
    if entry is None or (entry.generate is None and task):
        msg = f"no data set named {name!r}; available: {', '.join(DATASETS)}"
        raise InputError(msg + did_you_mean(name, DATASETS))
    if entry.generate is not None and not task:
        msg = f"{name} generates questions of many tasks. Name a task, such as {name}:TASK."
        raise InputError(msg)
    return replace(entry, name=name, task=task) if task else entry


def question_of(given: Any) -> Question:  # noqa: ANN401 -- a Question or a dspy.Example
    """Return a question, or make one of an example with ``question`` and ``answer(s)``.

    The other columns of a question (id, level, reference, …) are taken where the example has them.

    Raises:
        InputError: If the question or the answer is missing, or the level is not from 1 to 5.
    """
    if isinstance(given, Question):
        return given
    if not hasattr(given, "toDict"):
        msg = f"it is of type {type(given).__name__}, not a dspy.Example or a Question"
        raise InputError(msg)
    question = DATASETS["jsonl"].read(Row(given.toDict()))  # without defaults of a file
    return replace(question, metadata={**question.metadata, EXAMPLE: given})


def example_of(question: Question) -> dspy.Example:
    """Return a question as an example of plain text, so that prompts can show it."""
    import dspy  # noqa: PLC0415 -- takes a second

    fields = {"question": question.question, "id": question.identity}
    answer = " or ".join(question.targets)
    return dspy.Example(**fields, answer=answer).with_inputs("question", "id")


def content_id(prefix: str, content: str) -> str:
    """Return an id that depends on the content only, not on the file or the order."""
    return f"{prefix}-{hashlib.sha256(content.encode()).hexdigest()[:12]}"


def digest(value: object) -> str:
    """Return 32 hexadecimal digits for a JSON value, the same on every machine and key order."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]
