"""Sum up bills by model, and the charges of model calls as a report shows them."""

from __future__ import annotations

from collections.abc import Iterable
from operator import add

from pb_graph.budget.rates import Bill, Dollars, Spending
from pb_graph.errors import InputError
from pb_graph.types import Charge, NodeUsage, QueryUsage, Usage


def by_node(charges: Iterable[Charge], prices: Dollars | None = None) -> QueryUsage:
    """Sum up charges for the query, and for each node in order of first appearance.

    Args:
        charges: The charges of all calls. A sum is measured only if each of its charges is.
        prices: The prices of the models; None for sums without a cost.
    """
    rows = list(charges)
    nodes: dict[str, list[Charge]] = {}
    for row in rows:
        nodes.setdefault(row["node"], []).append(row)
    return QueryUsage(
        **_total(rows, prices),
        by_node={
            node: NodeUsage(
                **_total(calls, prices), models=[*dict.fromkeys(call["model"] for call in calls)]
            )
            for node, calls in nodes.items()
        },
    )


def _total(rows: list[Charge], prices: Dollars | None) -> Usage:
    usage = Usage(
        input_tokens=sum(row["input_tokens"] for row in rows),
        output_tokens=sum(row["output_tokens"] for row in rows),
        reasoning_tokens=sum(row["reasoning_tokens"] for row in rows),
        cached_tokens=sum(row["cached_tokens"] for row in rows),
        calls=len(rows),
        seconds=round(sum(row["seconds"] for row in rows), 3),
        measured=all(row["measured"] for row in rows),
    )
    if prices is not None:
        costs = [_cost(row, prices) for row in rows]
        known = [cost for cost in costs if cost is not None]
        usage["cost"] = round(sum(known), 8) if len(known) == len(costs) else None
    return usage


def _cost(row: Charge, prices: Dollars) -> float | None:
    """Return the dollars of one call; None if its model has no price."""
    bill = Bill(*row["bill"])
    inputs, cached = row["input_tokens"], row["cached_tokens"]
    written = min(bill.written, inputs - cached) if row["measured"] else 0
    try:
        cost = prices.cost(Bill(bill.model, row["output_tokens"], inputs, cached, written))
    except InputError:
        return None
    return cost / prices.scale


def spent(charges: Iterable[Charge]) -> int:
    """Return the completion tokens of ``charges``."""
    return sum(row["output_tokens"] for row in charges)


def most_billed(charges: Iterable[Charge]) -> int:
    """Return the most completion tokens that the provider may have charged for.

    A lost attempt, whose bill is unknown, counts as its whole cap. A complete reply counts
    with its charge, even if the charge is estimated.
    """
    return sum(Bill(*row["bill"]).output for row in charges)


def spending(charges: Iterable[Charge]) -> Spending:
    """Return the largest possible bill of calls for each model, as budgets count it."""
    return spending_of([Bill(*row["bill"]) for row in charges])


def spending_of(bills: Iterable[Bill]) -> Spending:
    """Return the tokens of bills by model."""
    total: Spending = {}
    for bill in bills:
        if bill.output or bill.input:  # not a refused call
            counts = total.setdefault(bill.model, [0] * 5)
            largest = max(counts[4], bill.largest or bill.input)
            counts[:] = [*map(add, counts, bill[1:5]), largest]
    return total


def bills_of(spending: Spending) -> list[Bill]:
    """Return one bill for each model."""
    return [Bill(model, *counts) for model, counts in spending.items()]
