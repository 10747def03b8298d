"""``pb-graph probe``: check an endpoint for what budgets rest on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from pb_graph.cli.options import exits, fetch_weights

_COLOURS = {"passed": "green", "failed": "bold red", "unsupported": "dim", "inconclusive": "yellow"}


def probe(
    model: Annotated[str, typer.Argument(help="'provider:model' or 'local:NAME'.")],
    policy: Annotated[
        str | None, typer.Option(help="Cap policy to probe with, such as vllm; else by the model.")
    ] = None,
    out: Annotated[
        Path, typer.Option(help="File to write, for `--caps` and build_graph(cap_policy=…).")
    ] = Path("caps.json"),
    as_json: Annotated[bool, typer.Option("--json", help="Print what is written instead.")] = False,
) -> None:
    """Check whether budgets hold at an endpoint, in at most 8 calls and 2,000 tokens.

    The exit code is 1 when a check fails.
    """
    from rich.console import Console  # noqa: PLC0415 -- what a probe needs takes a second
    from rich.table import Table  # noqa: PLC0415

    from pb_graph import probe as probing  # noqa: PLC0415
    from pb_graph.cli.display import safe  # noqa: PLC0415

    with exits.handle_errors():
        fetch_weights(model)
        found = probing.probe(model, policy)
    if as_json:
        typer.echo(json.dumps(found.to_dict()))
    else:
        told = f"{found.calls} calls, {found.tokens:,} tokens, policy {found.policy}"
        table = Table("check", "verdict", "observed", title=found.model, caption=told)
        for name, (verdict, observed) in found.findings.items():
            table.add_row(probing.CHECKS[name], safe(verdict, _COLOURS[verdict]), safe(observed))
        Console().print(table)
    try:
        out.write_text(json.dumps(found.to_dict(), indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        exits.fail(f"cannot write {out}: {error.strerror}")
    if found.failed:
        exits.fail(f"{found.model} failed: {', '.join(found.failed)} (see {out})")
