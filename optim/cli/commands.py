"""Define the commands of ``pb-optim``: measure methods, report the figures, and tune."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from optim import evaluation, records, reporting, tuning  # which load on first use
from optim.cli.options import (
    AsJson,
    Logs,
    Partial,
    PriceRatio,
    PricesOption,
    echo,
    exits,
    plain_errors,
    read_numbers,
    read_prices,
    with_options,
)
from optim.datasets import Question, Questions, sample
from optim.datasets.questions import option
from optim.evaluation.experiment import Experiment
from optim.scorers import as_scorer, scorer_name
from optim.tuning.options import TuneOptions, resolve_optimizer
from pb_graph.cli.options import Version, run_command
from pb_graph.errors import InputError
from pb_graph.program import PlannerProgram

if TYPE_CHECKING:
    import pandas as pd

    from optim.evaluation import Evaluation

_REASONS = 3  # of errors that are shown; the logs have all
_ASKS_ABOVE = 200  # answers
_SHARE = 8  # of the answers, for the dev questions: six candidates, the original, the verdict

PROGRAM = "program.json"
"""The tuned program in the run folder."""

app = typer.Typer(
    name="pb-optim",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",  # paragraphs of help are wrapped
)


def main() -> None:
    """Run the console script."""
    run_command(app)


@app.callback()
def _every_command(*, version: Version = False) -> None:
    """Evaluate methods, report their figures, and tune prompts and settings."""


@app.command("eval")
@with_options(Experiment)
def evaluate_methods(
    experiment: Experiment,
    *,
    ray: Annotated[
        int | None,
        typer.Option(metavar="N", help="Run in N parts on Ray.", rich_help_panel="Limits"),
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Begin without asking.", rich_help_panel="Limits")
    ] = False,
    price_ratio: PriceRatio = 4.0,
    as_json: AsJson = False,
) -> None:
    """Answer questions with methods, score the answers, and print the table.

    The same command continues a run and pays for no answer twice.
    """
    from optim.reporting import tables  # noqa: PLC0415 -- pandas takes a second

    def confirm(size: str, count: int) -> None:
        typer.echo(size, err=True)
        asks = count > _ASKS_ABOVE and not yes and is_interactive()
        if asks and not typer.confirm("Begin?", err=True):
            raise typer.Abort

    run = None if ray is None else evaluation.on_ray(ray)
    found = evaluation.evaluate(experiment, confirm=confirm, run=run)
    table = tables.answers(found.records, prices=experiment.prices, price_ratio=price_ratio)
    grid = None if experiment.grid is None else tables.budget_grid(table)
    if as_json:
        document = {
            "figures": tables.to_rows(tables.figures(table)),
            "spent": found.spent,
            "not_started": found.not_started,
            "log_dir": str(found.log_dir),
        }
        grids = {} if grid is None else {"budget_grid": tables.to_rows(grid.reset_index())}
        echo(document | grids)
    else:
        for line in _lines(found, table, grid):
            typer.echo(line)
    if all(record.score is None for record in found.records):
        error = next((record.error for record in found.records if record.error), None)
        if error or found.not_started:
            exits.fail(f"nothing was answered: {error or 'the limit is reached'}")
        typer.echo("No question falls into this part: there is nothing to do.", err=True)


def is_interactive() -> bool:
    """Return whether a user can answer a prompt in a terminal."""
    return sys.stdin.isatty()


def _lines(found: Evaluation, table: pd.DataFrame, grid: pd.DataFrame | None) -> Iterator[str]:
    """Yield the table, its remarks, the grid, the errors, the comparisons and the cost."""
    from optim.e3 import describe  # noqa: PLC0415
    from optim.reporting import formatting, tables  # noqa: PLC0415

    figures = tables.figures(table)
    yield formatting.text_table(formatting.displayed(figures))
    yield from formatting.remarks(figures)
    if grid is not None:
        yield f"\nE³ by B_init (down) and B_per_level (across)\n{grid.round(2)}"
    reasons = Counter(str(one.error) for one in found.records if one.score is None)
    if reasons:
        yield (
            f"Warning: {reasons.total()} of {len(found.records)} answers failed (model or "
            "scorer error) and are excluded, so methods with failures may look better than they "
            "are. The same command asks them again."
        )
        for reason, count in reasons.most_common(_REASONS):
            text = "".join(c for c in " ".join(reason.split()) if c.isprintable())
            yield f"  {count} times: {text[:200]}"
        yield f"  All of them: inspect view --log-dir {found.log_dir}"
    baseline = None if table.empty else tables.choose_baseline(table)
    for method, result in tables.comparisons(table, baseline).items() if baseline else ():
        text = result if isinstance(result, str) else describe(result)
        yield f"{method} against {baseline}: {text}"
    yield f"{found.spent} completion tokens spent in {found.log_dir}; shared plans count once."
    if found.not_started:
        yield (
            f"The limit is reached: {found.not_started} answers were not begun. The same "
            "command with a higher limit continues."
        )


@app.command()
@plain_errors()
def report(  # noqa: PLR0913, PLR0917 -- one parameter for each option
    logs: Logs,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="Ends with .html, .json or .csv.")
    ] = "report.html",
    baseline: Annotated[
        str | None,
        typer.Option(help="Compare with this method. Default: vanilla, else global_budget."),
    ] = None,
    paper: Annotated[bool, typer.Option("--paper", help="Add the paper's figures.")] = False,
    partial: Partial = False,
    prices: PricesOption = "auto",
    price_ratio: PriceRatio = 4.0,
) -> None:
    """Write one HTML page with the figures, charts and tables of an evaluation or a tuning.

    Logs of several folders are pooled. Missing and repeated parts are refused. A file of another
    ending holds the figures alone, as JSON or CSV.
    """
    found = records.read_records(logs, partial=partial)
    table = reporting.answers(found, prices=read_prices(prices), price_ratio=price_ratio)
    reporting.report(table, output, baseline=baseline, paper=paper)
    typer.echo(f"{output} is written.")


@app.command()
@plain_errors()
def certify(  # noqa: PLR0913, PLR0917 -- one parameter for each option
    logs: Logs,
    loss: Annotated[
        float, typer.Option(help="Largest accepted loss, in points of accuracy.")
    ] = 3.0,
    confidence: Annotated[float, typer.Option(help="Confidence of the proof, in percent.")] = 95.0,
    baseline: Annotated[str, typer.Option(help="Method to compare with.")] = "vanilla",
    partial: Partial = False,
    prices: PricesOption = "auto",
    price_ratio: PriceRatio = 4.0,
    as_json: AsJson = False,
) -> None:
    """Find the cheapest method whose loss of accuracy is proven to stay below a bound.

    Methods are tested one after the other, until a test fails. With the default --confidence, a
    method that loses more is certified in at most 5 % of all cases. Choose all options before you
    see the answers.
    """
    import pandas as pd  # noqa: PLC0415 -- takes a second

    from optim.reporting import formatting  # noqa: PLC0415
    from optim.reporting.tables import to_rows  # noqa: PLC0415

    found = records.read_records(logs, partial=partial)
    if not found:
        msg = "there is no answer to certify yet"
        raise InputError(msg)
    result = reporting.certify(
        reporting.answers(found, prices=read_prices(prices), price_ratio=price_ratio),
        loss=loss,
        confidence=confidence,
        baseline=baseline,
        is_partial=partial,
    )
    rows = to_rows(result.rows)
    if as_json:
        echo(asdict(result) | {"rows": rows})
        return
    trials = [
        {
            "worse / better": f"{row['worse']:.0f} / {row['better']:.0f}",
            "loss, at most": f"{row['loss']:.1f}, {row['bound']:.1f} ({row['kind']})",
            "proven": "yes" if row["is_proven"] else "no",
        }
        if row["place"] is not None
        else {}
        for row in rows
    ]
    tests = pd.DataFrame(trials).fillna(formatting.DASH)
    typer.echo(formatting.text_table(formatting.displayed(result.rows).join(tests)))
    typer.echo(result.sentence)


@app.command()
@plain_errors()
def caps(  # noqa: PLR0913, PLR0917 -- one parameter for each option
    logs: Logs,
    method: Annotated[str | None, typer.Option(help="The method, if there are several.")] = None,
    ladder: Annotated[str | None, typer.Option("--caps", metavar="N,N", help="The caps.")] = None,
    objective: Annotated[Literal["e3", "money"], typer.Option(help="What it maximizes.")] = "e3",
    loss: Annotated[float, typer.Option(help="Points of accuracy that it may lose.")] = 3.0,
    write: Annotated[Path | None, typer.Option(help="A file for settings with the cap.")] = None,
    by_level: Annotated[bool, typer.Option("--by-level", help="Write a cap a level.")] = False,
    price_ratio: PriceRatio = 4.0,
    as_json: AsJson = False,
) -> None:
    """Show accuracy, tokens, money and E³ at each cap, read off a run without caps.

    Nothing is asked. A longer answer is cut off, and wrong. The choice is checked on held-out
    halves of the questions.
    """
    from optim.e3 import describe  # noqa: PLC0415
    from optim.reporting import formatting  # noqa: PLC0415 -- pandas takes a second
    from optim.reporting.tables import to_rows  # noqa: PLC0415

    result = reporting.read_caps(
        [record for record in records.read_records(logs) if method in {None, record.method}],
        caps=read_numbers("--caps", ladder) if ladder else None,
        objective=objective,
        loss=loss,
        price_ratio=price_ratio,
    )
    settings = result.settings(by_level=by_level)
    if write is not None:
        write.write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
    if as_json:
        rows = to_rows(result.ladder)
        echo({"ladder": rows, "settings": settings, "held_out": asdict(result.held_out)})
        return
    ended = formatting.Column(lambda row: formatting.number(row["ended"]))
    columns = {"ended, %": ended, **formatting.COLUMNS}
    frame = result.ladder.assign(method=result.ladder.cap.map("{:,} tokens".format))
    typer.echo(formatting.text_table(formatting.displayed(frame, columns)))
    typer.echo(f"Chosen: {', '.join(formatting.format_settings(settings))}")
    typer.echo(f"Held out, against no cap: {describe(result.held_out)}")


@dataclass(frozen=True, kw_only=True)
class TuneCommand(TuneOptions, Questions):
    """The choices of `pb-optim tune`: `Questions`, `TuneOptions` and the models.

    ``settings`` overrides those of ``program``.
    """

    scorer: str | None = None
    model: str | None = None
    planner: str | None = None
    cap_policy: str | None = option("The one that `pb-graph probe` names.", "Model", None)
    program: str | None = option("A saved program to start from.", "Model", None)
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        TuneOptions.__post_init__(self)
        Questions.__post_init__(self)


@app.command("tune")
@with_options(TuneCommand)
def tune_program(command: TuneCommand, *, as_json: AsJson = False) -> None:
    """Tune prompts, the solver's examples or settings for E³; write a program file.

    The winner is compared with the original on a third of the questions. The verdict is better
    (confidence 90 %), undecided (the winner is used) or kept (the original stays). Run the same
    command again to resume; no answer is paid twice.
    """
    from optim.tuning.run import draw  # noqa: PLC0415 -- DSPy takes a second

    optimizer = resolve_optimizer(command)
    program = tuning.GraphProgram(
        command.model,
        planner=command.planner,
        settings=command.settings,
        planner_program=command.program,
        cap_policy=command.cap_policy,
    )
    dev = command.load()
    most = command.budget // _SHARE * 3 // 2  # with the third that is held out
    most += most // 3 if optimizer.learns else 0
    if command.limit is None and len(dev) > most >= 1:
        typer.echo(
            f"{most} of {len(dev)} questions are used, so that {command.budget} answers measure "
            f"about {_SHARE - 2} candidates. Choose another number by --limit.",
            err=True,
        )
        dev = sample(dev, most, command.seed)
    train: list[Question] = []
    if optimizer.learns:
        train, dev = draw(dev, 4, command.seed)
    scorer = as_scorer(command.scorer or command.source.scorer)
    origin = command.origin() | {"dataset": command.label, "scorer": scorer_name(scorer)}
    keys = ("dataset", "data", "split", "scorer", "command")
    result = tuning.tune(
        program,
        train,
        dev,
        scorer=scorer,
        about={name: origin[name] for name in keys if origin[name]},
        **{item.name: getattr(command, item.name) for item in fields(TuneOptions)},
    )
    path = Path(command.run_dir) / PROGRAM
    result.save(path)
    _show_program(result.artefact, as_json=as_json)
    typer.echo(f"{path} is written: pb-graph solve --program {path}", err=True)


@app.command()
@plain_errors()
def show(
    path: Annotated[str, typer.Argument(help="A file that `pb-optim tune` wrote.")],
    as_json: AsJson = False,
) -> None:
    """Show a tuned program: its prompts beside the package's own, and its figures."""
    _show_program(PlannerProgram.load(path), as_json=as_json)


def _show_program(program: PlannerProgram, *, as_json: bool) -> None:
    from optim.reporting.formatting import console  # noqa: PLC0415
    from optim.tuning.run import shown  # noqa: PLC0415 -- DSPy takes a second

    if as_json:
        echo(program.model_dump(mode="json"))
        return
    for piece in shown(program):
        console().print(piece)
