"""Random questions, planners, solvers and settings, and what happened when they met."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from pb_graph import NoAnswerError
from pb_graph.methods import METHODS, PAPER
from tests.support.chat_model import (
    Call,
    HTTPError,
    Reply,
    Said,
    ScriptedChat,
    runs_on,
    says_nothing,
    thinks_in_vain,
    until_forced,
)
from tests.support.graphs import QUESTION, Way, checked, choices, graph_of

BEHAVIOURS: list[Callable[[Call], Said]] = [
    lambda _: "Final answer: 42",
    lambda _: Reply("It must be so. Final answer: 42", reasoning=30),
    lambda _: HTTPError(503),
    runs_on,
    says_nothing,
    thinks_in_vain,
    until_forced,
]
OWN_METHODS = [known.name for known in METHODS.values() if known.source == PAPER]
CREDITS = [0, 1, 33, 100, 250, -5, "20 points", "many", None]


@st.composite
def plans(draw: st.DrawFn) -> list[str]:
    """One to seven sub-questions, each after any numbers, also later ones and its own."""
    count = draw(st.integers(1, 7))
    plan = []
    for number in range(1, count + 1):
        after = draw(st.none() | st.lists(st.integers(1, count), max_size=3))
        needs = "" if not after else f" | after {', '.join(map(str, after))}"
        plan.append(f"Part {number}?{needs}")
    return plan


@st.composite
def models(draw: st.DrawFn) -> ScriptedChat:
    """A planner with good and bad grades or without an end, and a solver that changes its mind."""
    moods = itertools.cycle(draw(st.lists(st.sampled_from(BEHAVIOURS), min_size=1, max_size=6)))
    plan = draw(plans())
    return ScriptedChat(
        plan=plan,
        level=draw(st.integers(0, 7)),
        planner=draw(st.sampled_from([None, None, None, runs_on])),
        credits=draw(
            st.lists(st.sampled_from(CREDITS), min_size=len(plan), max_size=len(plan)) | st.none()
        ),
        solve=lambda call: next(moods)(call),  # noqa: PLW0108 -- the next one each time
    )


def settings(**fixed: Any) -> st.SearchStrategy[dict[str, Any]]:  # noqa: ANN401
    """Any settings that bear on budgets."""
    free: dict[str, st.SearchStrategy[Any]] = {
        "method": st.sampled_from(OWN_METHODS),
        "plan_from": st.sampled_from([None, 1, 4]),
        "execution": st.sampled_from(["single_pass", "stepwise"]),
        "planning": st.sampled_from(["two_call", "fused"]),
        "schedule": st.sampled_from([*choices("schedule"), {"name": "polynomial", "power": 3}]),
        "budget": st.integers(1, 12) | st.integers(1, 2000),
        "reserve": st.integers(0, 100),
        "cutoff": st.integers(1, 200) | st.just(8192),
        "enforcement": st.sampled_from(["prompt", "force"]),
        "synthesis": st.sampled_from(["last_step", "call"]),
    }
    return st.fixed_dictionaries(free | {name: st.just(value) for name, value in fixed.items()})


@dataclass(frozen=True)
class Outcome:
    """What came of a question: its account, and its progress events in order."""

    report: dict[str, Any]
    events: list[dict[str, Any]]

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["event"] == kind]


def followed(model: ScriptedChat, way: Way = "invoke", **chosen: Any) -> Outcome:  # noqa: ANN401
    """Answer the question, and listen. When there is no answer, the error's report counts."""
    graph = graph_of(model, **chosen)
    options: Any = {"stream_mode": ["custom", "values"]}
    parts: list[tuple[str, dict[str, Any]]] = []

    async def follow() -> None:
        async for part in graph.astream(QUESTION, **options):
            parts.append(part)  # noqa: PERF401 -- also if it raises

    try:
        if way == "ainvoke":
            asyncio.run(follow())
        else:
            parts.extend(graph.stream(QUESTION, **options))
        report = parts[-1][1]["report"]
    except NoAnswerError as error:
        report = error.report
    return Outcome(checked(report), [data for mode, data in parts if mode == "custom"])
