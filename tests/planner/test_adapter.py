"""The planner's prompt and how its reply is parsed; the wording of either is not fixed here."""

from __future__ import annotations

from typing import Any

import dspy
import pytest
from dspy.utils.exceptions import AdapterParseError

from pb_graph.planner.adapter import TerseAdapter
from pb_graph.planner.parsing import Plan, PlannedStep
from pb_graph.planner.requests import Example
from pb_graph.planner.signatures import Decompose

FORM = "FORM OF THE REPLY"
EXAMPLE = Example("EXAMPLE PROBLEM", "EXAMPLE REPLY")
PLAN = Plan(steps=[PlannedStep(question="First?", hint="look"), PlannedStep(question="Second?")])
INPUTS = {"domain": "", "problem": "What is 6 * 7?", "level": "", "correction": ""}


def rendered(demos: list[Any] | None = None, **inputs: str) -> list[dict[str, Any]]:
    adapter = TerseAdapter(FORM, [EXAMPLE])
    return adapter.format(Decompose, demos or [], INPUTS | inputs)


def test_the_form_is_said_last_in_the_system_message() -> None:
    system = rendered()[0]
    assert system["role"] == "system"
    assert system["content"] == f"{Decompose.instructions}\n\n{FORM}"


def test_tuned_instructions_replace_ours_but_not_the_form() -> None:
    tuned = Decompose.with_instructions("Be brief.")
    system = TerseAdapter(FORM).format(tuned, [], INPUTS)[0]
    assert system["content"] == f"Be brief.\n\n{FORM}"


def test_inputs_come_last_and_empty_ones_not_at_all() -> None:
    message = rendered(domain="algebra")[-1]
    labels = {name: Decompose.input_fields[name].json_schema_extra["desc"] for name in INPUTS}
    assert message == {
        "role": "user",
        "content": f"{labels['domain']}:\nalgebra\n\n{labels['problem']}:\nWhat is 6 * 7?",
    }


def test_an_example_shows_the_form_while_there_are_no_demos() -> None:
    assert [message["content"] for message in rendered()[1:-1]] == list(EXAMPLE)
    assert rendered()[1:-1] == [
        {"role": "user", "content": EXAMPLE.asked},
        {"role": "assistant", "content": EXAMPLE.answered},
    ]


def demo(**fields: Any) -> Any:  # noqa: ANN401 -- untyped DSPy
    return dspy.Example(problem="Old problem", **fields).with_inputs("problem")


@pytest.mark.parametrize(
    "plan", [PLAN, PLAN.model_dump(), PLAN.written()], ids=["value", "loaded", "text"]
)
def test_demos_are_shown_as_the_planner_should_have_written_them(plan: object) -> None:
    asked, answered = rendered([demo(plan=plan)])[1:-1]
    assert asked["role"] == "user"
    assert asked["content"].endswith("Old problem")
    assert answered == {"role": "assistant", "content": PLAN.written()}


def test_a_demo_without_a_reply_is_left_out() -> None:
    assert len(rendered([demo(), demo(plan=PLAN)])) == 4


def test_the_output_type_reads_the_reply() -> None:
    parsed = TerseAdapter(FORM).parse(Decompose, PLAN.written())
    assert parsed == {"plan": PLAN}


@pytest.mark.parametrize("reply", ["", "I cannot do that.", '{"steps": []}'])
def test_a_reply_without_a_plan_is_a_parse_error_that_says_why(reply: str) -> None:
    with pytest.raises(AdapterParseError, match="no sub-question found") as caught:
        TerseAdapter(FORM).parse(Decompose, reply)
    assert caught.value.lm_response == reply
