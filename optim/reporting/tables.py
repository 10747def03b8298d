"""Build the tables of an evaluation as pandas DataFrames.

`answers` turns records into a DataFrame with one row per answer; `figures` and `paired` sum it up.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from functools import cache
from importlib.resources import files
from math import log
from typing import Any, Literal

import numpy as np
import pandas as pd

from optim.e3 import Comparison, Sample, accuracy_interval, compare, holm, interval, token_interval
from optim.records import PLANNING, Record, Records
from optim.scorers.travelplanner import rates
from optim.statistics.estimates import PERCENT
from pb_graph.budget.bill import Bill, Dollars, Prices
from pb_graph.errors import InputError

STUDY = ("dataset", "model", "planner")
"""Columns that tell studies apart: only methods of one study are compared."""

BY = (*STUDY, "method")
"""Columns that tell the rows of a report apart."""

PARTS = {
    "plan": "plan", "estimate": "estimate", "answer": "answer at once", "solve": "solve",
    "synthesize": "synthesize",
}  # fmt: skip
"""Parts of the completion tokens of an answer, in the order of spending, with their names."""

PaperTable = Literal["rows", "certaindex", "latency", "budget_cells", "a_over_t"]

_MEANS = ["tokens", "solving_tokens", "input_tokens", "cached_tokens", "money", "seconds"]
_MEASURES = (  # the order in CSV and JSON; what is not named here comes after it
    "n", "errors", "questions", "accuracy", "accuracy_lower", "accuracy_upper", "accuracy_sd",
    "tokens", "tokens_lower", "tokens_upper", "tokens_sd", "solving_tokens", "input_tokens",
    "cached_tokens", "money", "cached_money", "money_unit", "e3", "e3_lower", "e3_upper", "e3_sd",
    "ock_score", "seconds", "level_source", "runs", "planned",
    "plans_wanted", "is_measured",
)  # fmt: skip
_CACHED = 0.1  # units of a cached prompt token, as most providers price it
_PICO = 1e12  # in which `Dollars` counts
_USUAL_BASELINES = ("vanilla", "global_budget")
_GRID_POINT = r"^(?P<base>.*)\[(?P<initial>\d+)\+(?P<per_level>\d+)L\]$"
_PUBLISHED = {
    "math500": "MATH-500",
    "natural_instructions": "NaturalInstructions",
    "travelplanner": "TravelPlanner",
}


def answers(
    records: Iterable[Record],
    *,
    prices: Literal["auto"] | Prices | None = "auto",
    price_ratio: float = 4.0,
) -> pd.DataFrame:
    """Return one row per answer, with its money.

    Args:
        records: Answers, as `optim.read_records` gives them.
        prices: ``auto`` takes the prices of `genai-prices`; a mapping gives US dollars per million
            tokens by model (input, output, cached input); None takes none. If the price of any
            model is unknown, money is counted in units for all of them.
        price_ratio: Units of a completion token; a prompt token, cached or not, is one unit.

    Raises:
        InputError: If a price is not a pair or triple of numbers of at least 0.
    """
    pooled = Records(records)
    dollars = None if prices is None else Dollars(prices)
    try:
        money = [] if dollars is None else [_dollars(record, dollars) for record in pooled]
    except InputError:  # a model without a price
        dollars = None
    usages = [record.report["usage"] for record in pooled]
    if dollars is None:
        money = [u["input_tokens"] + price_ratio * u["output_tokens"] for u in usages]
    return pooled.frame().assign(
        money=money,
        money_unit="units" if dollars is None else "US $ per 1,000 questions",
        is_measured=[usage["measured"] for usage in usages],
        is_planned=[_is_planned(record) for record in pooled],
        is_cut=[bool(record.report.get("cut_off")) for record in pooled],
        made_by=[record.made_by for record in pooled],
        by_node=[usage["by_node"] for usage in usages],
    )


def _dollars(record: Record, dollars: Dollars) -> float:
    """Return the price of 1,000 such answers."""
    picos, nodes = 0, record.report["usage"]["by_node"]
    solving = {name for node in nodes.keys() - PLANNING for name in nodes[node].get("by_model", ())}
    for node, part in nodes.items():
        is_planner = node in PLANNING and solving.isdisjoint(part.get("by_model", ()))
        model = record.planner if is_planner else record.model
        picos += dollars.cost(Bill.of(model, part))
    return 1000 * picos / _PICO


def _is_planned(record: Record) -> bool | None:
    """Return whether a question has a plan; None where none was wanted."""
    notes = record.report["warnings"]  # sentences in logs of earlier versions
    is_single = any(isinstance(note, dict) and note["code"] == "single_step" for note in notes)
    return True if len(record.report["steps"]) > 1 else False if is_single else None


def figures(table: pd.DataFrame, by: Sequence[str] = BY) -> pd.DataFrame:
    """Return the figures of each group of answers.

    An answer without a score (an error) counts in ``errors`` only.

    Args:
        table: Answers, from `answers`.
        by: Columns to group by.

    Returns:
        One row per group, in order of first appearance: ``accuracy`` (percent), ``tokens`` (mean
        completion tokens, planning included) and ``e3``, each with the ends of its 95 % interval
        (``_lower``, ``_upper``) and its standard deviation over epochs (``_sd``); means of prompt
        tokens, cached tokens, money, seconds and solving tokens; ``ock_score`` (accuracy minus
        10 ln(all tokens / 10,000 + 1)).
    """
    groups = table.groupby(list(by), sort=False, dropna=False)
    rows = [dict(zip(by, key, strict=True)) | _figures(group) for key, group in groups]
    names = dict.fromkeys([*by, *_MEASURES, *itertools.chain(*rows)])
    return pd.DataFrame(rows, columns=list(names))


def _figures(group: pd.DataFrame) -> dict[str, Any]:
    scored = group.dropna(subset="score").astype({"score": float})
    scores, tokens, questions = (scored[n].tolist() for n in ("score", "tokens", "question"))
    row: dict[str, Any] = {
        "n": len(scored),
        "errors": len(group) - len(scored),
        "questions": len(set(questions)),
        "is_measured": bool(scored.is_measured.all()),
        "level_source": max(group.level_source.dropna(), default=None),  # label, if any has one
        "money_unit": group.money_unit.iloc[0],
        "runs": scored.epoch.nunique(),
        "planned": int(scored.is_planned.eq(other=True).sum()),
        "plans_wanted": int(scored.is_planned.notna().sum()),
    }
    if not any(tokens):
        return row
    row |= {"accuracy": PERCENT * scored.score.mean()} | scored[_MEANS].mean().to_dict()
    estimate = interval(scores, tokens, clusters=questions)
    runs = scored.groupby("epoch")[["score", "tokens"]].mean()
    runs["accuracy"] = PERCENT * runs.score
    runs["e3"] = runs.accuracy**2 / runs.tokens
    ends = {
        "accuracy": accuracy_interval(scores, clusters=questions),
        "tokens": token_interval(tokens, clusters=questions),
        "e3": (estimate.lower, estimate.upper),
    }
    for name, (lower, upper) in ends.items():
        row |= {f"{name}_lower": lower, f"{name}_upper": upper, f"{name}_sd": runs[name].std()}
    everything = row["tokens"] + row["input_tokens"]
    saved = (1 - _CACHED) * row["cached_tokens"] if row["money_unit"] == "units" else 0.0
    return row | {
        "cached_money": row["money"] - saved,
        "e3": estimate.e3,
        "ock_score": row["accuracy"] - 10 * log(everything / 10_000 + 1),
    }


def choose_baseline(table: pd.DataFrame, name: str | None = None) -> str:
    """Return the method to compare with: the named one, else vanilla, global_budget or the first.

    Raises:
        InputError: If no method has the wanted name.
    """
    methods = list(table.method.unique())
    if name is not None and name not in methods:
        msg = f"no baseline named {name!r}; available: {', '.join(methods)}"
        raise InputError(msg)
    return name or next((name for name in _USUAL_BASELINES if name in methods), methods[0])


def comparisons(table: pd.DataFrame, baseline: str) -> dict[str, Comparison | str]:
    """Compare each other method of one study with the baseline; a text says why it cannot be."""
    columns = ["question", "score", "tokens"]
    arms = {
        method: [Sample(*row) for row in group[columns].dropna().itertuples(index=False)]
        for method, group in table.groupby("method", sort=False)
    }
    against = arms.pop(baseline)
    results: dict[str, Comparison | str] = {}
    for method, arm in arms.items():
        try:
            results[method] = compare(arm, against, missing="drop")
        except InputError as error:
            results[method] = str(error)
    return results


def paired(table: pd.DataFrame, baseline: str) -> pd.DataFrame:
    """Return a row for each other method of one study: its comparison with the baseline.

    It has the fields of `optim.e3.Comparison`, ``p_value_holm`` and ``accuracy_p_value_holm``, and
    ``reason`` where there is no comparison.
    """
    rows: list[dict[str, Any]] = [
        {"method": name, "baseline": baseline}
        | ({"reason": comparison} if isinstance(comparison, str) else asdict(comparison))
        for name, comparison in comparisons(table, baseline).items()
    ]
    frame = pd.DataFrame(rows, columns=None if rows else ["method", "baseline"])
    for field in ("p_value", "accuracy_p_value"):
        known = {row["method"]: row[field] for row in rows if row.get(field) is not None}
        frame[f"{field}_holm"] = frame.method.map(holm(known)).astype(float)
    return frame


def by_level(table: pd.DataFrame) -> pd.DataFrame:
    """Return the figures of each method at each level of the data set's labels, easiest first."""
    labelled = table[table.level.notna()]
    return figures(labelled, (*BY, "level")).sort_values("level", kind="stable")


def token_parts(table: pd.DataFrame) -> pd.DataFrame:
    """Return mean completion tokens per scored answer by ``method`` and ``part``."""
    scored = table.dropna(subset="score")
    nodes = [{node: part["output_tokens"] for node, part in row.items()} for row in scored.by_node]
    names = list(dict.fromkeys([*PARTS, *itertools.chain(*nodes)]))
    parts = pd.DataFrame(nodes, index=scored.index, columns=names).fillna(0.0)
    means = parts.groupby(scored.method, sort=False).mean().rename(columns=PARTS).reset_index()
    long = means.melt("method", var_name="part", value_name="tokens")
    return long[long.tokens > 0]


def budget_grid(table: pd.DataFrame) -> pd.DataFrame:
    """Return E³ by B_init (down) and B_per_level (across), of methods like ``cosine[100+50L]``."""
    rows = figures(table)
    grid = rows.join(rows.method.str.extract(_GRID_POINT)).dropna(subset="base")
    grid = grid.astype({"initial": int, "per_level": int})
    index = [*STUDY, "base", "initial"]
    return grid.pivot_table(index=index, columns="per_level", values="e3")


def travel_rates(table: pd.DataFrame) -> pd.DataFrame:
    """Return TravelPlanner's six rates in percent for each method that was scored by its scorer."""
    rows = table[["delivered" in metadata for metadata in table.score_metadata]]
    columns = {
        method: rates([*metadata])
        for method, metadata in rows.groupby("method", sort=False).score_metadata
    }
    return (PERCENT * pd.DataFrame(columns).T).rename_axis("method").reset_index()


def to_rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a table as plain JSON, with None for what is missing."""
    plain = frame.astype(object).where(frame.notna(), None)
    return [
        {str(k): v.item() if isinstance(v, np.generic) else v for k, v in row.items()}
        for row in plain.to_dict("records")
    ]


def paper_figures(table: PaperTable = "rows", dataset: str | None = None) -> pd.DataFrame:
    """Return one of the paper's tables.

    Args:
        table: ``rows``: the 240 rows of the six result tables (score and its standard deviation
            over five runs in percent, completion tokens, E³ as printed); ``certaindex``: the same
            of its early-stopping baseline; ``latency``: seconds, those of planning apart;
            ``budget_cells``: tokens at 20 budgets B_init + B_per_level · level;
            ``a_over_t``: the 120 cells of its comparison of E³ and A/T (times 100).
        dataset: Name of our data set; None for all. Latency and budgets are those of MATH-500.
    """
    rows = pd.DataFrame(_published()[table])
    if dataset is None:
        return rows
    names = rows.get("dataset", pd.Series("MATH-500", rows.index))
    return rows[names == _PUBLISHED.get(dataset)]


def paper_notes() -> list[str]:
    """Return the notes below the paper's figures."""
    notes: list[str] = _published()["notes"]
    return notes


@cache
def _published() -> dict[str, Any]:
    text = files("optim.reporting").joinpath("published.json").read_text(encoding="utf-8")
    document: dict[str, Any] = json.loads(text)
    return document
