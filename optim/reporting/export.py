"""Reports as files, and the chart of a notebook."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pandas as pd

from optim.reporting import charts, tables
from optim.reporting.charts import Chart
from optim.reporting.page import page
from optim.reporting.published import paper_figures
from optim.reporting.tables import STUDY, Prices, answers, figures, paired, to_rows
from pb_graph.errors import InputError

if TYPE_CHECKING:
    from optim.records import Record

Kind = Literal["html", "json", "csv"]


def report(  # noqa: PLR0913 -- choices of one report, all with defaults
    records: Iterable[Record],
    path: str | Path = "report.html",
    *,
    baseline: str | None = None,
    paper: bool = False,
    prices: Literal["auto"] | Prices | None = "auto",
    price_ratio: float = 4.0,
) -> Path:
    """Write what was measured to a file: a page for people, or its figures for machines.

    Args:
        records: Answers, as `optim.read_records` or an evaluation gives them.
        path: File that ends with .html, .json or .csv; an existing one is replaced.
        baseline: Method to compare with; None for vanilla, else global_budget, else the first.
        paper: Whether to show the paper's published figures beside.
        prices: See `answers`.
        price_ratio: See `answers`.

    Returns:
        The path of the file.

    Raises:
        InputError: Another ending, no record, no such baseline, or a file that cannot be written.
    """
    file = Path(path)
    kinds: dict[str, Kind] = {".html": "html", ".json": "json", ".csv": "csv"}
    if file.suffix not in kinds:
        msg = f"a report ends with .html, .json or .csv, not {file.name!r}"
        raise InputError(msg)
    table = answers(records, prices=prices, price_ratio=price_ratio)
    return write(file, rendered(table, kinds[file.suffix], baseline, paper=paper))


def rendered(
    table: pd.DataFrame, kind: Kind, baseline: str | None = None, *, paper: bool = False
) -> str:
    """Return a report as the text of a file.

    Args:
        table: Answers, from `answers`.
        kind: ``html`` is the page, ``json`` all of its tables, ``csv`` one line per method.
        baseline: Method to compare with.
        paper: Whether to include the paper's published figures.

    Raises:
        InputError: No answer, or no such baseline.
    """
    if table.empty:
        msg = "there is no answer to report on yet"
        raise InputError(msg)
    tables.choose_baseline(table, baseline)
    if kind == "html":
        return page(table, baseline, paper=paper)
    studies = [group for _, group in table.groupby(list(STUDY), sort=False)]
    if kind == "json":
        document = {"studies": [_as_json(study, baseline, paper=paper) for study in studies]}
        return json.dumps(document, ensure_ascii=False, allow_nan=False) + "\n"
    lines = []
    for study in studies:
        versus = _paired(study, baseline).add_prefix("vs_").rename(columns={"vs_method": "method"})
        line = figures(study).merge(versus, on="method", how="left")
        rates = tables.travel_rates(study)
        if len(rates):
            line = line.merge(rates, on=list(tables.BY), how="left")
        lines.append(line)
    text: str = pd.concat(lines).to_csv(index=False, lineterminator="\n")
    return text


def _paired(study: pd.DataFrame, baseline: str | None) -> pd.DataFrame:
    wanted = baseline if baseline in set(study.method) else None
    return paired(study, tables.choose_baseline(study, wanted))


def _as_json(study: pd.DataFrame, baseline: str | None, *, paper: bool) -> dict[str, Any]:
    made_by = study.groupby("method", sort=False).made_by.first()
    levels = study[study.level.notna()]
    found: dict[str, pd.DataFrame] = {
        "figures": figures(study),
        "paired": _paired(study, baseline),
        "by_level": tables.by_level(levels),
        "level_estimates": tables.level_estimates(study),
        "credits": tables.credits_by_position(study),
        "latency": tables.latency(study),
        "token_parts": tables.token_parts(study),
        "rates": tables.travel_rates(study),
        "budget_grid": tables.budget_grid(study).reset_index(),
    }
    if paper:
        found["published"] = paper_figures("rows", study.dataset.iloc[0])
    about = {name: study[name].iloc[0] for name in STUDY}
    about["questions"] = int(study.question.nunique())
    return about | {n: to_rows(f) for n, f in found.items()} | {"made_by": made_by.to_dict()}


def plot(records: Iterable[Record]) -> Chart:
    """Draw accuracy against tokens with 95 % intervals and the Pareto front.

    Args:
        records: Answers of one data set with one solver and one planner.

    Raises:
        InputError: No scored answer, or several data sets, solvers or planners.
    """
    table = answers(records)
    rows = figures(table)
    if "e3" not in rows or rows.e3.isna().all():
        msg = "no answer has a score yet, so there is nothing to draw"
        raise InputError(msg)
    if len(rows[list(STUDY)].drop_duplicates()) > 1:
        msg = "one chart shows one data set, solver and planner: filter the records first"
        raise InputError(msg)
    return charts.plane(rows)


def write(path: Path, content: str) -> Path:
    """Write a file that the user named, and return its path.

    Raises:
        InputError: The file cannot be written.
    """
    try:
        path.write_text(content, encoding="utf-8")
    except OSError as error:
        msg = f"cannot write {path}: {error.strerror}"
        raise InputError(msg) from error
    return path
