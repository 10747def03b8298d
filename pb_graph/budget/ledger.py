"""Sum up the charges of model calls, as accounts and reports count them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, cast

from pb_graph.budget.bill import Bill, add_bills, spending_of
from pb_graph.budget.rates import Dollars, plain_name
from pb_graph.errors import InputError
from pb_graph.types import Charge, Spending, Usage


def usage_of(charges: Iterable[Charge], prices: Dollars | None = None) -> Usage:
    """Sum up charges for the question, and for each node in order of first appearance.

    Args:
        charges: The charges of all calls. A sum is measured only if each of its charges is.
        prices: The prices of the models; None for sums without a cost.
    """
    rows = list(charges)
    nodes: dict[str, list[Charge]] = {}
    for row in rows:
        nodes.setdefault(row["node"], []).append(row)
    usage = _total(rows, prices)
    usage["by_node"] = {node: _total(calls, prices) for node, calls in nodes.items()}
    return usage


def _total(rows: list[Charge], prices: Dollars | None) -> Usage:
    by_model: dict[str, list[Bill]] = {}
    for row in rows:
        by_model.setdefault(plain_name(row["model"]), []).append(Bill.of("", row["usage"]))
    usage: Any = {
        **_sum(bill for bills in by_model.values() for bill in bills).usage(),
        "calls": len(rows),
        "seconds": round(sum(row["seconds"] for row in rows), 3),
        "measured": all(row["measured"] for row in rows),
        "by_model": {model: _sum(bills).usage() for model, bills in by_model.items()},
    }
    if prices is not None:
        costs = [_cost(row, prices) for row in rows]
        known = [cost for cost in costs if cost is not None]
        usage["cost"] = round(sum(known), 8) if len(known) == len(costs) else None
    return cast("Usage", usage)


def _sum(bills: Iterable[Bill]) -> Bill:
    (total,) = add_bills(bills) or [Bill()]
    return replace(total, largest=0)


def _cost(row: Charge, prices: Dollars) -> float | None:
    """Return the dollars of one call; None if its model has no price."""
    try:
        return prices.cost(Bill.of(row["model"], row["usage"])) / prices.scale
    except InputError:
        return None


def spent(charges: Iterable[Charge]) -> int:
    """Return the completion tokens of ``charges``."""
    return sum(row["usage"]["output_tokens"] for row in charges)


def most_billed(charges: Iterable[Charge]) -> int:
    """Return the most completion tokens that the provider may have charged for.

    A lost attempt, whose bill is unknown, counts as its whole cap. A complete reply counts
    with its charge, even if the charge is estimated.
    """
    return sum(row["most"]["output_tokens"] for row in charges)


def spending(charges: Iterable[Charge]) -> Spending:
    """Return the largest possible bill of calls for each model, as budgets count it."""
    return spending_of(Bill.of(row["model"], row["most"]) for row in charges)
