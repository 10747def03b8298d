"""Define ``pb-optim``: measure methods on a data set, report the figures, and tune."""

from __future__ import annotations

import typer

from optim.cli import commands
from optim.cli.options import every_command
from pb_graph.cli.options import FAILED, INTERRUPTED, USAGE, run_command

__all__ = ["FAILED", "INTERRUPTED", "USAGE", "app", "main"]

app = typer.Typer(
    name="pb-optim",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",  # paragraphs of help are wrapped
)


app.callback()(every_command)
app.command("eval")(commands.evaluate_methods)
app.command()(commands.report)
app.command()(commands.certify)
app.command()(commands.caps)
app.command("tune")(commands.tune_program)
app.command()(commands.show)


def main() -> None:
    """Run the console script."""
    run_command(app)
