"""``pb-optim report`` and ``certify``: look at what was measured."""

from __future__ import annotations

from typing import Annotated

import typer

from optim.cli.options import (
    AsJson,
    Logs,
    PriceRatio,
    PricesOption,
    echo,
    plain_errors,
    read_prices,
)
from pb_graph.errors import InputError


@plain_errors("inspect_ai")
def report(  # noqa: PLR0913, PLR0917 -- one parameter for each option
    logs: Logs,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="Ends with .html, .json or .csv.")
    ] = "report.html",
    baseline: Annotated[
        str | None,
        typer.Option(help="Compare with this method. Default: vanilla, else global_budget."),
    ] = None,
    paper: Annotated[bool, typer.Option("--paper", help="The paper's figures beside.")] = False,
    partial: Annotated[
        bool, typer.Option("--partial", help="Even though a --part is missing or unfinished.")
    ] = False,
    prices: PricesOption = "auto",
    price_ratio: PriceRatio = 4.0,
    as_json: AsJson = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print a line for each method.")] = False,
) -> None:
    """Write one HTML page about what was measured: figures, drawings and tables.

    Logs of several folders are pooled; what is missing or there twice is refused.
    With --json or --csv, print the figures for machines instead.
    """
    from optim import reporting  # noqa: PLC0415
    from optim.records import read_records  # noqa: PLC0415 -- Inspect takes seconds

    records = read_records(logs, partial=partial)
    table = reporting.answers(records, prices=read_prices(prices), price_ratio=price_ratio)
    if as_json or as_csv:
        kind = "json" if as_json else "csv"
        typer.echo(reporting.rendered(table, kind, baseline, paper=paper), nl=False)
        return
    reporting.report(table, output, baseline=baseline, paper=paper)
    typer.echo(f"{output} is written.")


@plain_errors("inspect_ai")
def certify(  # noqa: PLR0913, PLR0917 -- one parameter for each option
    logs: Logs,
    loss: Annotated[float, typer.Option(help="Points of accuracy that may be lost.")] = 3.0,
    confidence: Annotated[float, typer.Option(help="Of the proof, in percent.")] = 95.0,
    reference: Annotated[str, typer.Option(help="The row to compare with.")] = "vanilla",
    prices: PricesOption = "auto",
    price_ratio: PriceRatio = 4.0,
    as_json: AsJson = False,
) -> None:
    """Find the cheapest row whose loss of accuracy is proven below a bound on held-out questions.

    Rows are tested one after the other, and the first failure ends it: so the chance that a row
    is certified that loses more is what --confidence leaves, 5 % at most by default. That holds
    for options that were chosen before a look at these answers.
    """
    import pandas as pd  # noqa: PLC0415 -- takes a second

    from optim.records import read_records  # noqa: PLC0415
    from optim.reporting import answers, formatting  # noqa: PLC0415
    from optim.reporting.certificate import certify as certified  # noqa: PLC0415
    from optim.reporting.tables import to_rows  # noqa: PLC0415

    records = read_records(logs)
    if not records:
        msg = "there is no answer to certify yet"
        raise InputError(msg)
    found = certified(
        answers(records, prices=read_prices(prices), price_ratio=price_ratio),
        loss=loss,
        confidence=confidence,
        reference=reference,
    )
    rows = to_rows(found.rows)
    if as_json:
        about = {n: getattr(found, n) for n in found.__slots__ if n != "rows"}
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
    shown = formatting.displayed(found.rows).join(pd.DataFrame(trials).fillna(formatting.DASH))
    typer.echo(formatting.text_table(shown))
    typer.echo(found.sentence)
