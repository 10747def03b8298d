"""Options that several commands take, each declared once; those of the form NAME=VALUE."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated

import typer

from pb_graph.errors import InputError


def print_version(wanted: bool) -> None:
    """Print the version of the installed package and end."""
    if wanted:
        import pb_graph  # noqa: PLC0415 -- its version is looked up when it is asked for

        typer.echo(f"plan-and-budget {pb_graph.__version__}")
        raise typer.Exit


Version = Annotated[
    bool,
    typer.Option("--version", callback=print_version, is_eager=True, help="Print the version."),
]
Model = Annotated[str | None, typer.Option(help="'provider:model' or 'local:NAME' that solves.")]
Planner = Annotated[str | None, typer.Option(help="The same for planning.")]
Program = Annotated[
    str | None, typer.Option(help="What `pb-optim tune` wrote: tuned prompts and settings.")
]
Caps = Annotated[str | None, typer.Option(help="What `pb-graph probe` wrote.")]


def assignments(option: str, given: Sequence[str] | None) -> dict[str, str]:
    """The name and the text of each assignment.

    Raises:
        InputError: One has no equals sign.
    """
    found: dict[str, str] = {}
    for assignment in given or []:
        name, separator, text = assignment.partition("=")
        if not separator:
            msg = f"{option} wants NAME=VALUE, not {assignment!r}"
            raise InputError(msg)
        found[name.strip()] = text
    return found


def value_of(text: str) -> object:
    """JSON where it is JSON (numbers, true, objects), else the text itself."""
    try:
        return json.loads(text)
    except ValueError:
        return text
