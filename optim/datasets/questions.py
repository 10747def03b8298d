"""Choose and load questions, and limit what their answers may cost: the choices of every run.

Samples are the same on every run and machine: their order comes from SHA-256 of seed and id, and
neither the file's order nor Python's version matters.
"""

from __future__ import annotations

import ast
import codecs
import csv
import gzip
import hashlib
import io
import json
import logging
import re
import shlex
import sys
import zlib
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, dataclass, field
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import pb_graph
from optim.datasets.dataset import DATASETS, INPUTS, DataSet, Question, Row, SkipRow, data_set
from optim.extras import import_or_explain
from pb_graph.budget.account import Budget
from pb_graph.budget.bill import Prices
from pb_graph.errors import InputError

_PANEL = "Questions"
_FOLDERS = re.compile(r"(^|[=:])(?:~|\.\.)?/(?!/)(?:[^/]*/)*")  # of a path, not of an address
_LINES = re.compile(r"\{.*\}\s*\n\s*\{")  # of JSON, which `datasets` writes to .json, too
FILE = "jsonl"
"""The data set of a file of one's own."""

_KINDS = ".jsonl, .ndjson, .json, .csv or .tsv, each also as .gz, or .parquet"
_NAMED = 5  # question ids that an error names
_MAX_CELL = 16 * 2**20  # characters; TravelPlanner's reference exceeds csv's own limit
_log = logging.getLogger(__name__)


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
        "Map a column; repeatable.", _PANEL, dict, flags="--field", metavar="NAME=COLUMN"
    )
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
            questions = self._read()
        else:
            questions = list(self.dataset or ())
            counts = Counter(question.id for question in questions)
            if repeated := [name for name, count in counts.items() if count > 1]:
                msg = f"duplicate questions: {', '.join(repeated[:_NAMED])}. Remove one of each."
                raise InputError(msg)
        levels = self.levels
        matching = [item for item in questions if not levels or item.level in levels]
        if not matching:
            condition = f" of level {', '.join(map(str, levels))}" if levels else ""
            msg = f"{self.data or self.label} has no question{condition}"
            raise InputError(msg)
        return matching if self.limit is None else sample(matching, self.limit, self.seed)

    def _read(self) -> list[Question]:
        """Read all questions of the data set, in the file's order."""
        source, questions = str(self.data or self.source.name), dict[str, Question]()
        known = {*INPUTS, "id", "answer", "answers", "choices"}
        if self.source.name == FILE and (others := self.fields.keys() - known):
            msg = f"no field {min(others)!r} to map; available: {', '.join(sorted(known))}"
            raise InputError(msg)
        for number, row in enumerate(self._rows(), start=1):
            try:
                question = self.source.parse(_renamed(row, self.fields))
                if question.id in questions:
                    msg = f"the id {question.id!r} is already used by an earlier row"
                    raise InputError(msg)
            except SkipRow as reason:
                _log.warning("%s: row %d is skipped: %s", source, number, reason)
            except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
                kind = "" if isinstance(error, InputError) else f"{type(error).__name__}: "
                msg = (
                    f"row {number} of {source}: {kind}{error}. "
                    "Fix the row, or map its columns: --field question=NAME."
                )
                raise InputError(msg) from error
            else:
                questions[question.id] = question
        return list(questions.values())

    def _rows(self) -> Iterable[Mapping[str, Any]]:
        """Return the rows of a file, of a generated task, or of the hub."""
        source, path, hub = self.source, self.data, self.source.hub
        if self.split is not None and (path is not None or hub is None):
            msg = "a split applies to data sets of the hub only; a local file is read as a whole"
            raise InputError(msg)
        if path is None and source.generate is not None:
            return source.generate(source.task, self.seed)
        if path is not None or source.file is not None:
            return _read_file(Path(path or str(source.file)), source)
        if hub is None:
            msg = f"{source.name} is not read from the hub: give a local file with --data PATH"
            raise InputError(msg)
        split = self.split or hub.split
        loader = import_or_explain("datasets")  # the import takes seconds
        try:
            rows: Iterable[Mapping[str, Any]] = loader.load_dataset(hub.path, hub.name, split=split)
        except Exception as error:
            msg = (
                f"cannot read split {split!r} of {hub.path} from the hub ({error}). "
                "Download it elsewhere and give the file with --data PATH, or use arithmetic."
            )
            raise InputError(msg) from error
        return rows

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


def load(name: str, path: str | Path | None = None, **choices: Any) -> list[Question]:  # noqa: ANN401
    """Load the questions of a data set.

    Args:
        name: Name of the data set.
        path: A local file, instead of the data set's own place.
        choices: Other fields of `Questions`, such as ``limit``, ``levels`` and ``seed``.
    """
    return Questions(dataset=name, data=path, **choices).load()


def sample(questions: Sequence[Question], n: int, seed: int) -> list[Question]:
    """Draw n questions without replacement, as evenly over the levels as possible.

    30 questions of 5 levels are 6 per level. If a level has too few questions, the other levels
    fill up. Samples are nested: the first 30 of a sample of 60 are the sample of 30. Questions
    without a level count as a separate level.

    Args:
        questions: Questions with unique ids.
        n: Number of questions, at least 1; all of them, in drawn order, when there are fewer.
        seed: Another seed draws others.

    Raises:
        InputError: If n is below 1.
    """
    if n < 1:
        msg = f"the number of questions to draw must be at least 1, not {n}"
        raise InputError(msg)
    levels: dict[int | None, list[Question]] = defaultdict(list)
    for question in sorted(questions, key=lambda item: _hash_order(seed, item.id)):
        levels[question.level].append(question)
    # One question of each level in turn; which level goes first is drawn for each round.
    rounds = (
        question
        for turn in range(max(map(len, levels.values()), default=0))
        for level in sorted(levels, key=lambda item: _hash_order(seed, f"{turn}:{item}"))
        for question in levels[level][turn : turn + 1]
    )
    return list(islice(rounds, n))


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
        "Prices in US $: auto, none or a JSON file.", "Output", "auto", metavar="FILE"
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


def _read_file(path: Path, dataset: DataSet) -> Iterable[Mapping[str, Any]]:
    """Return the rows of a file of one of the `_KINDS`.

    The standard library reads JSON and CSV: `datasets` gives a column one type, and so refuses a
    file in which one answer is a number and the next a text.
    """
    if not path.is_file():
        msg = f"There is no file {path}. Give the path of a file of questions with --data."
        raise InputError(msg)
    endings = [suffix.lower() for suffix in ("", *path.suffixes)]
    packed = endings.pop() if endings[-1] == ".gz" else ""
    try:
        if endings[-1] == ".parquet":
            rows: list[Any] = import_or_explain("pyarrow.parquet").read_table(path).to_pylist()
            return rows
        content = gzip.decompress(path.read_bytes()) if packed else path.read_bytes()
        is_wide = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))  # of Excel
        text = content.decode("utf-16" if is_wide else "utf-8-sig")
        reader = _read_lines if _LINES.match(text) else _READERS.get(endings[-1])
        if reader is not None:
            return list(reader(text))
        document = json.loads(text)
    except (OSError, ValueError, EOFError, RecursionError, csv.Error, zlib.error) as error:
        msg = f"cannot read {path} as a file in UTF-8 of the kinds {_KINDS}: {error}"
        raise InputError(msg) from error
    if isinstance(document, list):
        return document
    items = document if isinstance(document, dict) else {}
    if dataset.expand is not None and (expanded := dataset.expand(Row(items))) is not None:
        return expanded
    columns = [value for value in items.values() if isinstance(value, list) and value]
    listed = [rows for rows in columns if all(isinstance(row, dict) for row in rows)]
    if len(listed) == 1:
        return listed[0]
    if listed or not columns or len({*map(len, columns)}) > 1 or len(columns) < len(items):
        msg = f"{path} holds {type(document).__name__}, not a list of objects or columns"
        raise InputError(msg)
    return [dict(zip(items, row, strict=True)) for row in zip(*columns, strict=True)]


def _read_table(text: str) -> Iterator[dict[Any, Any]]:
    """Yield the rows of a CSV file, without those of empty cells. A cell may hold a list."""
    csv.field_size_limit(_MAX_CELL)
    if text[:4].lower() == "sep=":  # as Excel writes it
        text = text.partition("\n")[2]
    delimiter = max(",;\t|", key=text.partition("\n")[0].count)
    table = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter)
    table.fieldnames = [name.strip() for name in table.fieldnames or ()]
    names = Counter(filter(None, table.fieldnames))
    if doubled := [name for name, count in names.items() if count > 1]:
        msg = f"the column {doubled[0]!r} stands {names[doubled[0]]} times in the header"
        raise ValueError(msg)
    for row in table:
        cells: dict[Any, Any] = {name: _listed(row[name]) for name in names}
        if any(row.get(None, ())):
            cells[None] = row[None]
        if any(cells.values()):
            yield cells


def _listed(cell: str | None) -> str | list[str] | None:
    """Return the texts of a cell such as ["4", "four"], else the cell."""
    if cell and cell.strip().startswith("["):
        with suppress(ValueError, SyntaxError, MemoryError, RecursionError):
            items = ast.literal_eval(cell.strip())
            if isinstance(items, list) and all(isinstance(item, str) for item in items):
                return items
    return cell


def _read_lines(text: str) -> Iterator[Any]:
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            try:
                yield json.loads(line.rstrip().removesuffix(","))
            except ValueError as error:
                msg = f"line {number}: {error}"
                raise ValueError(msg) from error


_READERS = dict.fromkeys((".csv", ".tsv"), _read_table)
_READERS |= dict.fromkeys((".jsonl", ".ndjson"), _read_lines)


def _renamed(row: object, fields: Mapping[str, str]) -> dict[str, Any]:
    """Return a row with the data set's names for its columns."""
    if not isinstance(row, Mapping):
        msg = f"it is a {type(row).__name__}, not an object with columns"
        raise InputError(msg)
    if None in row:  # csv's key for cells beyond the header, such as after a comma without quotes
        msg = "has more cells than the header"
        raise InputError(msg)
    if missing := [theirs for theirs in fields.values() if theirs not in row]:
        msg = f"no column {missing[0]!r}, although the field map names it"
        raise InputError(msg)
    return dict(row) | {ours: row[theirs] for ours, theirs in fields.items()}


def _hash_order(seed: int, name: str) -> bytes:
    return hashlib.sha256(f"{seed}:{name}".encode()).digest()
