"""``pb-optim levels``, ``latency``, ``report`` and ``certify``: look at what was measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from optim.cli.options import AsJson, Logs
from optim.cli.terminal import echo, plain_errors, print_rows
from optim.statistics.certificate import least_questions
from optim.statistics.estimates import PERCENT
from pb_graph.errors import InputError

if TYPE_CHECKING:
    from optim.report import Kind
    from optim.report.certificate import Certificate
    from optim.summary import Cells


@plain_errors("inspect_ai")
def levels(logs: Logs, as_json: AsJson = False) -> None:
    """Tokens and score by difficulty level; estimated levels, and credits by position.

    JSON holds the rows by level.
    """
    from optim.records import read_records  # noqa: PLC0415 -- Inspect takes seconds
    from optim.report import tables  # noqa: PLC0415

    records = read_records(logs)
    print_rows(tables.by_level(records), as_json=as_json)
    more = {
        "Estimated levels against the data set's labels": tables.level_estimates,
        "Credits of the planner's sub-questions by position": tables.credits_by_position,
    }
    for heading, figures in more.items() if not as_json else ():
        if rows := figures(records):
            typer.echo(f"\n{heading}")
            print_rows(rows)


@plain_errors("inspect_ai")
def latency(logs: Logs, as_json: AsJson = False) -> None:
    """Seconds of planning and estimation against seconds of solving."""
    from optim.records import read_records  # noqa: PLC0415
    from optim.report.tables import latency as breakdown  # noqa: PLC0415

    print_rows(breakdown(read_records(logs)), as_json=as_json)


@plain_errors("inspect_ai")
def report(  # noqa: PLR0913, PLR0917 -- one parameter for each option
    logs: Logs,
    output: Annotated[
        str | None, typer.Option("--output", "-o", metavar="FILE", help="Default: report.html.")
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option(help="Compare with this method. Default: global_budget, else vanilla."),
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
    from optim.report import rendered, studies, write  # noqa: PLC0415

    if as_json and as_csv:
        msg = "choose one of --json and --csv"
        raise InputError(msg)
    path = Path(output or "report.html")
    ending = ".json" if as_json else ".csv" if as_csv else path.suffix
    kind: Kind = "json" if ending == ".json" else "csv" if ending == ".csv" else "html"
    content = rendered(studies(read_records(logs, partial=partial), baseline), kind, paper=paper)
    if output is None and kind != "html":
        typer.echo(content, nl=False)
        return
    write(path, content)
    typer.echo(f"{path} is written.", err=kind != "html")


@plain_errors("inspect_ai")
def certify(  # noqa: PLR0913, PLR0917 -- one parameter for each option
    logs: Logs,
    loss: Annotated[float, typer.Option(help="Points of accuracy that may be lost.")] = 3.0,
    confidence: Annotated[float, typer.Option(help="Of the proof, in percent.")] = 95.0,
    reference: Annotated[
        str | None, typer.Option(help="The row to compare with. Default: vanilla.")
    ] = None,
    order: Annotated[
        str | None,
        typer.Option(
            help="Rows in the order of their tests, with commas between, chosen before these "
            "answers were seen. Default: dearest first, by a part of the questions."
        ),
    ] = None,
    split: Annotated[
        float, typer.Option(help="Questions that choose the order and no more, in percent.")
    ] = 20.0,
    seed: Annotated[int, typer.Option(help="Of the draw of those.")] = 0,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="The certificate.")
    ] = "certificate.json",
    as_json: AsJson = False,
) -> None:
    """Find the cheapest row whose loss of accuracy is proven below a bound on held-out questions.

    Rows are tested one after the other, and the first failure ends it: so the chance that a row
    is certified that loses more is what --confidence leaves, 5 % at most by default. That holds
    for options that were chosen before a look at these answers.
    """
    from optim.records import read_records  # noqa: PLC0415
    from optim.report import write  # noqa: PLC0415
    from optim.report.certificate import certify as certified  # noqa: PLC0415

    found = certified(
        read_records(logs),
        loss=loss,
        confidence=confidence,
        reference=reference,
        order=None if order is None else [name.strip() for name in order.split(",")],
        split=split,
        seed=seed,
    )
    write(Path(output), json.dumps(found.to_dict(), indent=2, ensure_ascii=False) + "\n")
    if as_json:
        echo(found.to_dict())
        return
    if found.trials:
        print_rows(_trials(found))
    typer.echo(_certified(found))
    if found.not_tested:
        typer.echo(f"Not tested, after the first failure: {', '.join(found.not_tested)}.")
    if found.left_out:
        typer.echo(f"No candidates: {', '.join(found.left_out)}.")
    typer.echo(f"{output} is written.")


def _trials(found: Certificate) -> list[Cells]:
    return [
        {
            "method": one.row,
            "T": found.tokens.get(one.row),
            "questions": one.questions,
            "worse": one.harmed,
            "better": one.helped,
            "loss, points": PERCENT * one.loss,
            "at most, points": PERCENT * one.bound,
            "bound": one.method,
            "proven": "yes" if one.proven else "no",
        }
        for one in found.trials
    ]


def _certified(found: Certificate) -> str:
    """What is proven, or what it would take."""
    sure = f"with {found.confidence:g} % confidence"
    if found.certified is not None:
        saved = "" if found.saving is None else f", at {found.saving:.2f} times its tokens"
        return (
            f"{found.certified} loses at most {found.loss:g} points against {found.reference}, "
            f"{sure}{saved}."
        )
    if not found.trials:
        return f"No row is cheaper than {found.reference} where the order was chosen."
    tried = found.trials[-1].method
    needed = least_questions(tried, found.loss / PERCENT, found.confidence / PERCENT)
    return (
        f"No row is proven to lose at most {found.loss:g} points against {found.reference}, "
        f"{sure}. Where both score alike on every question that takes {needed} questions."
    )
