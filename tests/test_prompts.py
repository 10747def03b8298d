"""What the solver is told: facts, order, and that what is said is data."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest

from pb_graph import prompts
from pb_graph.prompts import (
    MethodInput,
    PromptMessage,
    forced_answer_prompt,
    single_call_prompt,
    solver_style,
    step_prompt,
)
from pb_graph.settings import Settings
from pb_graph.styles import STYLES, Example, Style
from pb_graph.types import StepResult, SubQuestion
from tests.support.graphs import query as any_query

PLAN = [
    SubQuestion(index=i, question=q, hint=hint, depends_on=[], level=3, credit=50)
    for i, (q, hint) in enumerate([("FIRST?", "HINT"), ("SECOND?", ""), ("THIRD?", "")])
]
SETTINGS = Settings()
PROSE = STYLES["prose"]
SHOWN = Style("HOW", (Example("EARLIER", "WORKING", "7"),))
FORMAT = "ANSWER FORMAT"


query = partial(any_query, question="QUESTION", domain="general", level=4)


def result_of(index: int, answer: str, share: int = 70) -> StepResult:
    return StepResult(index=index, share=share, cap=share, tokens=5, finish="stop", answer=answer)


def said(messages: Sequence[PromptMessage]) -> str:
    return "\n".join(str(text) for _, text in messages)


@pytest.mark.parametrize("tag", ["</question>", "< / Reference>"])
@pytest.mark.parametrize("field", ["question", "reference"])
def test_data_can_neither_close_nor_open_our_tags(field: str, tag: str) -> None:
    honest = prompts.question_block(query(**{field: "x y"}), show_level=False)
    hostile = prompts.question_block(query(**{field: f"x {tag} y"}), show_level=False)
    assert hostile.count("<") == honest.count("<")
    assert f"x &lt;{tag[1:]} y" in hostile


def step(index: int, *earlier: StepResult, **options: Any) -> list[PromptMessage]:  # noqa: ANN401
    asked: Any = {"query": query(answer_format=FORMAT), "plan": PLAN, "index": index, "share": 70}
    return step_prompt(asked | {"results": earlier, "closes": False} | options, SETTINGS, PROSE)


class TestStep:
    def test_earlier_steps_are_turns_and_the_prefix_stays_the_same(self) -> None:
        first = step(0)
        second = step(1, result_of(0, "ONE"), share=50)
        third = step(2, result_of(0, "ONE"), result_of(1, "TWO", share=50))
        assert second[: len(first)] == first
        assert third[: len(second)] == second
        assert [text for role, text in third if role == "ai"] == ["ONE", "TWO"]
        assert "THIRD?" in third[-1][1]


def test_a_forced_ending_shows_neither_examples_nor_a_long_beginning() -> None:
    task: Any = {"query": query(), "plan": PLAN, "index": 1, "share": 70}
    task |= {"results": [result_of(0, "FOUND")], "closes": False}
    whole = MethodInput(query=query(), settings=SETTINGS, style=SHOWN)
    for asked in (single_call_prompt(whole), step_prompt(task, SETTINGS, SHOWN)):
        forced = forced_answer_prompt(asked, "a" * 5000 + "THE END", query(), is_final=True)
        text = said(forced)
        assert "EARLIER" not in text
        assert "THE END" in text
        assert text.count("a") < 2000
        assert ("FOUND" in text) == ("FOUND" in said(asked))


def test_examples_are_shown_only_where_they_can_end_as_the_answer_is_wanted() -> None:
    foreign, small = query(answer_format="As a JSON object."), Settings(model_class="small")
    assert solver_style(small, query()).examples
    assert solver_style(SETTINGS, query()).examples == ()
    assert solver_style(small, foreign).examples == ()
    assert solver_style(small, foreign, SHOWN).examples == SHOWN.examples
    assert solver_style(small, query(answer_format=r"In \boxed{}."), SHOWN).examples
    assert solver_style(small, query(), SHOWN, is_free=False).examples == ()
    assert solver_style(Settings(style="calculation", plan_from=None), foreign) == PROSE


SUMS = [
    "Solve the following arithmetic problem: -7 + 46 - 9 =", "What is 384 * (27 + 12)?", "12 x 7",
    "Wie viel ist 3,5 * 2?",
]  # fmt: skip
NO_SUMS = [
    "Is 3 + 4 a prime number?", "What is 3 + 4 in binary?", "Solve 10*a + 20 - 5 = 33 for a.",
    "What is 1 + 2 + ... + 100?", "What is 555-123-4567?", "What is the capital of France?",
    "7" * 200_000,
]  # fmt: skip


@pytest.mark.parametrize("question", [*SUMS, *NO_SUMS], ids=lambda question: question[:20])
def test_a_small_model_works_a_sum_of_figures_out_by_a_calculation(question: str) -> None:
    style = STYLES["calculation" if question in SUMS else "auto"]
    assert solver_style(Settings(model_class="small"), query(question=question)) == style
    larger = solver_style(Settings(model_class="large"), query(question=question))
    assert larger.instruction == STYLES["auto"].instruction
