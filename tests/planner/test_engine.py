"""A planner is asked through a chat client: capped, on the books, unseen by the host's DSPy."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import dspy
import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage

from pb_graph.errors import ModelCallError
from pb_graph.models.client import ChatClient
from pb_graph.models.options import CallOptions
from pb_graph.models.reply import ASYNC, BLOCKING, run_sync
from pb_graph.planner.planner import Planner, ask_planner, language_model
from pb_graph.planner.plans import Plan
from pb_graph.planner.requests import PlannerRequest, plan_request
from pb_graph.settings import Settings
from pb_graph.types import Purpose, Query
from tests.support.chat_model import HTTPError, ScriptedChat, runs_on, with_schema

SETTINGS = Settings(planner_cap=100)
OPTIONS = CallOptions(100, purpose=Purpose("plan"))
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
        planner: Planner | None = None,
        *,
        traced: bool = False,
    ) -> Any:  # noqa: ANN401 -- the type of the request's answer
        parts: Any = (planner or Planner(), ChatClient(model, with_schema).call, made)
        parts += (replace(OPTIONS, schema=made.schema),)
        if request.param == "sync":
            return run_sync(ask_planner(*parts, traced=traced, io=BLOCKING))
        return asyncio.run(ask_planner(*parts, traced=traced, io=ASYNC))

    return ask


class TestOneRequest:
    def test_the_value_is_of_the_type_that_was_asked_for(self, ask: Ask) -> None:
        model = ScriptedChat()
        assert isinstance(ask(model)[0], Plan)
        assert [call.schema for call in model.calls] == [REQUEST.schema]
        kinds = [type(message) for message in model.calls[0].messages]
        assert kinds == [SystemMessage, *2 * [HumanMessage, AIMessage], HumanMessage]

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


@pytest.mark.parametrize("said", ["", HTTPError(503)], ids=repr)
def test_the_hosts_dspy_is_left_as_it_was(ask: Ask, said: object) -> None:
    before, history = host_settings(), len(dspy.clients.base_lm.GLOBAL_HISTORY)
    with contextlib.suppress(ModelCallError):
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


@pytest.mark.parametrize(("solve", "tokens"), [("one two", 2), (runs_on, 12)])
def test_any_dspy_program_is_told_the_usage_but_not_of_a_cap_that_is_not_its_own(
    solve: object, tokens: int
) -> None:
    model = language_model(ChatClient(ScriptedChat(solve=solve)).call, CallOptions(12, 5.0))
    with dspy.context(disable_history=False):
        model("Hello?")
    response = model.history[-1]["response"]
    assert (response.usage.output_tokens, response.finish_reason) == (tokens, "stop")
