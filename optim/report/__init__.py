"""Looks at what was measured: one HTML page, its figures for machines, a chart for notebooks.

`report(records, "report.html")` writes a file.

The page is a template with inline SVG and CSS alone: text that models wrote is safest in a page
that cannot run any script.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from optim import make_callable
from optim.report.export import as_csv, as_json, write
from optim.report.figures import Figure, plot
from optim.report.groups import Study, Versus, studies
from optim.report.page import page
from optim.report.spending import plot_spending
from pb_graph.errors import InputError

if TYPE_CHECKING:
    from optim.records import Record

Kind = Literal["html", "json", "csv"]

__all__ = [
    "Figure",
    "Study",
    "Versus",
    "as_csv",
    "as_json",
    "page",
    "plot",
    "plot_spending",
    "rendered",
    "report",
    "studies",
]

make_callable(__name__)


def report(
    records: Sequence[Record],
    path: str | Path = "report.html",
    *,
    baseline: str | None = None,
    paper: bool = False,
) -> Path:
    """Write what was measured to a file: a page for people, or its figures for machines.

    Args:
        records: Answers, such as `read_records` or an evaluation gives.
        path: The file; it ends with .html, .json or .csv, and that is what it becomes. One that is
            there already is replaced.
        baseline: Compare with this method; None for the usual one.
        paper: Whether the paper's published figures stand beside.

    Returns:
        The file.

    Raises:
        InputError: Another ending, no record, no such baseline, or a file that cannot be written.
    """
    file = Path(path)
    kind = next((kind for kind in get_args(Kind) if file.suffix == f".{kind}"), None)
    if kind is None:
        msg = f"a report ends with .html, .json or .csv, not {file.name!r}"
        raise InputError(msg)
    if not records:
        msg = "there is no record to report on"
        raise InputError(msg)
    return write(file, rendered(studies(records, baseline), kind, paper=paper))


def rendered(found: Sequence[Study], kind: Kind, *, paper: bool = False) -> str:
    """Give a report as the text of a file: the page, or its figures for machines."""
    if kind == "html":
        return page(found, paper=paper)
    if kind == "csv":
        return as_csv(found)
    return json.dumps(as_json(found, paper=paper), ensure_ascii=False, allow_nan=False) + "\n"
