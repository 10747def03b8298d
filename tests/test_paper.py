"""The rows of the paper say what the templates of its appendix say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from optim.methods import methods
from pb_graph import Settings, build_graph
from tests.support.chat_model import Reply, ScriptedChat, with_schema

ROWS = methods("paper")
QUESTION = {
    "question": "QUESTION",
    "level": 3,
    "instruction": "INSTRUCTION",
    "answer_format": "FORM",
}
PLAN = ("FIRST? | HINT", "SECOND?", "THIRD?")

# The parts of each template, in the words that say them here.
FRAME = (
    "level out of 5",
    "All the credit is for a correct final answer",
    "efficiently and clearly",
)
FREE = "feel free to use any other method"
STEP_BY_STEP = "tep by step"
LITTLE = "Only think a little, and solve it directly in up to {} words."


def solved(settings: Settings, plan: Sequence[str] = PLAN) -> ScriptedChat:
    """Answer a question with a model that thinks before each of its replies."""
    thinker = ScriptedChat(plan=plan, credits=[20, 30, 50][: len(plan)])
    answers: Any = thinker._planned
    model = ScriptedChat(
        plan=plan,
        planner=lambda call: Reply(answers(call), reasoning=1200),
        solve=Reply("FORM 42", reasoning=1500),
    )
    build_graph(model, settings=settings, cap_policy=with_schema).invoke(QUESTION)
    return model


def asked(settings: Settings) -> str:
    """Return all that the solver is told."""
    (call,) = solved(settings).solving()
    return "\n\n".join(str(message.text) for message in call.messages)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_row_says_the_parts_of_its_template(row: Any) -> None:  # noqa: ANN401
    text = asked(row.settings)
    is_planned, is_ours = "planned" in row.name, row.settings.method == "plan_and_budget"
    is_told = "global" in row.name
    assert text.startswith("INSTRUCTION\n\n")
    assert "without detours" not in text
    if not (is_planned or is_ours):
        assert not any(part in text for part in (*FRAME, FREE, "Difficulty"))
        assert "Reason step by step." in text
    else:
        lines = ["1. FIRST? (hint: HINT)", "2. SECOND?", "3. THIRD?"]
        assert all(part in text for part in (*FRAME, FREE, "level 3 of 5", *lines))
        assert "Reason step by step." not in text
        assert (STEP_BY_STEP in text) == is_told
    assert ("less than 350 tokens" in text) == is_told
    assert text.count("Only think a little") == (3 if is_ours else 0)
    assert "strictly in this format:\nFORM" in text or not is_ours


def test_the_ten_rows_tell_a_thinking_model_ten_different_things() -> None:
    assert len({asked(row.settings) for row in ROWS}) == len(ROWS) == 10


def test_shares_are_the_floors_of_equation_7_and_are_called_words() -> None:
    text = asked(Settings.paper(schedule="weighted"))
    assert [LITTLE.format(share) in text for share in (70, 105, 175)] == [True] * 3


def test_a_plan_that_was_not_found_is_one_step_of_the_same_template() -> None:
    model = solved(Settings.paper(schedule="weighted"), plan=["ONLY?"])
    assert f"1. Solve the problem directly. {LITTLE.format(350)}" in model.solving()[-1].ask


def test_planner_and_grader_are_told_what_their_templates_say() -> None:
    plan, grade = [
        "\n".join(str(message.text) for message in call.messages)
        for call in solved(Settings.paper(schedule="weighted")).calls
        if call.role != "solve"
    ]
    assert all(part in plan for part in ("designer of exam questions", "2 to 5", "Do not reason"))
    assert "level 3 of 5" in plan
    assert all(f"Level {level}: " in grade for level in range(1, 6))  # the benchmark problems
    assert all(part in grade for part in ("make no new ones", "exactly 100", "1. FIRST?"))
