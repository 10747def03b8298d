"""What the solver is told: facts, order, and what stays apart.

``docs/prompts.md``, which a test compares with the code, has the wording of every prompt.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from pb_graph import prompts
from pb_graph.prompts import (
    STYLES,
    Example,
    PromptMessage,
    Style,
    _format_budget,
    forced_answer_prompt,
    single_call_prompt,
    solver_style,
    step_prompt,
)
from pb_graph.settings import Settings
from pb_graph.types import Query, StepResult, SubQuestion

PLAN = [
    SubQuestion(index=i, question=q, hint=hint, depends_on=[], level=3, credit=50)
    for i, (q, hint) in enumerate([("FIRST?", "HINT"), ("SECOND?", ""), ("THIRD?", "")])
]
SETTINGS = Settings()
PROSE = STYLES["prose"]
SHOWN = Style("HOW", (Example("EARLIER", "WORKING", "7"),))
FORMAT = "ANSWER FORMAT"


def query(**changes: Any) -> Query:  # noqa: ANN401
    whole: Any = {
        "question": "QUESTION",
        "reference": None,
        "instruction": None,
        "answer_format": None,
        "domain": "general",
        "level": 4,
    }
    query: Query = whole | changes
    return query


def result(index: int, answer: str, share: int = 70) -> StepResult:
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


def test_an_amount_is_said_in_its_unit() -> None:
    assert _format_budget(200, SETTINGS) == "200 tokens"
    assert _format_budget(200, Settings.paper()) == "200 words"


class TestSingleCall:
    def test_a_plan_takes_nothing_away_from_what_is_said_without_one(self) -> None:
        plain = said(single_call_prompt(query(level=None), SETTINGS, PROSE)).split("\n\n")
        asked = single_call_prompt(query(level=None), SETTINGS, PROSE, PLAN, budget=100)
        assert set(plain) < set(said(asked).split("\n\n"))  # else a small model may guess
        assert "of 5" not in said(asked)
        assert "of 5" in said(single_call_prompt(query(), SETTINGS, PROSE, PLAN))

    @pytest.mark.parametrize("plan", [[], PLAN], ids=["direct", "planned"])
    def test_the_answer_format_is_the_last_word(self, plan: list[SubQuestion]) -> None:
        asked = single_call_prompt(query(answer_format=FORMAT), SETTINGS, PROSE, plan, budget=350)
        assert str(asked[-1][1]).endswith(FORMAT)
        assert asked[-1][1].count("350 tokens") == 1

    def test_examples_look_as_the_question_does_and_end_as_its_answer_is_wanted(self) -> None:
        boxed = r"Put the result into \boxed."
        asked = single_call_prompt(
            query(answer_format=boxed, reference="REFERENCE"), SETTINGS, SHOWN, budget=9
        )
        assert asked[:3] == [
            ("system", f"HOW\n{boxed}"),
            ("human", "<question>\nEARLIER\n</question>"),
            ("ai", "WORKING\n\\boxed{7}"),
        ]
        assert all(part in asked[3][1] for part in ("QUESTION", "REFERENCE", "9 tok"))
        assert "HOW" not in asked[3][1]

    def test_over_a_plan_the_example_has_one_too_and_works_through_it(self) -> None:
        _, asked, reply, last = single_call_prompt(query(), SETTINGS, SHOWN, PLAN)
        _, outline, *how = str(asked[1]).split("\n\n")
        assert outline.count("?") == 2
        assert str(last[1]).split("\n\n")[2:] == how
        assert str(reply[1]).splitlines()[-1] == "Final answer: 26"


def step(index: int, *earlier: StepResult, **options: Any) -> list[PromptMessage]:  # noqa: ANN401
    is_final = options.pop("is_final", False)
    asked: Any = {"query": query(answer_format=FORMAT), "plan": PLAN, "index": index, "share": 70}
    return step_prompt(asked | {"results": earlier} | options, SETTINGS, PROSE, is_final=is_final)


class TestStep:
    def test_earlier_steps_are_turns_and_the_prefix_stays_the_same(self) -> None:
        first = step(0)
        second = step(1, result(0, "ONE"), share=50)
        third = step(2, result(0, "ONE"), result(1, "TWO", share=50))
        assert second[: len(first)] == first
        assert third[: len(second)] == second
        assert [text for role, text in third if role == "ai"] == ["ONE", "TWO"]
        assert "THIRD?" in third[-1][1]

    def test_only_the_closing_step_gives_the_final_answer(self) -> None:
        assert FORMAT not in said(step(2, result(1, "TWO")))
        assert said(step(2, result(1, "TWO"), is_final=True)).endswith(FORMAT)


@pytest.mark.parametrize("partial", ["PARTIAL", ""])
@pytest.mark.parametrize("is_final", [False, True])
def test_a_forced_ending_goes_on_from_where_the_call_was_cut(partial: str, is_final: bool) -> None:
    wanted = query(answer_format=FORMAT)
    asked = single_call_prompt(wanted, SETTINGS, PROSE)
    forced = forced_answer_prompt(asked, partial, wanted, is_final=is_final)
    assert forced[: len(asked)] == asked
    (writer, written), (_, demand) = forced[len(asked) :]
    assert writer == "ai"
    assert str(written).startswith(partial)
    assert written
    assert str(demand).endswith(FORMAT) == is_final


def test_a_forced_ending_shows_neither_examples_nor_a_long_beginning() -> None:
    task: Any = {"query": query(), "plan": PLAN, "index": 1, "share": 70}
    task["results"] = [result(0, "FOUND")]
    for asked in (
        single_call_prompt(query(), SETTINGS, SHOWN),
        step_prompt(task, SETTINGS, SHOWN, is_final=False),
    ):
        forced = forced_answer_prompt(asked, "a" * 5000 + "THE END", query(), is_final=True)
        text = said(forced)
        assert "EARLIER" not in text
        assert "THE END" in text
        assert text.count("a") < 2000
        assert ("FOUND" in text) == ("FOUND" in said(asked))


@pytest.mark.parametrize("name", ["draft", "calculation", "concise", "auto"])
def test_the_examples_of_a_style_cost_little(name: str) -> None:
    asked = single_call_prompt(query(), SETTINGS, STYLES[name])
    assert len(said(asked[:-1])) / 4 <= 350  # four characters a token


def test_examples_are_shown_only_where_they_can_end_as_the_answer_is_wanted() -> None:
    foreign = query(answer_format="Answer with a JSON object.")
    assert solver_style("auto", foreign).examples == ()
    assert solver_style("auto", foreign, SHOWN).examples == SHOWN.examples
    assert solver_style("auto", query(answer_format=r"In \boxed{}."), SHOWN).examples
    assert solver_style("auto", query(), SHOWN, is_free=False).examples == ()
    assert solver_style("calculation", foreign) == PROSE
