"""The rivals as rows of an evaluation: paid once, charged in full, found again."""

from __future__ import annotations

from pathlib import Path

from tests.support.chat_model import Call, Said, ScriptedChat
from tests.support.evaluations import (
    evaluated,
    leaks_collected,
    rows,
    solves,
    tolerates_inspect,
)

__all__ = ["leaks_collected"]  # applies to every test here

pytestmark = tolerates_inspect


def estimates_and_solves(call: Call) -> Said:
    """Answers for the question that was asked last: those before it are examples."""
    if call.ask.endswith("[[number]]"):
        return "[[ 40 ]]"
    return solves(call)


def test_every_rival_is_a_row_with_all_its_tokens(tmp_path: Path) -> None:
    model = ScriptedChat(solve=estimates_and_solves)
    made = evaluated(model, tmp_path, methods="vanilla,rivals,concise@300", limit=2)
    found = {row.method: row for row in rows(made.records)}
    assert set(found) == {
        "vanilla",
        "adaptive_consistency",
        "certaindex",
        "chain_of_draft",
        "concise",
        "concise@300",
        "plan_and_solve",
        "program_aided",
        "tale_ep",
        "thinking_off",
    }
    assert {row.accuracy for row in found.values()} == {100.0}
    tokens = {name: (row.tokens, row.solving_tokens) for name, row in found.items()}
    assert tokens["vanilla"] == tokens["concise"] == (3.0, 3.0)
    assert tokens["tale_ep"] == (6.0, 3.0)  # its estimate aside, as its paper counts
    assert tokens["adaptive_consistency"] == (12.0, 12.0)
    assert tokens["program_aided"] == (6.0, 6.0)  # what this model writes cannot be worked out
    paid = len(model.calls)
    again = evaluated(model, tmp_path, methods="vanilla,rivals,concise@300", limit=2)
    assert len(model.calls) == paid
    assert again == made
