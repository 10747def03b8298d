"""``pb-optim``: measure methods on a data set, and look at what was measured."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn

import typer

from pb_graph.assignments import assignments, value_of
from pb_graph.errors import InputError, PlanAndBudgetError

if TYPE_CHECKING:
    from rich.console import Console

    from optim.evaluate import Evaluation
    from optim.experiment import Experiment
    from optim.experiments.layout import Cells
    from optim.methods import Method
    from pb_graph.artefact import Artefact
    from pb_graph.settings import Settings

FAILED, USAGE, INTERRUPTED = 1, 2, 130

app = typer.Typer(
    name="pb-optim",
    help="Measure and improve Plan-and-Budget.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON only.")]
Logs = Annotated[str, typer.Argument(help="The --log-dir of `pb-optim eval`.")]


@app.callback()
def _commands() -> None:
    """Measure and improve Plan-and-Budget."""


@app.command("eval")
def evaluate_methods(  # noqa: PLR0913, PLR0917 -- one parameter for each option
    dataset: Annotated[str, typer.Option(help="math500, gsm8k, … or arithmetic (offline).")],
    model: Annotated[
        str | None, typer.Option(help="'provider:model' or 'local:NAME' that solves.")
    ] = None,
    planner: Annotated[
        list[str] | None,
        typer.Option(help="The same for planning. Repeat it to compare planners."),
    ] = None,
    methods: Annotated[
        str, typer.Option(help="Names with commas: vanilla … cosine, stepwise; all: the ten rows.")
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
    data: Annotated[str | None, typer.Option(help="A local file instead of the hub.")] = None,
    split: Annotated[str | None, typer.Option(help="Another split of the hub's.")] = None,
    field: Annotated[
        list[str] | None,
        typer.Option(metavar="OURS=THEIRS", help="The file's name for a column; repeatable."),
    ] = None,
    skip_bad_rows: Annotated[bool, typer.Option(help="Leave out rows that are none.")] = False,
    levels: Annotated[str | None, typer.Option(help="Only these levels, such as 1,2.")] = None,
    limit: Annotated[int | None, typer.Option(help="Questions, evenly over the levels.")] = None,
    epochs: Annotated[int, typer.Option(help="How often each question is asked.")] = 1,
    seed: Annotated[int, typer.Option(help="Of the draw of questions.")] = 0,
    scorer: Annotated[str | None, typer.Option(help="Another scorer than the usual one.")] = None,
    estimate_level: Annotated[
        bool, typer.Option(help="Estimate each question's level instead of taking the label.")
    ] = False,
    concurrency: Annotated[int, typer.Option(help="Questions answered at once.")] = 8,
    log_dir: Annotated[str, typer.Option(help="Folder of logs and of what is paid for.")] = "logs",
    max_tokens_total: Annotated[
        int | None, typer.Option(help="Begin no answer once so many completion tokens are spent.")
    ] = None,
    retry_errors: Annotated[bool, typer.Option(help="Answer failed questions again.")] = False,
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
    try:
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
            levels=_numbers("--levels", levels) if levels else None,
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
    except KeyboardInterrupt:
        typer.echo("pb-optim: interrupted; the same command goes on from here.", err=True)
        raise typer.Exit(INTERRUPTED) from None
    except InputError as error:
        _misused(str(error))
    except PlanAndBudgetError as error:
        _fail(str(error))
    _show(found, as_json=as_json, by_budget=grid_initial is not None)
    if not any(row.n for row in found.rows):
        _fail(_why_nothing(found))


@app.command()
def levels(logs: Logs, as_json: AsJson = False) -> None:
    """Tokens and score of each method by difficulty level."""
    from optim.experiments.levels import by_level  # noqa: PLC0415 -- Inspect takes seconds
    from optim.records import read_records  # noqa: PLC0415

    try:
        _print(by_level(read_records(logs)), as_json=as_json)
    except InputError as error:
        _misused(str(error))


@app.command()
def latency(logs: Logs, as_json: AsJson = False) -> None:
    """Seconds of planning and estimation against seconds of solving."""
    from optim.experiments.latency import latency as breakdown  # noqa: PLC0415
    from optim.records import read_records  # noqa: PLC0415

    try:
        _print(breakdown(read_records(logs)), as_json=as_json)
    except InputError as error:
        _misused(str(error))


@app.command()
def report(  # noqa: PLR0913, PLR0917 -- one parameter for each option
    logs: Logs,
    output: Annotated[
        str | None, typer.Option("--output", "-o", metavar="FILE", help="Default: report.html.")
    ] = None,
    baseline: Annotated[
        str | None, typer.Option(help="Compare with this method. Default: global_budget.")
    ] = None,
    paper: Annotated[bool, typer.Option("--paper", help="The paper's figures beside.")] = False,
    as_json: AsJson = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print a line for each method.")] = False,
) -> None:
    """Write one HTML page about what was measured: figures, charts, and every wrong answer.

    With --json or --csv, print the figures for machines instead, or write them to the output.
    """
    from optim.records import read_records  # noqa: PLC0415 -- Inspect takes seconds
    from optim.report import rendered, studies  # noqa: PLC0415

    try:
        kind = _kind(as_json=as_json, as_csv=as_csv)
        content = rendered(studies(read_records(logs), baseline), kind, paper=paper)
    except InputError as error:
        _misused(str(error))
    if output is None and kind != "html":
        typer.echo(content, nl=False)
        return
    path = Path(output or "report.html")
    _write(path, content)
    typer.echo(f"{path} is written.", err=kind != "html")


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

    try:
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
        budgets = _numbers("--budget", budget)
        outcomes = played(world, budgets, queries=queries, seed=seed, console=_beside())
    except InputError as error:
        _misused(str(error))
    if as_json:
        _echo([outcome.to_dict() for outcome in outcomes])
        return
    order = "hardest first" if front_loaded else "in no order"
    whose = settings or "the default settings, which are an assumption"
    typer.echo(f"{queries:,} queries of {steps} steps, {order}; c and beta about those of {whose}.")
    from optim.experiments.bam import show_outcomes  # noqa: PLC0415
    from optim.experiments.layout import console  # noqa: PLC0415

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

    try:
        found = fitted(read_records(logs), method=method, aleatoric=aleatoric, pool=pool)
    except InputError as error:
        _misused(str(error))
    _write(Path(output), json.dumps(found.settings(), indent=2) + "\n")
    if as_json:
        _echo(found.to_dict())
        return
    from optim.experiments.bam import show_calibration  # noqa: PLC0415
    from optim.experiments.layout import console  # noqa: PLC0415

    show_calibration(found, console())
    typer.echo(f"{output} is written: pb-optim eval --settings {output}")


@app.command("tune")
def tune_program(  # noqa: PLR0913, PLR0917 -- one parameter for each option
    dataset: Annotated[str, typer.Option(help="math500, gsm8k, … or arithmetic (offline).")],
    model: Annotated[
        str | None, typer.Option(help="'provider:model' or 'local:NAME' that solves.")
    ] = None,
    planner: Annotated[str | None, typer.Option(help="The same for planning.")] = None,
    reflection_model: Annotated[
        str | None, typer.Option(help="Writes instructions. Default: the planner.")
    ] = None,
    optimizer: Annotated[
        str, typer.Option(help="gepa, copro, miprov2, simba, random or candidates.")
    ] = "gepa",
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
    data: Annotated[str | None, typer.Option(help="A local file instead of the hub.")] = None,
    split: Annotated[str | None, typer.Option(help="Another split of the hub's.")] = None,
    field: Annotated[
        list[str] | None,
        typer.Option(metavar="OURS=THEIRS", help="The file's name for a column; repeatable."),
    ] = None,
    levels: Annotated[str | None, typer.Option(help="Only these levels, such as 1,2.")] = None,
    limit: Annotated[int | None, typer.Option(help="Questions, evenly over the levels.")] = None,
    scorer: Annotated[str | None, typer.Option(help="Another scorer than the usual one.")] = None,
    estimate_level: Annotated[
        bool, typer.Option(help="Estimate each question's level instead of taking the label.")
    ] = False,
    budget_calls: Annotated[
        int | None, typer.Option(help="Answers that the run folder may cost.")
    ] = 400,
    budget_tokens: Annotated[int | None, typer.Option(help="Completion tokens, likewise.")] = None,
    budget_minutes: Annotated[float | None, typer.Option(help="Minutes, likewise.")] = None,
    rounds: Annotated[int, typer.Option(help="How often the optimizer starts anew, at most.")] = 3,
    seed: Annotated[int, typer.Option(help="Of everything drawn by chance.")] = 0,
    concurrency: Annotated[int, typer.Option(help="Questions answered at once.")] = 8,
    run_dir: Annotated[str, typer.Option(help="Folder of the run.")] = "runs/tune",
    retry_errors: Annotated[bool, typer.Option(help="Answer failed questions again.")] = False,
    as_json: AsJson = False,
) -> None:
    """Tune the planner's prompt, or the settings, for E³ on a dev split; write a program file.

    A third of the questions is held out: what is found replaces the original only when it is not
    worse there. The same command again goes on where it was; nothing is paid for twice.
    """
    from optim.tune.bench import Limits  # noqa: PLC0415 -- DSPy takes a second
    from optim.tune.command import Tuning  # noqa: PLC0415
    from optim.tune.command import run as tuned  # noqa: PLC0415

    try:
        found = tuned(
            Tuning(
                dataset=dataset,
                data=data,
                split=split,
                fields=assignments("--field", field),
                levels=_numbers("--levels", levels) if levels else None,
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
    except KeyboardInterrupt:
        typer.echo("pb-optim: interrupted; the same command goes on from here.", err=True)
        raise typer.Exit(INTERRUPTED) from None
    except InputError as error:
        _misused(str(error))
    except PlanAndBudgetError as error:
        _fail(str(error))
    _show_program(found.program, as_json=as_json)
    typer.echo(f"{found.path} is written: pb-graph solve --program {found.path}", err=True)
    typer.echo(f"The candidates: {', '.join(map(str, found.pictures))}", err=True)


@app.command()
def show(
    path: Annotated[str, typer.Argument(help="A file that `pb-optim tune` wrote.")],
    as_json: AsJson = False,
) -> None:
    """Show a tuned program: its prompts against the package's own, and what was measured."""
    from pb_graph.artefact import Artefact  # noqa: PLC0415

    try:
        _show_program(Artefact.load(path), as_json=as_json)
    except PlanAndBudgetError as error:
        _fail(str(error))


def main() -> None:
    """Entry point of the console script."""
    app()


def _kind(*, as_json: bool, as_csv: bool) -> Literal["html", "json", "csv"]:
    if as_json and as_csv:
        msg = "choose one of --json and --csv"
        raise InputError(msg)
    return "json" if as_json else "csv" if as_csv else "html"


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

    values = _numbers("--grid-initial", initial), _numbers("--grid-per-level", per_level)
    return Grid(*values).over(chosen)


def _evaluated(experiment: Experiment, planners: Sequence[str]) -> Evaluation:
    from optim.experiments.planner_sensitivity import evaluate_planners  # noqa: PLC0415

    return evaluate_planners(experiment, planners or [None])


def _show(found: Evaluation, *, as_json: bool, by_budget: bool) -> None:
    from optim.experiments.budget_sensitivity import sensitivity  # noqa: PLC0415
    from optim.experiments.layout import console, grid_of  # noqa: PLC0415
    from optim.summary import table  # noqa: PLC0415

    if as_json:
        _echo(
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


def _print(rows: Sequence[Cells], *, as_json: bool) -> None:
    from optim.experiments.layout import console, grid_of  # noqa: PLC0415

    if as_json:
        _echo(list(rows))
    else:
        console().print(grid_of(rows))


def _write(path: Path, content: str) -> None:
    try:
        path.write_text(content, encoding="utf-8")
    except OSError as error:
        _misused(f"cannot write {path}: {error.strerror}")


def _show_program(program: Artefact, *, as_json: bool) -> None:
    from optim.experiments.layout import console  # noqa: PLC0415
    from optim.show import document, shown  # noqa: PLC0415 -- DSPy takes a second

    if as_json:
        _echo(document(program))
        return
    for place, piece in enumerate(shown(program)):
        console().print(*([""] if place else []), piece, sep="\n")


def _settings_of(file: str) -> Settings:
    from optim.methods import method_from_file  # noqa: PLC0415

    return method_from_file(file).settings


def _beside() -> Console:
    """Standard error, where progress leaves the output alone."""
    from rich.console import Console  # noqa: PLC0415

    return Console(stderr=True)


def _echo(value: object) -> None:
    typer.echo(json.dumps(value, ensure_ascii=False))


def _numbers(option: str, text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        msg = f"{option} wants whole numbers with commas between, not {text!r}"
        raise InputError(msg) from None


def _fail(message: str) -> NoReturn:
    typer.echo(f"pb-optim: {message}", err=True)
    raise typer.Exit(FAILED)


def _misused(message: str) -> NoReturn:
    typer.echo(f"pb-optim: {message}", err=True)
    raise typer.Exit(USAGE)
