"""Draw the default beside the plain prompt: `python -m tests.support.measured_picture`."""

from __future__ import annotations

import csv
from pathlib import Path

import altair as alt
import pandas as pd

from optim.reporting.charts import to_svg
from tests.benchmarks.measured import ANSWERS, Row

PICTURE = Path(__file__).parents[2] / "docs" / "pictures" / "measured.svg"
MEASURED = {
    "gsm8k": ("GSM8K", range(120, 260)),
    "math500": ("MATH-500", range(84, 180)),
    "natural_instructions": ("NaturalInstructions", range(120, 180)),
}
"""Title and places of each data set, as in the first table of docs/measured.md."""


def main() -> None:
    """Write accuracy against completion tokens, with 95 % intervals, as an SVG."""
    with ANSWERS.open(encoding="utf-8", newline="") as file:
        answers = [line for line in csv.DictReader(file) if line["day"] >= "2026-11-25"]
    figures = []
    for dataset, (title, places) in MEASURED.items():
        lines = [a for a in answers if a["dataset"] == dataset and int(a["place"]) in places]
        rows = [Row(name, lines) for name in ("default", "vanilla")]
        figures += [{"dataset": title, "method": row.name, **row.figures()} for row in rows]
    data = pd.DataFrame(figures)
    x = alt.X("tokens:Q", title="completion tokens").axis(tickCount=4)
    y = alt.Y("accuracy:Q", title="accuracy, %").scale(domain=[0, 100])
    base = alt.Chart(data).encode(x, y)
    shape = alt.Shape("method:N", legend=None).scale(
        domain=["default", "vanilla"], range=["square", "circle"]
    )
    layers = [
        base.mark_rule(opacity=0.5).encode(x="tokens_lower:Q", x2="tokens_upper:Q"),
        base.mark_rule(opacity=0.5).encode(y="accuracy_lower:Q", y2="accuracy_upper:Q"),
        base.mark_point(filled=True, opacity=1, size=90).encode(shape=shape),
        base.mark_text(align="left", dx=8, dy=-9).encode(text="method:N"),
    ]
    panels = alt.layer(*layers, data=data).properties(width=170, height=190)
    chart = panels.facet(alt.Column("dataset:N", title=None)).resolve_scale(x="independent")
    PICTURE.write_text(f"{to_svg(chart)}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
