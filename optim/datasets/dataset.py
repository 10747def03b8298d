"""What questions and data sets are, the data sets by name, reading a row's columns, and ids."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from pb_graph.errors import InputError, did_you_mean

LEVELS = (1, 2, 3, 4, 5)
Row = Mapping[str, Any]

_LEVEL = re.compile(r"(?:level\s*)?([0-9]+)(?:\.0+)?", re.IGNORECASE)
_ID_DIGITS = 12


class LeftOutError(InputError):
    """A row is an item of the data set, but one that nobody can answer: `load` leaves it out."""


@dataclass(frozen=True, slots=True)
class Question:
    r"""One item to solve and to score.

    Attributes:
        id: Unique within its data set, and the same on every run.
        question: What is asked.
        level: Difficulty from 1 (easiest) to 5, or None where the data set has no label.
        targets: Accepted answers; empty where the scorer checks constraints instead.
        reference: Material that the solver needs beside the question, or None.
        instruction: What kind of task it is, for the solver.
        answer_format: How the solver must give its answer.
        domain: The field, for the planner: "mathematics".
        metadata: The data set's own fields, as plain JSON. May hold the solution, so nothing of
            it belongs into a prompt.

    Raises:
        InputError: An empty id or question, or a level outside 1 to 5.
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


Reader = Callable[[Row], Question]


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


@dataclass(frozen=True, slots=True)
class DataSet:
    """How to come by the questions of one data set, and who scores the answers.

    Attributes:
        name: The name that `load` takes.
        domain: As in `Question.domain`, for questions that do not say; likewise the next two.
        instruction: As in `Question.instruction`.
        answer_format: As in `Question.answer_format`.
        scorer: Name of the usual scorer, one of `optim.scorers.NAMES`.
        columns: The columns that are looked at; a field map renames others to them.
        read: Reads one row into a question; raises InputError with the reason when it cannot.
        hub: Where it lives on the hub, or None when only a local file will do.
        expand: Turns a JSON object that holds many items into rows, or None.
        generate: Makes questions where nothing is read, as evenly over the levels as possible:
            ``generate(count, *, seed, levels, split)``; or None.
    """

    name: str
    domain: str
    instruction: str
    answer_format: str
    scorer: str
    columns: tuple[str, ...]
    read: Reader
    hub: HubSource | None = None
    expand: Callable[[Row], Iterable[Row]] | None = None
    generate: Callable[..., list[Question]] | None = None

    def parse(self, row: Row) -> Question:
        """Read one row into a whole question.

        Raises:
            InputError: It is none; the message says why.
        """
        question = self.read(row)
        return replace(
            question,
            domain=question.domain or self.domain,
            instruction=question.instruction or self.instruction,
            answer_format=question.answer_format or self.answer_format,
        )


_DATASETS: dict[str, DataSet] = {}
DATASETS: Mapping[str, DataSet] = MappingProxyType(_DATASETS)
"""The data sets by name: those of this folder, and whatever else `dataset` has decorated."""


def dataset(name: str, **about: Any) -> Callable[[Reader], Reader]:  # noqa: ANN401 - see below
    """Make a data set of the function that reads one of its rows.

    Args:
        name: The name that `load` takes.
        about: The other fields of `DataSet`, as keywords.

    Returns:
        A decorator; what it gives back reads a row into a whole question (`DataSet.parse`).

    Raises:
        ValueError: There is a data set of that name already.
    """

    def register(read: Reader) -> Reader:
        if name in _DATASETS:
            msg = f"there is a data set named {name!r} already"
            raise ValueError(msg)
        _DATASETS[name] = DataSet(name, read=read, **about)
        return _DATASETS[name].parse

    return register


def data_set(name: str) -> DataSet:
    """Give the data set of that name.

    Raises:
        InputError: There is none; the error names those there are.
    """
    if name not in DATASETS:
        msg = f"no data set named {name!r}; there are: {', '.join(DATASETS)}"
        raise InputError(msg + did_you_mean(name, DATASETS))
    return DATASETS[name]


def text(row: Row, column: str) -> str:
    """Give a column that must hold some text; a number is taken as its digits."""
    value = optional_text(row, column)
    if value is None:
        present = ", ".join(map(str, row)) or "none"
        msg = f"no {column!r} (columns: {present})" if column not in row else f"{column!r} is empty"
        raise InputError(msg)
    return value


def optional_text(row: Row, column: str) -> str | None:
    """Give a column's text without outer white space, or None when it is absent or empty."""
    value = row.get(column)
    if _is_missing(value):
        return None
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        msg = f"{column!r} holds {type(value).__name__}, not text"
        raise InputError(msg)
    return str(value).strip() or None


def answers(row: Row, columns: Sequence[str]) -> tuple[str, ...]:
    """Give the accepted answers from the first of these columns that is present.

    A column may hold one answer or a list of them; the same answer twice counts once. Where all
    are absent, the error names the last.
    """
    column = next((name for name in columns if not _is_missing(row.get(name))), columns[-1])
    value = listed(row.get(column)) if column == "answers" else row.get(column)
    if not isinstance(value, (list, tuple)):
        return (text(row, column),)
    found = tuple(dict.fromkeys(text({column: item}, column) for item in value))
    if not found:
        msg = f"{column!r} is an empty list"
        raise InputError(msg)
    return found


def listed(value: object) -> object:
    """A list that a table's cell holds as JSON, since it has no other way; else what there is."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value


def level(row: Row, *, required: bool = False) -> int | None:
    """Give a difficulty from 1 to 5; "Level 3" and "3" are read as 3."""
    value = text(row, "level") if required else optional_text(row, "level")
    if value is None:
        return None
    match = _LEVEL.fullmatch(value)
    number = int(match[1]) if match and len(match[1]) == 1 else None
    if number not in LEVELS:
        msg = f"level {value!r} is outside 1 to 5"
        raise InputError(msg)
    return number


def content_id(prefix: str, content: str) -> str:
    """Give an id to an item that comes without one: the same text has it in any file and order."""
    return f"{prefix}-{hashlib.sha256(content.encode()).hexdigest()[:_ID_DIGITS]}"


def digest(value: object) -> str:
    """Give 32 hexadecimal digits for a JSON value, on every machine; key order does not matter."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _is_missing(value: Any) -> bool:  # noqa: ANN401 - whatever a file holds
    # NaN is what tables hold for an empty cell, and the only value unlike itself.
    return value is None or value == "" or (isinstance(value, float) and value != value)  # noqa: PLR0124
