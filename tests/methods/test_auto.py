"""Auto: asks `by_kind`; where its policy has short tries, only if they settle nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from pydantic import BaseModel

from pb_graph import Budget, build_graph
from pb_graph.methods.auto import MATHEMATICS, OTHERS
from pb_graph.methods.numbered_steps import STYLE
from pb_graph.prompts import SHORT_LINES
from pb_graph.settings import AutoPolicy, Settings
from tests.support import graphs
from tests.support.chat_model import (
    Call,
    CutOffError,
    HTTPError,
    Said,
    ScriptedChat,
    runs_on,
    until_forced,
)
from tests.support.graphs import Way, graph_of, run

QUESTION = {"question": "What is $3 \\cdot 14$?"}


def model(short: Any, plain: Any = "At length.\nFinal answer: 42") -> ScriptedChat:  # noqa: ANN401
    """One that answers the short tries and the plain question as told."""
    tries = iter(short if isinstance(short, list) else [short] * 9)

    def solve(call: Call) -> Said:
        is_short = SHORT_LINES in str(call.messages[0].content)
        said = next(tries) if is_short else plain
        answer: Said = said(call) if callable(said) else said
        return answer

    return ScriptedChat(solve=solve)


TRY = {"tries": 1, "confidence": 0}


def report_of(
    chat: ScriptedChat,
    given: Mapping[str, Any] = QUESTION,
    **settings: Any,  # noqa: ANN401
) -> dict[str, Any]:
    """Of a question in formulas: at length, it is asked in one call."""
    return graphs.report_of(chat, given, **settings)


def test_a_strict_ceiling_has_the_cap_of_a_short_try_that_was_lost() -> None:
    policy = TRY | {"confidence": 0, "short": 100}
    chat, given = model(TimeoutError("late"), runs_on), QUESTION | {"budget": 300}
    report = report_of(chat, given, method="auto", auto=policy, strict_ceiling=True)
    assert report["most_billed"] == report["ceiling"] == 300


def test_the_default_asks_once_by_kind_within_a_cap() -> None:
    chat = model("Final answer: 41", runs_on)
    report = report_of(chat, method="auto")
    assert nodes(report) == {"answer": 2}  # the second is the forced ending
    assert report["ceiling"] == MATHEMATICS
    assert MATHEMATICS - 48 <= chat.output_tokens <= MATHEMATICS
    assert STYLE in str(chat.calls[0].messages[0].content)


@pytest.mark.parametrize(
    ("query", "most"),
    [
        (graphs.QUESTION, MATHEMATICS),
        (QUESTION, MATHEMATICS),
        ({"question": "Tell the story of a fox and a crow."}, OTHERS),
        ({"question": "Plan three days in Rome.", "answer_format": "A line a day."}, OTHERS),
    ],
)
@pytest.mark.parametrize("plain", [None, 300])
def test_a_long_text_may_be_longer_than_any_right_answer_of_mathematics(
    query: dict[str, str], most: int, plain: int | None
) -> None:
    chat = model("", runs_on)
    report = report_of(chat, query, method="auto", auto={"plain": plain})
    assert report["ceiling"] == (plain or most)
    assert report["ceiling"] - 48 <= chat.output_tokens <= report["ceiling"]


@pytest.mark.parametrize("budget", [1, 2, 90, 1000])
def test_a_budget_of_ones_own_bounds_all_tries_together(budget: int) -> None:
    chat = model(runs_on, runs_on)
    report = report_of(chat, QUESTION | {"budget": budget}, method="auto", auto=TRY)
    assert (report["budget"], report["ceiling"], report["warnings"]) == (budget, budget, [])
    assert 0.9 * budget <= chat.output_tokens <= budget
    assert report["answer"]


def test_what_a_failed_try_has_cost_is_not_spent_once_more() -> None:
    chat = model([CutOffError(60)], runs_on)
    report = report_of(chat, QUESTION | {"budget": 300}, method="auto", auto=TRY)
    assert list(nodes(report)) == ["short", "answer"]
    assert 270 <= report["usage"]["output_tokens"] <= report["budget"] == 300


def test_the_ceiling_holds_whatever_bounds_the_calls() -> None:
    for more in (
        {"cutoff": 1, "budget": 2},
        {"cutoff": 90, "enforcement": "prompt"},
        {"cutoff": 60},
    ):
        chat = model(runs_on, runs_on)
        report = report_of(chat, method="auto", auto=TRY, **more)
        assert chat.output_tokens <= report["ceiling"] <= 2 * more["cutoff"]


class Total(BaseModel):
    total: int


@pytest.mark.parametrize("given", [{"tools": [abs]}, {"response_format": Total}])
def test_what_the_examples_do_not_show_is_asked_plainly(given: dict[str, Any]) -> None:
    chat = model("Final answer: 42", '{"total": 42}')
    report = run(build_graph(chat, settings=Settings(auto=TRY), **given))["report"]
    assert list(nodes(report)) == ["answer"]


def nodes(report: dict[str, Any]) -> dict[str, int]:
    return {name: part["calls"] for name, part in report["usage"]["by_node"].items()}


def test_a_short_answer_that_ends_is_enough() -> None:
    chat = model("6 * 7 = 42\nFinal answer: 42")
    report = report_of(chat, method="auto", auto=TRY)
    assert report["answer"] == "6 * 7 = 42\nFinal answer: 42"
    assert nodes(report) == {"short": 1}
    assert chat.calls[0].cap == AutoPolicy().short


@pytest.mark.parametrize(
    "short", [runs_on, "I see no way.", HTTPError(400)], ids=["cut", "no answer", "failed"]
)
def test_one_that_settles_nothing_is_followed_by_the_question_at_length(
    short: str | Callable[[Call], Said] | Exception,
) -> None:
    def said(call: Call) -> Said:
        if isinstance(short, Exception):
            raise short
        return short(call) if callable(short) else short

    chat = model(said)
    report = report_of(chat, method="auto", auto=TRY, max_retries=0)
    assert report["answer"] == "At length.\nFinal answer: 42"
    assert chat.output_tokens == report["usage"]["output_tokens"] <= report["ceiling"]
    assert STYLE in str(chat.calls[-1].messages[0].content)


def test_the_ceiling_is_the_sum_of_the_caps_and_holds() -> None:
    chat = model(runs_on, runs_on)
    policy = {"short": 50, "tries": 2, "plain": 200}
    report = report_of(chat, method="auto", auto=policy)
    assert report["ceiling"] == 2 * 50 + 200
    assert chat.output_tokens <= report["ceiling"]


def test_two_tries_must_state_the_same() -> None:
    same = model(["Final answer: 42", "So it is.\nFinal answer: 42.0"])
    assert nodes(report_of(same, method="auto", auto={"tries": 2})) == {"short": 2}
    shown = [[m.content for m in call.messages[1:-1]] for call in same.calls]
    assert shown[0] != shown[1]
    assert sorted(shown[0]) == sorted(shown[1])
    other = model(["Final answer: 42", "Final answer: 41"])
    report = report_of(other, method="auto", auto={"tries": 2})
    assert nodes(report) == {"short": 2, "answer": 1}
    assert report["answer"] == "At length.\nFinal answer: 42"


def test_questions_known_to_be_hard_are_asked_plainly_at_once() -> None:
    policy = TRY | {"plain_from": 4}
    easy = report_of(model("Final answer: 1"), QUESTION | {"level": 3}, method="auto", auto=policy)
    hard = report_of(model("Final answer: 1"), QUESTION | {"level": 4}, method="auto", auto=policy)
    unknown = report_of(model("Final answer: 1"), method="auto", auto=policy)
    assert [list(nodes(report)) for report in (easy, hard, unknown)] == [
        ["short"],
        ["answer"],
        ["short"],
    ]


@pytest.mark.parametrize("question", ["What is $2^5$?", "I buy 3 pens, then 4. How many?", "Why?"])
@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
def test_a_shared_budget_below_its_cap_has_room_for_the_forced_ending(
    question: str, way: Way
) -> None:
    chat, budget = ScriptedChat(solve=until_forced), Budget(200)
    report = run(graph_of(chat, method="auto", shared_budget=budget), {"question": question}, way)
    assert report["answer"] == "Final answer: 42"
    assert budget.spent == chat.output_tokens <= 200
