"""Options that several commands have: one meaning, one wording."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = [
    "AsJson",
    "Concurrency",
    "Data",
    "DataSet",
    "EstimateLevel",
    "Fields",
    "Levels",
    "Limit",
    "Logs",
    "Model",
    "RetryErrors",
    "Scorer",
    "Split",
]

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON only.")]
Concurrency = Annotated[int, typer.Option(help="Questions answered at once.")]
Data = Annotated[str | None, typer.Option(help="A local file instead of the hub.")]
DataSet = Annotated[str, typer.Option(help="math500, gsm8k, … or arithmetic (offline).")]
EstimateLevel = Annotated[
    bool, typer.Option(help="Estimate each question's level instead of taking the label.")
]
Fields = Annotated[
    list[str] | None,
    typer.Option(metavar="OURS=THEIRS", help="The file's name for a column; repeatable."),
]
Levels = Annotated[str | None, typer.Option(help="Only these levels, such as 1,2.")]
Limit = Annotated[int | None, typer.Option(help="Questions, evenly over the levels.")]
Logs = Annotated[str, typer.Argument(help="The --log-dir of `pb-optim eval`.")]
Model = Annotated[str | None, typer.Option(help="'provider:model' or 'local:NAME' that solves.")]
RetryErrors = Annotated[bool, typer.Option(help="Answer failed questions again.")]
Scorer = Annotated[str | None, typer.Option(help="Another scorer than the usual one.")]
Split = Annotated[str | None, typer.Option(help="Another split of the hub's.")]
