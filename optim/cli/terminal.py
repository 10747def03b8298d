"""How every command ends and prints: one line for an error, and only JSON where that is asked."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from pb_graph.errors import InputError, PlanAndBudgetError
from pb_graph.exits import Exits

if TYPE_CHECKING:
    from optim.summary import Cells

__all__ = ["echo", "exits", "numbers", "plain_errors", "print_rows", "require", "write"]

exits = Exits("pb-optim")

_EXTRAS = ("eval", "tune", "local")  # not dev, which has all of them
_REQUIREMENT = re.compile(r"([\w.-]+).*\bextra\s*==\s*['\"](\w+)['\"]")


@contextmanager
def plain_errors(*modules: str) -> Iterator[None]:
    """End the process with one line and the exit code that fits, instead of a traceback.

    Args:
        modules: What the command cannot do without, looked for before it begins.
    """
    try:
        require(*modules)
        yield
    except KeyboardInterrupt:
        exits.interrupted("interrupted; the same command goes on from here.")
    except InputError as error:
        exits.misused(str(error))
    except PlanAndBudgetError as error:
        exits.failed(str(error))
    except ModuleNotFoundError as error:
        name = (error.name or "").partition(".")[0]
        extra = _extra_of(name)
        if extra is None:
            raise
        exits.failed(f"this needs {name}: pip install 'plan-and-budget[{extra}]'")


def require(*modules: str) -> None:
    """Make sure that modules of an extra are there, without loading them.

    Raises:
        ModuleNotFoundError: One is not.
    """
    for name in modules:
        if importlib.util.find_spec(name) is None:
            msg = f"No module named {name!r}"
            raise ModuleNotFoundError(msg, name=name)


def _extra_of(module: str) -> str | None:
    """The extra of this package that brings a module; the two are called alike but for dashes."""
    found = map(_REQUIREMENT.match, importlib.metadata.requires("plan-and-budget") or ())
    brought = {(m[1].replace("-", "_"), m[2]) for m in found if m}
    return next((extra for extra in _EXTRAS if (module, extra) in brought), None)


def echo(value: object) -> None:
    """Print one JSON value."""
    typer.echo(json.dumps(value, ensure_ascii=False))


def print_rows(rows: Sequence[Cells], *, as_json: bool = False) -> None:
    """Print a table, or its rows as JSON."""
    from optim.report.terminal import console, grid_of  # noqa: PLC0415

    if as_json:
        echo(list(rows))
    else:
        console().print(grid_of(rows))


def write(path: Path, content: str) -> None:
    """Write a file that the user named.

    Raises:
        InputError: It cannot be written.
    """
    try:
        path.write_text(content, encoding="utf-8")
    except OSError as error:
        msg = f"cannot write {path}: {error.strerror}"
        raise InputError(msg) from error


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
