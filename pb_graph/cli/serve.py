"""``pb-graph serve``: the endpoint, until it is told to stop."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from pb_graph.cli.exit import exits
from pb_graph.cli.options import Caps, Model, Planner, Program, fetch_weights, settings_given

KEY_VARIABLE = "PB_API_KEY"
_DRAIN = 10  # seconds that running queries get when the server is told to stop


def serve(  # noqa: PLR0913, PLR0917 -- one parameter for each option
    model: Model = None,
    planner: Planner = None,
    host: Annotated[
        str, typer.Option(help=f"Address; any but this machine's own needs {KEY_VARIABLE}.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 for a free one.")] = 8000,
    most: Annotated[
        int | None,
        typer.Option("--max-budget", min=1, help="Completion tokens a query can cost at most."),
    ] = None,
    files: Annotated[
        list[Path] | None,
        typer.Option("--settings", help="A JSON file; its name becomes a model; repeatable."),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A setting of all models; repeatable."),
    ] = None,
    program: Program = None,
    caps: Caps = None,
) -> None:
    """Serve OpenAI's protocol: a model's name is a method, such as 'vanilla' or 'name:power=3'.

    The key that clients have to bring is taken from PB_API_KEY.
    """
    if not (find_spec("starlette") and find_spec("uvicorn")):
        exits.failed("this needs starlette and uvicorn: pip install 'plan-and-budget[serve]'")
    import uvicorn  # noqa: PLC0415 -- an extra

    from pb_graph.graph import build_graph  # noqa: PLC0415 -- what solving needs takes a second
    from pb_graph.models.resolve import model_name  # noqa: PLC0415
    from pb_graph.serve.app import Endpoint, is_loopback  # noqa: PLC0415
    from pb_graph.serve.names import model_names  # noqa: PLC0415

    key = os.environ.get(KEY_VARIABLE) or None
    if key is None and not is_loopback(host):
        exits.misused(f"{host} can be reached by others: set {KEY_VARIABLE}, which they must bring")
    with exits.explained():
        tuned, settings = settings_given(program, set_)
        fetch_weights(model, planner or model)
        graph = build_graph(
            model_name(model),  # by its name, so that what is wrong with it shows now
            planner=planner,
            settings=settings,
            planner_program=tuned,
            cap_policy=caps,
        )
        endpoint = Endpoint(graph, model_names(files or []), key, most)
    uvicorn.run(
        endpoint.app(), host=host, port=port, log_level="info", timeout_graceful_shutdown=_DRAIN
    )
