"""The account: what each call was charged, once, by node."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pb_graph.budget.ledger import by_node, spent
from pb_graph.budget.rates import Bill, Dollars
from pb_graph.types import Charge

NUMBERS = ("input_tokens", "output_tokens", "reasoning_tokens", "cached_tokens")


def charge(node: str = "solve", output: int = 10, **changes: Any) -> Charge:  # noqa: ANN401
    whole: Any = {
        "node": node,
        "step": None,
        "cap": 100,
        "input_tokens": 30,
        "output_tokens": output,
        "reasoning_tokens": 4,
        "cached_tokens": 20,
        "seconds": 0.25,
        "finish": "stop",
        "measured": True,
        "model": "m",
        "bill": [*Bill()],
    }
    charge: Charge = whole | changes
    return charge


def test_one_estimate_makes_the_sum_an_estimate_but_not_the_other_nodes() -> None:
    usage = by_node([charge("plan"), charge("solve"), charge("plan"), charge(measured=False)])
    assert not usage["measured"]
    assert list(usage["by_node"]) == ["plan", "solve"]
    assert {name: part["measured"] for name, part in usage["by_node"].items()} == {
        "plan": True,
        "solve": False,
    }


COUNTS = st.integers(0, 10**6)
CHARGES = st.lists(
    st.builds(
        charge,
        st.sampled_from(["plan", "estimate", "solve"]),
        COUNTS,
        input_tokens=COUNTS,
        seconds=st.floats(0, 1000),
        measured=st.booleans(),
    ),
    max_size=20,
)


@given(CHARGES)
def test_the_nodes_add_up_to_the_query(charges: list[Charge]) -> None:
    usage = by_node(charges)
    parts = usage["by_node"].values()
    for column in (*NUMBERS, "calls"):
        assert usage[column] == sum(part[column] for part in parts)  # type: ignore[literal-required]
    assert usage["output_tokens"] == spent(charges)
    assert usage["measured"] == all(part["measured"] for part in parts)
    assert abs(usage["seconds"] - sum(part["seconds"] for part in parts)) < 0.01


def test_a_cost_is_known_only_where_every_model_has_a_price() -> None:
    rows = [
        charge("plan", 10, bill=[*Bill("small")], cached_tokens=0),
        charge("solve", 10, bill=[*Bill("large")], cached_tokens=10),
    ]
    prices = Dollars({"openai:small": (1.0, 2.0), "large": (10.0, 20.0, 5.0)})
    both = by_node(rows, prices)
    assert both["by_node"]["plan"]["cost"] == 50e-6
    assert both["by_node"]["solve"]["cost"] == (20 * 10 + 10 * 5 + 10 * 20) / 1e6
    assert both["cost"] == 500e-6
    assert by_node(rows, Dollars({"large": (1.0, 1.0)}))["cost"] is None
    assert "cost" not in by_node(rows)
