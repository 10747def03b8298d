"""Load questions by name: read rows of a file or the hub, check, filter and sample them.

Samples are the same on every run and machine: their order comes from SHA-256 of seed and id, and
neither the file's order nor Python's version matters.
"""

from __future__ import annotations

import ast
import csv
import gzip
import hashlib
import json
import logging
import zlib
from collections import Counter, defaultdict
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from optim.datasets.dataset import Row, SkipRow
from optim.extras import import_or_explain
from pb_graph.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from optim.datasets.dataset import DataSet, Question

KINDS = ".jsonl, .ndjson, .json, .csv or .tsv, each also as .gz, or .parquet"
_MAX_CELL = 16 * 2**20  # characters; TravelPlanner's reference exceeds csv's own limit
_log = logging.getLogger(__name__)


def read_questions(
    dataset: DataSet,
    path: str | Path | None,
    split: str | None,
    seed: int,
    fields: Mapping[str, str],
) -> list[Question]:
    """Read all questions of a data set, in the file's order.

    Raises:
        InputError: If the file or the hub cannot be read, a row is not a valid question, or two
            questions have the same id.
    """
    source = str(path or dataset.name)
    questions: dict[str, Question] = {}
    for number, row in enumerate(_rows(dataset, path, split, seed), start=1):
        try:
            question = dataset.parse(_renamed(row, fields))
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


def normalized(text: str) -> str:
    """Return a text with normalized case and spacing."""
    return " ".join(text.casefold().split())


def _rows(
    dataset: DataSet, path: str | Path | None, split: str | None, seed: int
) -> Iterable[Mapping[str, Any]]:
    """Return the rows of a file, of a generated task, or of the hub."""
    if split is not None and (path is not None or dataset.hub is None):
        msg = "a split applies to data sets of the hub only; a local file is read as a whole"
        raise InputError(msg)
    if path is not None:
        return _read_file(Path(path), dataset)
    if dataset.generate is not None:
        return dataset.generate(dataset.task, seed)
    if dataset.file is not None:
        return _read_file(dataset.file, dataset)
    if dataset.hub is None:
        msg = f"{dataset.name} is not read from the hub: give a local file with --data PATH"
        raise InputError(msg)
    split = split or dataset.hub.split
    library = import_or_explain("datasets")  # the import takes seconds
    try:
        rows: Iterable[Mapping[str, Any]] = library.load_dataset(
            dataset.hub.path, dataset.hub.name, split=split
        )
    except Exception as error:
        msg = (
            f"cannot read split {split!r} of {dataset.hub.path} from the hub ({error}). "
            "Download it elsewhere and give the file with --data PATH, or use arithmetic."
        )
        raise InputError(msg) from error
    return rows


def _read_file(path: Path, dataset: DataSet) -> Iterable[Mapping[str, Any]]:
    """Return the rows of a file of one of the `KINDS`.

    The standard library reads JSON and CSV: `datasets` gives a column one type, and so refuses a
    file in which one answer is a number and the next a text.
    """
    *_, ending, packed = ["", *path.suffixes, ""] if path.suffix != ".gz" else ["", *path.suffixes]
    try:
        if ending == ".parquet":
            rows: list[Any] = import_or_explain("pyarrow.parquet").read_table(path).to_pylist()
            return rows
        opened: Any = gzip.open if packed else open
        with opened(path, "rt", encoding="utf-8-sig", newline="") as file:
            if ending in {".csv", ".tsv"}:
                return list(_read_table(file, "\t" if ending == ".tsv" else None))
            if ending in {".jsonl", ".ndjson"}:
                return list(_read_lines(file))
            document = json.load(file)
    except (OSError, ValueError, EOFError, RecursionError, csv.Error, zlib.error) as error:
        msg = f"cannot read {path} as a file in UTF-8 of the kinds {KINDS}: {error}"
        raise InputError(msg) from error
    if isinstance(document, list):
        return document
    items = document if isinstance(document, dict) else {}
    if dataset.expand is not None and (expanded := dataset.expand(Row(items))) is not None:
        return expanded
    lists = [value for value in items.values() if value and isinstance(value, list)]
    lists = [value for value in lists if all(isinstance(item, dict) for item in value)]
    if len(lists) != 1:
        msg = f"{path} holds {type(document).__name__}, not a list of objects"
        raise InputError(msg)
    return lists[0]


def _read_table(file: TextIO, delimiter: str | None) -> Iterator[dict[Any, Any]]:
    """Yield the rows of a CSV file, without those of empty cells. A cell may hold a list."""
    csv.field_size_limit(_MAX_CELL)
    head = file.readline()
    file.seek(0)
    if delimiter is None:
        delimiter = ";" if ";" in head and "," not in head else ","
    table = csv.DictReader(file, delimiter=delimiter)
    names = Counter(name for name in table.fieldnames or () if name.strip())
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


def _read_lines(lines: Iterable[str]) -> Iterator[Any]:
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                yield json.loads(line)
            except ValueError as error:
                msg = f"line {number}: {error}"
                raise ValueError(msg) from error


def _renamed(row: Mapping[str, Any], fields: Mapping[str, str]) -> dict[str, Any]:
    """Return a row with the data set's names for its columns."""
    if None in row:  # csv's key for cells beyond the header, such as after a comma without quotes
        msg = "has more cells than the header"
        raise InputError(msg)
    if missing := [theirs for theirs in fields.values() if theirs not in row]:
        msg = f"no column {missing[0]!r}, although the field map names it"
        raise InputError(msg)
    return dict(row) | {ours: row[theirs] for ours, theirs in fields.items()}


def _hash_order(seed: int, name: str) -> bytes:
    return hashlib.sha256(f"{seed}:{name}".encode()).digest()
