"""Artefacts as a tuning could have left them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from optim.tuning.artefact import (
    CandidateRecord,
    Cost,
    Data,
    Figure,
    Measured,
    Models,
    Paired,
    SplitRecord,
    Tuning,
)
from pb_graph.planner.planner import Planner
from pb_graph.program import PlannerProgram
from pb_graph.settings import Settings

FRUGAL = "You plan how to solve a problem; you never solve it.\n\nUse two short sub-questions."


def planner(instructions: str = FRUGAL) -> Planner:
    """A planner whose decomposition prompt is tuned."""
    found = Planner()
    found.decompose.signature = found.decompose.signature.with_instructions(instructions)
    return found


def measured(accuracy: float, tokens: float, questions: int = 40) -> Measured:
    """Figures with made-up ends."""

    def figure(value: float) -> Figure:
        return Figure(value=value, lower=value * 0.8, upper=value * 1.2)

    return Measured(
        questions=questions,
        accuracy=figure(accuracy),
        tokens=figure(tokens),
        e3=figure(accuracy**2 / tokens),
    )


def split(ratio: float = 1.6) -> SplitRecord:
    """An improvement by fewer tokens at the same accuracy."""
    paired = Paired(
        ratio=ratio,
        lower=ratio * 0.8,
        upper=ratio * 1.2,
        p_value=0.01,
        probability_higher=0.71,
        accuracy_difference=0.0,
        tokens_ratio=0.5,
        tokens_lower=0.4,
        tokens_upper=0.62,
        discordant=0,
        questions=40,
        confidence=0.95,
    )
    return SplitRecord(before=measured(50, 800), after=measured(50, 800 / ratio), paired=paired)


def candidate(name: str, accuracy: float, tokens: float, **more: Any) -> CandidateRecord:  # noqa: ANN401
    """A point on the plane."""
    more.setdefault("questions", 40)
    e3 = accuracy**2 / tokens
    return CandidateRecord(name=name, accuracy=accuracy, tokens=tokens, e3=e3, **more)


CANDIDATES = (
    candidate("original", 50, 800, role="original"),
    candidate("c1", 50, 500, role="chosen", instructions={"decompose": FRUGAL}),
    candidate("c2", 70, 2600, instructions={"decompose": "Be <b>thorough</b> & check."}),
    candidate("c3", 20, 900, settings={"execution": "single_pass"}, questions=10, fell="lost"),
    candidate("vanilla", 60, 2000, role="reference"),
)


def tuning(**changes: Any) -> Tuning:  # noqa: ANN401 -- fields of Tuning
    """The record of a tuning that found something."""
    fields: dict[str, Any] = {
        "date": datetime(2026, 11, 21, 12, tzinfo=UTC),
        "optimizer": "gepa",
        "seed": 3,
        "verdict": "undecided",
        "reason": "It is not worse on the held-out questions.",
        "models": Models(solver="test:small", planner="test:small", reflection="test:large"),
        "data": Data(name="arithmetic", fingerprint="0" * 32, train=40, dev=40, held_out=40),
        "versions": {"plan-and-budget": "0.1.0", "dspy": "3.4.1"},
        "settings_before": Settings(),
        "dev": split(1.8),
        "held_out": split(1.6),
        "cost": Cost(metric_calls=400, tokens=123_456),
        "candidates": CANDIDATES,
    }
    return Tuning(**fields | changes)


def artefact(**changes: Any) -> PlannerProgram:  # noqa: ANN401 -- fields of PlannerProgram
    """A whole one."""
    program = planner().program()
    fields: dict[str, Any] = {
        "state": program.state,
        "settings": Settings(schedule="linear", budget=300),
        "tuning": tuning(),
    }
    fields |= changes
    if isinstance(fields["tuning"], Tuning):
        fields["tuning"] = fields["tuning"].model_dump(mode="json", exclude_none=True)
    return PlannerProgram(**fields)
