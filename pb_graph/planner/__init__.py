"""Define the planner: its prompts, the reading of its replies, and its calls to a chat model."""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = ["Planner"]


def __getattr__(name: str) -> Any:  # noqa: ANN401 -- the class
    if name != "Planner":
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    return import_module("pb_graph.planner.planner").Planner  # DSPy takes a second to import
