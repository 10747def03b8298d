"""Build tables, charts and pages of an evaluation.

`report(records, "report.html")` writes a page; ``.json`` and ``.csv`` hold its figures. `answers`
turns records into a DataFrame, `figures` and `paired` sum it up, `plot` and `spending` draw,
`certify` proves that a method loses little, and `read_caps` tells what caps would give. The names
load on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from optim.extras import on_first_use

if TYPE_CHECKING:
    from optim.reporting.caps import read_caps
    from optim.reporting.certificate import certify
    from optim.reporting.charts import plot, spending
    from optim.reporting.page import rendered, report
    from optim.reporting.tables import answers, figures, paired, paper_figures

__all__ = [
    "answers", "certify", "figures", "paired", "paper_figures", "plot", "read_caps", "rendered",
    "report", "spending",
]  # fmt: skip
__getattr__ = on_first_use(
    __name__,
    {"read_caps": "caps", "certify": "certificate", "plot": "charts", "spending": "charts"}
    | dict.fromkeys(("rendered", "report"), "page")
    | dict.fromkeys(("answers", "figures", "paired", "paper_figures"), "tables"),
)
