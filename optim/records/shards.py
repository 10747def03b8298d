"""Parts of one evaluation, for several machines.

A scheduler starts one process for each part (``--part 3/16``), each with a log folder of its own.
A part has all methods on its questions, so plans are shared and methods stay paired.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Self

from pb_graph.errors import InputError


@dataclass(frozen=True, slots=True)
class Shard:
    """One of several parts of the questions.

    A question's part depends on its id and ``of`` alone. So parts differ in size by chance, and a
    larger draw moves no question to another part.

    Attributes:
        number: Number of the part, from 1.
        of: Number of parts.
    """

    number: int
    of: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a part such as ``3/16``, or raise `InputError`."""
        found = re.fullmatch(r"(\d+)/(\d+)", text)
        number, of = map(int, found.groups()) if found else (0, 0)
        if not 1 <= number <= of:
            msg = f"a part is such as 3/16, from 1/16 to 16/16, not {text!r}"
            raise InputError(msg)
        return cls(number, of)

    def has(self, question: str) -> bool:
        """Return whether the question with this id is in the part."""
        return part_of(question, self.of) == self.number


def part_of(question: str, of: int) -> int:
    """Return the part that has the question with this id, the same on every machine."""
    return int.from_bytes(hashlib.sha256(question.encode()).digest()[:8]) % of + 1
