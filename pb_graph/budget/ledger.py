"""What each model call was charged, and the sums that a report shows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from typing import cast

from pb_graph.errors import InputError
from pb_graph.types import Charge, NodeUsage, QueryUsage, Usage

Prices = Mapping[str, Sequence[float]]
"""Dollars per million tokens by model: of input, of output and, if it differs, of cached input."""


def total(charges: Iterable[Charge], prices: Prices | None = None) -> Usage:
    """Sum up ``charges``; the sum is measured only when every part of it is."""
    rows = list(charges)
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


def by_node(charges: Iterable[Charge], prices: Prices | None = None) -> QueryUsage:
    """Sum up ``charges`` for the query, and for each node in order of first appearance."""
    rows = list(charges)
    nodes: dict[str, list[Charge]] = {}
    for row in rows:
        nodes.setdefault(row["node"], []).append(row)
    return QueryUsage(
        **total(rows, prices),
        by_node={node: _node_usage(made, prices) for node, made in nodes.items()},
    )


def _node_usage(rows: list[Charge], prices: Prices | None) -> NodeUsage:
    models = list(dict.fromkeys(name for row in rows if (name := row.get("model"))))
    usage = total(rows, prices)
    return NodeUsage(**usage, models=models) if models else cast("NodeUsage", usage)


def _cost(row: Charge, prices: Prices) -> float | None:
    """Return the dollars of one call. A table may name a model with or without its provider."""
    named = row.get("model")
    found = [price for name, price in prices.items() if named in (name, name.partition(":")[2])]
    if not named or not found:
        return None
    fresh, output, cached = (*found[0], found[0][0])[:3]
    read = row["cached_tokens"]
    paid = (row["input_tokens"] - read) * fresh + read * cached + row["output_tokens"] * output
    return paid / 1_000_000


def spent(charges: Iterable[Charge]) -> int:
    """Return the completion tokens of ``charges``."""
    return sum(row["output_tokens"] for row in charges)


def most_billed(charges: Iterable[Charge]) -> int:
    """Return the most completion tokens that the provider may have charged for.

    A lost attempt, whose bill is unknown, counts as its whole cap. A reply that arrived whole
    counts as it was charged, also where that is an estimate.
    """
    return sum(
        max(row["output_tokens"], row["cap"])
        if row["finish"] == "error" and not row["measured"]
        else row["output_tokens"]
        for row in charges
    )


def read_prices(given: Mapping[str, Sequence[float]]) -> dict[str, tuple[float, ...]]:
    """Return a table of prices as a user wrote it.

    Args:
        given: Dollars per million tokens by model: of input, of output and, if it differs, of
            cached input.

    Raises:
        InputError: A price is no pair or triple of numbers of at least 0.
    """
    try:
        table = {str(name): tuple(map(float, price)) for name, price in given.items()}
    except (TypeError, ValueError, AttributeError):
        table = {"": ()}
    if all(
        len(price) in (2, 3) and all(isfinite(one) and one >= 0 for one in price)
        for price in table.values()
    ):
        return table
    msg = "prices are dollars per million tokens of input and output, such as "
    msg += f'{{"gpt-5-mini": (0.25, 2.0)}}, not {given!r:.100}'
    raise InputError(msg)
