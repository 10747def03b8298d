"""Methods are registered by a decorator, and what they say of themselves is what happens."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pb_graph import Settings
from pb_graph.methods import METHODS, method
from pb_graph.models.options import CallOptions
from pb_graph.prompts import MethodInput, PromptMessage, question_block
from pb_graph.run.run import Run
from pb_graph.state import State
from pb_graph.types import Purpose
from tests.support.chat_model import ScriptedChat
from tests.support.graphs import Way, report_of


@pytest.fixture
def twice() -> Iterator[str]:
    """A method of a user's own, with two calls and a budget."""

    @method("twice", "Asks twice.", source="a test", budgets=True, limit=lambda s, _: 2 * s.cutoff)
    async def asks_twice(given: MethodInput, run: Run) -> State:
        budget = given.budget or 0
        prompt: list[PromptMessage] = [("human", question_block(given.query, show_level=False))]
        draft = await run.ask(prompt, CallOptions(budget // 2, purpose=Purpose("draft")))
        again: list[PromptMessage] = [*prompt, ("ai", draft.text), ("human", "Sure?")]
        left = budget - draft.tokens
        reply = await run.call_within_budget(again, left, given.query, Purpose("answer"))
        return reply.update()

    yield "twice"
    del METHODS["twice"]


@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
def test_a_method_of_several_calls_has_each_in_the_ledger(twice: str, way: Way) -> None:
    model = ScriptedChat(solve="one two three Final answer: 42")
    report = report_of(model, way=way, method=twice, budget=100, reserve=0)
    assert {name: part["calls"] for name, part in report["usage"]["by_node"].items()} == {
        "draft": 1,
        "answer": 1,
    }
    assert report["usage"]["output_tokens"] == model.output_tokens <= report["limit"] == 100
    assert model.calls[1].ask == "Sure?"


def test_a_name_is_registered_once() -> None:
    with pytest.raises(ValueError, match="'vanilla' is registered already"):

        @method("vanilla", "Replaces it unseen.", source="a test")
        def other(given: MethodInput) -> list[PromptMessage]:
            raise NotImplementedError

    assert METHODS["vanilla"].function is None


def test_a_method_of_ones_own_is_a_choice_and_may_be_defined_again(twice: str) -> None:
    assert twice in Settings.model_json_schema()["properties"]["method"]["enum"]
    assert Settings(method=twice).has_budget
    method(twice, "Asks twice, again.", source="a test")(METHODS[twice].function or method)
    assert METHODS[twice].description == "Asks twice, again."
