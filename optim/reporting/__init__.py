"""Tables, charts and pages about what was measured.

`report(records, "report.html")` writes a page; ``.json`` and ``.csv`` hold its figures. `answers`
turns records into a DataFrame, `figures` and `paired` sum it up, `plot` and `spending` draw, and
`certify` proves that a row loses little. The names load on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from optim.extras import on_first_use

if TYPE_CHECKING:
    from optim.reporting.certificate import certify
    from optim.reporting.charts import spending
    from optim.reporting.export import plot, rendered, report, write
    from optim.reporting.published import paper_figures
    from optim.reporting.tables import answers, figures, paired

__all__ = [
    "answers",
    "certify",
    "figures",
    "paired",
    "paper_figures",
    "plot",
    "rendered",
    "report",
    "spending",
    "write",
]

__getattr__ = on_first_use(
    __name__,
    {"certify": "certificate", "spending": "charts", "paper_figures": "published"}
    | dict.fromkeys(("plot", "rendered", "report", "write"), "export")
    | dict.fromkeys(("answers", "figures", "paired"), "tables"),
)
