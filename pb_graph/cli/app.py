"""Define ``pb-graph``: solve, serve, probe, show a demo, and download models."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pb_graph.cli import options
from pb_graph.cli.options import INTERRUPTED, KEY_VARIABLE, USAGE, exits, printable
from pb_graph.errors import InputError, NoAnswerError, how_to_install
from pb_graph.local import weights

if TYPE_CHECKING:
    from pb_graph.graph import PlanAndBudgetGraph

# Markdown wraps the paragraphs of help.
app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode="markdown")


@app.callback()
def _every_command(*, version: options.Version = False) -> None:
    """Plan a question, split its budget across the steps, and never spend more."""


@app.command()
def solve(  # noqa: PLR0913, PLR0917 -- one parameter for each option
    question: Annotated[str, typer.Argument(help="The question, or '-' to read stdin.")],
    model: options.Model = None,
    planner: options.Planner = None,
    program: options.Program = None,
    cap_policy: options.CapPolicy = None,
    method: options.Method = None,
    level: options.Level = None,
    budget: options.Budget = None,
    limit: options.Limit = None,
    limit_usd: options.LimitUsd = None,
    plan: options.Plan = False,
    set_: options.Sets = None,
    as_json: options.AsJson = False,
) -> None:
    """Solve one question within a limit, and show its plan and spending."""
    from rich.console import Console  # noqa: PLC0415 -- takes a moment

    from pb_graph.cli.display import Display  # noqa: PLC0415

    display = Display(Console(quiet=as_json))
    inputs: Any = {"question": sys.stdin.read() if question == "-" else question, "level": level}
    given = {"method": method, "budget": budget, "limit": limit_usd and {"usd": limit_usd}}
    given |= {"plan_from": 1, "execution": "stepwise"} if plan else {}
    fields = {name: value for name, value in given.items() if value is not None}
    parts = {"planner": planner, "cap_policy": cap_policy, "limit": limit}
    with exits.handle_errors():
        try:
            graph = _graph(model, program, fields | options.read_set(set_), parts)
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


def _graph(
    model: str | None, program: str | None, fields: dict[str, Any], parts: dict[str, Any]
) -> PlanAndBudgetGraph:
    """Build the graph. Fields override the settings of a program; parts go to `build_graph`."""
    from pb_graph.graph import build_graph  # noqa: PLC0415 -- what solving needs takes a second
    from pb_graph.models.resolve import model_name  # noqa: PLC0415
    from pb_graph.program import PlannerProgram  # noqa: PLC0415
    from pb_graph.settings import Settings  # noqa: PLC0415

    tuned = None if program is None else PlannerProgram.load(program)
    base = tuned.settings.set_fields() if tuned and tuned.settings else {}
    settings = Settings.read(base | fields)
    if settings.review_plan:
        msg = "review_plan pauses for a host that can answer: use the graph from Python"
        raise InputError(msg)
    model = model_name(model)  # fail early if the name is wrong
    names = {name.removeprefix(weights.LOCAL_PREFIX) for name in (model, parts["planner"] or model)}
    for name in names & weights.CATALOG.keys():
        weights.fetch(name)  # its progress bar stands above the plan
    return build_graph(model, settings=settings, planner_program=tuned, **parts)


@app.command()
def models() -> None:
    """List the local models (Apache-2.0) and whether their weights are downloaded."""
    for name, model in weights.CATALOG.items():
        state = "downloaded" if weights.installed(name) else "not downloaded"
        typer.echo(f"local:{name:<20} {model.bytes / 2**20:>5.0f} MiB  {state}")


@app.command()
def pull(name: Annotated[str, typer.Argument(help="A name that `pb-graph models` lists.")]) -> None:
    """Download and verify the weights of a local model."""
    name = name.removeprefix(weights.LOCAL_PREFIX)
    with exits.handle_errors():
        path = weights.fetch(name, rehash=True)
    typer.echo(f"{name}: verified, at {path}")


@app.command()
def serve(  # noqa: PLR0913, PLR0917 -- one parameter for each option
    model: options.Model = None,
    planner: options.Planner = None,
    program: options.Program = None,
    cap_policy: options.CapPolicy = None,
    host: options.Host = "127.0.0.1",
    port: options.Port = 8000,
    set_: options.Sets = None,
) -> None:
    """Serve an endpoint with OpenAI's protocol that answers each question within a budget.

    The model's name in a request is a method, such as vanilla. The key of clients is PB_API_KEY.
    """
    if not (find_spec("starlette") and find_spec("uvicorn")):
        exits.fail(f"serve needs starlette and uvicorn. {how_to_install('serve')}")
    import uvicorn  # noqa: PLC0415 -- an extra

    from pb_graph.serve.app import Endpoint, is_loopback  # noqa: PLC0415

    key = os.environ.get(KEY_VARIABLE) or None
    if key is None and not is_loopback(host):
        exits.fail(f"{host} can be reached from outside: set {KEY_VARIABLE} to a key", USAGE)
    with exits.handle_errors():
        parts = {"planner": planner, "cap_policy": cap_policy}
        served = Endpoint(_graph(model, program, options.read_set(set_), parts), key).app()
    uvicorn.run(served, host=host, port=port, log_level="info", timeout_graceful_shutdown=10)


@app.command()
def probe(model: Annotated[str, typer.Argument(help="'provider:model' or 'local:NAME'.")]) -> None:
    """Check with at most 6 calls and 2,000 tokens whether an endpoint keeps budgets.

    The exit code is 1 when a check fails. The last line names the policy for `--cap-policy`.
    """
    from pb_graph import probe as probing  # noqa: PLC0415 -- what a probe needs takes a second

    with exits.handle_errors():
        result = probing.probe(model)
    for name, (verdict, observed) in result.findings.items():
        typer.echo(f"{verdict:<12} {probing.CHECKS[name]}: {printable(observed)}")
    typer.echo(f"{result.calls} calls, {result.tokens:,} tokens; --cap-policy {result.policy}")
    if result.failed:
        exits.fail(f"{result.model} failed: {', '.join(result.failed)}")


@app.command()
def demo(*, plain: options.Plain = False) -> None:
    """Run a scripted team of agents with and without a Budget; needs no key."""
    from rich.console import Console  # noqa: PLC0415 -- what agents need takes a second

    from pb_graph.cli.demo import play  # noqa: PLC0415

    play(Console(force_terminal=False if plain else None))


def main() -> None:
    """Run the console script."""
    options.run_command(app)
