"""A list of instructions, such as one written by hand: each is measured as it is."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from optim.tune.instructions import INSTRUCTIONS
from pb_graph.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from optim.tune.candidate import Candidate
    from optim.tune.proposer import Task

__all__ = ["Candidates", "own_candidates", "read_candidates"]

MAX_BYTES = 1_000_000
_BETWEEN = re.compile(r"^---+[ \t]*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Candidates:
    """Proposes the list, in its order, in one round.

    Attributes:
        texts: The instructions.
        name: What the optimizer is called.
    """

    texts: Sequence[str]
    name: str = "candidates"
    reflects: ClassVar[bool] = False
    once: ClassVar[bool] = True

    def propose(self, task: Task) -> Sequence[Candidate]:
        """Give all of them."""
        return task.candidates(self.texts)


def read_candidates(path: Path) -> list[str]:
    """Read instructions from a file: a JSON list of text, or text with lines of --- between.

    Raises:
        InputError: The file cannot be read, or holds no instruction.
    """
    try:
        if path.stat().st_size > MAX_BYTES:
            msg = f"{path} is too large for a list of instructions ({MAX_BYTES} bytes at most)"
            raise InputError(msg)
        content = path.read_text(encoding="utf-8")
    except OSError as error:
        msg = f"cannot read the candidates {path}: {error.strerror}"
        raise InputError(msg) from error
    except UnicodeDecodeError as error:
        msg = f"{path} is no text in UTF-8"
        raise InputError(msg) from error
    texts = _from_json(content, path) if content.lstrip().startswith("[") else _split(content)
    found = [text.strip() for text in texts if text.strip()]
    if not found:
        msg = f"{path} holds no instruction; write some, with a line of --- between two"
        raise InputError(msg)
    return found


def own_candidates(predictor: str) -> list[str]:
    """The package's list.

    Raises:
        InputError: There is none for this predictor.
    """
    if predictor != "decompose":
        msg = f"the package has no instructions for {predictor!r} to choose from: give --candidates"
        raise InputError(msg)
    return list(INSTRUCTIONS.values())


def _split(content: str) -> list[str]:
    return _BETWEEN.split(content)


def _from_json(content: str, path: Path) -> list[str]:
    try:
        found = json.loads(content)
    except (ValueError, RecursionError) as error:
        msg = f"{path} begins like a JSON list, but is none: {error}"
        raise InputError(msg) from error
    if not all(isinstance(text, str) for text in found):
        msg = f"{path} is a JSON list of something else than text"
        raise InputError(msg)
    return list(found)
