"""The endpoint: what a chat completion asks for, and what its clients see."""
# ruff: noqa: ANN401 -- what clients hand over has no types worth repeating

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import openai
import pytest
from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatResult
from pydantic import Field

from pb_graph.errors import InputError
from pb_graph.serve.app import ChatRequest
from tests.support.chat_model import ScriptedChat
from tests.support.clients import client_to, endpoint_of
from tests.support.fault_server import FaultServer, always
from tests.support.graphs import checked, choices

MESSAGES = [{"role": "user", "content": "6 * 7?"}]


def read(**fields: Any) -> ChatRequest:
    return ChatRequest.read(json.dumps({"model": "m", "messages": MESSAGES, **fields}).encode())


def chosen(model: str) -> dict[str, object]:
    return read(model=model).to_settings().model_dump(exclude_unset=True)


def test_of_two_totals_the_smaller_one_holds() -> None:
    assert read(max_tokens=None).limit is None
    assert read(max_tokens=50).limit == 50
    assert read(max_tokens=50, max_completion_tokens=80).limit == 50
    assert read(budget=5000).limit == 5000
    assert "budget" not in read(budget=5000).to_input()


def test_fields_of_the_question_reach_the_graph_and_others_do_not() -> None:
    given = read(level=3, domain="sets", temperature=0.5, question="another").to_input()
    assert given.keys() == {"messages", "level", "domain"}


def test_earlier_turns_are_messages() -> None:
    said = [
        {"role": "developer", "content": "Be curt."},
        {"role": "user", "content": [{"type": "text", "text": "A pen costs 3 guilders."}]},
        {"role": "assistant", "content": None},
        {"role": "user", "content": "And four pens?"},
    ]
    given = read(messages=said).to_input()["messages"]
    assert [message.type for message in given] == ["system", "human", "ai", "human"]
    with pytest.raises(InputError, match="protocol"):
        read(messages=[{"role": "tool", "content": "x"}]).to_input()


@pytest.mark.parametrize(
    ("name", "value", "harmless"),
    [
        ("n", 2, 1),
        ("n", 0, None),
        ("tools", [{"type": "function"}], []),
        ("functions", [{"name": "look_up"}], []),
        ("response_format", {"type": "json_object"}, None),
        ("stop", "x", None),
    ],
)
def test_what_is_not_supported_is_refused_by_name(
    name: str, value: object, harmless: object
) -> None:
    assert read(**{name: harmless}).to_input()["messages"]
    with pytest.raises(InputError, match=rf"\b{name}\b"):
        read(**{name: value})


@pytest.mark.parametrize("body", [b"{", b"[]", b'{"model": "m", "messages": []}'])
def test_a_body_that_is_no_request_is_refused(body: bytes) -> None:
    with pytest.raises(InputError):
        ChatRequest.read(body)


@pytest.mark.parametrize("name", ["gpt-5-mini", "local:qwen2.5-coder-1.5b", "meta/llama-3:free"])
def test_any_name_but_a_methods_stands_for_the_settings_of_the_server(name: str) -> None:
    assert chosen("vanilla") == {"method": "vanilla"}
    assert chosen(name) == {}
    with pytest.raises(InputError, match="did you mean 'vanilla'"):
        chosen("vanila")


pytestmark = pytest.mark.integration

ASKED: list[Any] = [{"role": "user", "content": "How many pens does $14 buy at 3 for $2?"}]
ANSWER = "Final answer: 42"
METHODS = ("plan_and_budget", "vanilla")
KEY = "pb-secret"
LONG = "so it goes on and on " * 100
STREAMED: dict[str, Any] = {"stream": True, "stream_options": {"include_usage": True}}
WITH_REPORT: dict[str, Any] = {"extra_body": {"report": True}}


@pytest.fixture(scope="module")
def model() -> Iterator[FaultServer]:
    with FaultServer() as server:
        yield server


@pytest.fixture(scope="module")
def url(model: FaultServer) -> Iterator[str]:
    with endpoint_of(client_to(model)) as served:
        yield served


@pytest.fixture
def client(url: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=url, api_key="none") as made:
        yield made


@contextmanager
def client_of(model: FaultServer, **options: Any) -> Iterator[openai.OpenAI]:
    """Give a client of an endpoint in front of this model."""
    with (
        endpoint_of(client_to(model), **options) as url,
        openai.OpenAI(base_url=url, api_key="none") as made,
    ):
        yield made


def ask(client: openai.OpenAI, model: str = "plan_and_budget", **options: Any) -> Any:
    return client.chat.completions.create(model=model, messages=ASKED, **options)


def paid(model: FaultServer, since: int) -> int:
    """Return the completion tokens by the scripted server's own count: it answers in words."""
    texts = [model._text(request) for request in model.requests[since:]]
    return sum(len(text.split()) for text in texts)


class TestAnswers:
    @pytest.mark.parametrize("method", METHODS)
    def test_usage_is_what_the_whole_question_took(
        self, client: openai.OpenAI, model: FaultServer, method: str
    ) -> None:
        before = model.served
        said = ask(client, method)
        assert (said.choices[0].message.content, said.choices[0].finish_reason) == (ANSWER, "stop")
        assert said.usage.completion_tokens == paid(model, before) > 0
        assert said.model == method

    @pytest.mark.parametrize("execution", choices("execution"))
    def test_a_stream_brings_the_answer_while_it_is_written(
        self, model: FaultServer, execution: str
    ) -> None:
        before = model.served
        with client_of(model, execution=execution) as client:
            first, *chunks, last = ask(client, **STREAMED)
        assert first.choices[0].delta.role == "assistant"
        assert {chunk.id for chunk in chunks} == {first.id}
        pieces = [chunk.choices[0].delta.content for chunk in chunks if chunk.choices]
        assert [piece for piece in pieces if piece] == ["Final", " answer:", " 42"]
        assert chunks[-1].choices[0].finish_reason == "stop"
        assert not any(chunk.usage for chunk in chunks)
        assert last.usage.completion_tokens == paid(model, before)

    def test_the_report_comes_on_request(self, client: openai.OpenAI) -> None:
        whole = checked(ask(client, **WITH_REPORT).report)
        *_, last = ask(client, stream=True, **WITH_REPORT)
        assert whole["answer"] == checked(last.report)["answer"] == ANSWER
        assert not hasattr(ask(client), "report")


class TestBudget:
    @pytest.mark.parametrize("method", METHODS)
    def test_max_completion_tokens_bound_the_whole_question(self, method: str) -> None:
        with FaultServer(answer=LONG) as model, client_of(model) as client:
            try:
                spent = ask(client, method, max_completion_tokens=60).usage.completion_tokens
            except openai.InternalServerError:  # planning took all
                spent = sum(min(request.cap, 600) for request in model.requests)
        assert 0 < spent <= 60

    def test_an_answer_with_a_forced_ending_is_streamed_as_it_is_returned(self) -> None:
        with FaultServer(answer=LONG) as model, client_of(model, budget=400) as client:
            said = ask(client).choices[0]
            chunks = list(ask(client, stream=True))
        whole = said.message.content
        assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == whole
        finishes = said.finish_reason, chunks[-1].choices[0].finish_reason
        assert finishes == ("length", "length")  # the ending is cut, too
        assert whole.count("\n\n") == 1

    def test_an_answer_that_a_filter_ended_says_so(self) -> None:
        def changed(reply: dict[str, Any]) -> dict[str, Any]:
            reply["choices"][0]["finish_reason"] = "content_filter"
            return reply

        with FaultServer(changed=changed) as model, client_of(model) as client:
            assert ask(client, "vanilla").choices[0].finish_reason == "content_filter"


class TestErrors:
    @pytest.mark.parametrize("stream", [False, True])
    def test_a_wrong_request_is_refused(self, client: openai.OpenAI, stream: bool) -> None:
        with pytest.raises(openai.BadRequestError, match="did you mean 'vanilla'") as caught:
            ask(client, "vanila", stream=stream)
        assert caught.value.type == "invalid_request_error"

    @pytest.mark.parametrize("stream", [False, True])
    def test_a_model_that_is_down_is_not_asked_again_by_the_client(self, stream: bool) -> None:
        with FaultServer(always("unavailable")) as model, client_of(model) as client:
            with pytest.raises(openai.InternalServerError, match="No answer") as caught:
                ask(client, "vanilla", stream=stream, **WITH_REPORT)
            served = model.served
        assert (caught.value.status_code, caught.value.code) == (502, "no_answer")
        body: Any = caught.value.response.json()
        assert checked(body["report"])["usage"]["output_tokens"] == 0
        assert served == 2  # one attempt, and our own retry

    def test_an_error_after_the_first_call_is_an_event_of_the_stream(self) -> None:
        def planner_only(request: Any) -> str | None:
            return None if request.plans else "unavailable"

        with (
            FaultServer(planner_only) as model,
            client_of(model) as client,
            pytest.raises(openai.APIError, match="No answer"),
        ):
            list(ask(client, stream=True))


class TestAdmission:
    def test_only_clients_with_the_key_are_served(self, model: FaultServer) -> None:
        with endpoint_of(client_to(model), api_key=KEY) as locked:
            with openai.OpenAI(base_url=locked, api_key=KEY) as client:
                assert {one.id for one in client.models.list()} >= {*METHODS}
                assert client.models.retrieve("org/model").id == "org/model"
            before = model.served
            named = {"Authorization": "Bearer schlüssel".encode()}
            for method, path in (("GET", "/models"), ("POST", "/chat/completions")):
                said = httpx.request(method, locked + path, headers=named)
                assert said.status_code == 401
                assert said.json()["error"]["code"] == "invalid_api_key"
                assert KEY not in said.text
            assert model.served == before
            health = httpx.get(locked.removesuffix("/v1") + "/health")
        assert health.json() == {"status": "ok"}

    @pytest.mark.parametrize(
        "headers", [{"Origin": "https://evil.example"}, {"Host": "evil.example"}]
    )
    def test_without_a_key_no_page_of_another_host_is_served(self, url: str, headers: Any) -> None:
        body = json.dumps({"model": "vanilla", "messages": ASKED})
        said = httpx.post(f"{url}/chat/completions", content=body, headers=headers)
        assert said.status_code == 403


class Waiting(ScriptedChat):
    """Judges the level, begins to plan, and would never end."""

    begun: Any = Field(default_factory=threading.Event)
    stopped: Any = Field(default_factory=threading.Event)

    async def _agenerate(
        self, messages: list[BaseMessage], *given: Any, **options: Any
    ) -> ChatResult:
        if not self.calls:
            return await super()._agenerate(messages, *given, **options)
        self.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.stopped.set()
        raise AssertionError


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_leaves_cancels_its_question(stream: bool) -> None:
    model = Waiting()

    async def leave(url: str) -> None:
        body = {"model": "plan_and_budget", "messages": ASKED, "stream": stream}
        async with httpx.AsyncClient() as client:
            task = asyncio.ensure_future(client.post(f"{url}/chat/completions", json=body))
            assert await asyncio.to_thread(model.begun.wait, 30)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        assert await asyncio.to_thread(model.stopped.wait, 30)

    with endpoint_of(model, plan_from=1) as url:
        asyncio.run(leave(url))
