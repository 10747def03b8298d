"""The endpoint as its clients see it: OpenAI's own, LangChain's, and many at once."""
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
from langchain_openai import ChatOpenAI
from pydantic import Field, SecretStr

from pb_graph.methods import METHODS
from pb_graph.methods.certaindex import PROBE_TOKENS
from pb_graph.models.caps import vllm
from pb_graph.settings import choices
from tests.support.chat_model import ScriptedChat
from tests.support.endpoints import client_to, endpoint_of
from tests.support.fault_server import FaultServer, always, in_turn
from tests.support.graphs import checked

pytestmark = pytest.mark.integration

ASKED: list[Any] = [{"role": "user", "content": "How many pens does $14 buy at 3 for $2?"}]
ANSWER = "Final answer: 42"
# What goes on from an unfinished reply needs a server that can.
HERE = [name for name, method in METHODS.items() if not method.continues]
KEY = "pb-secret"
LONG = "so it goes on and on " * 100
STREAMED: dict[str, Any] = {"stream": True, "stream_options": {"include_usage": True}}


@pytest.fixture(scope="module")
def model() -> Iterator[FaultServer]:
    with FaultServer() as server:
        yield server


@pytest.fixture(scope="module")
def url(model: FaultServer) -> Iterator[str]:
    with endpoint_of(client_to(model)) as served:
        yield served


@pytest.fixture(scope="module")
def locked(model: FaultServer) -> Iterator[str]:
    with endpoint_of(client_to(model), api_key=KEY) as served:
        yield served


@pytest.fixture
def client(url: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=url, api_key="none") as made:
        yield made


@contextmanager
def client_of(model: FaultServer, **options: Any) -> Iterator[openai.OpenAI]:
    """A client of an endpoint in front of this model."""
    with (
        endpoint_of(client_to(model), **options) as url,
        openai.OpenAI(base_url=url, api_key="none") as made,
    ):
        yield made


def planner_only(request: Any) -> str | None:
    return None if request.plans else "unavailable"


def ask(client: openai.OpenAI, model: str = "plan_and_budget", **options: Any) -> Any:
    return client.chat.completions.create(model=model, messages=ASKED, **options)


def paid(model: FaultServer, since: int) -> int:
    """Completion tokens by the scripted server's own count: it answers in words."""
    texts = [model._text(request) for request in model.requests[since:]]
    return sum(len(text.split()) for text in texts)


class TestOpenAIsClient:
    def test_it_finds_the_methods_as_models(self, client: openai.OpenAI) -> None:
        assert tuple(model.id for model in client.models.list()) == choices("method")
        named = "plan_and_budget:execution=stepwise"
        assert client.models.retrieve(named).id == named

    @pytest.mark.parametrize("method", HERE)
    def test_any_of_them_answers_and_says_what_the_whole_query_took(
        self, client: openai.OpenAI, model: FaultServer, method: str
    ) -> None:
        before = model.served
        said = ask(client, method)
        assert (said.choices[0].message.content, said.choices[0].finish_reason) == (ANSWER, "stop")
        assert said.usage.completion_tokens == paid(model, before) > 0
        assert said.model == method

    @pytest.mark.parametrize("execution", choices("execution"))
    def test_it_hears_the_answer_while_it_is_written(
        self, client: openai.OpenAI, model: FaultServer, execution: str
    ) -> None:
        before = model.served
        *chunks, last = ask(client, f"plan_and_budget:execution={execution}", **STREAMED)
        pieces = [chunk.choices[0].delta.content for chunk in chunks if chunk.choices]
        assert [piece for piece in pieces if piece] == ["Final", " answer:", " 42"]
        assert chunks[-1].choices[0].finish_reason == "stop"
        assert not any(chunk.usage for chunk in chunks)
        assert last.usage.completion_tokens == paid(model, before)

    def test_no_usage_is_sent_unasked(self, client: openai.OpenAI) -> None:
        chunks = list(ask(client, stream=True))
        assert all(chunk.choices and chunk.usage is None for chunk in chunks)

    @pytest.mark.parametrize(
        "wish",
        [{"extra_body": {"report": True}}, {"extra_headers": {"X-PB-Report": "true"}}],
        ids=["field", "header"],
    )
    def test_the_report_comes_on_request(self, client: openai.OpenAI, wish: Any) -> None:
        whole = checked(ask(client, **wish).report)
        *_, last = ask(client, stream=True, **wish)
        assert whole["answer"] == checked(last.report)["answer"] == ANSWER
        assert not hasattr(ask(client), "report")

    def test_settings_stand_behind_the_name(self, client: openai.OpenAI) -> None:
        name = "global_budget:budget=77,enforcement=cap"
        report = ask(client, name, extra_body={"report": True}).report
        assert (report["method"], report["budget"]) == ("global_budget", 77)

    def test_what_belongs_to_the_question_is_taken_from_the_body(
        self, client: openai.OpenAI
    ) -> None:
        report = ask(client, extra_body={"report": True, "level": 5}).report
        assert report["level"] == 5

    def test_earlier_turns_reach_the_solver(
        self, client: openai.OpenAI, model: FaultServer
    ) -> None:
        said: list[Any] = [
            {"role": "developer", "content": "Be curt."},
            {"role": "user", "content": "A pen costs 3 guilders."},
            {"role": "assistant", "content": "Noted."},
            {"role": "user", "content": [{"type": "text", "text": "And four pens?"}]},
        ]
        client.chat.completions.create(model="vanilla", messages=said)
        heard = model.requests[-1].text
        assert all(text in heard for text in ("Be curt.", "3 guilders", "Noted.", "four pens"))

    def test_what_is_not_heeded_is_said(self, client: openai.OpenAI) -> None:
        raw = client.chat.completions.with_raw_response.create(
            model="vanilla", messages=ASKED, temperature=0.5, seed=1
        )
        assert raw.headers["x-pb-ignored"] == "seed, temperature"


class TestBudget:
    @pytest.mark.parametrize("method", HERE)
    @pytest.mark.parametrize("named", ["max_completion_tokens", "max_tokens", "header"])
    def test_a_total_is_never_exceeded(self, method: str, named: str) -> None:
        wish: Any = {named: 60}
        if named == "header":
            wish = {"extra_headers": {"X-PB-Budget": "60"}}
        with FaultServer(answer=LONG) as model, client_of(model) as client:
            try:
                spent = ask(client, method, **wish).usage.completion_tokens
            except openai.InternalServerError as error:  # a call before the answer took it all
                known = "Nothing is left of the budget of 60 tokens" in str(error)
                spent = sum(min(request.cap, 600) for request in model.requests)
            else:
                known = True
        assert known
        assert 0 < spent <= 60

    def test_an_answer_that_was_cut_off_says_so(self) -> None:
        with FaultServer(answer=LONG) as model, client_of(model, most=50) as client:
            said = ask(client, "vanilla", max_completion_tokens=5000)
            chunks = list(ask(client, "vanilla", stream=True))
        assert said.choices[0].finish_reason == chunks[-1].choices[0].finish_reason == "length"
        assert said.usage.completion_tokens == 50

    def test_so_does_one_whose_ending_was_lost(self) -> None:
        lost = in_turn(None, "reset_midway", "reset_midway")
        with FaultServer(lost, answer=LONG) as model, client_of(model) as client:
            said = ask(client, "global_budget:budget=200", extra_body={"level": 3})
        assert said.choices[0].finish_reason == "length"

    def test_an_answer_that_was_settled_early_is_whole(self) -> None:
        with (
            FaultServer(answer="42} " * 200) as model,
            endpoint_of(client_to(model, vllm)) as url,
            openai.OpenAI(base_url=url, api_key="none") as client,
        ):
            said = ask(client, "certaindex")
        assert said.choices[0].message.content.endswith("Final answer: 42")
        assert said.choices[0].finish_reason == "stop"
        assert model.requests[-1].cap == PROBE_TOKENS


class TestErrors:
    @pytest.mark.parametrize(
        ("asked", "kind", "said"),
        [
            ({"model": "vanila"}, openai.NotFoundError, "did you mean 'vanilla'"),
            ({"model": "vanilla:powr=1"}, openai.BadRequestError, "did you mean 'power'"),
            ({"n": 2}, openai.BadRequestError, "'n' is not supported"),
            ({"stop": "x"}, openai.BadRequestError, "'stop' is not supported"),
            ({"messages": []}, openai.BadRequestError, "messages"),
            ({"messages": [{"role": "remove", "content": "x"}]}, openai.BadRequestError, "role"),
            ({"messages": [{"role": "tool", "content": "x"}]}, openai.BadRequestError, "form"),
            ({"messages": [{"role": "user", "content": " "}]}, openai.BadRequestError, "empty"),
            ({"max_completion_tokens": 0}, openai.BadRequestError, "greater than 0"),
            ({"extra_body": {"level": 9}}, openai.BadRequestError, "level"),
        ],
    )
    @pytest.mark.parametrize("stream", [False, True])
    def test_a_wrong_request_is_refused(
        self, client: openai.OpenAI, asked: Any, kind: Any, said: str, stream: bool
    ) -> None:
        with pytest.raises(kind, match=said) as caught:
            client.chat.completions.create(
                **{"model": "vanilla", "messages": ASKED, "stream": stream} | asked
            )
        assert caught.value.type == "invalid_request_error"

    @pytest.mark.parametrize("stream", [False, True])
    def test_a_model_that_is_down_is_the_servers_fault_and_not_asked_again(
        self, stream: bool
    ) -> None:
        with FaultServer(always("unavailable")) as model, client_of(model) as client:
            with pytest.raises(openai.InternalServerError, match="No answer") as caught:
                ask(client, "vanilla", stream=stream, extra_body={"report": True})
            served = model.served
        assert caught.value.status_code == 502
        assert caught.value.code == "no_answer"
        body: Any = caught.value.response.json()
        assert checked(body["report"])["usage"]["output_tokens"] == 0
        assert served == 2  # an attempt and ours to repeat it: the client makes no more

    def test_what_goes_wrong_after_the_first_call_is_an_event_of_the_stream(self) -> None:
        with (
            FaultServer(planner_only) as model,
            client_of(model) as client,
            pytest.raises(openai.APIError, match="No answer"),
        ):
            list(ask(client, stream=True))

    @pytest.mark.parametrize(("path", "status"), [("/nothing", 404), ("/chat/completions", 405)])
    def test_also_what_is_not_there_is_said_in_openais_shape(
        self, url: str, path: str, status: int
    ) -> None:
        said = httpx.get(url + path)
        assert said.status_code == status
        assert said.json()["error"]["type"] == "invalid_request_error"

    @pytest.mark.parametrize("body", [b"{", b"[]", b"[" * 100_000, b"\xff"])
    def test_a_body_that_is_no_request_is_refused(self, url: str, body: bytes) -> None:
        said = httpx.post(f"{url}/chat/completions", content=body)
        assert said.status_code == 400
        assert "JSON" in said.json()["error"]["message"]

    def test_a_body_that_is_too_long_is_not_read(self, url: str) -> None:
        said = httpx.post(f"{url}/chat/completions", content=b" " * (9 * 2**20))
        assert said.status_code == 413


class TestResponses:
    """The same queries in the newer protocol."""

    def respond(self, client: openai.OpenAI, model: str = "plan_and_budget", **options: Any) -> Any:
        given = {"input": ASKED[0]["content"]} | options
        return client.responses.create(model=model, **given)

    @pytest.mark.parametrize("execution", choices("execution"))
    def test_a_query_is_answered_whole_and_in_pieces(
        self, client: openai.OpenAI, model: FaultServer, execution: str
    ) -> None:
        before, name = model.served, f"plan_and_budget:execution={execution}"
        said = self.respond(client, name)
        assert (said.output_text, said.status, said.model) == (ANSWER, "completed", name)
        assert said.usage.output_tokens == paid(model, before) > 0
        *events, last = self.respond(client, name, stream=True)
        deltas = [each.delta for each in events if each.type == "response.output_text.delta"]
        assert deltas == ["Final", " answer:", " 42"]
        assert [each.sequence_number for each in [*events, last]] == list(range(len(events) + 1))
        assert (last.type, last.response.output_text) == ("response.completed", ANSWER)
        assert last.response.usage == said.usage

    def test_openais_own_helper_puts_the_stream_together(self, client: openai.OpenAI) -> None:
        with client.responses.stream(model="vanilla", input="6 * 7?") as stream:
            assert stream.get_final_response().output_text == ANSWER

    def test_the_report_comes_on_request(self, client: openai.OpenAI) -> None:
        wish: Any = {"extra_body": {"report": True, "level": 5}}
        assert checked(self.respond(client, **wish).report)["level"] == 5
        *_, last = self.respond(client, stream=True, **wish)
        assert checked(last.response.report)["answer"] == ANSWER
        assert not hasattr(self.respond(client), "report")

    def test_instructions_earlier_turns_and_images_reach_the_solver(
        self, client: openai.OpenAI, model: FaultServer
    ) -> None:
        picture = "data:image/png;base64,AAAA"
        function = {"call_id": "c1", "name": "price", "arguments": "{}"}
        said: list[Any] = [
            {"role": "user", "content": "A pen costs 3 guilders."},
            {"type": "reasoning", "id": "r1", "summary": []},
            {"type": "function_call", **function},
            {"type": "function_call_output", "call_id": "c1", "output": "now 4"},
            {
                "type": "message",
                "role": "assistant",
                "content": [{"type": "output_text", "text": "Noted.", "annotations": []}],
            },
            {
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "And four pens?"},
                    {"type": "input_image", "image_url": picture, "detail": "low"},
                    {"type": "input_file", "filename": "a.pdf", "file_data": "data:,abc"},
                ],
            },
        ]
        self.respond(client, "vanilla", input=said, instructions="Be curt.")
        heard = json.dumps(model.requests[-1].body)
        known = ("Be curt.", "3 guilders", "now 4", "Noted.", "four pens", picture, "a.pdf")
        assert [text for text in known if text not in heard] == []

    def test_a_total_is_never_exceeded_and_a_cut_is_said(self) -> None:
        with FaultServer(answer=LONG) as model, client_of(model) as client:
            said = self.respond(client, "vanilla", max_output_tokens=60)
            *_, last = self.respond(client, "vanilla", max_output_tokens=60, stream=True)
        for each in (said, last.response):
            assert (each.usage.output_tokens, each.status) == (60, "incomplete")
            assert each.incomplete_details.reason == "max_output_tokens"
        assert last.type == "response.incomplete"

    @pytest.mark.parametrize(
        ("asked", "kind", "said"),
        [
            ({"model": "vanila"}, openai.NotFoundError, "did you mean 'vanilla'"),
            (
                {"previous_response_id": "r"},
                openai.BadRequestError,
                "'previous_response_id' is not",
            ),
            ({"tools": [{"type": "web_search"}]}, openai.BadRequestError, "'tools' is not"),
            ({"text": {"format": {"type": "json_object"}}}, openai.BadRequestError, "text"),
            ({"input": []}, openai.BadRequestError, "input"),
            ({"input": " "}, openai.BadRequestError, "empty"),
            ({"input": [{"role": "remove", "content": "x"}]}, openai.BadRequestError, "role"),
            ({"input": [{"role": "user", "content": 5}]}, openai.BadRequestError, "form"),
            ({"input": [{"type": "item_reference", "id": "x"}]}, openai.BadRequestError, "item_"),
            ({"max_output_tokens": 0}, openai.BadRequestError, "greater than 0"),
        ],
    )
    @pytest.mark.parametrize("stream", [False, True])
    def test_a_wrong_request_is_refused(
        self, client: openai.OpenAI, asked: Any, kind: Any, said: str, stream: bool
    ) -> None:
        with pytest.raises(kind, match=said) as caught:
            self.respond(client, **{"model": "vanilla", "stream": stream} | asked)
        assert caught.value.type == "invalid_request_error"

    def test_what_goes_wrong_after_the_first_call_is_an_event_of_the_stream(self) -> None:
        with FaultServer(planner_only) as model, client_of(model) as client:
            *_, last = self.respond(client, stream=True, extra_body={"report": True})
        assert (last.type, last.response.status) == ("response.failed", "failed")
        assert "No answer" in last.response.error.message
        assert checked(last.response.report)["usage"]["output_tokens"] > 0


class TestWhoIsServed:
    def test_who_brings_the_key(self, locked: str) -> None:
        with openai.OpenAI(base_url=locked, api_key=KEY) as client:
            assert ask(client).choices[0].message.content == ANSWER

    @pytest.mark.parametrize("given", ["pb-secre", "pb-secret2", "schlüssel"])
    @pytest.mark.parametrize(
        "path", ["/models", "/models/vanilla", "/chat/completions", "/responses"]
    )
    def test_nobody_else(self, locked: str, given: str, path: str, model: FaultServer) -> None:
        before = model.served
        named = {"Authorization": f"Bearer {given}".encode()}
        method = "GET" if path.startswith("/models") else "POST"
        said = httpx.request(method, locked + path, headers=named)
        assert said.status_code == 401
        assert said.json()["error"]["code"] == "invalid_api_key"
        assert KEY not in said.text
        assert model.served == before

    @pytest.mark.parametrize(
        "headers",
        [
            {"Origin": "https://evil.example"},
            {"Host": "evil.example"},
            {"Origin": "null"},
            {"Origin": "http://["},
        ],
    )
    def test_without_a_key_no_page_of_another_host(self, url: str, headers: Any) -> None:
        body = json.dumps({"model": "vanilla", "messages": ASKED})
        assert httpx.post(f"{url}/chat/completions", content=body, headers=headers).is_client_error

    def test_whether_it_runs_may_be_asked_by_all(self, locked: str) -> None:
        assert httpx.get(locked.removesuffix("/v1") + "/health").json() == {"status": "ok"}


class TestLangChain:
    @pytest.mark.parametrize("newer", [False, True])
    def test_it_is_a_chat_model_like_any_other(self, url: str, newer: bool) -> None:
        chat = ChatOpenAI(
            model="plan_and_budget",
            base_url=url,
            api_key=SecretStr("none"),
            stream_usage=True,
            use_responses_api=newer,
        )
        whole = chat.invoke("How many pens does $14 buy at 3 for $2?")
        assert whole.text == ANSWER
        first, *rest = chat.stream("How many pens does $14 buy at 3 for $2?")
        streamed: Any = first
        for chunk in rest:
            streamed += chunk
        assert streamed.text == ANSWER
        assert streamed.usage_metadata == whole.usage_metadata
        ended = {"status": "completed"} if newer else {"finish_reason": "stop"}
        assert streamed.response_metadata.items() >= ended.items()
        follow_up = chat.invoke([("human", "6 * 7?"), whole, ("human", "And now?")])
        assert follow_up.text == ANSWER


class Waiting(ScriptedChat):
    """Begins, and would never end."""

    begun: Any = Field(default_factory=threading.Event)
    stopped: Any = Field(default_factory=threading.Event)

    async def _agenerate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        del messages
        self.begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.stopped.set()
            raise
        raise AssertionError


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_leaves_cancels_its_query(stream: bool) -> None:
    model = Waiting()

    async def leave(url: str) -> None:
        body = {"model": "plan_and_budget", "messages": ASKED, "stream": stream}
        async with httpx.AsyncClient() as client:
            task = asyncio.ensure_future(client.post(f"{url}/chat/completions", json=body))
            await asyncio.to_thread(model.begun.wait)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await asyncio.to_thread(model.stopped.wait)

    with endpoint_of(model) as url:
        asyncio.run(leave(url))
    assert model.stopped.is_set()


async def test_two_hundred_streams_at_once_are_all_answered_and_accounted_for() -> None:
    answer = "so it goes on and on and on until the final answer: 42"
    methods = HERE

    async def one(client: openai.AsyncOpenAI, number: int) -> tuple[str, int]:
        said: list[Any] = [{"role": "user", "content": f"Question {number}?"}]
        method = methods[number % len(methods)]
        made: Any = await client.chat.completions.create(
            model=method, messages=said, extra_body={"report": True}, **STREAMED
        )
        text, last = "", None
        async for chunk in made:
            text += "".join(choice.delta.content or "" for choice in chunk.choices)
            last = chunk
        report = checked(last.report)
        assert last.usage.completion_tokens == report["usage"]["output_tokens"]
        return text, last.usage.completion_tokens

    with FaultServer(answer=answer, latency=0.05) as model, endpoint_of(client_to(model)) as url:
        limits = httpx.Limits(max_connections=None)
        async with (
            httpx.AsyncClient(limits=limits, timeout=None) as http,  # noqa: S113
            openai.AsyncOpenAI(base_url=url, api_key="none", http_client=http) as client,
        ):
            told = await asyncio.gather(*(one(client, number) for number in range(200)))
    assert {text for text, _ in told} == {answer}
    assert sum(tokens for _, tokens in told) == paid(model, 0)
