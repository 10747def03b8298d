"""Allocation gives every token away once, and again what earlier steps left over."""

from __future__ import annotations

from typing import Any

import pytest

from pb_graph import Settings
from pb_graph.nodes.allocate import needed_steps, next_wave
from pb_graph.types import SubQuestion
from tests.support.chat_model import Reply, ScriptedChat, runs_on
from tests.support.graphs import CHAIN, codes, report_of
from tests.support.worlds import Outcome, followed

STEPWISE: dict[str, Any] = {
    "method": "plan_and_budget",
    "execution": "stepwise",
    "schedule": "uniform",
    "enforcement": "cap",
    "min_step": 1,
}


def budgets(outcome: Outcome) -> list[list[int]]:
    """The shares at first, and after every wave that left some step to be solved."""
    return [event["shares"] for event in outcome.of("budgets")]


def test_rollover_gives_what_a_step_left_to_those_to_come() -> None:
    model = ScriptedChat(plan=CHAIN, solve=Reply("ok", reasoning=9))
    outcome = followed(model, **STEPWISE, budget=400, rollover=True)
    assert budgets(outcome) == [
        [100, 100, 100, 100],
        [100, 130, 130, 130],
        [100, 130, 190, 190],
        [100, 130, 190, 370],
    ]
    assert outcome.report["usage"]["output_tokens"] <= outcome.report["ceiling"]


def test_rollover_keeps_the_ratio_that_the_schedule_meant() -> None:
    model = ScriptedChat(plan=CHAIN, solve="ok", credits=[10, 40, 20, 30])
    chosen = STEPWISE | {"schedule": "weighted", "budget": 1000, "rollover": True}
    assert budgets(followed(model, **chosen))[1] == [100, 444, 222, 333]


def test_a_budget_that_is_only_said_can_be_overspent_without_harm_to_later_steps() -> None:
    model = ScriptedChat(plan=CHAIN, solve=runs_on)
    chosen = STEPWISE | {"enforcement": "prompt", "budget": 100, "rollover": True, "cutoff": 50}
    assert [step["budget"] for step in followed(model, **chosen).report["steps"]] == [25] * 4


@pytest.mark.parametrize("execution", ["stepwise", "single_pass"])
def test_fewer_tokens_than_steps_make_it_one_step(execution: str) -> None:
    model = ScriptedChat(plan=CHAIN)
    report = report_of(model, execution=execution, budget=3, enforcement="prompt")
    assert len(report["steps"]) == 1
    assert report["steps"][0]["budget"] == 3
    assert "single_step" in codes(report)


def test_every_step_can_say_at_least_one_token() -> None:
    model = ScriptedChat(plan=CHAIN, credits=[97, 1, 1, 1], solve=runs_on)
    chosen: dict[str, Any] = {
        "execution": "stepwise",
        "schedule": "polynomial",
        "min_step": 0,
        "budget": 30,
        "enforcement": "cap",
    }
    report = report_of(model, remainder="floor", **chosen)
    assert min(step["tokens"] for step in report["steps"]) == 1
    assert sum(step["tokens"] for step in report["steps"]) <= 30


def test_the_bam_schedule_gives_harder_sub_questions_more() -> None:
    model = ScriptedChat(plan=CHAIN, levels=[1, 2, 4, 5])
    report = report_of(model, **(STEPWISE | {"schedule": "bam", "budget": 1000, "rollover": False}))
    shares = [step["budget"] for step in report["steps"]]
    assert shares == sorted(shares)
    assert sum(shares) == 1000


def test_in_one_pass_steps_are_told_their_shares_and_the_call_has_the_total() -> None:
    model = ScriptedChat(plan=CHAIN)
    chosen = STEPWISE | {"execution": "single_pass", "budget": 444}
    report = report_of(model, **chosen)
    (call,) = model.solving()
    assert call.cap == 444
    assert call.ask.count("111 tokens") == 4
    assert [step["budget"] for step in report["steps"]] == [111] * 4
    assert [step["tokens"] for step in report["steps"]] == [None] * 4


@pytest.mark.parametrize(("execution", "bound"), [("stepwise", 400), ("single_pass", 150)])
def test_the_ceiling_is_known_before_the_first_solving_call(execution: str, bound: int) -> None:
    """Four steps may take 100 each; one call ends at the cutoff, whatever its budget is."""
    chosen = STEPWISE | {"execution": execution, "budget": 400, "cutoff": 150}
    outcome = followed(ScriptedChat(plan=CHAIN), **chosen, synthesis="last_step")
    planning = sum(
        usage["output_tokens"]
        for node, usage in outcome.report["usage"]["by_node"].items()
        if node in ("plan", "estimate")
    )
    assert outcome.report["ceiling"] == planning + bound


def test_the_ceiling_holds_the_cap_of_a_planning_attempt_whose_bill_is_unknown() -> None:
    chosen = STEPWISE | {"budget": 100, "planner_cap": 70, "max_retries": 0}
    report = report_of(ScriptedChat(planner=TimeoutError("late")), **chosen)
    assert report["ceiling"] == 70 + 100
    assert report["most_billed"] <= report["ceiling"]


def plan(*needs: list[int]) -> list[SubQuestion]:
    return [
        SubQuestion(
            index=index, question=f"Q{index}", hint="", depends_on=deps, level=None, credit=None
        )
        for index, deps in enumerate(needs)
    ]


BRANCHES = plan([], [0], [0], [1, 2])
SCATTERED = plan([], [], [], [])
LAST_STEP = Settings(synthesis="last_step", parallel=True)
CALL = Settings(synthesis="call", parallel=True)


def waves(steps: list[SubQuestion], settings: Settings) -> list[list[int]]:
    done: set[int] = set()
    found = []
    while wave := [step["index"] for step in next_wave(steps, done, settings)]:
        found.append(wave)
        done |= set(wave)
    return found


@pytest.mark.parametrize(
    ("steps", "settings", "expected"),
    [
        (BRANCHES, LAST_STEP, [[0], [1, 2], [3]]),
        (SCATTERED, LAST_STEP, [[0, 1, 2], [3]]),
        (SCATTERED, CALL, [[0, 1, 2, 3]]),
        (plan([], [0], [1]), CALL, [[0], [1], [2]]),
        (plan([]), LAST_STEP, [[0]]),
        (SCATTERED, Settings(parallel=False), [[0], [1], [2], [3]]),
    ],
)
def test_a_wave_is_all_that_waits_for_nothing(
    steps: list[SubQuestion], settings: Settings, expected: list[list[int]]
) -> None:
    assert waves(steps, settings) == expected


def test_a_step_builds_on_its_needs_and_on_theirs() -> None:
    steps = plan([], [0], [], [1], [3])
    assert needed_steps(steps, 3, LAST_STEP) == [0, 1]
    assert needed_steps(steps, 2, LAST_STEP) == []
