"""``pb-optim simulate`` and ``calibrate``: the Budget Allocation Model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from optim.cli.application import app
from optim.cli.options import AsJson, Logs
from optim.cli.terminal import beside, echo, numbers, plain_errors, write

if TYPE_CHECKING:
    from pb_graph.settings import Settings


@app.command()
def simulate(  # noqa: PLR0913, PLR0917 -- one parameter for each option
    queries: Annotated[int, typer.Option(help="How many, all rules on the same.")] = 1_000_000,
    steps: Annotated[int, typer.Option(help="Sub-questions of a query.")] = 5,
    budget: Annotated[str, typer.Option(help="Tokens of a query.")] = "50,100,200,400,800",
    front_loaded: Annotated[
        bool, typer.Option("--front-loaded/--even", help="Hardest first, or in no order.")
    ] = True,
    graded: Annotated[
        bool, typer.Option("--graded/--ungraded", help="Credits follow levels, or are equal.")
    ] = True,
    settings: Annotated[
        str | None, typer.Option(metavar="FILE", help="c and beta from `pb-optim calibrate`.")
    ] = None,
    c_spread: Annotated[float, typer.Option(help="Of log c about its level's.")] = 0.5,
    beta_spread: Annotated[float, typer.Option(help="Of log beta about its level's.")] = 0.1,
    aleatoric: Annotated[float, typer.Option(help="Most that a sub-question has.")] = 0.1,
    seed: Annotated[int, typer.Option(help="Of the draw of queries.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Compare schedules, the paper's closed form and the exact optimum where Eq. 1 holds.

    A sub-question is solved with chance 1 - uncertainty, a query when all of its own are.
    """
    from optim.simulate import World  # noqa: PLC0415 -- numpy takes a moment
    from optim.simulate import simulate as played  # noqa: PLC0415

    with plain_errors():
        known = {} if settings is None else {"settings": _settings_of(settings)}
        world = World(
            steps=steps,
            front_loaded=front_loaded,
            graded=graded,
            c_spread=c_spread,
            beta_spread=beta_spread,
            aleatoric=aleatoric,
            **known,
        )
        budgets = numbers("--budget", budget)
        outcomes = played(world, budgets, queries=queries, seed=seed, console=beside())
    if as_json:
        echo([outcome.to_dict() for outcome in outcomes])
        return
    order = "hardest first" if front_loaded else "in no order"
    whose = settings or "the default settings, which are an assumption"
    typer.echo(f"{queries:,} queries of {steps} steps, {order}; c and beta about those of {whose}.")
    from optim.experiments.bam import show_outcomes  # noqa: PLC0415
    from optim.report.terminal import console  # noqa: PLC0415

    show_outcomes(outcomes, console())


@app.command()
def calibrate(  # noqa: PLR0913, PLR0917 -- one parameter for each option
    logs: Logs,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="Settings to write.")
    ] = "bam.json",
    method: Annotated[str | None, typer.Option(help="Whose answers, if several have any.")] = None,
    aleatoric: Annotated[
        float | None, typer.Option(help="Error rate no tokens remove, if known; else fitted.")
    ] = None,
    pool: Annotated[
        bool, typer.Option("--pool", help="Levels that tell too little get the fit to all.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Fit c and beta of each level to answers at several budgets, for the schedule bam.

    Such answers come from `pb-optim eval --methods global_budget --set enforcement=force
    --grid-initial 50,100,200,400 --grid-per-level 0`. Intervals are 95 %.
    """
    from optim.calibrate import calibrate as fitted  # noqa: PLC0415 -- numpy takes a moment
    from optim.records import read_records  # noqa: PLC0415

    with plain_errors():
        found = fitted(read_records(logs), method=method, aleatoric=aleatoric, pool=pool)
    write(Path(output), json.dumps(found.settings(), indent=2) + "\n")
    if as_json:
        echo(found.to_dict())
        return
    from optim.experiments.bam import show_calibration  # noqa: PLC0415
    from optim.report.terminal import console  # noqa: PLC0415

    show_calibration(found, console())
    typer.echo(f"{output} is written: pb-optim eval --settings {output}")


def _settings_of(file: str) -> Settings:
    from optim.methods import method_from_file  # noqa: PLC0415

    return method_from_file(file).settings
