"""Define ``pb-graph``: solve, serve, probe, show a demo, and download models."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from pb_graph.cli.options import (
    INTERRUPTED,
    USAGE,
    CapPolicy,
    Model,
    Planner,
    Program,
    Sets,
    Version,
    budget_option,
    exits,
    printable,
    read_set,
    run_command,
)
from pb_graph.errors import InputError, NoAnswerError, how_to_install

if TYPE_CHECKING:
    from langgraph.graph.state import CompiledStateGraph

    from pb_graph.budget.rates import Prices
    from pb_graph.state import Input

KEY_VARIABLE = "PB_API_KEY"
_METHODS = "vanilla, global_budget, planned_vanilla, planned_global_budget"
_server_option = partial(typer.Option, rich_help_panel="Server")

app = typer.Typer(
    name="pb-graph",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",  # paragraphs of help are wrapped
)


@app.callback()
def _every_command(*, version: Version = False) -> None:
    """Plan a question, split its budget across the steps, and never spend more."""


@app.command()
def solve(  # noqa: PLR0913, PLR0917 -- one parameter for each option
    question: Annotated[str, typer.Argument(help="The question, or '-' to read stdin.")],
    model: Model = None,
    planner: Planner = None,
    program: Program = None,
    cap_policy: CapPolicy = None,
    method: Annotated[
        str | None, budget_option(help=f"plan_and_budget (default), or a baseline: {_METHODS}.")
    ] = None,
    level: Annotated[
        int | None, budget_option(help="Difficulty, 1 to 5. Default: estimated.")
    ] = None,
    budget: Annotated[
        int | None, budget_option(help="Completion tokens for solving. Default: by level.")
    ] = None,
    limit: Annotated[
        int | None, budget_option(min=1, help="Most completion tokens, planning included.")
    ] = None,
    limit_usd: Annotated[
        float | None, budget_option(min=1e-6, help="Most dollars, input and planning included.")
    ] = None,
    plan: Annotated[
        bool, budget_option("--plan", help="Plan at every level, and solve each step on its own.")
    ] = False,
    set_: Sets = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON only.")] = False,
) -> None:
    """Solve one question within a limit, and show its plan and spending."""
    inputs: Input = {"question": sys.stdin.read() if question == "-" else question}
    if level is not None:
        inputs["level"] = level
    from rich.console import Console  # noqa: PLC0415 -- takes a moment

    from pb_graph.cli.display import Display  # noqa: PLC0415

    display = Display(Console(quiet=as_json))
    with exits.handle_errors():
        try:
            dollars = {"usd": limit_usd} if limit_usd else None
            options: dict[str, object] = {"method": method, "budget": budget, "limit": dollars}
            if plan:
                options |= {"plan_from": 1, "execution": "stepwise"}
            graph = _graph(model, planner, program, cap_policy, set_, most=limit, **options)
            # An event loop ends a call immediately on Ctrl-C.
            report = asyncio.run(display.follow(graph, inputs))
        except KeyboardInterrupt:
            exits.fail(f"interrupted. {display.describe_spending()}", INTERRUPTED)
        except NoAnswerError as error:
            if as_json:
                typer.echo(json.dumps(error.report, ensure_ascii=False))
            raise
    if as_json:
        typer.echo(json.dumps(report, ensure_ascii=False))
    else:
        display.close_with(report)


def _graph(  # noqa: PLR0913 -- the options of two commands
    model: str | None,
    planner: str | None,
    program: str | None,
    cap_policy: str | None,
    set_: list[str] | None,
    *,
    most: int | None = None,
    **fields: object,
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """Build the graph. Options override a program's settings; ``--set`` overrides both."""
    from pb_graph.graph import build_graph  # noqa: PLC0415 -- what solving needs takes a second
    from pb_graph.local import weights  # noqa: PLC0415
    from pb_graph.models.resolve import model_name  # noqa: PLC0415
    from pb_graph.program import PlannerProgram  # noqa: PLC0415
    from pb_graph.settings import Settings  # noqa: PLC0415

    tuned = None if program is None else PlannerProgram.load(program)
    base = tuned.settings.set_fields() if tuned and tuned.settings else {}
    options = {name: value for name, value in fields.items() if value is not None}
    settings = Settings.read(base | options | read_set(set_))
    if settings.review_plan:
        msg = "review_plan pauses for a host that can answer: use the graph from Python"
        raise InputError(msg)
    model = model_name(model)  # fail early if the name is wrong
    for name in {model, planner or model}:
        weights.fetch_if_named(name)
    return build_graph(
        model,
        planner=planner,
        settings=settings,
        planner_program=tuned,
        cap_policy=cap_policy,
        limit=most,
    )


@app.command()
def models() -> None:
    """List the local models (Apache-2.0) and whether their weights are downloaded."""
    from pb_graph.local import weights  # noqa: PLC0415

    for model in weights.CATALOG.values():
        state = "downloaded" if weights.installed(model.name) else "not downloaded"
        typer.echo(f"local:{model.name:<20} {model.bytes / 2**20:>5.0f} MiB  {state}")


@app.command()
def pull(name: Annotated[str, typer.Argument(help="A name that `pb-graph models` lists.")]) -> None:
    """Download and verify the weights of a local model."""
    from pb_graph.local import weights  # noqa: PLC0415

    name = name.removeprefix(weights.LOCAL_PREFIX)
    with exits.handle_errors():
        path = weights.fetch(name, rehash=True)
    typer.echo(f"{name}: verified, at {path}")


@app.command()
def serve(  # noqa: PLR0913, PLR0917 -- one parameter for each option
    model: Model = None,
    planner: Planner = None,
    program: Program = None,
    cap_policy: CapPolicy = None,
    host: Annotated[
        str, _server_option(help=f"Addresses other than this machine need {KEY_VARIABLE}.")
    ] = "127.0.0.1",
    port: Annotated[int, _server_option(min=0, max=65535, help="Port; 0 for a free port.")] = 8000,
    prices: Annotated[
        dict[str, list[float]] | None,
        budget_option(
            parser=json.loads,
            metavar="JSON",
            help='Dollars per million tokens of unknown models: {"NAME": [0.25, 2.0]}.',
        ),
    ] = None,
    set_: Sets = None,
) -> None:
    """Serve an endpoint with OpenAI's protocol that answers each question within a budget.

    The model's name in a request is a method, such as vanilla. Clients send PB_API_KEY as their
    key.
    """
    if not (find_spec("starlette") and find_spec("uvicorn")):
        exits.fail(f"serve needs starlette and uvicorn. {how_to_install('serve')}")
    import uvicorn  # noqa: PLC0415 -- an extra

    from pb_graph.serve.app import Endpoint, is_loopback  # noqa: PLC0415

    key = os.environ.get(KEY_VARIABLE) or None
    if key is None and not is_loopback(host):
        exits.fail(f"{host} can be reached from outside: set {KEY_VARIABLE} to a key", USAGE)
    with exits.handle_errors():
        graph = _graph(model, planner, program, cap_policy, set_)
        table: Prices | Literal["auto"] = prices or "auto"
        served = Endpoint(graph, key, table).app()
    uvicorn.run(served, host=host, port=port, log_level="info", timeout_graceful_shutdown=10)


@app.command()
def probe(model: Annotated[str, typer.Argument(help="'provider:model' or 'local:NAME'.")]) -> None:
    """Check with at most 6 calls and 2,000 tokens whether an endpoint keeps budgets.

    The exit code is 1 when a check fails. The last line names the policy for `--cap-policy`.
    """
    from pb_graph import probe as probing  # noqa: PLC0415 -- what a probe needs takes a second
    from pb_graph.local import weights  # noqa: PLC0415

    with exits.handle_errors():
        weights.fetch_if_named(model)
        result = probing.probe(model)
    for name, (verdict, observed) in result.findings.items():
        typer.echo(f"{verdict:<12} {probing.CHECKS[name]}: {printable(observed)}")
    typer.echo(f"{result.calls} calls, {result.tokens:,} tokens; --cap-policy {result.policy}")
    if result.failed:
        exits.fail(f"{result.model} failed: {', '.join(result.failed)}")


@app.command()
def demo(
    *,
    plain: Annotated[
        bool, typer.Option("--plain", help="Print the table once, without animation.")
    ] = False,
) -> None:
    """Run a scripted team of agents with and without a Budget; needs no key."""
    from rich.console import Console  # noqa: PLC0415 -- what agents need takes a second

    from pb_graph.cli.demo import play  # noqa: PLC0415

    play(Console(force_terminal=False if plain else None))


def main() -> None:
    """Run the console script."""
    run_command(app)
