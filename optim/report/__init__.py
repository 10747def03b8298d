"""Looks at what was measured: one HTML page, its figures for machines, a chart for notebooks.

The page is a template with inline SVG and CSS alone: text that models wrote is safest in a page
that cannot run any script.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Literal

from optim.report.export import as_csv, as_json
from optim.report.figures import Figure, plot
from optim.report.groups import Study, Versus, studies
from optim.report.page import page

__all__ = ["Figure", "Study", "Versus", "as_csv", "as_json", "page", "plot", "rendered", "studies"]


def rendered(
    found: Sequence[Study], kind: Literal["html", "json", "csv"], *, paper: bool = False
) -> str:
    """Give a report as the text of a file: the page, or its figures for machines."""
    if kind == "html":
        return page(found, paper=paper)
    if kind == "csv":
        return as_csv(found)
    return json.dumps(as_json(found, paper=paper), ensure_ascii=False, allow_nan=False) + "\n"
