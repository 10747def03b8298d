"""``pb-graph``: solve, serve, probe an endpoint, list the local models, fetch one."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand, TyperOption

from pb_graph.cli.exit import exits
from pb_graph.cli.options import (
    Caps,
    Model,
    Planner,
    Program,
    Version,
    fetch_weights,
    settings_given,
)
from pb_graph.cli.probe import probe
from pb_graph.cli.serve import serve
from pb_graph.errors import NoAnswerError

if TYPE_CHECKING:
    from langgraph.graph.state import CompiledStateGraph

    from pb_graph.cli.display import Display
    from pb_graph.settings import Context
    from pb_graph.state import Input, Output, State
    from pb_graph.types import Report

app = typer.Typer(name="pb-graph", no_args_is_help=True, pretty_exceptions_enable=False)


@app.callback()
def _every_command(*, version: Version = False) -> None:
    """Plan a question, budget its parts, and solve each within its share."""


class _Solve(TyperCommand):
    """Its help lists the names that settings take; loading them takes a moment."""

    def format_help(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 -- Typer's own Click
        from pb_graph.settings import Settings, choices  # noqa: PLC0415

        names = {name: choices(name) for name in Settings.model_fields}
        names["set_"] = tuple(names)
        for option in self.params:
            if isinstance(option, TyperOption) and (listed := names.get(option.name or "")):
                option.help = f"{option.help} {', '.join(listed)}."
        super().format_help(ctx, formatter)


@app.command(cls=_Solve)
def solve(  # noqa: PLR0913, PLR0917 -- one parameter for each option
    question: Annotated[str, typer.Argument(help="The question; '-' reads it from stdin.")],
    model: Model = None,
    planner: Planner = None,
    method: Annotated[str | None, typer.Option(help="How to answer:")] = None,
    execution: Annotated[str | None, typer.Option(help="Calls of plan_and_budget:")] = None,
    schedule: Annotated[str | None, typer.Option(help="Split of the budget:")] = None,
    budget: Annotated[int | None, typer.Option(help="Solving tokens for the question.")] = None,
    level: Annotated[int | None, typer.Option(help="Difficulty 1 to 5, if known.")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A setting; repeatable:")
    ] = None,
    program: Program = None,
    caps: Caps = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the report, as JSON only.")
    ] = False,
) -> None:
    """Solve one question and show where its tokens went."""
    with exits.explained():
        fields = {"method": method, "execution": execution, "schedule": schedule, "budget": budget}
        tuned, settings = settings_given(program, set_, **fields)
    given: Input = {"question": sys.stdin.read() if question == "-" else question}
    if level is not None:
        given["level"] = level
    from pb_graph.cli.display import Display  # noqa: PLC0415 -- what solving needs takes a second
    from pb_graph.graph import build_graph  # noqa: PLC0415

    display = Display(quiet=as_json)
    with exits.explained():
        try:
            fetch_weights(model, planner or model)
            graph = build_graph(
                model, planner=planner, settings=settings, planner_program=tuned, cap_policy=caps
            )
            report = asyncio.run(_run(given, graph, display))
        except KeyboardInterrupt:
            exits.interrupted(f"interrupted. {display.spent()}")
        except NoAnswerError as error:
            if as_json:
                typer.echo(json.dumps(error.report, ensure_ascii=False))
            raise
    if as_json:
        typer.echo(json.dumps(report, ensure_ascii=False))
    else:
        display.close_with(report)


@app.command()
def models() -> None:
    """List the local models and whether they are here."""
    from pb_graph.cli.display import print_models  # noqa: PLC0415

    with exits.explained():
        print_models()


@app.command()
def pull(name: Annotated[str, typer.Argument(help="A name that `pb-graph models` lists.")]) -> None:
    """Fetch and verify the weights of a local model."""
    from pb_graph.local import weights  # noqa: PLC0415
    from pb_graph.models.resolve import LOCAL_PREFIX  # noqa: PLC0415

    name = name.removeprefix(LOCAL_PREFIX)  # which `models` shows in front
    with exits.explained():
        path = weights.fetch(name)
    typer.echo(f"{name}: verified, at {path}")


app.command()(serve)
app.command()(probe)


async def _run(
    given: Input, graph: CompiledStateGraph[State, Context, Input, Output], display: Display
) -> Report:
    """Follow one run; async, because then Ctrl-C ends a call at once instead of waiting for it."""
    report: Report | None = None
    with display:
        stream = graph.astream(given, stream_mode=("custom", "values"), version="v2")
        async for part in stream:
            if part["type"] == "custom":
                display.show(part["data"])
            elif part["type"] == "values":
                report = part["data"].get("report", report)
    assert report is not None  # noqa: S101 -- the last node either writes it or raises
    return report
