"""Tables of what was measured, as pandas DataFrames.

`answers` turns records into a DataFrame with one row per answer; `figures` and `paired` sum it up.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import cache
from math import log
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

from optim.e3 import (
    Comparison,
    Sample,
    accuracy_interval,
    compare,
    e3,
    holm,
    interval,
    token_interval,
)
from optim.records import PLANNING, was_truncated
from optim.scorers.travelplanner import rates
from optim.statistics.estimates import PERCENT
from pb_graph.errors import InputError

if TYPE_CHECKING:
    from optim.records import Record

STUDY = ("dataset", "model", "planner")
"""Columns that tell studies apart: only methods of one study are compared."""

BY = (*STUDY, "method")
"""Columns that tell the rows of a report apart."""

PARTS = {
    "plan": "plan",
    "estimate": "estimate",
    "answer": "answer in one call",
    "solve": "solve step by step",
    "solve length": "steps cut off at their cap",
    "solve forced": "steps forced to an end",
    "solve error": "failed steps",
    "synthesize": "synthesize",
}
"""Parts of the completion tokens of an answer, in the order of spending, with their names."""

Price = tuple[float, float, float]
Prices = Mapping[str, Price]
"""US dollars per million tokens by model: of input, of output, and of cached input."""

_MEASURES = (
    *("n", "errors", "questions", "accuracy", "accuracy_lower", "accuracy_upper", "accuracy_sd"),
    *("tokens", "tokens_lower", "tokens_upper", "tokens_sd", "solving_tokens", "input_tokens"),
    *("cached_tokens", "money", "money_unit", "e3", "e3_lower", "e3_upper", "e3_sd"),
    *("e3_with_errors", "ock_score", "a_over_t", "seconds", "level_source", "unboxed"),
    *("runs", "is_measured"),
)
_USUAL_BASELINES = ("vanilla", "global_budget")
_PROVIDERS = {"google_genai": "google", "google_vertexai": "google", "mistralai": "mistral"}
_GRID_POINT = r"(?P<base>.*)\[(?P<initial>\d+)\+(?P<per_level>\d+)L\]"
_TRAVEL = {"delivered", "commonsense", "hard"}  # what TravelPlanner's scorer says of an answer


def answers(
    records: Iterable[Record],
    *,
    prices: Literal["auto"] | Prices | None = "auto",
    price_ratio: float = 4.0,
) -> pd.DataFrame:
    """Return one row per answer, with its money.

    Args:
        records: Answers, as `optim.read_records` gives them.
        prices: ``auto`` takes the prices of `genai-prices`; a mapping gives own prices; None none.
            If the price of any model is unknown, money is counted in units for all of them.
        price_ratio: Units of a completion token; a prompt token, cached or not, is one unit.
    """
    kept = list(records)
    names = {name for record in kept for name in (record.model, record.planner)}
    known = {name: _price_of(name, prices) for name in names}
    unit = (1.0, price_ratio, 1.0)
    is_priced = bool(known) and all(known.values())
    price = (
        {name: found or unit for name, found in known.items()}
        if is_priced
        else dict.fromkeys(names, unit)
    )
    table = pd.DataFrame([_answer(record, price) for record in kept])
    return table.assign(money_unit="US $ per 1,000 questions" if is_priced else "units")


def _answer(record: Record, price: Prices) -> dict[str, Any]:
    usage = record.report["usage"]
    money = 0.0
    for node, part in usage["by_node"].items():
        of_input, of_output, of_cached = price[record.planner if node in PLANNING else record.model]
        fresh = part["input_tokens"] - part["cached_tokens"]
        money += fresh * of_input + part["cached_tokens"] * of_cached
        money += part["output_tokens"] * of_output
    names = (*BY, "question", "epoch", "level", "score", "error", "tokens", "solving_tokens")
    return {name: getattr(record, name) for name in names} | {
        "input_tokens": usage["input_tokens"],
        "cached_tokens": usage["cached_tokens"],
        "money": money,
        "seconds": usage["seconds"],
        "is_measured": usage["measured"],
        "is_cut": was_truncated(record),
        "level_source": record.level_source,
        "metadata": record.score_metadata,
        "report": record.report,
        "made_by": record.made_by,
    }


def _price_of(model: str, prices: Literal["auto"] | Prices | None) -> Price | None:
    """Return US dollars per 1,000 tokens (so that money is per 1,000 questions), if known."""
    if prices == "auto":
        return _listed_price(model)
    if prices is None or model not in prices:
        return None
    of_input, of_output, of_cached = prices[model]
    return of_input / 1000, of_output / 1000, of_cached / 1000


@cache
def _listed_price(model: str) -> Price | None:
    from genai_prices import Usage, calc_price  # noqa: PLC0415

    provider, _, name = model.partition(":")
    if not name or provider == "local":
        return None
    thousand = (
        Usage(input_tokens=1000),
        Usage(output_tokens=1000),
        Usage(input_tokens=1000, cache_read_tokens=1000),
    )
    for place in (_PROVIDERS.get(provider, provider), None):
        with suppress(LookupError):
            of_input, of_output, of_cached = (
                float(calc_price(used, name, provider_id=place).total_price) for used in thousand
            )
            return of_input, of_output, of_cached
    return None


def figures(table: pd.DataFrame, by: Sequence[str] = BY) -> pd.DataFrame:
    """Return the figures of each group of answers.

    An answer without a score (an error) counts in ``errors`` and ``e3_with_errors`` only.

    Args:
        table: Answers, from `answers`.
        by: Columns to group by.

    Returns:
        One row per group, in order of first appearance: ``accuracy`` (percent), ``tokens`` (mean
        completion tokens, planning included) and ``e3``, each with the ends of its 95 % interval
        (``_lower``, ``_upper``) and its standard deviation over epochs (``_sd``); means of prompt
        tokens, cached tokens, money, seconds and solving tokens; ``ock_score`` (accuracy minus
        10 ln(all tokens / 10,000 + 1)); ``a_over_t`` (percentage points per token).
    """
    if table.empty:
        return pd.DataFrame(columns=[*by, *_MEASURES])
    groups = table.groupby(list(by), sort=False, dropna=False)
    rows = [dict(zip(by, key, strict=True)) | _figures(group) for key, group in groups]
    return pd.DataFrame(rows)


def _figures(group: pd.DataFrame) -> dict[str, Any]:
    scored = group.dropna(subset="score")
    sources = set(group.level_source.dropna())
    boxed = [said["boxed"] for said in scored.metadata if "boxed" in said]
    row: dict[str, Any] = dict.fromkeys(_MEASURES) | {
        "n": len(scored),
        "errors": len(group) - len(scored),
        "questions": scored.question.nunique(),
        "is_measured": bool(group.is_measured.all()),
        "level_source": "label" if "label" in sources else min(sources, default=None),
        "unboxed": 100 * (1 - float(np.mean(boxed))) if boxed else None,
        "money_unit": group.money_unit.iloc[0],
    }
    if group.tokens.any():
        row["e3_with_errors"] = e3(group.score.fillna(0.0).tolist(), group.tokens.tolist())
    means = ("tokens", "solving_tokens", "input_tokens", "cached_tokens", "money", "seconds")
    row |= {name: scored[name].mean() if len(scored) else None for name in means}
    if scored.empty or not scored.tokens.any():
        return row | {"accuracy": PERCENT * scored.score.mean() if len(scored) else None}
    scores, tokens = scored.score.astype(float).tolist(), scored.tokens.tolist()
    questions = scored.question.tolist()
    found = interval(scores, tokens, clusters=questions)
    row["accuracy"] = PERCENT * float(np.mean(scores))
    ends = {
        "accuracy": accuracy_interval(scores, clusters=questions),
        "tokens": token_interval(tokens, clusters=questions),
        "e3": (found.lower, found.upper),
    }
    for name, (lower, upper) in ends.items():
        row |= {f"{name}_lower": lower, f"{name}_upper": upper}
    everything = row["tokens"] + row["input_tokens"]
    row["e3"], row["a_over_t"] = found.e3, row["accuracy"] / row["tokens"]
    row["ock_score"] = row["accuracy"] - 10 * log(everything / 10_000 + 1)
    row["runs"] = scored.epoch.nunique()
    runs = scored.astype({"score": float}).groupby("epoch")[["score", "tokens"]].mean()
    runs["accuracy"] = PERCENT * runs.score
    runs["e3"] = runs.accuracy**2 / runs.tokens
    row |= {f"{name}_sd": runs[name].std() for name in ("accuracy", "tokens", "e3")}
    return row


def choose_baseline(table: pd.DataFrame, wanted: str | None = None) -> str:
    """Return the method to compare with: `wanted`, else vanilla, global_budget or the first.

    Raises:
        InputError: No method has the wanted name.
    """
    methods = list(dict.fromkeys(table.method))
    if wanted is not None and wanted not in methods:
        msg = f"no baseline named {wanted!r}; there are: {', '.join(methods)}"
        raise InputError(msg)
    usual = next((name for name in _USUAL_BASELINES if name in methods), methods[0])
    return wanted or usual


def comparisons(table: pd.DataFrame, baseline: str) -> dict[str, Comparison | str]:
    """Compare each other method of one study with the baseline, paired by question.

    Returns:
        The comparison by method, or the reason why there is none.
    """
    columns = ["question", "score", "tokens"]
    arms = {
        method: [Sample(*row) for row in group[columns].dropna().itertuples(index=False)]
        for method, group in table.groupby("method", sort=False)
    }
    found: dict[str, Comparison | str] = {}
    for method, arm in arms.items():
        if method != baseline:
            try:
                found[method] = compare(arm, arms[baseline], missing="drop")
            except InputError as error:
                found[method] = str(error)
    return found


def paired(table: pd.DataFrame, baseline: str) -> pd.DataFrame:
    """Return a row for each other method of one study: its comparison with the baseline.

    Args:
        table: Answers of one study, from `answers`.
        baseline: Method to compare with.

    Returns:
        The fields of `optim.e3.Comparison`, ``p_value_holm`` and ``accuracy_p_value_holm`` (Holm's
        correction over the methods), and ``reason`` where there is no comparison.
    """
    found = comparisons(table, baseline)
    pairs = {name: one for name, one in found.items() if isinstance(one, Comparison)}
    rows = [
        {"method": name, "baseline": baseline}
        | (asdict(one) if isinstance(one, Comparison) else {"reason": one})
        for name, one in found.items()
    ]
    frame = pd.DataFrame(rows, columns=None if rows else ["method", "baseline"])
    for field in ("p_value", "accuracy_p_value"):
        known = {name: getattr(one, field) for name, one in pairs.items()}
        adjusted = holm({name: p for name, p in known.items() if p is not None})
        frame[f"{field}_holm"] = frame.method.map(adjusted).astype(float)
    return frame


def by_level(table: pd.DataFrame) -> pd.DataFrame:
    """Return the figures of each method at each level of the data set's labels, easiest first."""
    return figures(table, (*BY, "level")).sort_values("level", kind="stable")


def level_estimates(table: pd.DataFrame) -> pd.DataFrame:
    """Compare estimated levels with the data set's labels, for each method that estimates them."""
    estimated = table[(table.level_source == "estimated") & table.level.notna()]
    rows = []
    for key, group in estimated.groupby(list(BY), sort=False):
        judged = group.report.map(lambda report: report["level"]).astype(float)
        error = judged - group.level.astype(float)
        costs = [report["usage"]["by_node"].get("estimate") for report in group.report]
        varies = len(set(judged)) > 1 and len(set(group.level)) > 1
        rows.append(
            dict(zip(BY, key, strict=True))
            | {
                "n": len(group),
                "agreement": PERCENT * float((error == 0).mean()),
                "mean_error": error.mean(),
                "mean_absolute_error": error.abs().mean(),
                "rank_correlation": judged.rank().corr(group.level.astype(float).rank())
                if varies
                else None,
                "estimate_tokens": np.mean([c["output_tokens"] for c in costs if c])
                if any(costs)
                else None,
            }
        )
    return pd.DataFrame(rows)


def credits_by_position(table: pd.DataFrame) -> pd.DataFrame:
    """Return the mean credits (of 100) of plans' steps by position; a shared plan counts once."""
    plans: dict[tuple[str, str, int], set[tuple[Any, ...]]] = {}
    for row in table.itertuples():
        shares = [step["credit"] for step in row.report["steps"]]
        if shares and None not in shares:
            key = (row.dataset, row.planner, len(shares))
            plans.setdefault(key, set()).add((row.question, *shares))
    rows = []
    for (dataset, planner, steps), group in sorted(plans.items()):
        means = np.mean([plan[1:] for plan in group], axis=0)
        named = {f"step_{place}": mean for place, mean in enumerate(means, 1)}
        about = {"dataset": dataset, "planner": planner, "steps": steps, "plans": len(group)}
        rows.append(about | named)
    return pd.DataFrame(rows)


def latency(table: pd.DataFrame) -> pd.DataFrame:
    """Return mean seconds of model time per scored answer: planning, estimation and solving."""
    scored = table.dropna(subset="score")
    parts = pd.DataFrame(
        {
            f"{node}_seconds": [
                report["usage"]["by_node"].get(node, {}).get("seconds", 0.0)
                for report in scored.report
            ]
            for node in ("plan", "estimate")
        },
        index=scored.index,
    )
    seconds = pd.concat([scored[[*BY, "seconds"]], parts], axis=1)
    found = seconds.groupby(list(BY), sort=False).mean().reset_index()
    planning = found.plan_seconds + found.estimate_seconds
    return found.assign(
        solving_seconds=found.seconds - planning, planning_share=PERCENT * planning / found.seconds
    )


def token_parts(table: pd.DataFrame) -> pd.DataFrame:
    """Return mean completion tokens per scored answer by method and part (`PARTS`)."""
    rows = []
    for method, group in table.dropna(subset="score").groupby("method", sort=False):
        parts = pd.DataFrame([_parts(report) for report in group.report]).fillna(0.0).mean()
        order = sorted(parts.index, key=lambda part: [*PARTS, part].index(part))
        rows += [
            {"method": method, "part": PARTS.get(part, part), "tokens": parts[part]}
            for part in order
            if parts[part]
        ]
    return pd.DataFrame(rows, columns=["method", "part", "tokens"])


def _parts(report: Mapping[str, Any]) -> dict[str, int]:
    """Return tokens by node, those of steps that were cut off, forced or lost apart."""
    parts = {node: usage["output_tokens"] for node, usage in report["usage"]["by_node"].items()}
    for ending in ("length", "forced", "error"):
        tokens = sum(s["tokens"] or 0 for s in report["steps"] if s["finish"] == ending)
        if moved := min(tokens, parts.get("solve", 0)):
            parts[f"solve {ending}"] = moved
            parts["solve"] -= moved
    return parts


def budget_grid(table: pd.DataFrame) -> pd.DataFrame:
    """Return E³ by B_init (down) and B_per_level (across), of methods like ``cosine[100+50L]``."""
    rows = figures(table)
    points = rows.method.str.extract(re.compile(f"^{_GRID_POINT}$")).dropna()
    if points.empty:
        return pd.DataFrame()
    whole = points[["initial", "per_level"]].astype(int)
    grid = rows[[*STUDY, "e3"]].join(points[["base"]].join(whole), how="inner")
    index = [*STUDY, "base", "initial"]
    return grid.pivot_table(index=index, columns="per_level", values="e3", sort=True)


def travel_rates(table: pd.DataFrame) -> pd.DataFrame:
    """Return TravelPlanner's six rates in percent for each method that its scorer has judged."""
    rows = []
    for key, group in table.dropna(subset="score").groupby(list(BY), sort=False):
        said = list(group.metadata)
        if all(one.keys() >= _TRAVEL for one in said):
            shares = {name: PERCENT * rate for name, rate in asdict(rates(said)).items()}
            rows.append(dict(zip(BY, key, strict=True)) | shares)
    return pd.DataFrame(rows)


def to_rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a table as plain JSON, with None for what is missing."""
    plain = frame.astype(object).where(frame.notna(), None)
    return [
        {str(k): v.item() if isinstance(v, np.generic) else v for k, v in row.items()}
        for row in plain.to_dict("records")
    ]
