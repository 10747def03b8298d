"""Intake takes a question from either key, refuses what is none, and starts a clean account."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langgraph.checkpoint.memory import InMemorySaver

from pb_graph import InputError
from pb_graph.settings import Context, Settings
from tests.support.chat_model import ScriptedChat
from tests.support.graphs import QUESTION, Way, checked, graph_of, report_of, run

IMAGE: dict[str, Any] = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"level": 3}, "no question"),
        ({"messages": []}, "no question"),
        ({"messages": [AIMessage("Hello!"), SystemMessage("Be kind.")]}, "no question"),
        ({"question": 42}, "question: Input should be a valid string"),
        ({"question": " \n\t"}, "question: String should have at least 1 character"),
        ({"messages": [HumanMessage("")]}, "question: String should have at least 1 character"),
        ({"messages": [HumanMessage("x" * 100_001)]}, "question: String .* at most 100000"),
        ({**QUESTION, "reference": ["a page"]}, "reference: Input should be a valid string"),
        ({**QUESTION, "level": 9}, "level: Input should be less than or equal to 5"),
        ({**QUESTION, "level": "hard"}, "level: Input should be a valid integer"),
        ({**QUESTION, "budget": 0}, "budget: Input should be greater than or equal to 1"),
        ({**QUESTION, "budget": True}, "budget: Input should be a valid integer"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_cannot_be_a_question_is_refused_before_anything_is_spent(
    given: dict[str, Any], complaint: str
) -> None:
    model = ScriptedChat()
    with pytest.raises(InputError, match=complaint):
        run(graph_of(model), given)
    assert model.calls == []


@pytest.mark.parametrize("way", get_args(Way))
def test_the_question_may_come_as_messages_and_the_answer_is_one_more(way: Way) -> None:
    model = ScriptedChat()
    earlier = [SystemMessage("Be brief."), HumanMessage("Hello"), AIMessage("Hello!")]
    out = run(graph_of(model), {"messages": [*earlier, HumanMessage("How many?")]}, way)
    assert [message.type for message in out["messages"]] == ["system", "human", "ai", "human", "ai"]
    assert out["messages"][-1].name == "plan_and_budget"
    assert out["messages"][-1].text == out["answer"] == "Final answer: 42"
    assert all("How many?" in str(call.messages) for call in model.calls)


def test_text_blocks_are_read_as_text() -> None:
    model = ScriptedChat()
    message = HumanMessage([{"type": "text", "text": "How many?"}])
    run(graph_of(model, method="vanilla"), {"messages": [message]})
    assert "How many?" in model.calls[0].ask


def test_half_a_character_breaks_no_call() -> None:
    """What cuts text between the two halves of an emoji leaves what no request can hold."""
    model, half = ScriptedChat(), "\ud83d"
    said = [HumanMessage(f"I like {half}."), HumanMessage(f"How many {half}?")]
    graph = graph_of(model, method="vanilla")
    run(graph, {"messages": said})
    run(graph, {"question": f"How many {half}?", "reference": f"Seven {half}."})
    for call in model.calls:
        assert "How many ??" in str([message.text for message in call.messages])
        assert all(message.text.encode() for message in call.messages)


def test_what_is_given_with_the_question_reaches_the_solver() -> None:
    model = ScriptedChat()
    given = QUESTION | {
        "reference": "Pens come in threes.",
        "instruction": "Answer like a pirate.",
        "answer_format": "Answer in Roman numerals.",
    }
    report_of(model, given, method="plan_and_budget", execution="stepwise")
    first, last = model.solving()[0], model.solving()[-1]
    assert first.messages[0].text == "Answer like a pirate."
    assert "Pens come in threes." in first.ask
    assert last.ask.endswith("Answer in Roman numerals.")


def test_a_domain_given_with_the_question_replaces_that_of_the_settings() -> None:
    model = ScriptedChat()
    report_of(model, QUESTION | {"domain": "heraldry"}, domain="mathematics")
    said = str(model.calls[0].messages)
    assert "heraldry" in said
    assert "mathematics" not in said


@pytest.mark.parametrize("way", get_args(Way))
def test_the_next_question_on_a_thread_inherits_nothing(way: Way) -> None:
    model = ScriptedChat(level=2)
    graph = graph_of(model, checkpointer=InMemorySaver())
    thread = {"configurable": {"thread_id": "1"}}
    given = {**QUESTION, "level": 5, "reference": "the old page", "instruction": "Be a pirate."}
    first = checked(run(graph, given, way, config=thread)["report"])
    before = len(model.calls)
    out = run(graph, {"question": "And how many for $20?"}, way, config=thread)
    second, calls = checked(out["report"]), model.calls[before:]
    assert (first["level"], second["level"]) == (5, 2)
    assert second["usage"]["calls"] == len(calls)
    assert second["usage"]["output_tokens"] == sum(call.output_tokens for call in calls)
    assert len(second["steps"]) == 2
    assert not any("the old page" in str(call.messages) for call in calls)
    assert not any("pirate" in str(call.messages) for call in calls)
    assert [message.type for message in out["messages"]] == ["ai", "ai"]


def test_the_next_question_on_a_thread_goes_by_its_own_settings() -> None:
    graph = graph_of(ScriptedChat(), checkpointer=InMemorySaver())
    thread = {"configurable": {"thread_id": "1"}}
    run(graph, config=thread)
    other = Context(settings=Settings(method="vanilla"))
    assert run(graph, config=thread, context=other)["report"]["method"] == "vanilla"
    assert run(graph, config=thread)["report"]["method"] == "plan_and_budget"


def test_a_question_of_its_own_leaves_nothing_unread() -> None:
    given = QUESTION | {"messages": [HumanMessage("Hello"), HumanMessage(["Look", IMAGE])]}
    assert report_of(ScriptedChat(), given)["warnings"] == []


@pytest.mark.parametrize("way", get_args(Way))
def test_a_budget_given_with_the_question_is_that_of_this_question_only(way: Way) -> None:
    graph = graph_of(ScriptedChat(), checkpointer=InMemorySaver(), budget=400)
    thread = {"configurable": {"thread_id": "1"}}
    first = checked(run(graph, QUESTION | {"budget": 99}, way, config=thread)["report"])
    second = checked(run(graph, QUESTION, way, config=thread)["report"])
    assert (first["budget"], second["budget"]) == (99, 400)
    assert sum(step["budget"] for step in first["steps"]) == 99
