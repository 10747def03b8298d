"""Print and end commands: one line for an error, and only JSON where that is asked."""

from __future__ import annotations

import errno
import json
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from optim.extras import missing_extra, require_modules
from pb_graph.cli.options import INTERRUPTED, Exits
from pb_graph.errors import InputError

exits = Exits("pb-optim")

_STORAGE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO}


@contextmanager
def plain_errors(*modules: str) -> Iterator[None]:
    """End the process with one line and the exit code that fits, instead of a traceback.

    Args:
        modules: What the command cannot do without, looked for before it begins.
    """
    try:
        with exits.handle_errors():
            require_modules(*modules)
            yield
    except KeyboardInterrupt:
        exits.fail("interrupted; the same command goes on from here.", INTERRUPTED)
    except OSError as error:
        if error.errno not in _STORAGE:
            raise
        place = f" {error.filename}" if error.filename else ""
        exits.fail(
            f"cannot write{place}: {error.strerror}. What was written before is kept; once that is "
            "mended, the same command goes on."
        )
    except ModuleNotFoundError as error:
        told = missing_extra(error)
        if told is None:
            raise
        exits.fail(str(told))


def echo(value: object) -> None:
    """Print one JSON value."""
    typer.echo(json.dumps(value, ensure_ascii=False))


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
