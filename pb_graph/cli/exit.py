"""How commands end when they cannot go on: one line on standard error, and an exit code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

import typer

__all__ = ["FAILED", "INTERRUPTED", "USAGE", "Exits"]

FAILED, USAGE, INTERRUPTED = 1, 2, 130


@dataclass(frozen=True, slots=True)
class Exits:
    """The ways out of a command.

    Attributes:
        program: Who speaks.
    """

    program: str

    def failed(self, message: str) -> NoReturn:
        """End because something did not work."""
        self._end(message, FAILED)

    def misused(self, message: str) -> NoReturn:
        """End because the command was used wrongly."""
        self._end(message, USAGE)

    def interrupted(self, message: str) -> NoReturn:
        """End because of Ctrl-C."""
        self._end(message, INTERRUPTED)

    def _end(self, message: str, code: int) -> NoReturn:
        typer.echo(f"{self.program}: {message}", err=True)
        raise typer.Exit(code) from None
