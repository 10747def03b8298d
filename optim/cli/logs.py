"""``pb-optim levels``, ``latency`` and ``report``: look at what was measured."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from optim.cli.application import app
from optim.cli.options import AsJson, Logs
from optim.cli.terminal import plain_errors, print_rows, write
from pb_graph.errors import InputError


@app.command()
def levels(logs: Logs, as_json: AsJson = False) -> None:
    """Tokens and score of each method by difficulty level."""
    from optim.records import read_records  # noqa: PLC0415 -- Inspect takes seconds
    from optim.summary import by_level  # noqa: PLC0415

    with plain_errors():
        print_rows(by_level(read_records(logs)), as_json=as_json)


@app.command()
def latency(logs: Logs, as_json: AsJson = False) -> None:
    """Seconds of planning and estimation against seconds of solving."""
    from optim.records import read_records  # noqa: PLC0415
    from optim.summary import latency as breakdown  # noqa: PLC0415

    with plain_errors():
        print_rows(breakdown(read_records(logs)), as_json=as_json)


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

    with plain_errors():
        kind = _kind(as_json=as_json, as_csv=as_csv)
        content = rendered(studies(read_records(logs), baseline), kind, paper=paper)
    if output is None and kind != "html":
        typer.echo(content, nl=False)
        return
    path = Path(output or "report.html")
    write(path, content)
    typer.echo(f"{path} is written.", err=kind != "html")


def _kind(*, as_json: bool, as_csv: bool) -> Literal["html", "json", "csv"]:
    if as_json and as_csv:
        msg = "choose one of --json and --csv"
        raise InputError(msg)
    return "json" if as_json else "csv" if as_csv else "html"
