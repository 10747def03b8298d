"""A planner is asked through a chat client: capped, on the books, unseen by the host's DSPy."""

from __future__ import annotations

import asyncio
import contextlib
import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import dspy
import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage

from pb_graph.errors import ModelCallError
from pb_graph.models.client import AsyncIO, BlockingIO, ChatClient, run_sync
from pb_graph.models.options import CallOptions
from pb_graph.planner.engine import LangChainEngine, ask_planner, language_model
from pb_graph.planner.parsing import Plan
from pb_graph.planner.planner import Planner
from pb_graph.planner.requests import (
    PlannerRequest,
    UnreadableReplyError,
    level_request,
    plan_request,
)
from pb_graph.planner.signatures import Decompose
from pb_graph.settings import Settings
from pb_graph.types import Query
from tests.support.chat_model import HTTPError, ScriptedChat, runs_on, with_schema

SETTINGS = Settings(planner_cap=100)
QUERY: Query = {
    "question": "What is 6 * 7?",
    "reference": None,
    "instruction": None,
    "answer_format": "an integer",
    "domain": "arithmetic",
    "level": None,
}
REQUEST = plan_request(QUERY, SETTINGS)
Ask = Callable[..., Any]


@pytest.fixture(params=["sync", "async"])
def ask(request: pytest.FixtureRequest) -> Ask:
    """Ask one way or the other."""

    def ask(
        model: ScriptedChat,
        made: PlannerRequest[Any] = REQUEST,
        settings: Settings = SETTINGS,
        planner: Planner | None = None,
        *,
        traced: bool = False,
    ) -> Any:  # noqa: ANN401 -- the type of the request's answer
        parts: Any = (planner or Planner(), ChatClient(model, with_schema), made, settings)
        if request.param == "sync":
            return run_sync(ask_planner(*parts, traced=traced, io=BlockingIO()))
        return asyncio.run(ask_planner(*parts, traced=traced, io=AsyncIO()))

    return ask


class TestOneRequest:
    def test_the_value_is_of_the_type_that_was_asked_for(self, ask: Ask) -> None:
        model = ScriptedChat()
        assert isinstance(ask(model), Plan)
        assert [call.schema for call in model.calls] == [REQUEST.schema]
        kinds = [type(message) for message in model.calls[0].messages]
        assert kinds == [SystemMessage, HumanMessage, AIMessage, HumanMessage]

    @pytest.mark.parametrize(("cutoff", "cap"), [(8192, 100), (60, 60)])
    def test_the_cap_holds_and_the_cutoff_too(self, ask: Ask, cutoff: int, cap: int) -> None:
        model = ScriptedChat(planner=runs_on)
        with pytest.raises(UnreadableReplyError):
            ask(model, settings=Settings(planner_cap=100, cutoff=cutoff))
        assert model.calls[0].cap == cap
        model = ScriptedChat(planner="L4")
        assert ask(model, level_request(QUERY, SETTINGS)).level == 4
        assert model.calls[0].cap == 2

    def test_tuned_text_and_a_further_field_are_used(self, ask: Ask) -> None:
        planner, model = Planner(), ScriptedChat()
        signature = Decompose.with_instructions("TUNED")
        planner.decompose.signature = signature.append("answer_format", dspy.InputField(), str)
        ask(model, planner=planner)
        assert str(model.calls[0].messages[0].text).startswith("TUNED\n")
        assert model.calls[0].ask.endswith("Answer format:\nan integer")

    @pytest.mark.parametrize("said", ["", "I would rather not.", '{"steps": []}'])
    def test_a_reply_that_cannot_be_read_is_told_from_a_failed_call(
        self, ask: Ask, said: str
    ) -> None:
        model = ScriptedChat(planner=said)
        with pytest.raises(UnreadableReplyError):
            ask(model)
        assert len(model.calls) == 1

    def test_a_failed_call_is_made_once_and_its_cause_is_the_providers(self, ask: Ask) -> None:
        refused = HTTPError(401, "no such key")
        model = ScriptedChat(planner=refused)
        with pytest.raises(ModelCallError, match="API key") as caught:
            ask(model)
        assert len(model.calls) == 1
        assert caught.value.status == 401
        assert caught.value.__cause__ is refused

    def test_a_model_that_came_with_the_program_is_never_called(self, ask: Ask) -> None:
        planner, model = Planner(), ScriptedChat()
        planner.set_lm(dspy.LM("openai/some-model", cache=False, num_retries=0))
        ask(model, planner=planner)
        assert [call.cap for call in model.calls] == [100]


def host_settings() -> dict[str, Any]:
    """All that a host could notice of its DSPy settings."""
    return {
        name: (list(value) if isinstance(value, list) else value)
        for name, value in dspy.settings.copy().items()
    }


@pytest.mark.parametrize("said", ["1. First?", "", HTTPError(500)], ids=repr)
def test_the_hosts_dspy_is_left_as_it_was(ask: Ask, said: object) -> None:
    before, history = host_settings(), len(dspy.clients.base_lm.GLOBAL_HISTORY)
    with contextlib.suppress(UnreadableReplyError, ModelCallError):
        ask(ScriptedChat(planner=said))
    assert host_settings() == before
    assert len(dspy.clients.base_lm.GLOBAL_HISTORY) == history


def test_an_optimizers_trace_sees_a_call_only_if_it_is_traced(ask: Ask) -> None:
    planner = Planner()
    with dspy.context(trace=[]):
        ask(ScriptedChat(), planner=planner)
        assert dspy.settings.trace == []
        ask(ScriptedChat(), planner=planner, traced=True)
        ((predictor, inputs, prediction),) = dspy.settings.trace
    assert predictor is planner.decompose
    assert inputs["problem"] == "What is 6 * 7?"
    assert isinstance(prediction.plan, Plan)


def numbered(number: int) -> tuple[ChatClient, PlannerRequest[Plan]]:
    model = ScriptedChat(planner=lambda call: f"1. {call.ask.splitlines()[-1]}?")
    about = REQUEST.inputs | {"domain": "", "problem": f"Question {number}"}
    return ChatClient(model, with_schema), replace(REQUEST, inputs=about)


async def test_tasks_do_not_get_into_each_others_way() -> None:
    planner = Planner()

    async def ask_one(number: int) -> str:
        client, made = numbered(number)
        work = ask_planner(planner, client, made, SETTINGS, traced=False, io=AsyncIO())
        return (await work).steps[0].question

    found = await asyncio.gather(*(ask_one(number) for number in range(20)))
    assert found == [f"Question {number}?" for number in range(20)]


class TestEngine:
    """The engine under any DSPy program, as `optim` uses it for reflection."""

    def engine(self, solve: object) -> LangChainEngine:
        client = ChatClient(ScriptedChat(solve=solve))
        return LangChainEngine(client, CallOptions(cap=12, timeout=5.0))

    @pytest.mark.parametrize(("solve", "tokens"), [("one two", 2), (runs_on, 12)])
    def test_dspy_is_told_the_usage_but_not_of_a_cap_that_is_not_its_own(
        self, solve: object, tokens: int
    ) -> None:
        engine = self.engine(solve)
        model = language_model(engine)
        with dspy.context(disable_history=False):
            model("Hello?")
        response = model.history[-1]["response"]
        assert response.usage.output_tokens == tokens
        assert response.finish_reason == "stop"
        assert engine.replies[0].finish == ("length" if solve is runs_on else "stop")

    def test_copies_of_a_predictor_share_the_engine(self) -> None:
        engine = self.engine("hello")
        assert copy.deepcopy([engine])[0] is engine

    def test_no_model_familys_rules_apply(self) -> None:
        engine = self.engine("hello")
        model = language_model(engine)
        model("Hello?")
        assert (model.cache, model.num_retries) == (False, 0)
        assert engine.client.model.calls[0].arguments == {"max_tokens": 12}  # type: ignore[attr-defined]
