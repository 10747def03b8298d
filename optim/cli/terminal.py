"""What commands share: reading options, printing, and ending with a plain error."""

from __future__ import annotations

import json
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from pb_graph.errors import InputError, PlanAndBudgetError
from pb_graph.exits import Exits

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import Console

    from optim.summary import Cells

exits = Exits("pb-optim")


@contextmanager
def plain_errors() -> Iterator[None]:
    """End the process with one line and the exit code that fits, instead of a traceback."""
    try:
        yield
    except KeyboardInterrupt:
        exits.interrupted("interrupted; the same command goes on from here.")
    except InputError as error:
        exits.misused(str(error))
    except PlanAndBudgetError as error:
        exits.failed(str(error))


def echo(value: object) -> None:
    """Print one JSON value."""
    typer.echo(json.dumps(value, ensure_ascii=False))


def print_rows(rows: Sequence[Cells], *, as_json: bool) -> None:
    """Print a table, or its rows as JSON."""
    from optim.report.terminal import console, grid_of  # noqa: PLC0415

    if as_json:
        echo(list(rows))
    else:
        console().print(grid_of(rows))


def write(path: Path, content: str) -> None:
    """Write a file that the user named."""
    try:
        path.write_text(content, encoding="utf-8")
    except OSError as error:
        exits.misused(f"cannot write {path}: {error.strerror}")


def numbers(option: str, text: str) -> list[int]:
    """Read whole numbers with commas between.

    Raises:
        InputError: The text is something else.
    """
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        msg = f"{option} wants whole numbers with commas between, not {text!r}"
        raise InputError(msg) from None


def beside() -> Console:
    """Standard error, where progress leaves the output alone."""
    from rich.console import Console  # noqa: PLC0415

    return Console(stderr=True)
