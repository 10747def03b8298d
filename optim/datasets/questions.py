"""Choose questions, and limit what their answers may cost: the choices of every run."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import MISSING, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pb_graph
from optim.datasets.dataset import DATASETS, DataSet, Question, data_set
from optim.datasets.loading import read_questions, sample
from pb_graph.budget.account import Budget
from pb_graph.errors import InputError

if TYPE_CHECKING:
    from pb_graph.budget.rates import Prices

_PANEL = "Questions"
_FOLDERS = re.compile(r"(^|[=:])(?:~|\.\.)?/(?!/)(?:[^/]*/)*")  # of a path, not of an address
FILE = "jsonl"
"""The data set of a file of one's own."""


def option(text: str, panel: str | None = None, default: Any = MISSING, **further: Any) -> Any:  # noqa: ANN401
    """Return a field with the help of its option; `optim.cli.options` reads the metadata.

    Args:
        text: Help of the option.
        panel: Panel of the help that lists the option. None for the first one.
        default: Default of the field; `dict` for an empty mapping.
        further: Further metadata, as `optim.cli.options` describes them.
    """
    metadata = {"help": text, "panel": panel, **further}
    if default is dict:
        return field(default_factory=dict, metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, kw_only=True)
class Questions:
    """The questions of an evaluation or a tuning.

    ::

        Questions(dataset="math500", limit=50)
        Questions(data="mine.jsonl", fields={"question": "prompt"})
        Questions(dataset=[Question("a", "What is 1 + 1?", targets=("2",))])

    Attributes:
        dataset: A name of `optim.datasets.DATASETS`; ``reasoning_gym:TASK`` for a task of
            reasoning-gym; ``file.py:name`` or ``module:name`` for a data set of your own; or a list
            of questions. None with ``data`` for a file of questions and answers.
        data: A local file, instead of the data set's own place.
        fields: The file's name for a column of the data set: ``{"question": "prompt"}`` reads
            questions from the column ``prompt``.
        split: Another split of the hub's than the default one.
        levels: Only these levels.
        limit: Number of questions, drawn evenly over the levels (`optim.datasets.sample`). None for
            all of them in the file's order.
        seed: Seed of the draw and of generated questions.

    Raises:
        InputError: If there is neither a data set nor a file.
    """

    dataset: str | Sequence[Question] | None = option(
        "The questions. FILE.py:NAME of your own, or:", _PANEL, None, names=DATASETS
    )
    data: str | Path | None = option("A .jsonl, .json, .csv, .tsv or .parquet file.", _PANEL, None)
    fields: Mapping[str, str] = option(
        "Map a column; repeatable.", _PANEL, dict, flags="--field", metavar="NAME=COLUMN",
        reads=list[str] | None,
    )  # fmt: skip
    split: str | None = option("A split of the hub's data set.", _PANEL, None)
    levels: Collection[int] | None = option("Only these levels, such as 1,2.", _PANEL, None)
    limit: int | None = option("Number of questions, evenly over levels.", _PANEL, None)
    seed: int = option("Seed of every random choice.", _PANEL, 0)

    def __post_init__(self) -> None:
        if self.dataset is None:
            if self.data is None:
                msg = "give the questions: --dataset NAME, such as arithmetic, or --data FILE"
                raise InputError(msg)
            object.__setattr__(self, "dataset", FILE)

    @property
    def source(self) -> DataSet:
        """The data set; for a list of questions that of a file.

        Raises:
            InputError: If there is no such data set.
        """
        return data_set(self.dataset if isinstance(self.dataset, str) else FILE)

    @property
    def label(self) -> str:
        """The name of the questions in tables and logs."""
        return self.source.name if isinstance(self.dataset, str) else "list"

    def load(self) -> list[Question]:
        """Return the chosen questions.

        Raises:
            InputError: If the file or the hub cannot be read, a row is not a valid question, two
                questions have the same id, or no question is left.
        """
        if isinstance(self.dataset, str):
            questions = read_questions(self.source, self.data, self.split, self.seed, self.fields)
        else:
            questions = list(self.dataset or ())
            ids = {question.id for question in questions}
            if len(ids) < len(questions):
                msg = f"{len(questions)} questions have {len(ids)} ids: give each its own"
                raise InputError(msg)
        levels = self.levels
        matching = [item for item in questions if not levels or item.level in levels]
        if not matching:
            condition = f" of level {', '.join(map(str, levels))}" if levels else ""
            msg = f"{self.data or self.label} has no question{condition}"
            raise InputError(msg)
        return matching if self.limit is None else sample(matching, self.limit, self.seed)

    def origin(self) -> dict[str, Any]:
        """Return where a run and its questions are from; of paths only the last part."""
        hub = None if self.data else self.source.hub
        return {
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "version": pb_graph.__version__,
            "command": shlex.join(_FOLDERS.sub(r"\1", argument) for argument in sys.argv),
            "data": Path(self.data).name if self.data else hub.path if hub else None,
            "split": self.split or (hub.split if hub else None),
            "seed": self.seed,
        }


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The most that an evaluation or a tuning may cost, by an account of `pb_graph.Budget`.

    What earlier runs in the same folder spent counts. Answers that have begun are finished.

    Attributes:
        limit_tokens: Completion tokens.
        limit_usd: US dollars, by the prices.
        prices: ``auto`` for those of `genai-prices`, or US dollars per million tokens by model, as
            for `Budget`. None for none.

    Raises:
        InputError: If both limits are given, or one is not above 0.
    """

    limit_tokens: int | None = option(
        "Start no answer after N completion tokens.", "Limits", None, metavar="N"
    )
    limit_usd: float | None = option("Start no answer after N US $.", "Limits", None, metavar="N")
    prices: Literal["auto"] | Prices | None = option(
        "Prices in US $: auto, none or a JSON file.", "Output", "auto", metavar="FILE", reads=str
    )

    def __post_init__(self) -> None:
        self.account()

    def account(self) -> Budget | None:
        """Return a new account of the limit, or None without one."""
        if self.limit_usd is None:
            return None if self.limit_tokens is None else Budget(self.limit_tokens)
        if self.limit_tokens is not None:
            msg = "give one limit: --limit-tokens or --limit-usd"
            raise InputError(msg)
        return Budget(usd=self.limit_usd, prices=self.prices or "auto")


def load(  # noqa: PLR0913 - each selects questions in another way, all with defaults
    name: str,
    *,
    path: str | Path | None = None,
    split: str | None = None,
    limit: int | None = None,
    seed: int = 0,
    levels: Collection[int] | None = None,
    fields: Mapping[str, str] | None = None,
) -> list[Question]:
    """Load the questions of a data set, as `Questions` chooses them.

    Args:
        name: Name of the data set.
        path: `Questions.data`; the other parameters are those of the same names.
        split: Split of the hub's data set.
        limit: Number of questions.
        seed: Seed of the draw.
        levels: Only these levels.
        fields: The file's names for columns.
    """
    return Questions(
        dataset=name, data=path, split=split, limit=limit, seed=seed, levels=levels,
        fields=fields or {},
    ).load()  # fmt: skip
