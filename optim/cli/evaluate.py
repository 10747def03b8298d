"""``pb-optim eval``: answer questions with methods, and score the answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

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
from optim.cli.terminal import echo, exits, numbers, plain_errors
from pb_graph.assignments import assignments, value_of
from pb_graph.errors import InputError

if TYPE_CHECKING:
    from optim.evaluate import Evaluation
    from optim.experiment import Experiment
    from optim.methods import Method


@app.command("eval")
def evaluate_methods(  # noqa: PLR0913, PLR0917 -- one parameter for each option
    dataset: DataSet,
    model: Model = None,
    planner: Annotated[
        list[str] | None,
        typer.Option(help="The same for planning. Repeat it to compare planners."),
    ] = None,
    methods: Annotated[
        str,
        typer.Option(help="Names with commas: vanilla … cosine, default, stepwise; all: the ten."),
    ] = "all",
    settings: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE", help="A method from a JSON file of settings; repeatable."),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A setting of all methods; repeatable."),
    ] = None,
    program: Annotated[str | None, typer.Option(help="A saved planner program.")] = None,
    data: Data = None,
    split: Split = None,
    field: Fields = None,
    skip_bad_rows: Annotated[bool, typer.Option(help="Leave out rows that are none.")] = False,
    levels: Levels = None,
    limit: Limit = None,
    epochs: Annotated[int, typer.Option(help="How often each question is asked.")] = 1,
    seed: Annotated[int, typer.Option(help="Of the draw of questions.")] = 0,
    scorer: Scorer = None,
    estimate_level: EstimateLevel = False,
    concurrency: Concurrency = 8,
    log_dir: Annotated[str, typer.Option(help="Folder of logs and of what is paid for.")] = "logs",
    max_tokens_total: Annotated[
        int | None, typer.Option(help="Begin no answer once so many completion tokens are spent.")
    ] = None,
    retry_errors: RetryErrors = False,
    grid_initial: Annotated[
        str | None, typer.Option(help="Budget sensitivity: values of B_init, such as 50,100.")
    ] = None,
    grid_per_level: Annotated[
        str | None, typer.Option(help="Budget sensitivity: values of B_per_level.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Answer questions with one or more methods, score the answers, and print the table.

    The same command again goes on where it was: finished answers are not paid for again.
    """
    with plain_errors():
        overrides = {name: value_of(text) for name, text in assignments("--set", set_).items()}
        experiment = _experiment(
            dataset=dataset,
            methods=_methods(methods, settings, overrides, (grid_initial, grid_per_level)),
            settings=overrides,
            model=model,
            planner_program=program,
            data=data,
            split=split,
            fields=assignments("--field", field),
            skip_bad_rows=skip_bad_rows,
            levels=numbers("--levels", levels) if levels else None,
            limit=limit,
            epochs=epochs,
            seed=seed,
            scorer=scorer,
            estimate_level=estimate_level,
            concurrency=concurrency,
            log_dir=log_dir,
            max_tokens_total=max_tokens_total,
            retry_errors=retry_errors,
        )
        found = _evaluated(experiment, planner or [])
    _show(found, as_json=as_json, by_budget=grid_initial is not None)
    if not any(row.n for row in found.rows):
        exits.failed(_why_nothing(found))


def _experiment(**options: Any) -> Experiment:  # noqa: ANN401 -- the fields of Experiment
    from optim.experiment import Experiment  # noqa: PLC0415

    return Experiment(**options)


def _methods(
    names: str,
    files: Sequence[str] | None,
    overrides: dict[str, Any],
    grid: tuple[str | None, str | None],
) -> Sequence[Method]:
    from optim.methods import method_from_file, methods  # noqa: PLC0415

    chosen = [
        *methods(names, overrides),
        *(method_from_file(file, overrides) for file in files or []),
    ]
    initial, per_level = grid
    if initial is None and per_level is None:
        return chosen
    if initial is None or per_level is None:
        msg = "a grid needs both --grid-initial and --grid-per-level"
        raise InputError(msg)
    from optim.experiments.budget_sensitivity import Grid  # noqa: PLC0415

    values = numbers("--grid-initial", initial), numbers("--grid-per-level", per_level)
    return Grid(*values).over(chosen)


def _evaluated(experiment: Experiment, planners: Sequence[str]) -> Evaluation:
    from optim.experiments.planner_sensitivity import evaluate_planners  # noqa: PLC0415

    return evaluate_planners(experiment, planners or [None])


def _show(found: Evaluation, *, as_json: bool, by_budget: bool) -> None:
    from optim.report.terminal import console, grid_of, table  # noqa: PLC0415
    from optim.summary import sensitivity  # noqa: PLC0415

    if as_json:
        echo(
            {
                "rows": [row.to_dict() for row in found.rows],
                "spent": found.spent,
                "not_started": found.not_started,
                "log_dir": str(found.log_dir),
            }
            | ({"sensitivity": sensitivity(found.records)} if by_budget else {})
        )
        return
    console().print(grid_of(sensitivity(found.records)) if by_budget else table(found.rows))
    for note in _notes(found):
        typer.echo(note)


def _notes(found: Evaluation) -> list[str]:
    """What a reader of the table has to know."""
    notes = [f"{found.spent} completion tokens spent in {found.log_dir}; shared plans count once."]
    errors = sum(row.errors for row in found.rows)
    if errors:
        notes.append(f"{errors} answers ended in an error and have no score; --retry-errors asks")
        notes[-1] += " them again. Their reasons are in the logs: inspect view --log-dir "
        notes[-1] += f"{found.log_dir}"
    if found.not_started:
        notes.append(f"The limit is reached: {found.not_started} answers were not begun. The same")
        notes[-1] += " command with a higher --max-tokens-total goes on."
    if not all(row.measured for row in found.rows):
        notes.append("Some tokens are estimated: the server reports none.")
    return notes


def _why_nothing(found: Evaluation) -> str:
    error = next((record.error for record in found.records if record.error), None)
    return f"nothing was answered: {error or 'the limit of tokens was reached before'}"
