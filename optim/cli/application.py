"""The command line application that every command registers with."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = ["AsJson", "Logs", "app"]

app = typer.Typer(
    name="pb-optim",
    help="Measure and improve Plan-and-Budget.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON only.")]
Logs = Annotated[str, typer.Argument(help="The --log-dir of `pb-optim eval`.")]


@app.callback()
def _commands() -> None:
    """Measure and improve Plan-and-Budget."""
