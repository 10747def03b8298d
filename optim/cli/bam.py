"""``pb-optim simulate`` and ``calibrate``: the Budget Allocation Model."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from optim.bam.simulate import World
from optim.cli.options import AsJson, Logs, with_options
from optim.cli.terminal import echo, numbers, plain_errors, print_rows
from optim.methods import method_from_file
from optim.statistics.estimates import PERCENT
from pb_graph.settings import PLANNED

if TYPE_CHECKING:
    from optim.bam.calibrate import Calibration
    from optim.bam.power_law import Estimate
    from optim.bam.simulate import Outcome
    from optim.records import Record
    from optim.summary import Cells

_MEASURES: Final = {
    "utility": ("Utility of a query (Eq. 4)", 4),
    "accuracy": ("Accuracy, %", 2),
    "e3": ("E³, with every token of the budget spent", 3),
}
"""What `_by_budget` shows: what it means, and its decimals."""


@with_options(World)
def simulate(  # noqa: PLR0913 -- one parameter for each option
    options: dict[str, Any],
    *,
    settings: Annotated[
        str | None, typer.Option("--bam", metavar="FILE", help="Written by `pb-optim calibrate`.")
    ] = None,
    older_name: Annotated[str | None, typer.Option("--settings", hidden=True)] = None,
    budget: Annotated[str, typer.Option(help="Tokens of a query.")] = "50,100,200,400,800",
    queries: Annotated[int, typer.Option(help="How many, all rules on the same.")] = 1_000_000,
    seed: Annotated[int, typer.Option(help="Of the draw of queries.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Compare schedules, the paper's closed form and the exact optimum where Eq. 1 holds.

    A sub-question is solved with chance 1 - uncertainty, a query when all of its own are.
    """
    from rich.console import Console  # noqa: PLC0415

    from optim.bam.simulate import simulate as played  # noqa: PLC0415

    file = settings or older_name
    if file:
        options["settings"] = method_from_file(file).settings
    world = World(**options)
    budgets = numbers("--budget", budget)
    outcomes = played(world, budgets, queries=queries, seed=seed, console=Console(stderr=True))
    if as_json:
        echo([outcome.to_dict() for outcome in outcomes])
        return
    order = "hardest first" if world.front_loaded else "in no order"
    typer.echo(
        f"{queries:,} queries of {world.steps} steps, {order}; c and beta about those of "
        f"{file or 'the default settings, which are an assumption'}.\n± is one standard error."
    )
    for measure, (meaning, digits) in _MEASURES.items():
        typer.echo(f"\n{meaning}")
        print_rows(_by_budget(outcomes, measure, digits))


@plain_errors("inspect_ai")
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
    from optim.bam.calibrate import calibrate as fitted  # noqa: PLC0415
    from optim.records import read_records  # noqa: PLC0415
    from optim.report import write  # noqa: PLC0415

    records = read_records(logs)
    calibration = fitted(records, method=method, aleatoric=aleatoric, pool=pool)
    write(Path(output), json.dumps(calibration.settings(), indent=2) + "\n")
    if as_json:
        echo(calibration.to_dict())
        return
    print_rows(_parameters(calibration))
    typer.echo()
    print_rows(_answers_and_fit(calibration))
    for warning in calibration.warnings:
        typer.echo(f"Warning: {warning}")
    typer.echo(
        f"{output} is written. Measure it beside our own budgets: {_next(records[0], output)}"
    )


def _next(record: Record, file: str) -> str:
    """The command that measures our budgets and what was written, and nothing else."""
    words = ["pb-optim", "eval", "--dataset", record.dataset]
    for option in ("data", "split"):
        told = record.made_by.get(option)
        # A log without its command is an older one, whose word for the data is no file.
        words += [f"--{option}", told] if told and "command" in record.made_by else []
    if ":" in record.model:  # else it is the name of an object, which no command can make
        words += ["--model", record.model]
        words += [] if record.planner == record.model else ["--planner", record.planner]
    return shlex.join([*words, "--methods", PLANNED, "--settings", file])


def _by_budget(outcomes: Sequence[Outcome], measure: str, digits: int) -> list[Cells]:
    """Give one measure of each rule, a column for each budget, with standard errors."""
    rows: dict[str, dict[str, str | int | float | None]] = {}
    for outcome in outcomes:
        found = outcome.to_dict()
        value, error = found[measure], found[f"{measure}_se"]
        row = rows.setdefault(outcome.rule, {"rule": outcome.rule.replace("_", " ")})
        row[f"B={outcome.budget}"] = f"{value:.{digits}f} ±{error:.{digits}f}"
    return list(rows.values())


def _parameters(found: Calibration) -> list[Cells]:
    """Give c, beta and aleatoric uncertainty of each level, with intervals, and their source."""
    return [
        {
            "level": fit.level,
            "source": fit.source,
            "questions": max((cell.questions for cell in fit.cells), default=0),
            "budgets": len(fit.cells),
            "c": _with_interval(fit.curve.c),
            "beta": _with_interval(fit.curve.beta),
            "aleatoric": _with_interval(fit.curve.aleatoric),
        }
        for fit in found.levels
    ]


def _answers_and_fit(found: Calibration) -> list[Cells]:
    """Give the accuracy that was measured beside what the fit makes of it."""
    return [
        {
            "level": fit.level,
            "budget": cell.tokens,
            "questions": cell.questions,
            "accuracy": cell.accuracy,
            "fitted %": PERCENT * fit.curve.accuracy(cell.tokens),
        }
        for fit in found.levels
        for cell in fit.cells
    ]


def _with_interval(found: Estimate) -> str:
    if found.lower == found.upper:
        return f"{found.value:.3g}"
    return f"{found.value:.3g} ({found.lower:.3g} – {found.upper:.3g})"  # noqa: RUF001 -- a range
