"""``pb-optim levels``, ``latency`` and ``report``: look at what was measured."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from optim.cli.options import AsJson, Logs
from optim.cli.terminal import plain_errors, print_rows, write
from pb_graph.errors import InputError


@plain_errors("inspect_ai")
def levels(logs: Logs, as_json: AsJson = False) -> None:
    """Tokens and score by difficulty level; estimated levels, and credits by position.

    JSON holds the rows by level.
    """
    from optim import summary  # noqa: PLC0415 -- Inspect takes seconds
    from optim.records import read_records  # noqa: PLC0415

    records = read_records(logs)
    print_rows(summary.by_level(records), as_json=as_json)
    more = {
        "Estimated levels against the data set's labels": summary.level_estimates,
        "Credits of the planner's sub-questions by position": summary.credits_by_position,
    }
    for heading, figures in more.items() if not as_json else ():
        if rows := figures(records):
            typer.echo(f"\n{heading}")
            print_rows(rows)


@plain_errors("inspect_ai")
def latency(logs: Logs, as_json: AsJson = False) -> None:
    """Seconds of planning and estimation against seconds of solving."""
    from optim.records import read_records  # noqa: PLC0415
    from optim.summary import latency as breakdown  # noqa: PLC0415

    print_rows(breakdown(read_records(logs)), as_json=as_json)


@plain_errors("inspect_ai")
def report(  # noqa: PLR0913, PLR0917 -- one parameter for each option
    logs: Annotated[
        list[str],
        typer.Argument(
            metavar="DIR...", help="The --log-dir of `pb-optim eval`; of its parts, or several."
        ),
    ],
    output: Annotated[
        str | None, typer.Option("--output", "-o", metavar="FILE", help="Default: report.html.")
    ] = None,
    baseline: Annotated[
        str | None, typer.Option(help="Compare with this method. Default: global_budget.")
    ] = None,
    paper: Annotated[bool, typer.Option("--paper", help="The paper's figures beside.")] = False,
    partial: Annotated[
        bool, typer.Option("--partial", help="Even though a --part is missing or unfinished.")
    ] = False,
    as_json: AsJson = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print a line for each method.")] = False,
) -> None:
    """Write one HTML page about what was measured: figures, charts, and every wrong answer.

    Logs of several folders are pooled; what is missing or there twice is refused.
    With --json or --csv, print the figures for machines instead, or write them to the output.
    """
    from optim.records import read_records  # noqa: PLC0415 -- Inspect takes seconds
    from optim.report import rendered, studies  # noqa: PLC0415

    if as_json and as_csv:
        msg = "choose one of --json and --csv"
        raise InputError(msg)
    kind: Literal["html", "json", "csv"] = "json" if as_json else "csv" if as_csv else "html"
    content = rendered(studies(read_records(logs, partial=partial), baseline), kind, paper=paper)
    if output is None and kind != "html":
        typer.echo(content, nl=False)
        return
    path = Path(output or "report.html")
    write(path, content)
    typer.echo(f"{path} is written.", err=kind != "html")
