"""The one door through which tokens are spent."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import httpx
import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage
from langchain_openai import ChatOpenAI
from openai import LengthFinishReasonError
from pydantic import SecretStr

from pb_graph import Budget
from pb_graph.budget import use_budget
from pb_graph.budget.bill import Bill, most_billed
from pb_graph.errors import ModelCallError
from pb_graph.models.client import ChatClient, RetryPolicy
from pb_graph.models.options import CallOptions
from pb_graph.models.reply import Reply
from pb_graph.types import Purpose
from tests.support import calls
from tests.support.chat_model import (
    CutOffError,
    HTTPError,
    Said,
    ScriptedChat,
    in_turn,
    with_schema,
)

LIMITS = CallOptions(cap=10, timeout=5.0, purpose=Purpose("solve", 2))
WITH_SCHEMA = replace(LIMITS, schema={"type": "object", "properties": {}})
ASK = [HumanMessage("What is 6 * 7?")]

Make = Callable[..., Reply]


@pytest.fixture(params=["sync", "async"])
def call(request: pytest.FixtureRequest) -> Make:
    """Makes a call one way or the other."""

    def made(client: ChatClient | BaseChatModel, limits: CallOptions = LIMITS) -> Reply:
        client = client if isinstance(client, ChatClient) else ChatClient(client)
        if request.param == "sync":
            return calls.call(client, ASK, limits)
        return asyncio.run(calls.acall(client, ASK, limits))

    return made


def test_a_reply_is_text_ending_and_charge(call: Make) -> None:
    reply = call(ScriptedChat(solve="forty two"))
    assert (reply.text, reply.finish) == ("forty two", "stop")
    assert reply.charge | {"seconds": 0} == {
        "node": "solve",
        "step": 2,
        "cap": 10,
        "model": "scripted:scripted-1",
        "usage": Bill(input=5, output=2).usage(),
        "measured": True,
        "most": Bill(input=5, output=2).usage(),
        "seconds": 0,
        "finish": "stop",
    }


def test_the_callers_model_is_left_as_it_is(call: Make) -> None:
    model = ScriptedChat(solve="42")
    before = model.model_dump(exclude={"record"})
    call(model)
    assert model.model_dump(exclude={"record"}) == before
    assert model.disable_streaming is False


def test_a_server_that_takes_no_schema_is_asked_without_and_remembered(call: Make) -> None:
    model = ScriptedChat(planner=HTTPError(400), solve="42")
    client = ChatClient(model, with_schema)
    assert call(client, WITH_SCHEMA).text == "42"
    assert call(client, WITH_SCHEMA).text == "42"
    assert [call.schema is None for call in model.calls] == [False, True, True]


def test_a_failure_is_ours_with_its_cause(call: Make) -> None:
    error = HTTPError(503)
    model = ScriptedChat(solve=error)
    with pytest.raises(ModelCallError) as caught:
        call(ChatClient(model, retry_policy=RetryPolicy(0)))
    assert caught.value.__cause__ is error
    assert len(model.calls) == 1


async def test_in_an_event_loop_a_call_ends_within_its_time_limit() -> None:
    client = ChatClient(ScriptedChat(solve="42", seconds=5), retry_policy=RetryPolicy(0))
    with pytest.raises(ModelCallError, match=r"Settings\.timeout"):
        await calls.acall(client, ASK, replace(LIMITS, timeout=0.05))


class TestTryingAgain:
    """What a transient fault costs, and when it is not the end."""

    @staticmethod
    def client(*said: Said, retries: int = 3) -> tuple[ChatClient, ScriptedChat]:
        model = ScriptedChat(solve=in_turn(*said), max_retries=0)
        return ChatClient(model, retry_policy=RetryPolicy(retries, initial_interval=0.001)), model

    def test_a_transient_fault_is_tried_again(self, call: Make) -> None:
        error = HTTPError(503)
        client, model = self.client(error, error, error, "42")
        reply = call(client)
        assert (reply.text, reply.lost) == ("42", ())  # a refusal costs nothing
        assert len(model.calls) == 4

    def test_an_attempt_of_unknown_cost_counts_with_its_whole_cap(self, call: Make) -> None:
        client, model = self.client(TimeoutError(), "forty two")
        with use_budget(Budget(100)), pytest.raises(ModelCallError) as caught:
            call(client)
        (lost,) = caught.value.lost
        assert (lost["finish"], lost["measured"], lost["usage"]) == ("error", False, Bill().usage())
        assert (lost["node"], lost["step"], lost["cap"]) == ("solve", 2, 10)
        assert most_billed([lost]) == 10
        assert len(model.calls) == 1

    def test_a_reported_attempt_is_charged_and_comes_off_the_cap_of_the_next(
        self, call: Make
    ) -> None:
        client, model = self.client(CutOffError(7), "one two three four")
        reply = call(client)
        assert [attempt.cap for attempt in model.calls] == [10, 3]
        assert (reply.text, reply.finish, reply.tokens) == ("one two three", "length", 10)
        assert [lost["usage"]["output_tokens"] for lost in reply.lost] == [7]


class TestOverHTTP:
    """A real ChatOpenAI in front of a server that is none."""

    @staticmethod
    def client(
        answer: Callable[[dict[str, Any]], httpx.Response], **options: Any  # noqa: ANN401
    ) -> ChatClient:  # fmt: skip
        def serve(request: httpx.Request) -> httpx.Response:
            return answer(json.loads(request.content))

        model = ChatOpenAI(
            model="m",
            api_key=SecretStr("sk-secret-0123456789"),
            base_url="http://127.0.0.1:9/v1",
            max_retries=0,
            streaming=True,
            http_client=httpx.Client(transport=httpx.MockTransport(serve)),
            **options,
        )
        return ChatClient(model)

    @staticmethod
    def completion(text: str = "4", finish: str = "stop", **other: Any) -> httpx.Response:  # noqa: ANN401
        choice = {"message": {"role": "assistant", "content": text}, "finish_reason": finish}
        usage = {
            "prompt_tokens": 9,
            "completion_tokens": 10,
            "total_tokens": 19,
            "prompt_tokens_details": {"cached_tokens": 8},
            "completion_tokens_details": {"reasoning_tokens": 7},
        }
        whole: dict[str, Any] = {"id": "1", "object": "chat.completion", "created": 0, "model": "m"}
        whole |= {"choices": [{"index": 0} | choice], "usage": usage}
        return httpx.Response(200, json=whole | other)

    def test_a_streaming_model_does_not_stream_and_its_usage_is_measured(self) -> None:
        bodies: list[dict[str, Any]] = []

        def answer(body: dict[str, Any]) -> httpx.Response:
            bodies.append(body)
            return self.completion()

        charge = calls.call(self.client(answer, max_tokens=7), ASK, LIMITS).charge
        assert not bodies[0].get("stream")
        assert bodies[0]["max_tokens"] == charge["cap"] == 7  # the model's own, which is smaller
        assert charge["measured"]
        assert charge["usage"] == Bill(input=9, output=10, reasoning=7, cached=8).usage()

    @pytest.mark.parametrize(
        "body",
        [
            {"choices": None, "usage": None},
            {"choices": [{"index": 0, "message": None, "finish_reason": "stop"}]},
        ],
    )
    def test_a_reply_that_cannot_be_read_may_have_been_billed(self, body: dict[str, Any]) -> None:
        client, budget = self.client(lambda _: self.completion(**body)), Budget(1000)
        with use_budget(budget), pytest.raises(ModelCallError) as caught:
            calls.call(client, ASK, LIMITS)
        assert (budget.spent, budget.unknown) == (0, 10)
        assert most_billed(caught.value.lost) == 10

    def test_null_content_is_counted_as_reported(self) -> None:
        message = {"role": "assistant", "content": None}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        client = self.client(lambda _: self.completion(choices=[choice]))
        assert calls.call(client, ASK, LIMITS).tokens == 10

    def test_a_server_that_ignores_its_cap_is_told(self) -> None:
        usage = {"prompt_tokens": 9, "completion_tokens": 40, "total_tokens": 49}
        client = self.client(lambda _: self.completion("word " * 40, usage=usage))
        with use_budget(budget := Budget(1000)):
            reply = calls.call(client, ASK, LIMITS)
        assert [warning["code"] for warning in reply.warnings] == ["cap_ignored"]
        assert (reply.tokens, budget.spent) == (40, 40)

    def test_a_reply_that_its_client_cut_off_is_charged(self) -> None:
        client = self.client(lambda _: self.completion('{"level": ', "length"))
        wanted: Any = {"type": "json_schema", "json_schema": {"name": "r", "schema": {}}}
        model: Any = client.model
        client = ChatClient(model.model_copy(update={"model_kwargs": {"response_format": wanted}}))
        with pytest.raises(ModelCallError) as caught:
            calls.call(client, ASK, LIMITS)
        assert isinstance(caught.value.__cause__, LengthFinishReasonError)
        (lost,) = caught.value.lost
        assert lost["usage"] == Bill(input=9, output=10).usage()
        assert lost["measured"]
