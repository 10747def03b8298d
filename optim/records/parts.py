"""Parts of one evaluation, for several machines: who has which question, and what makes a whole.

A scheduler starts one process for each part (``--part 3/16``), each with a log folder of its own.
A part has all methods on its questions, so plans are shared and methods stay paired.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from pb_graph.errors import InputError

if TYPE_CHECKING:
    from optim.records import LogHeader, Record

PARTS = 16
"""Of an experiment on Ray, unless a number is given."""

# An endpoint, which is part of these digests, may well be another on each machine.
_BY_MACHINE = {"part", "solver", "planner"}


@dataclass(frozen=True, slots=True)
class Part:
    """One of several parts of the questions; a question's part depends on its id and ``of`` alone.

    So parts differ in size as chance has it, and a larger draw moves no question to another.

    Attributes:
        number: Which, from 1.
        of: How many there are.
    """

    number: int
    of: int

    @classmethod
    def read(cls, text: str) -> Self:
        """Read such as ``3/16``.

        Raises:
            InputError: It is no part, or there is none of that number.
        """
        found = re.fullmatch(r"\s*([0-9]{1,9})\s*/\s*([0-9]{1,9})\s*", text)
        number, of = map(int, found.groups()) if found else (0, 0)
        if not 1 <= number <= of:
            msg = f"a part is such as 3/16, from 1/16 to 16/16, not {text!r}"
            raise InputError(msg)
        return cls(number, of)

    def __str__(self) -> str:
        """As it is written."""
        return f"{self.number}/{self.of}"

    def has(self, question: str) -> bool:
        """Whether the question of this id is in it."""
        return _number(question, self.of) == self.number

    def metadata(self, questions: Sequence[str], drawn: str) -> dict[str, Any]:
        """What a log says of its part, so that its reader knows when all are there.

        Args:
            questions: Ids of all questions that are drawn, of every part.
            drawn: Identifies them, how often each is asked, and how it is scored.
        """
        sizes = Counter(str(_number(question, self.of)) for question in questions)
        return {"number": self.number, "of": self.of, "sizes": dict(sizes), "drawn": drawn}


def pooled(
    logs: Sequence[tuple[LogHeader, Sequence[Record]]], *, partial: bool = False
) -> list[Record]:
    """Put the answers of one task together; those of parts say how many parts there were.

    Args:
        logs: The task's logs with their answers.
        partial: Whether answers of parts may be missing.

    Returns:
        The answers; what is missing is told in their ``made_by``, under ``gaps``.

    Raises:
        InputError: Logs under different conditions or of different draws, an answer that is in two
            of them, or one that is in none of the parts.
    """
    logs = sorted(logs, key=lambda log: _place(log[0]))
    for header, _ in logs[1:]:
        _refuse_to_mix(logs[0][0], header)
    if len(logs) > 1:
        _refuse_repeated(logs)
    about, gaps = logs[0][0].part, list(_gaps(logs))
    if about and gaps and not partial:
        msg = (
            f"{_named(logs[0][0])} is cut in {about['of']} parts: {'; '.join(gaps)}. Run the "
            "command of such a part (again), or take what there is: pb-optim report --partial (in "
            "Python, partial=True)."
        )
        raise InputError(msg)
    told = {"parts": about["of"]} if about else {}
    told |= {"gaps": "; ".join(gaps)} if gaps else {}
    return [
        replace(record, made_by={**record.made_by, **told}) for _, each in logs for record in each
    ]


def _number(question: str, of: int) -> int:
    """The part of a question, the same in every process and on every machine."""
    return int.from_bytes(hashlib.sha256(question.encode()).digest()[:8]) % of + 1


def _place(header: LogHeader) -> int:
    return 0 if header.part is None else int(header.part["number"])


def _named(header: LogHeader) -> str:
    return f"{header.metadata['method']!r} on {header.metadata['dataset']!r}"


def _refuse_to_mix(first: LogHeader, other: LogHeader) -> None:
    one, two = _conditions(first), _conditions(other)
    differ = sorted(name for name in one.keys() | two.keys() if one.get(name) != two.get(name))
    if differ:
        msg = (
            f"{_named(first)} differs between {first.path.parent} and {other.path.parent} in "
            f"{', '.join(differ)}. Pool logs of the same conditions only."
        )
        raise InputError(msg)


def _conditions(header: LogHeader) -> dict[str, Any]:
    """What pooled logs have in common: by setting, so that an error can name what differs."""
    conditions, made_by, part = header.metadata.get("conditions", {}), header.made_by, header.part
    return (
        {name: value for name, value in conditions.items() if name not in _BY_MACHINE}
        | {"settings": None, "scorer": header.metadata.get("scorer")}
        | {name: made_by.get(name) for name in ("temperature", "top_p")}
        | (conditions.get("settings") or {})
        | {f"parts: {name}": part and part[name] for name in ("of", "drawn")}
    )


def _refuse_repeated(logs: Sequence[tuple[LogHeader, Sequence[Record]]]) -> None:
    seen: dict[tuple[str, int], LogHeader] = {}
    for header, records in logs:
        for record in records:
            answer = record.question, record.epoch
            if answer in seen:
                msg = (
                    f"question {record.question!r} (epoch {record.epoch}) of {_named(header)} is "
                    f"both in {seen[answer].path.parent} and in {header.path.parent}. Leave one "
                    "of these folders out."
                )
                raise InputError(msg)
            seen[answer] = header


def _gaps(logs: Sequence[tuple[LogHeader, Sequence[Record]]]) -> Iterator[str]:
    """Parts that are missing, but for those without a question, and logs that lack answers."""
    about = logs[0][0].part
    there = {_place(header) for header, _ in logs}
    if about and (missing := sorted(set(map(int, about["sizes"])) - there)):
        named = ", ".join(map(str, missing))
        yield f"parts {named} are missing" if missing[1:] else f"part {named} is missing"
    for header, records in logs:
        spec = header.log.eval
        asked = len(spec.dataset.sample_ids or ()) * (spec.config.epochs or 1)
        if len(records) < asked:
            log = f"part {_place(header)}" if about else "its log"
            yield f"{log} has {len(records)} of its {asked} answers"
