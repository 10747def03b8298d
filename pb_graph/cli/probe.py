"""``pb-graph probe``: does an endpoint keep its promises?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from pb_graph.cli.exit import exits
from pb_graph.cli.options import fetch_weights


def probe(
    model: Annotated[str, typer.Argument(help="'provider:model' or 'local:NAME'.")],
    policy: Annotated[
        str | None, typer.Option(help="Cap policy to probe with, such as vllm; else by the model.")
    ] = None,
    out: Annotated[Path, typer.Option(help="For build_graph(cap_policy=…); written over.")] = Path(
        "caps.json"
    ),
    as_json: Annotated[bool, typer.Option("--json", help="Print what is written instead.")] = False,
) -> None:
    """Ask an endpoint for all that budgets rest on: at most 20 calls and 4,000 tokens.

    The exit code is 1 when a promise is broken.
    """
    from rich.console import Console  # noqa: PLC0415 -- what a probe needs takes a second

    from pb_graph.probe.run import probe as find_out  # noqa: PLC0415

    with exits.explained():
        fetch_weights(model)
        found = find_out(model, policy)
    if as_json:
        typer.echo(json.dumps(found.caps()))
    else:
        Console().print(found.table())
    try:
        found.save(out)
    except OSError as error:
        exits.failed(f"cannot write {out}: {error.strerror}")
    if found.broken:
        exits.failed(f"not kept by {found.model}: {', '.join(found.broken)} (see {out})")
