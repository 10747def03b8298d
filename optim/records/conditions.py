"""Decide which answers may stand together: in the folder of a run, in one row, in one table."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """Everything that bears on the answers of a method and on their scores.

    A log holds them as plain JSON.

    Attributes:
        settings: Settings of the graph, without those of retries.
        solver: Digest of the solver and its parameters.
        planner: Digest of the planner and its parameters.
        program: Digest of the tuned program, or None.
        estimate_level: Whether the planner estimates every level.
        temperature: Temperature of the solver, or None.
        epochs: Answers to each question.
        seed: Seed of the draw of the questions.
        source: File or hub, and split, of the questions.
        scorer: Name of the scorer.
        scorer_code: Digest of the scorer's code, or "".
        part: Part of the questions, such as ``3/16``, or None.
        parts: Number of parts, or None.
        asked: Digest of the questions with their accepted answers.
    """

    settings: Mapping[str, Any]
    solver: str
    planner: str
    program: str | None
    estimate_level: bool
    temperature: float | None
    epochs: int
    seed: int
    source: list[str | None]
    scorer: str
    scorer_code: str
    part: str | None = None
    parts: int | None = None
    asked: str = ""


BY_RUN: Final = frozenset({"asked", "epochs", "scorer", "scorer_code"})
"""Conditions that a later run of the same folder may change: its log replaces the earlier one."""

BY_LOG: Final = frozenset({"part"})
"""Conditions in which the logs of one row may differ."""

BY_ROW: Final = frozenset(
    {"settings", "program", "estimate_level", "seed", "source", "part", "parts", "asked"}
)
"""Conditions in which the rows of one table may differ; each question is compared on its own."""

_LABELS = {  # conditions that are digests, which say nothing to a person
    "solver": "the model's parameters",
    "planner": "the planner's parameters",
    "program": "the planner's program",
    "scorer_code": "the scorer's code",
    "asked": "the questions",
}


def differences(
    before: Mapping[str, Any], now: Mapping[str, Any], ignored: Collection[str] = ()
) -> list[str]:
    """Return the conditions in which two runs differ, such as "cutoff: 8192 → 77"."""
    old, new = (
        {name: value for name, value in each.items() if name not in ignored}
        for each in (before, json.loads(json.dumps(now)))
    )
    old, new = (each | {"settings": None} | (each.get("settings") or {}) for each in (old, new))
    return [
        f"{_LABELS[key]} changed" if key in _LABELS else f"{key}: {old.get(key)} → {new.get(key)}"
        for key in sorted(old.keys() | new.keys())
        if old.get(key) != new.get(key)
    ]
