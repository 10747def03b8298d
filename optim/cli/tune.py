"""``pb-optim tune`` and ``show``: improve the planner or the settings, and see what changed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from optim.cli.options import AsJson, with_options
from optim.cli.terminal import echo, plain_errors
from optim.evaluation.limits import Limits
from optim.tune.options import AUTO, TuneOptions
from pb_graph.errors import InputError

if TYPE_CHECKING:
    from pb_graph.program import PlannerProgram

_USUAL = Limits(calls=400)
_LOSS = 3.0


@with_options(TuneOptions, "filelock", "jinja2")
def tune_program(  # noqa: PLR0913 -- one parameter for each option
    options: dict[str, Any],
    *,
    budget_calls: Annotated[
        int | None, typer.Option(help="Answers that the run folder may cost.")
    ] = _USUAL.calls,
    budget_tokens: Annotated[int | None, typer.Option(help="Completion tokens, likewise.")] = None,
    budget_minutes: Annotated[float | None, typer.Option(help="Minutes, likewise.")] = None,
    logs: Annotated[
        str | None, typer.Option(help="For --tune auto: logs of worked_examples and by_kind.")
    ] = None,
    loss: Annotated[
        float, typer.Option(min=0, help="For --tune auto: points of accuracy it may cost.")
    ] = _LOSS,
    as_json: AsJson = False,
) -> None:
    """Tune prompts, worked examples or settings for E³ on a dev split; write a program file.

    A third of the questions is held out. What wins on the others is better (its E³ is higher on
    those with a confidence of 90 %), undecided (not below there, so it is used), or the original
    is kept. The same command again goes on where it was; nothing is paid for twice.

    --tune auto asks nothing: it fits the policy of method=auto to the answers in --logs.
    """
    options["limits"] = Limits(budget_calls, budget_tokens, budget_minutes)
    if options["tuned"] == AUTO:
        _fit_auto(options, logs, loss, as_json=as_json)
        return
    if logs is not None or loss != _LOSS:
        msg = "--logs and --loss are for --tune auto: leave them out, or tune auto"
        raise InputError(msg)
    from optim.tune.command import run  # noqa: PLC0415 -- DSPy takes a second

    outcome = run(TuneOptions(**options))
    _show_program(outcome.result.artefact, as_json=as_json)
    typer.echo(f"{outcome.path} is written: pb-graph solve --program {outcome.path}", err=True)
    typer.echo(f"The candidates: {outcome.page}", err=True)


def _fit_auto(options: dict[str, Any], logs: str | None, loss: float, *, as_json: bool) -> None:
    from optim.e3 import describe  # noqa: PLC0415 -- numpy
    from optim.evaluation.resume import held  # noqa: PLC0415
    from optim.records import read_records  # noqa: PLC0415 -- Inspect takes seconds
    from optim.tune.auto_policy import fit_policy, program_of, traces  # noqa: PLC0415

    if logs is None:
        msg = "--tune auto asks nothing: name logs of worked_examples and by_kind with --logs"
        raise InputError(msg)
    usual, used = TuneOptions(tuned=AUTO, limits=_USUAL), {"run_dir", "program"}
    ignored = [name for name in options.keys() - used if options[name] != getattr(usual, name)]
    if ignored:
        msg = (
            f"--tune auto asks nothing, and would ignore {', '.join(sorted(ignored))}: leave it out"
        )
        raise InputError(msg)
    fit = fit_policy(traces(read_records(logs)), loss=loss)
    path = Path(options["run_dir"]) / "program.json"
    with held(path.parent):
        program_of(fit, options["program"]).save(path)
    if as_json:
        echo(fit.to_dict() | {"program": str(path)})
        return
    typer.echo(f"policy: {fit.policy.model_dump_json(exclude_none=True)}")
    typer.echo(f"cross-validated against by_kind: {describe(fit.against_plain)}")
    typer.echo(f"{path} is written: pb-graph solve --program {path}", err=True)


@plain_errors()
def show(
    path: Annotated[str, typer.Argument(help="A file that `pb-optim tune` wrote.")],
    as_json: AsJson = False,
) -> None:
    """Show a tuned program: its prompts against the package's own, and what was measured."""
    from pb_graph.program import PlannerProgram  # noqa: PLC0415

    _show_program(PlannerProgram.load(path), as_json=as_json)


def _show_program(program: PlannerProgram, *, as_json: bool) -> None:
    from optim.report.terminal import console  # noqa: PLC0415
    from optim.tune.show import document, shown  # noqa: PLC0415 -- DSPy takes a second

    if as_json:
        echo(document(program))
        return
    for place, piece in enumerate(shown(program)):
        console().print(*([""] if place else []), piece, sep="\n")
