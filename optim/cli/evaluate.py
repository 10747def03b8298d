"""``pb-optim eval``: answer questions, score the answers, and compare."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from optim.cli.options import AsJson, with_options
from optim.cli.terminal import echo, exits, numbers
from optim.evaluation import Experiment
from optim.methods import Grid, method_from_file
from optim.records.parts import PARTS
from pb_graph.errors import InputError

if TYPE_CHECKING:
    from optim.evaluation import Evaluation
    from optim.evaluation.models import ModelSpec
    from optim.records import Record

_REASONS = 3  # of errors that are shown; the logs have all


@with_options(Experiment, "inspect_ai", "filelock")
def evaluate_methods(  # noqa: PLR0913 -- one parameter for each option
    options: dict[str, Any],
    *,
    planner: Annotated[
        list[str] | None,
        typer.Option(metavar="MODEL", help="The same for planning. Repeat it to compare planners."),
    ] = None,
    settings_file: Annotated[
        list[str] | None,
        typer.Option(
            "--settings", metavar="FILE", help="A method from a JSON file of settings; repeatable."
        ),
    ] = None,
    grid_initial: Annotated[
        str | None, typer.Option(help="Budget sensitivity: values of B_init, such as 50,100.")
    ] = None,
    grid_per_level: Annotated[
        str | None, typer.Option(help="Budget sensitivity: values of B_per_level.")
    ] = None,
    ray: Annotated[
        bool, typer.Option("--ray", help="Run in parts on Ray: RAY_ADDRESS, or this machine.")
    ] = False,
    parts: Annotated[
        int | None, typer.Option(min=1, help=f"With --ray: how many parts. Default: {PARTS}.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Answer questions with one or more methods, score the answers, and print the table.

    The same command again goes on where it was: finished answers are not paid for again.
    """
    experiment = _experiment(options, settings_file or (), (grid_initial, grid_per_level))
    if parts and not ray:
        msg = "--parts is for --ray; one part for each of several machines is --part 1/16"
        raise InputError(msg)
    how: dict[str, Any] = {"engine": "ray", "parts": parts or PARTS} if ray else {}
    evaluation = evaluate_planners(experiment, list(dict.fromkeys(planner or ())) or [None], **how)
    _show(evaluation, as_json=as_json, by_budget=grid_initial is not None)
    _fail_if_nothing(evaluation)


def _fail_if_nothing(evaluation: Evaluation) -> None:
    """End the process where no answer has a score, but for a part that has no question."""
    if not (evaluation.records or evaluation.not_started):
        typer.echo("No question falls into this part: there is nothing to do.", err=True)
    elif not any(row.n for row in evaluation.rows):
        error = next((record.error for record in evaluation.records if record.error), None)
        exits.failed(f"nothing was answered: {error or 'the limit of tokens was reached before'}")


def _experiment(
    options: dict[str, Any], files: Sequence[str], grid: tuple[str | None, str | None]
) -> Experiment:
    """The experiment of a command line, with methods by settings files and over a grid."""
    mine = [method_from_file(file, options["settings"]) for file in files]
    experiment = Experiment(**options | {"methods": [options["methods"], *mine]})
    initial, per_level = grid
    if initial is None and per_level is None:
        return experiment
    if initial is None or per_level is None:
        msg = "a grid needs both --grid-initial and --grid-per-level"
        raise InputError(msg)
    values = numbers("--grid-initial", initial), numbers("--grid-per-level", per_level)
    return replace(experiment, methods=Grid(*values).over(experiment.chosen_methods()))


def evaluate_planners(
    experiment: Experiment,
    planners: Sequence[ModelSpec],
    **how: Any,  # noqa: ANN401 -- of `evaluate`
) -> Evaluation:
    """Run the experiment with each planner, in one folder; rows and records name theirs.

    Answers that need no planner are paid for once. A limit of tokens is for all of it.
    """
    from optim.evaluation import Evaluation, evaluate  # noqa: PLC0415 -- Inspect takes seconds
    from optim.records import Records  # noqa: PLC0415
    from optim.summary import rows  # noqa: PLC0415

    runs = [evaluate(replace(experiment, planner=given), **how) for given in planners]
    # On Ray a run gives what the folder holds, of other planners too: an answer counts once.
    answers = {(r.method, r.planner, r.question, r.epoch): r for run in runs for r in run.records}
    records = Records(answers.values())
    not_started = sum(run.not_started for run in runs)
    return Evaluation(records, rows(records), runs[-1].spent, not_started, runs[-1].log_dir)


def _show(evaluation: Evaluation, *, as_json: bool, by_budget: bool) -> None:
    from optim.report.tables import budget_grid, sensitivity  # noqa: PLC0415
    from optim.report.terminal import Figures, console, grid_of, notes  # noqa: PLC0415

    records, summary = evaluation.records, evaluation.rows
    tables = {"sensitivity": sensitivity, "budget_grid": budget_grid} if by_budget else {}
    figures = {name: made(records) for name, made in tables.items()}
    if as_json:
        echo(
            {
                "rows": [row.to_dict() for row in summary],
                "spent": evaluation.spent,
                "not_started": evaluation.not_started,
                "log_dir": str(evaluation.log_dir),
            }
            | figures
        )
        return
    if figures:
        listed = grid_of(figures["sensitivity"])
        listed.caption = None  # it is among the notes
        console().print(listed, crop=False)
        typer.echo("\nE³ by B_init (down) and B_per_level (across)")
        console().print(grid_of(figures["budget_grid"]), *notes(summary), sep="\n", crop=False)
    else:
        console().print(Figures(summary))
    for note in [*_errors(evaluation), *_comparisons(records), *_notes(evaluation)]:
        typer.echo(note)


def _errors(evaluation: Evaluation) -> Iterator[str]:
    """How many answers have no score, and the commonest reasons."""
    reasons = Counter(str(r.error) for r in evaluation.records if r.score is None)
    if not reasons:
        return
    total, asked = sum(reasons.values()), len(evaluation.records)
    yield (
        f"WARNING: {total} OF {asked} ANSWERS NEVER CAME, for a reason outside the methods, or "
        "could not be judged. The figures leave them out, which may flatter the methods that have "
        "them. --retry-errors asks them again."
    )
    for reason, count in reasons.most_common(_REASONS):
        shown = "".join(c for c in " ".join(reason.split()) if c.isprintable())
        yield f"  {count} times: {shown[:200]}"
    yield f"  All of them: inspect view --log-dir {evaluation.log_dir}"


def _comparisons(records: Sequence[Record]) -> Iterator[str]:
    """A sentence for each method against the usual baseline, where there are several."""
    from optim.e3 import describe  # noqa: PLC0415
    from optim.report import studies  # noqa: PLC0415

    found = studies(records) if records else []
    for study in found:
        by = f", planned by {study.planner}" if len(found) > 1 else ""
        for versus in study.versus:
            told = describe(versus.comparison) if versus.comparison else versus.why_not
            yield f"{versus.method} against {study.baseline}{by}: {told}"


def _notes(evaluation: Evaluation) -> Iterator[str]:
    """What else a reader of the table has to know."""
    yield (
        f"{evaluation.spent} completion tokens spent in {evaluation.log_dir}; shared plans count "
        "once."
    )
    if evaluation.not_started:
        yield (
            f"The limit is reached: {evaluation.not_started} answers were not begun. The same "
            "command with a higher --max-tokens-total goes on."
        )
    if not all(row.measured for row in evaluation.rows):
        yield "Some tokens are estimated: the server reports none."
