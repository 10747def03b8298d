"""How commands end when they cannot go on, and what they print where a terminal lacks letters."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import TextIOWrapper
from typing import NoReturn

import typer

from pb_graph.errors import InputError, PlanAndBudgetError

FAILED, USAGE, INTERRUPTED = 1, 2, 130
# A name that the user gave, or what a server said, may hold codes for the terminal.
_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")


def print_any_letter() -> None:
    """Show letters that the terminal's encoding lacks by their numbers: they are paid for."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):  # of what was a file and is a pipe now: it is done all the same
            if isinstance(stream, TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")


@dataclass(frozen=True, slots=True)
class Exits:
    """The ways out of a command."""

    program: str

    def failed(self, message: str) -> NoReturn:
        """End because something did not work."""
        self._end(message, FAILED)

    def misused(self, message: str) -> NoReturn:
        """End because the command was used wrongly."""
        self._end(message, USAGE)

    @contextmanager
    def explained(self) -> Iterator[None]:
        """End as one of the above where an error of ours says why."""
        try:
            yield
        except InputError as error:
            self.misused(str(error))
        except PlanAndBudgetError as error:
            self.failed(str(error))

    def interrupted(self, message: str) -> NoReturn:
        """End because of Ctrl-C."""
        self._end(message, INTERRUPTED)

    def _end(self, message: str, code: int) -> NoReturn:
        shown = _CONTROL.sub(lambda found: repr(found[0])[1:-1], message)
        typer.echo(f"{self.program}: {shown}", err=True)
        raise typer.Exit(code) from None


exits = Exits("pb-graph")
