"""Models, stored replies and requests of an evaluation."""
# ruff: noqa: ANN401 -- models and options of any kind

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langchain_ollama import ChatOllama

from optim.bench.bench import Models, Runner, build_models, model_identity
from optim.bench.store import (
    REPLIES,
    CachedClient,
    CacheMissError,
    Recording,
    ReplyCache,
    recording,
)
from optim.methods import methods
from pb_graph import Budget, InputError, ModelCallError, build_graph
from pb_graph.budget.account import use_budget
from pb_graph.models.client import ChatClient, RetryPolicy
from pb_graph.models.options import CallOptions
from pb_graph.models.reply import ASYNC, Reply
from pb_graph.settings import Settings
from pb_graph.types import Purpose
from tests.support.chat_model import (
    Call,
    CutOffError,
    HTTPError,
    Said,
    ScriptedChat,
    in_turn,
    with_schema,
)
from tests.support.evaluations import QUESTIONS, solves

LIMITS = CallOptions(cap=50, timeout=1.0)
PLAN = Purpose("plan")


def asking(
    model: ScriptedChat, folder: Path, identity: str = "planner", **more: Any
) -> CachedClient:
    cache, retries = ReplyCache(folder / REPLIES), RetryPolicy(max_retries=more.pop("retries", 0))
    return CachedClient(ChatClient(model, None, retries), "name", identity, cache, **more)


def ask(
    client: CachedClient,
    text: str = "Plan this.",
    limits: CallOptions = LIMITS,
    purpose: Purpose = PLAN,
    record: Recording | None = None,
) -> Reply:
    with recording(record or Recording()):
        options = limits._replace(purpose=purpose)
        return asyncio.run(client.call([HumanMessage(text)], options, ASYNC))


def spent_in(folder: Path) -> int:
    """What a run that is started now takes for spent."""
    return ReplyCache(folder / REPLIES).spent


@pytest.fixture
def model() -> ScriptedChat:
    return ScriptedChat(solve=in_turn("first words", "second thoughts of it"))


def test_a_request_is_made_once_and_charged_in_full_to_each_node_that_asks(
    model: ScriptedChat, tmp_path: Path
) -> None:
    client = asking(model, tmp_path)
    first, second = ask(client), ask(client, purpose=Purpose("estimate", 3))
    assert first.text == second.text
    assert first.tokens == second.tokens == spent_in(tmp_path) == 2
    assert (second.charge["node"], second.charge["step"]) == ("estimate", 3)
    assert len(model.calls) == 1


def test_lost_attempts_are_charged_to_each_use_of_the_reply_and_counted_once(
    tmp_path: Path,
) -> None:
    model = ScriptedChat(solve=in_turn(CutOffError(25), "a plan of words"))
    records = [Recording(), Recording()]
    replies = [ask(asking(model, tmp_path, retries=1), record=record) for record in records]
    assert [reply.tokens for reply in replies] == [29, 29]
    assert [len(record.calls) for record in records] == [2, 2]
    assert spent_in(tmp_path) == 29


def test_a_known_reply_draws_on_the_budgets_around_it_as_if_it_had_been_made(
    model: ScriptedChat, tmp_path: Path
) -> None:
    client = asking(model, tmp_path)
    for _ in range(2):
        budget = Budget(100)
        with use_budget(budget):
            ask(client)
        assert budget.spent == 2
    assert len(model.calls) == 1


@pytest.mark.parametrize(
    "other",
    [
        {"text": "Plan that."},
        {"limits": CallOptions(51, 1.0)},
        {"limits": CallOptions(50, 1.0, {"type": "object"})},
        {"limits": CallOptions(50, 1.0, thinking="off")},
        {"record": Recording(sample=2)},
    ],
    ids=["messages", "cap", "schema", "thinking", "sample"],
)
def test_another_request_is_made_anew(
    model: ScriptedChat, tmp_path: Path, other: dict[str, Any]
) -> None:
    client = asking(model, tmp_path)
    assert ask(client) != ask(client, **other)
    assert len(model.calls) == 2


async def test_two_methods_at_once_wait_for_one_call(tmp_path: Path) -> None:
    model = ScriptedChat(solve="a plan", seconds=0.02)
    client = asking(model, tmp_path)

    async def one() -> Reply:
        with recording(Recording()):
            return await client.call([HumanMessage("Plan this.")], LIMITS, ASYNC)

    replies = await asyncio.gather(*(one() for _ in range(5)))
    assert len({reply.text for reply in replies}) == len(model.calls) == 1


def test_a_failure_is_asked_again_but_its_tokens_stay_spent(tmp_path: Path) -> None:
    model = ScriptedChat(solve=in_turn(CutOffError(LIMITS.cap), "a plan"))
    with pytest.raises(ModelCallError):
        ask(asking(model, tmp_path))
    assert spent_in(tmp_path) == LIMITS.cap
    assert ask(asking(model, tmp_path)).text == "a plan"
    assert spent_in(tmp_path) == LIMITS.cap + 2


def test_a_recall_asks_nobody(model: ScriptedChat, tmp_path: Path) -> None:
    client = asking(model, tmp_path)
    with pytest.raises(CacheMissError):
        ask(client, record=Recording(replay_only=True))
    reply = ask(client)
    assert ask(client, record=Recording(replay_only=True)) == reply
    assert len(model.calls) == 1


SAMPLED = CallOptions(cap=50, timeout=1.0, sampling=True)


def test_samples_are_kept_apart_by_their_index_and_found_again(tmp_path: Path) -> None:
    model = ScriptedChat(solve=in_turn("one", "two", "three", "four"))
    client = asking(model, tmp_path, one_sample=True)
    record = Recording()
    assert ask(client, record=record).text == "one"  # the same, but not sampled
    first = [ask(client, limits=SAMPLED, record=record).text for _ in range(3)]
    assert first == ["two", "three", "four"]
    again = Recording()
    known = asking(model, tmp_path, one_sample=True)
    assert [ask(known, limits=SAMPLED, record=again).text for _ in range(3)] == first
    assert len(model.calls) == 4


class Warm(ScriptedChat):
    """A chat model with a temperature, as providers' have."""

    temperature: float | None = None


def built(folder: Path, model: Any, **options: Any) -> Models:
    chosen = {"settings": Settings(), "cache": ReplyCache(folder / REPLIES)} | options
    return build_models(model, None, **chosen)


def test_logs_name_a_model_but_not_where_its_file_lies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "some-model.gguf").write_bytes(b"GGUF")
    monkeypatch.setattr("optim.bench.bench.resolve", lambda *_: ScriptedChat())
    models = built(tmp_path, f"local:{tmp_path}/some-model.gguf")
    assert (models.solver.name, models.planner.name) == ("local:some-model", "local:some-model")


def test_a_model_of_a_name_or_a_copy_of_a_chat_model_gets_the_temperature(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("optim.bench.bench.resolve", lambda *_, **options: Warm(**options))
    model = Warm()
    for spec in ("fake:model", model):
        models = built(tmp_path, spec, temperature=0.7)
        assert models.temperature == models.solver.client.wrapped.model.temperature == 0.7
        assert models.solver.identity != built(tmp_path, spec).solver.identity
    assert model.temperature is None
    with pytest.raises(InputError, match="ScriptedChat has no temperature"):
        built(tmp_path, ScriptedChat(), temperature=0.7)


def test_a_model_that_tells_nothing_of_itself_is_known_by_its_fields(tmp_path: Path) -> None:
    """Two of them must not have each other's replies; what a class of one's own adds may change."""

    class Counting(ChatOllama):
        calls: int = 0

    first, other = ChatOllama(model="a"), ChatOllama(model="b")
    assert not first._identifying_params
    models = first, other, ChatOllama(model="a", temperature=0.7), Counting(model="a")
    known = [built(tmp_path, model).solver.identity for model in models]
    assert len(set(known)) == 4
    for same, place in ((ChatOllama(model="a"), 0), (Counting(model="a", calls=9), 3)):
        assert built(tmp_path, same).solver.identity == known[place]


def test_the_address_of_a_server_makes_no_other_model() -> None:
    class Served(ScriptedChat):
        base_url: str = "http://one"
        effort: str = "low"

        @property
        def _identifying_params(self) -> dict[str, Any]:
            return {"effort": self.effort, "base_url": self.base_url}

    known = model_identity(Served(), None)
    assert model_identity(Served(base_url="http://two"), None) == known
    assert model_identity(Served(effort="high"), None) != known


STEPS = "What is given?\nWhat follows?"


def refuses_schemas(call: Call) -> Said:
    """The server knows no schemas, and says so each time."""
    return HTTPError(400, "response_format is not supported") if call.schema else STEPS


def requests(model: ScriptedChat) -> list[tuple[str, bool, int | None]]:
    return [(made.role, made.schema is not None, made.cap) for made in model.calls]


@pytest.mark.parametrize("method", ["cosine", "stepwise"])
async def test_the_requests_of_an_evaluation_are_those_of_production(
    method: str, tmp_path: Path
) -> None:
    (row,) = methods(method, {"plan_from": 1})
    production, evaluated = (ScriptedChat(planner=refuses_schemas, solve=solves) for _ in "ab")
    graph = build_graph(production, settings=row.settings, cap_policy=with_schema)
    models = built(tmp_path, evaluated, settings=row.settings, cap_policy=with_schema)
    runner = Runner(row, models)
    for question in QUESTIONS[:3]:
        outcome = await runner.answer(question)
        made = await graph.ainvoke(question.inputs())
        counts = (report["usage"]["output_tokens"] for report in (outcome.report, made["report"]))
        assert len(set(counts)) == 1
    assert requests(evaluated) == requests(production)
    assert any(schema for _, schema, _ in requests(evaluated))
