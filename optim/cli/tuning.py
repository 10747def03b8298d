"""``pb-optim tune`` and ``show``: improve the planner or the settings, and see what changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from optim.cli.application import app
from optim.cli.options import (
    AsJson,
    Concurrency,
    Data,
    DataSet,
    EstimateLevel,
    Fields,
    Levels,
    Limit,
    Model,
    RetryErrors,
    Scorer,
    Split,
)
from optim.cli.terminal import echo, numbers, plain_errors
from pb_graph.assignments import assignments, value_of

if TYPE_CHECKING:
    from pb_graph.artefact import Artefact


@app.command("tune")
def tune_program(  # noqa: PLR0913, PLR0917 -- one parameter for each option
    dataset: DataSet,
    model: Model = None,
    planner: Annotated[str | None, typer.Option(help="The same for planning.")] = None,
    reflection_model: Annotated[
        str | None, typer.Option(help="Writes instructions. Default: the planner.")
    ] = None,
    optimizer: Annotated[
        str | None,
        typer.Option(help="gepa (when not given), copro, miprov2, simba, random or candidates."),
    ] = None,
    tune: Annotated[
        str, typer.Option(help="decompose or estimate (a prompt), or settings.")
    ] = "decompose",
    candidates: Annotated[
        str | None, typer.Option(metavar="FILE", help="Instructions, with lines of --- between.")
    ] = None,
    program: Annotated[str | None, typer.Option(help="A saved program to begin from.")] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A setting of the graph; repeatable."),
    ] = None,
    data: Data = None,
    split: Split = None,
    field: Fields = None,
    levels: Levels = None,
    limit: Limit = None,
    scorer: Scorer = None,
    estimate_level: EstimateLevel = False,
    budget_calls: Annotated[
        int | None, typer.Option(help="Answers that the run folder may cost.")
    ] = 400,
    budget_tokens: Annotated[int | None, typer.Option(help="Completion tokens, likewise.")] = None,
    budget_minutes: Annotated[float | None, typer.Option(help="Minutes, likewise.")] = None,
    rounds: Annotated[int, typer.Option(help="How often the optimizer starts anew, at most.")] = 3,
    seed: Annotated[int, typer.Option(help="Of everything drawn by chance.")] = 0,
    concurrency: Concurrency = 8,
    run_dir: Annotated[str, typer.Option(help="Folder of the run.")] = "runs/tune",
    retry_errors: RetryErrors = False,
    as_json: AsJson = False,
) -> None:
    """Tune the planner's prompt, or the settings, for E³ on a dev split; write a program file.

    A third of the questions is held out: what is found replaces the original only when it is not
    worse there. The same command again goes on where it was; nothing is paid for twice.
    """
    from optim.tune import Limits  # noqa: PLC0415 -- DSPy takes a second
    from optim.tune.command import TuneOptions  # noqa: PLC0415
    from optim.tune.command import run as tuned  # noqa: PLC0415

    with plain_errors():
        found = tuned(
            TuneOptions(
                dataset=dataset,
                data=data,
                split=split,
                fields=assignments("--field", field),
                levels=numbers("--levels", levels) if levels else None,
                limit=limit,
                scorer=scorer,
                model=model,
                planner=planner,
                reflection_model=reflection_model,
                optimizer=optimizer,
                tuned=tune,
                candidates=candidates,
                program=program,
                settings={
                    name: value_of(text) for name, text in assignments("--set", set_).items()
                },
                limits=Limits(budget_calls, budget_tokens, budget_minutes),
                rounds=rounds,
                run_dir=run_dir,
                seed=seed,
                estimate_level=estimate_level,
                concurrency=concurrency,
                retry_errors=retry_errors,
            )
        )
    _show_program(found.result.artefact, as_json=as_json)
    typer.echo(f"{found.path} is written: pb-graph solve --program {found.path}", err=True)
    typer.echo(f"The candidates: {', '.join(map(str, found.pictures))}", err=True)


@app.command()
def show(
    path: Annotated[str, typer.Argument(help="A file that `pb-optim tune` wrote.")],
    as_json: AsJson = False,
) -> None:
    """Show a tuned program: its prompts against the package's own, and what was measured."""
    from pb_graph.artefact import Artefact  # noqa: PLC0415

    with plain_errors():
        _show_program(Artefact.load(path), as_json=as_json)


def _show_program(program: Artefact, *, as_json: bool) -> None:
    from optim.report.terminal import console  # noqa: PLC0415
    from optim.show import document, shown  # noqa: PLC0415 -- DSPy takes a second

    if as_json:
        echo(document(program))
        return
    for place, piece in enumerate(shown(program)):
        console().print(*([""] if place else []), piece, sep="\n")
