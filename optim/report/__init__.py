"""Looks at what was measured: one HTML page, its figures for machines, a chart for notebooks.

The page is made of inline SVG and CSS alone. A plotting library in it would weigh 4 MB and need
script, and text that models wrote is safest in a page that cannot run any.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Literal

from optim.report.machine import as_csv, as_json
from optim.report.notebook import Chart, plot
from optim.report.page import page
from optim.report.studies import Study, Versus, studies

__all__ = ["Chart", "Study", "Versus", "as_csv", "as_json", "page", "plot", "rendered", "studies"]


def rendered(
    found: Sequence[Study], kind: Literal["html", "json", "csv"], *, paper: bool = False
) -> str:
    """Give a report as the text of a file: the page, or its figures for machines."""
    if kind == "html":
        return page(found, paper=paper)
    if kind == "csv":
        return as_csv(found)
    return json.dumps(as_json(found, paper=paper), ensure_ascii=False, allow_nan=False) + "\n"
