"""The one door through which tokens are spent: calls, retries, fallbacks and continuations."""
# ruff: noqa: ANN401 -- settings and bodies of any form

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from typing import Any, cast, get_args

import httpx
import pytest
from langchain_anthropic import ChatAnthropic
from langchain_core.caches import InMemoryCache
from langchain_core.language_models import BaseChatModel, FakeListChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_deepseek import ChatDeepSeek
from langchain_google_genai import ChatGoogleGenerativeAI
from langchain_openai import ChatOpenAI
from openai import LengthFinishReasonError
from pydantic import SecretStr

from pb_graph import Budget, BudgetedChatModel, NoAnswerError, Settings, build_graph
from pb_graph.budget import use_budget
from pb_graph.budget.bill import Bill, most_billed
from pb_graph.errors import BudgetUsedUpError, ModelCallError, ModelSetupError
from pb_graph.models.caps import anthropic, can_continue, continuing, deepseek, llama_cpp
from pb_graph.models.client import ChatClient, RetryPolicy
from pb_graph.models.options import CallOptions, copy_for_calls, describe_model, name_of
from pb_graph.models.reply import ASYNC, BLOCKING, IO, Reply, run_sync
from pb_graph.models.resolve import client_of
from pb_graph.types import Purpose
from tests.support.chat_model import (
    CutOffError,
    HTTPError,
    Said,
    ScriptedChat,
    in_turn,
    runs_on,
    with_schema,
)
from tests.support.clients import ELSEWHERE, completion, over
from tests.support.graphs import CHAIN, ENFORCED, QUESTION, Way, codes, report_or_error, run

KEY = SecretStr("sk-secret-0123456789")
LIMITS = CallOptions(cap=10, timeout=5.0, purpose=Purpose("solve", 2))
WITH_SCHEMA = LIMITS._replace(schema={"type": "object", "properties": {}})
ASK: list[BaseMessage] = [HumanMessage("What is 6 * 7?")]
BEGUN = [*ASK, AIMessage("one, two, ")]
SAMPLED, PIECE = CallOptions(20, sampling=True), CallOptions(20, continue_last=True)
both_ways = pytest.mark.parametrize("way", get_args(Way))


def call(
    client: ChatClient | BaseChatModel,
    options: CallOptions = LIMITS,
    way: Way = "invoke",
    prompt: list[BaseMessage] = ASK,
) -> Reply:
    """Make a call one way or the other."""
    client = client if isinstance(client, ChatClient) else ChatClient(client)
    if way == "invoke":
        return run_sync(client.call(prompt, options, BLOCKING))
    return asyncio.run(client.call(prompt, options, ASYNC))


@both_ways
def test_a_reply_is_text_ending_and_charge_and_the_model_stays_as_it_is(way: Way) -> None:
    model = ScriptedChat(solve="forty two")
    before = model.model_dump(exclude={"record"})
    reply = call(model, way=way)
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
    assert model.model_dump(exclude={"record"}) == before


@both_ways
def test_a_server_that_takes_no_schema_is_asked_without_and_remembered(way: Way) -> None:
    model = ScriptedChat(planner=HTTPError(400), solve="42")
    client = ChatClient(model, with_schema)
    assert [call(client, WITH_SCHEMA, way).text for _ in range(2)] == ["42", "42"]
    assert [call.schema is None for call in model.calls] == [False, True, True]


@both_ways
def test_a_failure_is_ours_with_its_cause(way: Way) -> None:
    error = HTTPError(503)
    model = ScriptedChat(solve=error)
    with pytest.raises(ModelCallError) as caught:
        call(ChatClient(model, retry_policy=RetryPolicy(0)), way=way)
    assert caught.value.__cause__ is error
    assert len(model.calls) == 1


def test_in_an_event_loop_a_call_ends_within_its_time_limit() -> None:
    client = ChatClient(ScriptedChat(solve="42", seconds=5), retry_policy=RetryPolicy(0))
    with pytest.raises(ModelCallError, match=r"Settings\.timeout"):
        call(client, LIMITS._replace(timeout=0.05), "ainvoke")


def test_blocking_calls_share_a_thread_but_never_one_that_a_late_call_holds() -> None:
    release, held, unused = threading.Event(), list[int](), cast("Any", None)

    def be_late() -> None:
        held.append(threading.get_ident())
        release.wait(5)

    with pytest.raises(TimeoutError):
        run_sync(BLOCKING.within(0.02, be_late, unused))
    threads = {run_sync(BLOCKING.within(5, threading.get_ident, unused)) for _ in range(3)}
    release.set()
    assert len(threads) == 1
    assert not threads & {*held, threading.get_ident()}


class TestTryingAgain:
    """What a transient fault costs, and when it is not the end."""

    @staticmethod
    def client(*said: Said, retries: int = 3) -> tuple[ChatClient, ScriptedChat]:
        model = ScriptedChat(plan=CHAIN, solve=in_turn(*said), max_retries=0)
        policy = RetryPolicy(retries, initial_interval=0.001)
        return ChatClient(model, with_schema, policy), model

    @both_ways
    def test_a_transient_fault_is_tried_again(self, way: Way) -> None:
        error = HTTPError(503)
        client, model = self.client(error, error, error, "42")
        reply = call(client, way=way)
        assert (reply.text, reply.lost) == ("42", ())  # a refusal costs nothing
        assert len(model.calls) == 4

    @both_ways
    def test_an_attempt_of_unknown_cost_counts_with_its_whole_cap(self, way: Way) -> None:
        client, model = self.client(TimeoutError(), "forty two")
        with use_budget(Budget(100)), pytest.raises(ModelCallError) as caught:
            call(client, way=way)
        (lost,) = caught.value.lost
        assert (lost["finish"], lost["measured"], lost["usage"]) == ("error", False, Bill().usage())
        assert (lost["node"], lost["step"], most_billed([lost])) == ("solve", 2, 10)
        assert len(model.calls) == 1

    @both_ways
    def test_a_reported_attempt_is_charged_and_comes_off_the_cap_of_the_next(
        self, way: Way
    ) -> None:
        client, model = self.client(CutOffError(7), "one two three four")
        reply = call(client, way=way)
        assert [attempt.cap for attempt in model.calls] == [10, 3]
        assert (reply.text, reply.finish, reply.tokens) == ("one two three", "length", 10)
        assert [lost["usage"]["output_tokens"] for lost in reply.lost] == [7]

    def report_of(self, way: Way, *said: Said, **settings: Any) -> dict[str, Any]:
        """Return the account of a question whose model is tried again at once."""
        client, _ = self.client(*said, retries=1)
        stepwise: Any = {"execution": "stepwise", "plan_from": 1, "budget": 400}
        graph = build_graph(client, settings=Settings(**(stepwise | settings)))
        return report_or_error(graph, way)[0]

    @both_ways
    def test_a_step_pays_for_the_attempt_that_failed(self, way: Way) -> None:
        report = self.report_of(way, "so it is 42", CutOffError(9), "so it is 42")
        assert [step["tokens"] for step in report["steps"]] == [4, 9 + 4, 4, 4]
        solving = report["usage"]["by_node"]["solve"]
        assert (solving["output_tokens"], solving["calls"], solving["measured"]) == (25, 5, True)
        assert report["warnings"] == []

    def test_what_may_be_billed_is_said_and_never_passes_the_limit(self) -> None:
        way: Way = "ainvoke"
        report = self.report_of(way, TimeoutError(), "42", method="vanilla", reserve=0)
        assert (report["usage"]["calls"], report["usage"]["measured"]) == (1, False)
        assert codes(report) == ["call_failed", "unknown_bill"]
        long = str(runs_on(None))  # type: ignore[arg-type]
        rough = (TimeoutError(), long, CutOffError(10), TimeoutError(), "42", TimeoutError())
        for enforcement in ENFORCED.values():
            for first in range(len(rough)):
                report = self.report_of(way, *rough[first:], long, cutoff=300, **enforcement)
                assert 0 < report["most_billed"] <= report["limit"]


async def waits_of(policy: RetryPolicy, error: Exception) -> list[float]:
    """Return the seconds that a policy waits before it gives up."""
    waits: list[float] = []

    class Clock(IO):
        async def call(self, *given: Any) -> Any:
            waits.append(given[-1])

    async def make() -> None:
        raise error

    with pytest.raises(type(error)):
        await policy.repeat(make, Clock(is_async=True), 120)
    return waits


async def test_the_upper_end_of_the_wait_doubles_up_to_its_limit() -> None:
    assert len(await waits_of(RetryPolicy(), HTTPError(503))) == 3
    assert await waits_of(RetryPolicy(), HTTPError(400)) == []
    policy = RetryPolicy(max_retries=4, initial_interval=1.0, max_interval=4.0)
    drawn = [await waits_of(policy, TimeoutError()) for _ in range(200)]
    for ceiling, waits in zip((1.0, 2.0, 4.0, 4.0), zip(*drawn, strict=True), strict=True):
        assert 0.8 * ceiling < max(waits) <= ceiling
        assert 0.0 <= min(waits) < 0.2 * ceiling


@pytest.mark.parametrize(
    ("given", "waits"),
    [("7", [7]), ("soon", [0]), ("121", []), ("Wed, 21 Oct 2099 07:28:00 GMT", [])],
)
async def test_the_wait_that_a_server_asks_for_is_kept(given: str, waits: list[float]) -> None:
    error: Any = HTTPError(429)
    error.response = type("Response", (), {"headers": {"retry-after": given}})()
    assert await waits_of(RetryPolicy(1, initial_interval=0), error) == waits


class TestFallbacks:
    ONE_CALL = Settings(method="global_budget", budget=50, reserve=0)

    @both_ways
    def test_a_fallback_answers_for_a_model_that_fails(self, way: Way) -> None:
        first = ScriptedChat(model_name="first", planner=HTTPError(503), solve=HTTPError(401))
        second = ScriptedChat(model_name="second", solve="42")
        graph = build_graph(first.with_fallbacks([second]))
        out = run(graph, QUESTION, way)
        assert (out["answer"], out["report"]["warnings"]) == ("42", [])
        nodes = out["report"]["usage"]["by_node"].values()
        assert {tuple(part["by_model"]) for part in nodes} == {("second",)}

    def test_a_fallback_gets_no_more_than_the_failed_call_has_left(self) -> None:
        first, second = ScriptedChat(solve=CutOffError(30)), ScriptedChat(solve=runs_on)
        once = self.ONE_CALL.model_copy(update={"max_retries": 0})
        out = run(build_graph(first.with_fallbacks([second]), settings=once))
        assert second.calls[0].cap == 20
        assert out["report"]["usage"]["output_tokens"] == out["report"]["limit"] == 50

    def test_what_a_lost_call_may_have_cost_is_not_left_to_its_fallbacks(self) -> None:
        first, second = ScriptedChat(solve=TimeoutError()), ScriptedChat(solve=runs_on)
        with pytest.raises(NoAnswerError) as caught:
            run(build_graph(first.with_fallbacks([second]), settings=self.ONE_CALL))
        assert second.calls == []
        assert caught.value.report["most_billed"] == caught.value.report["limit"] == 50

    def test_a_budget_that_is_used_up_is_no_failure_of_the_models(self) -> None:
        client = client_of(ScriptedChat().with_fallbacks([ScriptedChat()]), None, RetryPolicy())
        (budget := Budget(1)).charge(1)
        with use_budget(budget), pytest.raises(BudgetUsedUpError):
            run_sync(client.call(ASK, LIMITS, BLOCKING))


class Warm(ScriptedChat):
    """It has a temperature, as a provider's model has, and tells it."""

    temperature: float | None = 0.0

    def _said(self, _: Any) -> str:
        return str(self.temperature)


@pytest.mark.parametrize(
    ("own", "options", "said"),
    [(0.0, SAMPLED, "0.7"), (0.0, CallOptions(20), "0.0"), (0.3, SAMPLED, "0.3")],
)
def test_a_model_at_temperature_0_is_warmed_for_samples_only(
    own: float | None, options: CallOptions, said: str
) -> None:
    assert call(Warm(temperature=own), options).text == said


def test_samples_do_not_come_from_langchains_cache() -> None:
    model = ScriptedChat(solve=in_turn("one", "two"), cache=InMemoryCache())
    client, once = ChatClient(model), CallOptions(20)
    said = [call(client, options).text for options in (SAMPLED, SAMPLED, once, once)]
    assert said == ["one", "two", "two", "two"]
    assert len(model.calls) == 3


@pytest.mark.parametrize("said", ["one, two, three", "one, two,three"])
def test_a_piece_is_taken_as_it_is_written_without_the_beginning(said: str) -> None:
    client = ChatClient(ScriptedChat(solve=said), with_schema)  # some templates trim the beginning
    assert call(client, PIECE, prompt=BEGUN).text == "three"
    model = ScriptedChat()
    with pytest.raises(ModelSetupError, match="unfinished replies"):
        call(model, PIECE, prompt=BEGUN)
    assert not model.calls


def test_a_beginning_that_the_server_repeats_is_not_counted() -> None:
    thought = "<think>\n" + "one apple, " * 300  # llama.cpp gives it back with the continuation
    model = ChatOpenAI(model="m", **over(lambda _: completion(f"{thought}three", tokens=2)))
    reply = call(ChatClient(model, llama_cpp), PIECE, prompt=[*ASK, AIMessage(thought)])
    assert (reply.text, reply.tokens, reply.thought, reply.warnings) == ("three", 2, "", ())
    assert reply.charge["measured"]


class TestOverHTTP:
    """A real ChatOpenAI in front of a server that is none."""

    @staticmethod
    def client(answer: Callable[[Any], httpx.Response], **options: Any) -> ChatClient:
        usual: Any = {"model": "m", "base_url": ELSEWHERE, "max_retries": 0, "streaming": True}
        return ChatClient(ChatOpenAI(**usual | over(answer) | options))

    def test_a_streaming_model_does_not_stream_and_its_usage_is_measured(self) -> None:
        bodies: list[dict[str, Any]] = []

        def answer(request: httpx.Request) -> httpx.Response:
            bodies.append(json.loads(request.content))
            return completion(None, usage=usage)

        usage = {"prompt_tokens": 9, "completion_tokens": 10, "total_tokens": 19}
        usage |= {"prompt_tokens_details": {"cached_tokens": 8}}  # type: ignore[dict-item]
        usage |= {"completion_tokens_details": {"reasoning_tokens": 7}}  # type: ignore[dict-item]

        charge = call(self.client(answer, max_tokens=7)).charge
        assert not bodies[0].get("stream")
        assert bodies[0]["max_tokens"] == charge["cap"] == 7  # the model's own, which is smaller
        assert charge["measured"]
        assert charge["usage"] == Bill(input=9, output=10, reasoning=7, cached=8).usage()

    @pytest.mark.parametrize("entry", ["graph", "agent"])
    def test_a_cap_that_is_refused_by_its_name_or_its_size_is_sent_again(self, entry: str) -> None:
        caps: list[dict[str, int]] = []

        def answer(request: httpx.Request) -> httpx.Response:
            sent = json.loads(request.content)
            caps.append({name: sent[name] for name in sent if name.startswith("max")})
            if "max_tokens" in sent:
                return httpx.Response(400, json={"error": {"message": "use max_completion_tokens"}})
            if sent["max_completion_tokens"] > 4096:
                msg = "max_tokens is too large: 9000. This model supports at most 4096."
                return httpx.Response(400, json={"error": {"message": msg}})
            return completion("42")

        client = self.client(answer, streaming=False)
        made = BudgetedChatModel(model=client.model, budget=10_000)
        said = made.invoke("?") if entry == "agent" else call(client, CallOptions(9000))
        assert said.text == "42"
        assert [*caps[0], caps[-1]] == ["max_tokens", {"max_completion_tokens": 4096}]

    @pytest.mark.parametrize(
        "body",
        [
            {"choices": None, "usage": None},
            {"choices": [{"index": 0, "message": None, "finish_reason": "stop"}]},
        ],
    )
    def test_a_reply_that_cannot_be_read_may_have_been_billed(self, body: dict[str, Any]) -> None:
        client, budget = self.client(lambda _: completion("4", **body)), Budget(1000)
        with use_budget(budget), pytest.raises(ModelCallError) as caught:
            call(client)
        assert (budget.spent, budget.unknown, most_billed(caught.value.lost)) == (0, 10, 10)

    def test_a_server_that_ignores_its_cap_is_told(self) -> None:
        client = self.client(lambda _: completion("word " * 40, tokens=40))
        with use_budget(budget := Budget(1000)):
            reply = call(client)
        assert [warning["code"] for warning in reply.warnings] == ["cap_ignored"]
        assert (reply.tokens, budget.spent) == (40, 40)

    def test_a_reply_that_its_client_cut_off_is_charged(self) -> None:
        wanted: Any = {"type": "json_schema", "json_schema": {"name": "r", "schema": {}}}
        kwargs = {"response_format": wanted}
        client = self.client(lambda _: completion("{", "length", 10), model_kwargs=kwargs)
        with pytest.raises(ModelCallError) as caught:
            call(client)
        assert isinstance(caught.value.__cause__, LengthFinishReasonError)
        (lost,) = caught.value.lost
        assert (lost["usage"], lost["measured"]) == (Bill(input=9, output=10).usage(), True)


@both_ways
def test_deepseek_continues_a_message_with_a_mark_at_its_beta_address(way: Way) -> None:
    asked: list[tuple[str, dict[str, Any]]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append((request.url.path, json.loads(request.content)["messages"][-1]))
        return completion("three")

    model = ChatDeepSeek(model="deepseek-reasoner", **over(answer))
    assert call(model, PIECE, way, BEGUN).text == "three"
    begun = {"role": "assistant", "content": "one, two, ", "prefix": True}
    assert asked == [("/beta/chat/completions", begun)]
    gateway = ChatDeepSeek(model="deepseek-reasoner", base_url=ELSEWHERE, **over(answer))
    assert not can_continue(gateway, deepseek)  # it may have no such address


@pytest.mark.parametrize(
    ("name", "can"),
    [
        ("claude-3-7-sonnet-latest", True),
        ("claude-opus-4-20250514", True),
        ("claude-haiku-4-5-20251001", True),
        ("claude-sonnet-4-6", False),
        ("claude-opus-5", False),
    ],
)
def test_claude_continues_a_message_without_a_space_before_version_4_6(
    name: str, *, can: bool
) -> None:
    model = ChatAnthropic(model_name=name, api_key=KEY)
    assert can_continue(model, anthropic) == can
    _, messages, _ = continuing(model, BEGUN, {}, anthropic)
    assert messages[-1].text == "one, two,"


def test_a_models_name_has_its_address_without_credentials() -> None:
    url = "http://me:secret@host:8000/v1?key=secret"
    model = ChatOpenAI(model="gpt-oss", base_url=url, api_key=KEY)
    assert describe_model(model) == "gpt-oss at http://host:8000/v1/"
    assert describe_model(ScriptedChat(model_name="small")) == "small"
    assert name_of(FakeListChatModel(responses=["?"])) == "FakeListChatModel"


def test_the_client_of_a_model_repeats_nothing_and_keeps_its_connections() -> None:
    model = ChatOpenAI(model="m", api_key=KEY)
    copy = copy_for_calls(model)
    for name in ("root_client", "root_async_client"):
        before, after = getattr(model, name), getattr(copy, name)
        assert (before.max_retries, after.max_retries) == (2, 0)
        assert after._client is before._client
    assert copy.client._client.max_retries == copy.async_client._client.max_retries == 0
    claude = ChatAnthropic(model_name="claude-sonnet-5", api_key=KEY)
    assert claude._client.max_retries == 2  # after a call of its own, too
    assert copy_for_calls(claude)._client.max_retries == 0
    gemini = ChatGoogleGenerativeAI(model="gemini-x", api_key=KEY, max_retries=6)
    assert copy_for_calls(gemini).max_retries == 1  # Google's clients count attempts
