"""The account: what each call was charged, once, by node."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pb_graph.budget.account import Budget
from pb_graph.budget.bill import Bill, add_spending, spent, subtract_spending, usage_of
from pb_graph.budget.rates import Dollars
from pb_graph.errors import InputError
from pb_graph.types import Charge

NUMBERS = ("input_tokens", "output_tokens", "total_tokens", "calls")


def charge(node: str = "solve", output: int = 10, **changes: Any) -> Charge:  # noqa: ANN401
    whole: Any = {
        "node": node,
        "step": None,
        "cap": 100,
        "model": "m",
        "usage": Bill(input=30, output=output, reasoning=4, cached=20).usage(),
        "measured": True,
        "most": Bill(input=30, output=output).usage(),
        "seconds": 0.25,
        "finish": "stop",
    }
    charge: Charge = whole | changes
    return charge


COUNTS = st.integers(0, 10**6)
CHARGES = st.lists(
    st.builds(
        charge,
        st.sampled_from(["plan", "estimate", "solve"]),
        COUNTS,
        seconds=st.floats(0, 1000),
        measured=st.booleans(),
    ),
    max_size=20,
)


@given(CHARGES)
def test_the_nodes_add_up_to_the_query(charges: list[Charge]) -> None:
    usage = usage_of(charges)
    parts = usage["by_node"].values()
    for column in NUMBERS:
        assert usage[column] == sum(part[column] for part in parts)  # type: ignore[literal-required]
    assert usage["output_tokens"] == spent(charges)
    assert usage["measured"] == all(part["measured"] for part in parts)
    for node, part in usage["by_node"].items():
        assert part["measured"] == all(one["measured"] for one in charges if one["node"] == node)
    assert abs(usage["seconds"] - sum(part["seconds"] for part in parts)) < 0.01


def test_a_cost_is_known_only_where_every_model_has_a_price() -> None:
    rows = [
        charge("plan", model="small", usage=Bill(input=30, output=10).usage()),
        charge("solve", model="large", usage=Bill(input=30, output=10, cached=10).usage()),
    ]
    prices = Dollars({"openai:small": (1.0, 2.0), "large": (10.0, 20.0, 5.0)})
    both = usage_of(rows, prices.dollars)
    assert both["by_node"]["plan"]["cost"] == 50e-6
    assert both["by_node"]["solve"]["cost"] == (20 * 10 + 10 * 5 + 10 * 20) / 1e6
    assert both["cost"] == 500e-6
    assert usage_of(rows, Dollars({"large": (1.0, 1.0)}).dollars)["cost"] is None
    assert "cost" not in usage_of(rows)


@pytest.mark.parametrize("count", [math.inf, math.nan, -1, 1.5, True])
def test_a_bill_holds_whole_numbers_only(count: Any) -> None:  # noqa: ANN401
    usage: Any = {"input_tokens": 1, "output_tokens": count, "total_tokens": 1}
    with pytest.raises(InputError, match="whole"):
        Budget(10).charge({"m": usage})


def test_tokens_by_model_add_up_and_keep_the_largest_call() -> None:
    first = add_spending({"m": Bill(input=300, output=2).usage()}, None)
    whole = add_spending(first, {"m": Bill(input=200, output=3, largest=150).usage()})
    assert whole == {"m": Bill(input=500, output=5, largest=300).usage()}
    rest = subtract_spending(whole, first)
    assert rest == {"m": Bill(input=200, output=3, largest=300).usage()}
    assert add_spending(first, rest) == whole
