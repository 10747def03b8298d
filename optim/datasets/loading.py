"""From a name to questions: read rows of a file or the hub, check them, filter and sample.

Samples are the same on every run and machine: their order comes from SHA-256 of seed and id, and
neither the file's order nor Python's version matters.
"""

from __future__ import annotations

import csv
import hashlib
import json
import logging
from collections import defaultdict
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optim.datasets.dataset import LEVELS, Row, SkipRow, data_set
from optim.extras import import_or_explain
from pb_graph.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from optim.datasets.dataset import DataSet, Question

    Rows = Iterable[tuple[int, object]]

_LONGEST_EXAMPLE = 400  # characters; a planner compares kinds of problems, not their details
_LONGEST_CELL = 16 * 2**20  # characters; TravelPlanner's reference exceeds csv's own limit
_ENDINGS = (".jsonl", ".ndjson", ".json", ".csv", ".parquet")
_log = logging.getLogger(__name__)


class BadRowError(InputError):
    """A row is no question.

    Attributes:
        line: Line of the file (.jsonl, .csv), else position from 1.
        reason: The reason why the row is no question.
    """

    def __init__(self, source: str, line: int, reason: str) -> None:
        super().__init__(
            f"line {line} of {source}: {reason}. Fix the rows, map columns with --field "
            "NAME=COLUMN (fields=), or skip bad rows with --skip-bad-rows (skip_bad_rows=True)."
        )
        self.line, self.reason = line, reason


@dataclass(frozen=True, slots=True)
class Source:
    """The place of a data set's rows, and how to read them.

    Attributes:
        name: A name of `DATASETS`; ``reasoning_gym:TASK`` for a task of reasoning-gym.
        path: A local .jsonl, .json, .csv or .parquet file, or None for the data set's own place.
        split: Another split of the hub's than the default one.
        fields: The file's name for a column of the data set: ``{"question": "prompt"}`` reads
            questions from the column ``prompt``.
        skip_bad_rows: Leave out rows that are no questions instead of refusing the file.
        seed: Of generated questions.
    """

    name: str
    path: str | Path | None = None
    split: str | None = None
    fields: Mapping[str, str] | None = None
    skip_bad_rows: bool = False
    seed: int = 0

    def read(self) -> list[Question]:
        """Read every question, in the file's order. Skipped rows are logged as a warning.

        Raises:
            BadRowError: A row has invalid JSON, a missing or empty field, a level outside 1 to 5,
                or the id of an earlier row.
            InputError: An unknown name, no such file, or a hub out of reach.
        """
        chosen = data_set(self.name)
        unknown = [name for name in self.fields or () if name not in chosen.columns]
        if unknown:
            msg = f"{chosen.name} has no field {unknown[0]!r}; it has: {', '.join(chosen.columns)}"
            raise InputError(msg)
        source = str(self.path or self.name)
        questions: dict[str, Question] = {}
        skipped: list[str] = []
        for line, row in self._rows(chosen):
            try:
                question = _parse(row, chosen, self.fields or {})
                if question.id in questions:
                    msg = f"its id {question.id!r} is that of an earlier row"
                    raise InputError(msg)
            except (LookupError, TypeError, ValueError) as error:
                # An InputError is a ValueError; a reader of the user's own may raise any of these.
                kind = "" if isinstance(error, InputError) else f"{type(error).__name__}: "
                reason = f"{kind}{error}"
                if not self.skip_bad_rows and not isinstance(error, SkipRow):
                    raise BadRowError(source, line, reason) from error
                skipped.append(f"line {line}: {reason}")
            else:
                questions[question.id] = question
        if skipped:
            _log.warning("%s: %d rows skipped, first %s", source, len(skipped), skipped[0])
        if not questions:
            msg = f"{source} has no question"
            raise InputError(msg)
        return list(questions.values())

    def _rows(self, chosen: DataSet) -> Rows:
        if self.split is not None and (self.path is not None or chosen.hub is None):
            msg = "a split is the hub's; a file is read as a whole"
            raise InputError(msg)
        if self.path is not None:
            return read_rows(Path(self.path), chosen.expand)
        if chosen.generate is not None:
            return enumerate(chosen.generate(chosen.task, self.seed), start=1)
        if chosen.file is not None:
            return read_rows(chosen.file)
        if chosen.hub is None:
            msg = f"{chosen.name} is not read from the hub: give a local file with --data PATH"
            raise InputError(msg)
        split = self.split or chosen.hub.split
        library = import_or_explain("datasets")  # takes seconds, and a local file does without
        try:
            rows = library.load_dataset(chosen.hub.path, chosen.hub.name, split=split)
        except Exception as error:
            msg = (
                f"cannot read split {split!r} of {chosen.hub.path} from the hub ({error}). "
                "Download it elsewhere and give the file with --data PATH, or use arithmetic."
            )
            raise InputError(msg) from error
        return enumerate(rows, start=1)


def load(  # noqa: PLR0913 - each selects questions in another way, all with defaults
    name: str,
    *,
    path: str | Path | None = None,
    split: str | None = None,
    limit: int | None = None,
    seed: int = 0,
    levels: Collection[int] | None = None,
    skip_bad_rows: bool = False,
    fields: Mapping[str, str] | None = None,
) -> list[Question]:
    """Load the questions of a data set.

    Args:
        name: As in `Source`; likewise path, split, skip_bad_rows and fields.
        path: A local file instead of the data set's own place.
        split: Another split of the hub's than the default one.
        limit: Number of questions, drawn evenly over the levels (see `sample`). None for all of
            them in the file's order.
        seed: Of the draw, and of generated questions.
        levels: Only these levels.
        skip_bad_rows: Leave out rows that are no questions instead of refusing the file.
        fields: The file's names for columns of the data set.

    Raises:
        BadRowError: A row is no question.
        InputError: An unknown name, no such file, a hub out of reach, or no question left.
    """
    pool = Source(name, path, split, fields, skip_bad_rows, seed).read()
    return select(pool, limit=limit, seed=seed, levels=levels)


def select(
    pool: Sequence[Question],
    *,
    limit: int | None = None,
    seed: int = 0,
    levels: Collection[int] | None = None,
) -> list[Question]:
    """Select questions of these levels, and draw ``limit`` of them evenly over the levels.

    Raises:
        InputError: A level outside 1 to 5, a limit below 1, or no question left.
    """
    wanted = tuple(sorted(set(levels or ())))
    if not set(wanted) <= set(LEVELS):
        msg = f"levels lie between 1 and 5, not {wanted}"
        raise InputError(msg)
    questions = [item for item in pool if not wanted or item.level in wanted]
    if not questions:
        msg = f"there is no question of level {', '.join(map(str, wanted))}"
        raise InputError(msg)
    return questions if limit is None else sample(questions, limit, seed)


def sample(questions: Sequence[Question], n: int, seed: int) -> list[Question]:
    """Draw n questions without replacement, as evenly over the levels as possible.

    30 questions of 5 levels are 6 of each. Where a level runs out, the others make up for it.
    Samples are nested: the first 30 of a sample of 60 are the sample of 30. Questions without a
    level count as one level of their own.

    Args:
        questions: Questions with unique ids.
        n: Number of questions, at least 1; all of them, in drawn order, when there are fewer.
        seed: Another seed draws others.

    Raises:
        InputError: n is below 1.
    """
    if n < 1:
        msg = f"the number of questions to draw must be at least 1, not {n}"
        raise InputError(msg)
    levels = drawn_by_level(questions, seed)
    # One question of each level in turn; which level goes first is drawn for each round.
    rounds = (
        question
        for turn in range(max(map(len, levels.values()), default=0))
        for level in sorted(levels, key=lambda item: _hash_order(seed, f"{turn}:{item}"))
        for question in levels[level][turn : turn + 1]
    )
    return list(islice(rounds, n))


def level_examples(pool: Iterable[Question], evaluated: Iterable[Question], seed: int) -> str:
    """Return problems of known level to compare with, one of each: lines of "Level 2: text".

    None of them is evaluated, by id or by text (case and spacing aside). They are the last that
    `sample` would draw, so they stay the same when more questions are evaluated.

    Args:
        pool: Questions to choose from.
        evaluated: Questions that must not be among the examples.
        seed: Of the draw.

    Returns:
        The lines, easiest first, long problems shortened; "" when the pool has no other levels.
    """
    held_out = list(evaluated)
    ids = {question.id for question in held_out}
    texts = {normalized(question.question) for question in held_out}
    left = [
        question
        for question in pool
        if question.level is not None
        and question.id not in ids
        and normalized(question.question) not in texts
    ]
    lines = []
    for level, drawn in sorted(drawn_by_level(left, seed).items(), key=lambda pair: str(pair[0])):
        text = " ".join(drawn[-1].question.split())
        if len(text) > _LONGEST_EXAMPLE:
            text = text[: _LONGEST_EXAMPLE - 2].rstrip() + " …"
        lines.append(f"Level {level}: {text}")
    return "\n".join(lines)


def drawn_by_level(questions: Iterable[Question], seed: int) -> dict[int | None, list[Question]]:
    """Return the questions of each level in drawn order."""
    levels: dict[int | None, list[Question]] = defaultdict(list)
    for question in sorted(questions, key=lambda item: _hash_order(seed, item.id)):
        levels[question.level].append(question)
    return levels


def normalized(text: str) -> str:
    """Return a text without differences of case and spacing."""
    return " ".join(text.casefold().split())


def read_rows(
    path: Path, expand: Callable[[Row], Iterable[Mapping[str, Any]]] | None = None
) -> Rows:
    """Read a .jsonl, .ndjson, .json, .csv or .parquet file.

    The standard library reads JSON and CSV: `datasets` gives a column one type, and so refuses a
    file in which one answer is a number and the next a text.

    Args:
        path: The file.
        expand: Turns a .json file's single object into rows; without it such a file is refused.

    Returns:
        The rows, each with its line (.jsonl, .csv), else its position from 1.

    Raises:
        InputError: There is no such file, or it cannot be read as a whole.
    """
    if not path.is_file():
        msg = f"there is no file {path}"
        raise InputError(msg)
    ending = path.suffix.lower()
    if ending not in _ENDINGS:
        kind = path.suffix or "a file without ending"
        msg = f"{path.name}: cannot read {kind}; convert it to {', '.join(_ENDINGS)}"
        raise InputError(msg)
    try:
        if ending == ".parquet":
            parquet = import_or_explain("pyarrow.parquet")
            return enumerate(parquet.read_table(path).to_pylist(), start=1)
        if ending == ".csv":
            return list(_read_csv(path))
        text = path.read_text(encoding="utf-8-sig")
        if ending != ".json":
            lines = enumerate(text.split("\n"), start=1)
            return ((number, line) for number, line in lines if line.strip())
        document = json.loads(text)
    except (OSError, ValueError, RecursionError, csv.Error) as error:
        msg = f"{path.name} is no valid {ending.removeprefix('.')} file in UTF-8: {error}"
        raise InputError(msg) from error
    if isinstance(document, dict) and expand is not None:
        document = list(expand(Row(document)))
    if not isinstance(document, list):
        msg = f"{path.name} holds {type(document).__name__}, not a list of objects"
        raise InputError(msg)
    return enumerate(document, start=1)


def _read_csv(path: Path) -> Iterator[tuple[int, object]]:
    """Yield the rows of a table, each with the line that it ends on."""
    before = csv.field_size_limit(_LONGEST_CELL)
    try:
        with path.open(encoding="utf-8-sig", newline="") as lines:
            reader = csv.DictReader(lines)
            yield from ((reader.line_num, row) for row in reader)
    finally:
        csv.field_size_limit(before)


def _parse(row: object, chosen: DataSet, fields: Mapping[str, str]) -> Question:
    if isinstance(row, str):  # a line of .jsonl
        try:
            row = json.loads(row)
        except (ValueError, RecursionError) as error:
            msg = f"invalid JSON: {error}"
            raise InputError(msg) from error
    if not isinstance(row, dict):
        msg = f"holds {type(row).__name__}, not an object with named fields"
        raise InputError(msg)
    if None in row:  # csv's key for cells beyond the header
        msg = "has more cells than the header"
        raise InputError(msg)
    missing = [theirs for theirs in fields.values() if theirs not in row]
    if missing:
        msg = f"no column {missing[0]!r}, which the field map names"
        raise InputError(msg)
    return chosen.parse(row | {ours: row[theirs] for ours, theirs in fields.items()})


def _hash_order(seed: int, name: str) -> bytes:
    return hashlib.sha256(f"{seed}:{name}".encode()).digest()
