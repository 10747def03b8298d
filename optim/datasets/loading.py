"""From a name to questions: read or made, checked row by row, filtered and sampled.

Samples are the same on every run and machine: their order comes from SHA-256 of seed and id, and
neither the file's order nor Python's version matters.
"""

from __future__ import annotations

import hashlib
import logging
from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from optim.datasets.dataset import LEVELS, LeftOutError, data_set
from optim.datasets.files import hub_rows, read_rows
from pb_graph.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from optim.datasets.dataset import DataSet, Question
    from optim.datasets.files import Rows

_SHOWN = 10  # bad rows that a message spells out; the attribute has all
_GENERATED = 50  # questions made when no limit says how many
_LONGEST_EXAMPLE = 400  # characters; a planner compares kinds of problems, not their details
_warn = cache(logging.getLogger(__name__).warning)  # once: a run reads its file several times


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row that is no question.

    Attributes:
        line: Line of the file (.jsonl, .csv), else position from 1.
        reason: What is wrong with it.
        expected: Whether it is one that the data set is known to have, and is left out without
            being asked.
    """

    line: int
    reason: str
    expected: bool = False


class BadRowsError(InputError):
    """Some rows are no questions; `rows` has all of them."""

    def __init__(self, source: str, rows: tuple[BadRow, ...]) -> None:
        hint = (
            "mend them, name the columns that are called otherwise (fields=, --field OURS=THEIRS), "
            "or skip them on request (skip_bad_rows=True, --skip-bad-rows)"
        )
        super().__init__(f"{_listed('bad', source, rows)}\n{hint}")
        self.rows = rows


def load(  # noqa: PLR0913 - each says another thing about which questions, all with defaults
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

    Rows that are left out are told in the log (so on standard error), once however often the file
    is read.

    Args:
        name: One of `DATASETS`.
        path: A local .jsonl, .json, .csv or .parquet file; without it the hub is read.
        split: Another split of the hub's than the usual one; for `arithmetic` any name, each
            with questions of its own.
        limit: How many questions, drawn evenly over the levels (see `sample`); all of them in
            the file's order when None, or 50 of `arithmetic`.
        seed: Of that draw, and of `arithmetic`.
        levels: Only these levels.
        skip_bad_rows: Leave rows out that are no questions instead of refusing the file.
        fields: The file's name for a column of the data set: ``{"question": "prompt"}`` reads
            questions from the column ``prompt``.

    Raises:
        BadRowsError: Rows with invalid JSON, missing or empty fields, a level outside 1 to 5, or
            an id that is there already.
        InputError: Anything else that stands in the way: an unknown name, no such file, the hub
            out of reach, or no question left.
    """
    chosen = data_set(name)
    wanted = tuple(sorted(set(levels or ())))
    if not set(wanted) <= set(LEVELS):
        msg = f"levels lie between 1 and 5, not {wanted}"
        raise InputError(msg)
    if chosen.generate is not None:
        if path is not None or fields:
            msg = f"{name} makes its questions and reads no file; use --dataset jsonl for a file"
            raise InputError(msg)
        count = _GENERATED if limit is None else limit
        return chosen.generate(count, seed=seed, levels=wanted or LEVELS, split=split or "test")
    questions, rows = _parsed(_rows(chosen, path, split), chosen, fields or {})
    source = str(path or f"the hub's {name}")
    bad = tuple(row for row in rows if not row.expected)
    if bad and not skip_bad_rows:
        raise BadRowsError(source, bad)
    if rows:
        _warn(_listed("left out", source, rows))
    questions = [item for item in questions if not wanted or item.level in wanted]
    if not questions:
        msg = f"{source} has no question{f' of level {wanted}' if wanted else ''}"
        raise InputError(msg)
    return questions if limit is None else sample(questions, limit, seed)


def _rows(chosen: DataSet, path: str | Path | None, split: str | None) -> Rows:
    if path is not None:
        if split is not None:
            msg = "a split is the hub's; a local file is read as a whole"
            raise InputError(msg)
        return read_rows(Path(path), chosen.expand)
    if chosen.hub is None:
        msg = f"{chosen.name} is not read from the hub: give a local file with --data PATH"
        raise InputError(msg)
    return hub_rows(chosen.hub, split)


def _parsed(
    rows: Rows, chosen: DataSet, fields: Mapping[str, str]
) -> tuple[list[Question], tuple[BadRow, ...]]:
    unknown = [ours for ours in fields if ours not in chosen.columns]
    if unknown:
        msg = f"{chosen.name} has no field {unknown[0]!r}; it has: {', '.join(chosen.columns)}"
        raise InputError(msg)
    questions: dict[str, Question] = {}
    lines: dict[str, int] = {}
    bad: list[BadRow] = []
    for line, row in rows:
        try:
            question = _question(row, chosen, fields)
        except (LookupError, TypeError, ValueError) as error:
            # An InputError is a ValueError; a reader of one's own may raise any of these.
            kind = "" if isinstance(error, InputError) else f"{type(error).__name__}: "
            bad.append(BadRow(line, f"{kind}{error}", isinstance(error, LeftOutError)))
            continue
        if question.id in questions:
            reason = f"id {question.id!r} is already that of line {lines[question.id]}"
            bad.append(BadRow(line, reason))
            continue
        questions[question.id], lines[question.id] = question, line
    return list(questions.values()), tuple(bad)


def _question(row: object, chosen: DataSet, fields: Mapping[str, str]) -> Question:
    if isinstance(row, InputError):
        raise row
    if not isinstance(row, dict):
        msg = f"holds {type(row).__name__}, not an object with named fields"
        raise InputError(msg)
    missing = [theirs for theirs in fields.values() if theirs not in row]
    if missing:
        msg = f"no column {missing[0]!r}, which the field map names"
        raise InputError(msg)
    return chosen.parse(row | {ours: row[theirs] for ours, theirs in fields.items()})


def _listed(what: str, source: str, rows: tuple[BadRow, ...]) -> str:
    shown = [f"  line {row.line}: {row.reason}" for row in rows[:_SHOWN]]
    rest = [f"  and {len(rows) - _SHOWN} more"] if len(rows) > _SHOWN else []
    return "\n".join([f"rows of {source}: {len(rows)} {what}", *shown, *rest])


def sample(questions: Sequence[Question], n: int, seed: int) -> list[Question]:
    """Draw n questions without replacement, as evenly over the levels present as they allow.

    30 questions of 5 levels are 6 of each. Where a level runs out, the others make up for it.
    Samples are nested: the first 30 of a sample of 60 are the sample of 30. Questions without a
    level count as one level of their own.

    Args:
        questions: Where to draw from; ids are unique.
        n: How many, at least 1; all of them, in drawn order, when there are fewer.
        seed: Another seed draws others.

    Raises:
        InputError: n below 1.
    """
    if n < 1:
        msg = f"the number of questions to draw must be at least 1, not {n}"
        raise InputError(msg)
    levels = drawn_by_level(questions, seed)
    # One question of each level in turn; which level goes first is drawn for each round.
    rounds = (
        question
        for turn in range(max(map(len, levels.values()), default=0))
        for level in sorted(levels, key=lambda item: _lot(seed, f"{turn}:{item}"))
        for question in levels[level][turn : turn + 1]
    )
    return list(islice(rounds, n))


def level_examples(pool: Iterable[Question], evaluated: Iterable[Question], seed: int) -> str:
    """Problems of known level to compare with, one of each: lines of "Level 2: text".

    None of them is evaluated, by id or by text (case and spacing aside). They are the last that
    `sample` would draw, so they stay the same when more questions are evaluated.

    Returns:
        The lines, easiest first, long problems shortened; "" when the pool has no other levels.
    """
    held_out = list(evaluated)
    ids = {question.id for question in held_out}
    texts = {folded(question.question) for question in held_out}
    left = [
        question
        for question in pool
        if question.level is not None
        and question.id not in ids
        and folded(question.question) not in texts
    ]
    lines = []
    for level, drawn in sorted(drawn_by_level(left, seed).items(), key=lambda pair: str(pair[0])):
        text = " ".join(drawn[-1].question.split())
        if len(text) > _LONGEST_EXAMPLE:
            text = text[: _LONGEST_EXAMPLE - 2].rstrip() + " …"
        lines.append(f"Level {level}: {text}")
    return "\n".join(lines)


def drawn_by_level(questions: Collection[Question], seed: int) -> dict[int | None, list[Question]]:
    """Give the questions of each level in drawn order."""
    levels: dict[int | None, list[Question]] = defaultdict(list)
    for question in sorted(questions, key=lambda item: _lot(seed, item.id)):
        levels[question.level].append(question)
    return levels


def _lot(seed: int, name: str) -> bytes:
    return hashlib.sha256(f"{seed}:{name}".encode()).digest()


def folded(text: str) -> str:
    """A text up to case and spacing."""
    return " ".join(text.casefold().split())
