"""``pb-optim tune`` and ``show``: improve the planner or the settings, and see what changed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from optim.cli.options import AsJson, with_options
from optim.cli.terminal import echo, plain_errors
from optim.tuning.options import TuneBudget, TuneCommand

if TYPE_CHECKING:
    from pb_graph.program import PlannerProgram


@with_options(TuneCommand, "filelock", "jinja2")
def tune_program(
    options: dict[str, Any],
    *,
    budget_answers: Annotated[
        int | None, typer.Option(help="Answers that the run folder may cost.")
    ] = 400,
    budget_tokens: Annotated[int | None, typer.Option(help="Completion tokens, likewise.")] = None,
    as_json: AsJson = False,
) -> None:
    """Tune prompts, the solver's examples or settings for E³; write a program file.

    A third of the questions is held out. The winner on the others is better (its E³ is higher on
    those with a confidence of 90 %), undecided (not below there, so it is used), or the original
    is kept. The same command again resumes, and pays for nothing twice.
    """
    from optim.tuning.run import PAGE, PROGRAM, run_command  # noqa: PLC0415 -- takes a second

    options["budget"] = TuneBudget(budget_answers, budget_tokens)
    command = TuneCommand(**options)
    _show_program(run_command(command).artefact, as_json=as_json)
    path = Path(command.run_dir) / PROGRAM
    typer.echo(f"{path} is written: pb-graph solve --program {path}", err=True)
    typer.echo(f"The candidates: {path.with_name(PAGE)}", err=True)


@plain_errors()
def show(
    path: Annotated[str, typer.Argument(help="A file that `pb-optim tune` wrote.")],
    as_json: AsJson = False,
) -> None:
    """Show a tuned program: its prompts against the package's own, and its figures."""
    from pb_graph.program import PlannerProgram  # noqa: PLC0415

    _show_program(PlannerProgram.load(path), as_json=as_json)


def _show_program(program: PlannerProgram, *, as_json: bool) -> None:
    from optim.reporting.formatting import console  # noqa: PLC0415
    from optim.tuning.record import document, shown  # noqa: PLC0415 -- DSPy takes a second

    if as_json:
        echo(document(program))
        return
    for piece in shown(program):
        console().print(piece)
