"""The command line application that every command registers with."""

from __future__ import annotations

import typer

__all__ = ["app"]

app = typer.Typer(
    name="pb-optim",
    help="Measure and improve Plan-and-Budget.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback()
def _commands() -> None:
    """Measure and improve Plan-and-Budget."""
