"""``pb-optim curve``: accuracy against budget from one long answer to each question."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from optim.cli.evaluate import errors_of, fail_if_nothing, notes_of
from optim.cli.options import AsJson, with_options
from optim.cli.terminal import echo, numbers, print_rows
from optim.evaluate import Experiment
from optim.evaluate.curve import curve_methods
from optim.methods import Ending
from optim.statistics.estimates import PERCENT

if TYPE_CHECKING:
    from optim.bam.curve import BudgetCurve


@with_options(Experiment, "inspect_ai", "filelock")
def curve(  # noqa: PLR0913 -- one parameter for each option
    options: dict[str, Any],
    *,
    methods: Annotated[
        str, typer.Option("--method", help="Answers in one call: vanilla, cosine, …")
    ] = "vanilla",
    budgets: Annotated[
        str, typer.Option(help="Completion tokens of solving; answered once at the largest.")
    ] = "50,100,150,200,300,400,600,800",
    check: Annotated[
        str | None, typer.Option(help="Budgets that are also run by themselves, such as 100,400.")
    ] = None,
    ending: Annotated[
        Ending | None,
        typer.Option(
            help="The result of a cut answer: the model goes on from its own words, or is asked "
            "in a further turn. Default: the former for local models."
        ),
    ] = None,
    share: Annotated[
        float | None,
        typer.Option(
            min=1,
            max=100,
            help="Totals by level that keep this percentage of the accuracy. Default: by E³.",
        ),
    ] = None,
    output: Annotated[
        str | None, typer.Option("--output", "-o", metavar="FILE", help="A page to write.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Answer each question once, cut the answer at smaller budgets, and ask for its result.

    The same command again goes on where it was, and --check may be added to it.
    """
    from optim.bam.curve import curve_of  # noqa: PLC0415 -- Inspect takes seconds
    from optim.evaluate import evaluate  # noqa: PLC0415

    experiment = Experiment(**options | {"methods": methods})
    method = experiment.chosen_methods()[0]
    wanted = numbers("--budgets", budgets), numbers("--check", check) if check else ()
    chosen = curve_methods(method, *wanted, ending=ending)
    evaluation = evaluate(replace(experiment, methods=chosen))
    fail_if_nothing(evaluation)
    found = curve_of(evaluation.records, method.name, None if share is None else share / PERCENT)
    if output is not None:
        from optim.report.curve import curve_page  # noqa: PLC0415
        from optim.report.export import write  # noqa: PLC0415

        write(Path(output), curve_page(found))
    if as_json:
        echo(found.to_dict() | {"spent": evaluation.spent, "not_started": evaluation.not_started})
        return
    _show(found)
    for note in [*errors_of(evaluation), *_next(found, options), *notes_of(evaluation)]:
        typer.echo(note)


def _show(found: BudgetCurve) -> None:
    from optim.report.curve import check_rows, level_rows, point_rows  # noqa: PLC0415

    print_rows(point_rows(found))
    typer.echo(
        f"{found.paid} completion tokens for the curve; a run for each budget would have taken "
        f"{found.apart}: the curve took {found.paid / max(found.apart, 1):.2f} times as many."
    )
    if found.checks:
        typer.echo("\nThe curve against runs of their own (curve minus run)")
        print_rows(check_rows(found))
    by = "E³" if found.share is None else f"the smallest with {found.share:.0%} of the accuracy"
    if found.levels:
        typer.echo(f"\nTotals by level, by {by}")
        print_rows(level_rows(found))
    else:
        typer.echo("\nNo answer is right at any budget, so no total is better than another.")


def _next(found: BudgetCurve, options: dict[str, Any]) -> Iterator[str]:
    """What to do with it: measure the totals, fit the model of budgets."""
    if (totals := found.totals) is not None:
        rule = json.dumps(totals.model_dump(mode="json"), separators=(",", ":"))
        yield f"The totals as a setting: --set {shlex.quote(f'budget={rule}')}"
    logs = shlex.quote(str(options["log_dir"]))
    yield (
        f"pb-optim calibrate {logs} --method curve_{found.method} fits c and beta to the curve; "
        f"pb-optim report {logs} shows what the best budget for every question could reach."
    )
