"""What of a question's cost was planning: its plan and the estimate of its difficulty."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pb_graph.budget.ledger import Usage
    from pb_graph.state import Report

__all__ = ["PLANNING", "planning_seconds", "planning_tokens"]

PLANNING: Final = frozenset({"plan", "estimate"})
"""The nodes whose calls are planning; the others solve."""


def planning_tokens(report: Report) -> int:
    """Completion tokens of planning and estimation, repairs included."""
    return sum(part["output_tokens"] for part in _parts(report))


def planning_seconds(report: Report) -> float:
    """Seconds of planning and estimation; of a shared plan, those it originally took."""
    return sum(part["seconds"] for part in _parts(report))


def _parts(report: Report) -> list[Usage]:
    by_node = report["usage"]["by_node"]
    return [part for node, part in by_node.items() if node in PLANNING]
