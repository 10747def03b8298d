"""Define ``pb-optim report``, ``certify`` and ``caps``."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import typer

from optim.cli.options import (
    AsJson,
    Logs,
    Partial,
    PriceRatio,
    PricesOption,
    echo,
    plain_errors,
    read_numbers,
    read_prices,
)
from pb_graph.errors import InputError

Objective = Literal["e3", "money"]


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
    from optim import reporting  # noqa: PLC0415
    from optim.records import read_records  # noqa: PLC0415 -- Inspect takes seconds

    records = read_records(logs, partial=partial)
    table = reporting.answers(records, prices=read_prices(prices), price_ratio=price_ratio)
    reporting.report(table, output, baseline=baseline, paper=paper)
    typer.echo(f"{output} is written.")


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

    from optim.records import read_records  # noqa: PLC0415
    from optim.reporting import answers, formatting  # noqa: PLC0415
    from optim.reporting.certificate import certify as certified  # noqa: PLC0415
    from optim.reporting.tables import to_rows  # noqa: PLC0415

    records = read_records(logs, partial=partial)
    if not records:
        msg = "there is no answer to certify yet"
        raise InputError(msg)
    result = certified(
        answers(records, prices=read_prices(prices), price_ratio=price_ratio),
        loss=loss,
        confidence=confidence,
        baseline=baseline,
        is_partial=partial,
    )
    rows = to_rows(result.rows)
    if as_json:
        about = {n: getattr(result, n) for n in result.__slots__ if n != "rows"}
        echo(about | {"rows": rows})
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


@plain_errors()
def caps(  # noqa: PLR0913, PLR0917 -- one parameter for each option
    logs: Logs,
    method: Annotated[str | None, typer.Option(help="The method, if there are several.")] = None,
    ladder: Annotated[str | None, typer.Option("--caps", metavar="N,N", help="The caps.")] = None,
    objective: Annotated[Objective, typer.Option(help="What the choice maximizes.")] = "e3",
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
    from optim.records import read_records  # noqa: PLC0415
    from optim.reporting import formatting, read_caps  # noqa: PLC0415 -- pandas takes a second
    from optim.reporting.tables import to_rows  # noqa: PLC0415

    result = read_caps(
        [record for record in read_records(logs) if method in {None, record.method}],
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
    columns = {"ended, %": lambda row: formatting.number(row["ended"]), **formatting.COLUMNS}
    frame = result.ladder.assign(method=result.ladder.cap.map("{:,} tokens".format))
    typer.echo(formatting.text_table(formatting.displayed(frame, columns)))
    typer.echo(f"Chosen: {', '.join(formatting.format_settings(settings))}")
    typer.echo(f"Held out, against no cap: {describe(result.held_out)}")
