"""How a signature becomes a prompt, and how the reply is read."""

from __future__ import annotations

from typing import Any

import dspy
import pytest
from dspy.utils.exceptions import AdapterParseError

from pb_graph.planner.parsing import Plan, PlannedStep
from pb_graph.planner.requests import Example
from pb_graph.planner.signatures import Decompose, PlannerAdapter

FORM = "FORM OF THE REPLY"
EXAMPLE = Example({"problem": "EXAMPLE PROBLEM", "level": "level 1 of 5"}, "EXAMPLE REPLY")
PLAN = Plan(steps=[PlannedStep(question="First?", hint="look"), PlannedStep(question="Second?")])


def render(demos: list[Any] | None = None, signature: Any = Decompose, **inputs: str) -> list[Any]:  # noqa: ANN401
    adapter = PlannerAdapter(FORM, [EXAMPLE])
    messages = adapter.format(signature, demos or [], {"problem": "What is 6 * 7?"} | inputs)
    return [(message["role"], message["content"]) for message in messages]


def test_the_prompt_is_instructions_form_example_and_inputs() -> None:
    assert render(domain="algebra", level="") == [
        ("system", f"{Decompose.instructions}\n\n{FORM}"),
        ("user", "Problem:\nEXAMPLE PROBLEM\n\nDifficulty:\nlevel 1 of 5"),
        ("assistant", "EXAMPLE REPLY"),
        ("user", "Field:\nalgebra\n\nProblem:\nWhat is 6 * 7?"),
    ]


@pytest.mark.parametrize(
    ("field", "label"),
    [(dspy.InputField(), "Read by"), (dspy.InputField(desc="Audience"), "Audience")],
)
def test_a_further_input_field_is_rendered_with_its_value(field: object, label: str) -> None:
    signature = Decompose.append("read_by", field, str)
    assert render(signature=signature, read_by="children")[-1][1].endswith(f"{label}:\nchildren")


@pytest.mark.parametrize("plan", [PLAN, PLAN.model_dump(), PLAN.to_text()], ids=type)
def test_demos_replace_the_example_and_are_shown_as_a_planner_writes(plan: object) -> None:
    demo = dspy.Example(problem="Old problem", plan=plan).with_inputs("problem")
    unlabelled = dspy.Example(problem="No plan").with_inputs("problem")
    assert render([unlabelled, demo])[1:-1] == [
        ("user", "Problem:\nOld problem"),
        ("assistant", PLAN.to_text()),
    ]


def test_a_reply_without_a_plan_is_a_parse_error_that_says_why() -> None:
    with pytest.raises(AdapterParseError, match="no sub-question found") as caught:
        PlannerAdapter(FORM).parse(Decompose, "I cannot do that.")
    assert caught.value.lm_response == "I cannot do that."
