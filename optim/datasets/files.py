"""Reading a data set row by row: from a local file, or from the Hugging Face hub.

Each row comes with its line in a .jsonl or .csv file, else with its position from 1. In the place
of a row that cannot be read stands an InputError, which says why.
"""

from __future__ import annotations

import csv
import json
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING

from pb_graph.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from optim.datasets.dataset import HubSource, Row

    Rows = Iterator[tuple[int, object]]

_BOM = b"\xef\xbb\xbf"
_LONGEST_CELL = 16 * 2**20  # characters; TravelPlanner's reference exceeds csv's own limit


def read_rows(path: Path, expand: Callable[[Row], Iterable[Row]] | None = None) -> Rows:
    """Read a .jsonl, .ndjson, .json, .csv or .parquet file.

    Args:
        path: The file.
        expand: Turns a .json file's single object into rows; without it such a file is refused.

    Raises:
        InputError: No such file, another ending, or a file that cannot be read as a whole.
    """
    if not path.is_file():
        msg = f"there is no file {path}"
        raise InputError(msg)
    readers: dict[str, Callable[[], Rows]] = {
        ".jsonl": lambda: _jsonl(path),
        ".ndjson": lambda: _jsonl(path),
        ".json": lambda: _json(path, expand),
        ".csv": lambda: _csv(path),
        ".parquet": lambda: _parquet(path),
    }
    reader = readers.get(path.suffix.lower())
    if reader is None:
        msg = f"{path.name}: cannot read {path.suffix or 'a file without ending'}; convert it to "
        raise InputError(msg + ", ".join(readers))
    return reader()


def _jsonl(path: Path) -> Rows:
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            content = line.removeprefix(_BOM).strip() if number == 1 else line.strip()
            if not content:
                continue
            try:
                row = json.loads(content.decode())
            except (ValueError, RecursionError) as error:
                row = InputError(f"invalid JSON: {error}")
            yield number, row


def _json(path: Path, expand: Callable[[Row], Iterable[Row]] | None) -> Rows:
    try:
        document = json.loads(path.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:
        msg = f"{path.name} is not valid JSON: {error}; a file with one object a line is .jsonl"
        raise InputError(msg) from error
    if isinstance(document, dict) and expand is not None:
        document = list(expand(document))
    if not isinstance(document, list):
        msg = f"{path.name} holds {type(document).__name__}, not a list of objects"
        raise InputError(msg)
    yield from enumerate(document, start=1)


def _csv(path: Path) -> Rows:
    with path.open(encoding="utf-8-sig", newline="") as lines, _wide_cells():
        reader = csv.DictReader(lines)
        try:
            start = reader.line_num + 1 if reader.fieldnames else 1
            for row in reader:
                # None is DictReader's key for cells beyond the header.
                too_wide = InputError("has more cells than the header")
                yield start, too_wide if None in row else row
                start = reader.line_num + 1
        except (csv.Error, UnicodeDecodeError) as error:
            msg = f"{path.name} is not valid CSV in UTF-8, near line {reader.line_num}: {error}"
            raise InputError(msg) from error


@contextmanager
def _wide_cells() -> Iterator[None]:
    before = csv.field_size_limit(_LONGEST_CELL)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _parquet(path: Path) -> Rows:
    try:
        parquet = import_module("pyarrow.parquet")
    except ImportError as error:
        msg = "reading .parquet needs pyarrow: pip install 'plan-and-budget[eval]'"
        raise InputError(msg) from error
    try:
        rows = parquet.read_table(path).to_pylist()
    except (OSError, ValueError) as error:  # pyarrow's own errors are ValueErrors
        msg = f"{path.name} is not a readable Parquet file: {error}"
        raise InputError(msg) from error
    yield from enumerate(rows, start=1)


def hub_rows(source: HubSource, split: str | None = None) -> Rows:
    """Read a split; `datasets` keeps a local copy, so that a second run needs no network.

    Raises:
        InputError: `datasets` is not installed, or the hub, the data set or the split is out of
            reach; the error names the way around, a local file.
    """
    chosen = split or source.split
    # Imported only here: it takes seconds, and a local file does without.
    try:
        library = import_module("datasets")
    except ImportError as error:
        msg = (
            f"reading {source.path} from the hub needs the datasets library: pip install "
            "'plan-and-budget[eval]', or give a local copy with --data PATH"
        )
        raise InputError(msg) from error
    try:
        rows = library.load_dataset(source.path, source.name, split=chosen)
    except Exception as error:
        msg = (
            f"could not read split {chosen!r} of {source.path} from the hub ({error}); download it "
            "elsewhere and give the file with --data PATH, or run offline with arithmetic"
        )
        raise InputError(msg) from error
    return enumerate(rows, start=1)
