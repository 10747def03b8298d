"""``pb-optim certify``: the cheapest row that provably loses hardly any accuracy."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from optim.cli.options import AsJson, Logs
from optim.cli.terminal import echo, plain_errors, print_rows, write

if TYPE_CHECKING:
    from optim.report.certificate import Certificate
    from optim.summary import Cells

_PERCENT = 100.0


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
    is certified that loses more is 5 % at most.
    """
    from optim.records import read_records  # noqa: PLC0415 -- Inspect takes seconds
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
        print_rows(_rows(found))
    typer.echo(_verdict(found))
    if found.not_tested:
        typer.echo(f"Not tested, after the first failure: {', '.join(found.not_tested)}.")
    if found.left_out:
        typer.echo(f"No candidates: {', '.join(found.left_out)}.")
    typer.echo(f"{output} is written.")


def _rows(found: Certificate) -> list[Cells]:
    return [
        {
            "method": one.row,
            "T": found.tokens[one.row],
            "questions": one.questions,
            "worse": one.harmed,
            "better": one.helped,
            "loss": _PERCENT * one.loss,
            "at most": _PERCENT * one.bound,
            "bound": one.method,
            "proven": "yes" if one.proven else "no",
        }
        for one in found.trials
    ]


def _verdict(found: Certificate) -> str:
    """What is proven, or what it would take."""
    sure = f"with {found.confidence:g} % confidence"
    if found.certified is not None:
        return (
            f"{found.certified} loses at most {found.loss:g} points against {found.reference}, "
            f"{sure}, at {found.saving:.2f} times its tokens."
        )
    if not found.trials:
        return f"No row is cheaper than {found.reference} where the order was chosen."
    needed = math.log(1 - found.confidence / _PERCENT) / math.log1p(-found.loss / _PERCENT)
    return (
        f"No row is proven to lose at most {found.loss:g} points against {found.reference}, "
        f"{sure}. Without a single question lost that takes {math.ceil(needed)} questions."
    )
