"""Looks at what was measured: one HTML page, its figures for machines, a chart for notebooks.

`report(records, "report.html")` writes a file: of the figures, JSON has everything, and CSV a line
for each method.

The page is a template with inline SVG and CSS alone: text that models wrote is safest in a page
that cannot run any script.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from optim import make_callable
from optim.report.figures import Figure, plot
from optim.report.groups import Study, Versus, studies
from optim.report.page import page
from optim.report.published import published_of
from optim.report.spending import plot_spending
from optim.report.tables import by_level
from optim.summary import RATES, budget_use, by_position, mean_parts
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
    "write",
]

_PAIRED = (  # the columns that were there first, and in this order
    "ratio", "lower", "upper", "p_value",
    "accuracy_difference", "accuracy_p_value", "accuracy_test", "questions",
)  # fmt: skip
_ALSO = ("probability_higher", "tokens_ratio", "tokens_lower", "tokens_upper", "discordant")
_NEWEST = ("accuracy_lower", "accuracy_upper", "gained", "lost")
_FIRST = "measured"  # the last field of a row before those of a comparison

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


def write(path: Path, content: str) -> Path:
    """Write a file that the user named; give its path.

    Raises:
        InputError: It cannot be written.
    """
    try:
        path.write_text(content, encoding="utf-8")
    except OSError as error:
        msg = f"cannot write {path}: {error.strerror}"
        raise InputError(msg) from error
    return path


def as_json(found: Sequence[Study], *, paper: bool = False) -> dict[str, Any]:
    """Give what the page shows as plain JSON, without the answers themselves."""
    return {"studies": [_study(study, paper=paper) for study in found]}


def as_csv(found: Sequence[Study]) -> str:
    """Give a line for each method: its figures, then those of its comparison, ``vs_`` before."""
    lines = [line for study in found for line in _lines(study)]
    file = io.StringIO()
    writer = csv.DictWriter(file, fieldnames=list(lines[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return file.getvalue()


def _study(study: Study, *, paper: bool) -> dict[str, Any]:
    whole = {
        "dataset": study.dataset,
        "model": study.model,
        "planner": study.planner,
        "baseline": study.baseline,
        "questions": len(study.questions),
        "rows": [row.to_dict() for row in study.rows],
        "compared": [versus.to_dict() for versus in study.versus],
        "by_level": [dict(cells) for cells in by_level(study.records)],
        "tokens_by_part": {name: mean_parts(study.of(name)) for name in study.methods},
        "budgets": {name: _budgets(study, name) for name in study.methods},
        "made_by": study.made_by(),
    }
    if paper:
        whole["published"] = [asdict(row) for row in published_of(study.dataset)]
    return whole


def _budgets(study: Study, method: str) -> dict[str, Any]:
    unit, pairs = budget_use(study.of(method))
    names = ("step", "answers", "budget", "tokens")
    places = [dict(zip(names, place, strict=True)) for place in by_position(study.of(method))]
    return {"unit": unit, "spent": [asdict(pair) for pair in pairs], "by_step": places}


def _lines(study: Study) -> list[dict[str, Any]]:
    """New columns stand at the end, so that old ones keep their place."""
    versus = {one.method: one for one in study.versus}
    found = []
    for row in study.rows:
        other, figures = versus.get(row.method), row.to_dict()
        paired = other.comparison if other else None
        rates = figures.pop("rates") or {}
        place = list(figures).index(_FIRST) + 1
        line = dict(list(figures.items())[:place]) | {"baseline": study.baseline}
        line |= {f"vs_{name}": getattr(paired, name, None) for name in _PAIRED}
        line["vs_p_value_holm"] = other.adjusted_p if other else None
        line |= dict(list(figures.items())[place:])
        line |= {f"vs_{name}": getattr(paired, name, None) for name in _ALSO}
        line["vs_accuracy_p_value_holm"] = other.adjusted_accuracy_p if other else None
        line |= {f"rate_{name}": rates.get(name) for name in RATES}
        found.append(line | {f"vs_{name}": getattr(paired, name, None) for name in _NEWEST})
    return found
