"""A chat model under a budget, for hosts that take a model; the budget in any middleware."""
# ruff: noqa: ANN401 -- middleware and agents

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import (
    AgentMiddleware,
    ModelFallbackMiddleware,
    ModelRetryMiddleware,
)
from langchain.agents.structured_output import ProviderStrategy, ToolStrategy
from langchain_core.callbacks import UsageMetadataCallbackHandler
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_ollama import ChatOllama
from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph

from pb_graph import Budget, BudgetedChatModel, BudgetUsedUpError, InputError, TokenBudgetMiddleware
from pb_graph.agents.call import FINISH
from pb_graph.budget import use_budget
from pb_graph.models.client import RetryPolicy
from tests.support.agents import ASK, Pens, calls, look_up
from tests.support.chat_model import CutOffError, HTTPError, Reply, ScriptedChat, in_turn, runs_on
from tests.support.clients import completion, over
from tests.support.graphs import Way, both_ways, run

ASKED = [HumanMessage("How many pens?")]
MARK = {"finish_reason": "length", "budget_used_up": True}


def budgeted(model: ScriptedChat, total: int = 100, **options: Any) -> BudgetedChatModel:
    return BudgetedChatModel(model=model, budget=Budget(total), **options)


@both_ways
def test_a_call_is_capped_by_what_is_left_and_settles(way: Way) -> None:
    usage = UsageMetadataCallbackHandler()
    model = ScriptedChat(solve="21 pens", callbacks=[usage])
    made = budgeted(model)
    said = run(made, ASKED, way)
    assert said.text == "21 pens"
    assert [call.cap for call in model.calls] == [90]
    assert made.budget.spent == 2  # type: ignore[union-attr]
    assert usage.usage_metadata["scripted-1"]["output_tokens"] == 2  # one run, not two


@both_ways
def test_a_tenth_is_reserved_for_the_model_whatever_others_spend(way: Way) -> None:
    model = ScriptedChat(solve="21 pens")
    made = budgeted(model).bind_tools([look_up], tool_choice="any")
    made.bound.budget.reserve().settle(90)
    said = run(made, [SystemMessage("Be kind."), *ASKED], way)
    assert said.text == "21 pens"
    (call,) = model.calls
    assert call.cap == 10
    assert call.messages[-1].text == f"{ASKED[0].text}\n\n{FINISH}"
    assert not call.arguments.keys() & {"tools", "tool_choice"}


@both_ways
def test_the_last_answer_keeps_the_tool_that_gives_its_type(way: Way) -> None:
    typed = calls("Pens", text="", number=21)
    model = ScriptedChat(solve=lambda asked: typed if asked.arguments.get("tools") else "21 pens")
    made = budgeted(model)
    made.budget.reserve().settle(90)  # type: ignore[union-attr]
    assert run(made.with_structured_output(Pens), ASKED, way) == Pens(number=21)
    (asked,) = model.calls
    assert (asked.cap, asked.arguments["tool_choice"]) == (10, "any")
    assert FINISH in str(asked.messages)


@both_ways
def test_a_used_up_budget_is_told_without_a_call(way: Way) -> None:
    model = ScriptedChat(solve=runs_on)
    made = budgeted(model)
    first, second = [run(made, ASKED, way) for _ in range(2)]
    assert [call.cap for call in model.calls] == [90, 10]
    assert second.text.startswith("The budget of 100 tokens is used up. The task is not finished")
    assert first.response_metadata.items() >= MARK.items()  # its ending came back cut
    assert second.response_metadata.items() >= MARK.items()


@both_ways
def test_transient_faults_are_retried_within_the_budget(way: Way) -> None:
    said = [HTTPError(429), CutOffError(30), Reply("and so on " * 100), "21 pens"]
    model = ScriptedChat(solve=lambda _: said.pop(0), max_retries=0)
    made = budgeted(model, retry_policy=RetryPolicy(3, initial_interval=0.0))
    assert run(made, ASKED, way).text.endswith("21 pens")
    assert [call.cap for call in model.calls] == [90, 90, 60, 10]
    assert made.budget.spent == 30 + 60 + 2  # type: ignore[union-attr]


class Streaming(ScriptedChat):
    stream_usage: bool = True


@both_ways
def test_a_connection_lost_after_a_refused_option_may_have_cost_the_whole_cap(way: Way) -> None:
    said = HTTPError(400, "unknown field: stream_options"), ConnectionResetError()
    made = budgeted(Streaming(solve=in_turn(*said)), retry_policy=RetryPolicy(0))
    with pytest.raises(ConnectionResetError):
        run(made, ASKED, way)
    assert made.budget.unknown == 90  # type: ignore[union-attr]


@both_ways
def test_a_truncated_answer_is_kept_when_its_ending_fails(way: Way) -> None:
    model = ScriptedChat(solve=in_turn(Reply("and so on " * 100), HTTPError(400)))
    made = budgeted(model)
    assert len(run(made, ASKED, way).text.split()) == 90
    assert made.budget.spent == 90  # type: ignore[union-attr]


@both_ways
def test_a_model_without_a_budget_uses_the_one_around_the_run(way: Way) -> None:
    model, budget = ScriptedChat(solve="21 pens"), Budget(100)
    made = BudgetedChatModel(model=model, reserve=0)
    with use_budget(budget):
        run(made, ASKED, way)
    assert (model.calls[0].cap, budget.spent, budget.left) == (100, 2, 98)
    with pytest.raises(InputError, match="no budget"):
        run(made, ASKED, way)


def test_streaming_hosts_receive_the_answer() -> None:
    made = budgeted(ScriptedChat(solve="21 pens it is"))
    builder = StateGraph(MessagesState)
    builder.add_node("say", lambda state: {"messages": [made.invoke(state["messages"])]})
    builder.add_edge(START, "say")
    parts = [
        part for part, _ in builder.compile().stream({"messages": ASKED}, stream_mode="messages")
    ]
    assert len(parts) > 3
    assert "".join(part.text for part in parts) == "21 pens it is"
    assert len({part.id for part in parts}) == 1


@both_ways
@pytest.mark.parametrize("form", [ToolStrategy, ProviderStrategy])
def test_a_typed_agent_ends_with_an_error_when_nothing_is_left(form: Any, way: Way) -> None:
    """LangChain's would ask ten thousand times."""
    budget = Budget(100)
    budget.charge(100)
    made: Any = BudgetedChatModel(model=ScriptedChat(), budget=budget)
    agent: Any = create_agent(made, [], response_format=form(Pens))
    with pytest.raises(BudgetUsedUpError, match="budget of 100 tokens is used up"):
        run(agent, {"messages": ASKED}, way, config={"recursion_limit": 20})


RETRIES = ModelRetryMiddleware(max_retries=2, initial_delay=0, jitter=False, on_failure="error")
Answer = Callable[[httpx.Request], httpx.Response]


def running_on(bodies: list[Any], *, is_down: bool = False) -> Answer:
    """Return a server of OpenAI and Ollama that writes up to its cap, or that is overloaded."""

    def answer(request: httpx.Request) -> httpx.Response:
        if is_down:
            return httpx.Response(503, json={"error": {"message": "overloaded"}})
        body = json.loads(request.content)
        bodies.append(body)
        cap = (body.get("options") or {}).get("num_predict") or body.get("max_completion_tokens")
        text = "w " * (cap or 5000)
        if request.url.path == "/api/chat":
            said = {"message": {"role": "assistant", "content": text}, "done": True}
            said |= {"done_reason": "length", "eval_count": cap, "prompt_eval_count": 9}
            return httpx.Response(200, json=said | {"model": "m", "created_at": "2026-01-01"})
        return completion(text, "length", cap or 0)

    return answer


def model_of(provider: str, answer: Answer) -> BaseChatModel:
    if provider == "ollama":
        kwargs = {"transport": httpx.MockTransport(answer)}
        return ChatOllama(model="llama3", client_kwargs=kwargs)
    return ChatOpenAI(model="gpt-4o-mini", **over(answer))


@both_ways
@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("first", ["openai", "ollama"])
def test_a_fallback_of_another_provider_is_capped_by_its_own_name(
    first: str, place: int, way: Way
) -> None:
    second, bodies = {"openai": "ollama", "ollama": "openai"}[first], list[Any]()
    budget = Budget(1000)
    middleware: list[Any] = [ModelFallbackMiddleware(model_of(second, running_on(bodies))), RETRIES]
    middleware.insert(place, TokenBudgetMiddleware(budget))
    down = model_of(first, running_on(bodies, is_down=True))
    out = run(create_agent(down, [], middleware=middleware), ASK, way)
    assert (budget.spent, budget.unknown, out["tokens_spent"]) == (1000, 0, 1000)
    caps = [body.get("options", body) for body in bodies]
    name = "num_predict" if second == "ollama" else "max_completion_tokens"
    assert [cap[name] for cap in caps] == [900, 100]


class Elsewhere(BaseChatModel):
    """A class that names its cap in its own way."""

    max_new_tokens: int | None = None

    @property
    def _llm_type(self) -> str:
        return "elsewhere"

    def _generate(self, *_: Any, max_new_tokens: int = 5000, **__: Any) -> ChatResult:
        usage: Any = {"input_tokens": 9, "output_tokens": max_new_tokens}
        usage["total_tokens"] = 9 + max_new_tokens
        message = AIMessage("w " * max_new_tokens, usage_metadata=usage)
        message.response_metadata = {"finish_reason": "length"}
        return ChatResult(generations=[ChatGeneration(message=message)])


class Routes(AgentMiddleware[Any, Any]):
    """Puts another model in the place of the agent's, in a way that is allowed or deprecated."""

    def __init__(self, model: Any, *, is_set: bool = False) -> None:
        super().__init__()
        self.model, self.is_set = model, is_set

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        if self.is_set:
            with pytest.warns(DeprecationWarning, match="override"):
                request.model = self.model
            return handler(request)
        return handler(request.override(model=self.model))


@pytest.mark.parametrize("is_set", [False, True])
@pytest.mark.parametrize("place", [0, 1])
def test_a_router_keeps_the_budget(place: int, *, is_set: bool) -> None:
    budget, middleware = Budget(1000), [Routes(Elsewhere(), is_set=is_set)]
    middleware.insert(place, TokenBudgetMiddleware(budget))  # type: ignore[arg-type]
    out = create_agent(ScriptedChat(), [], middleware=middleware).invoke(ASK)
    assert budget.spent == out["tokens_spent"] == 1000


def test_a_fallback_with_a_budget_of_its_own_is_counted_in_both() -> None:
    own, run_budget = Budget(200), Budget(1000)
    model = ScriptedChat(solve=runs_on)
    fallback = ModelFallbackMiddleware(BudgetedChatModel(model=model, budget=own, per_call=50))
    down = ScriptedChat(solve=HTTPError(503))
    middleware: list[Any] = [TokenBudgetMiddleware(run_budget), fallback]
    create_agent(down, [], middleware=middleware).invoke(ASK)
    assert [call.cap for call in model.calls] == [50, 50]
    assert own.spent == run_budget.spent == 100


def test_a_fallback_has_the_tools_that_an_agent_binds() -> None:
    budget, once = Budget(200), RetryPolicy(max_retries=0)
    works = ScriptedChat(solve=in_turn(calls("look_up", word="pen"), "21"))
    first, second = (
        BudgetedChatModel(model=model, budget=budget, retry_policy=once)
        for model in (ScriptedChat(solve=HTTPError(503)), works)
    )
    agent: Any = create_agent(first.with_fallbacks([second]), [look_up])  # type: ignore[arg-type]
    assert agent.invoke(ASK)["messages"][-1].text == "21"
    assert budget.spent == works.output_tokens
    works.solve = calls("Pens", number=21)
    typed: Any = first.with_fallbacks([second])
    assert typed.with_structured_output(Pens).invoke(ASKED) == Pens(number=21)


def test_middleware_sees_a_model_of_its_own_class_and_profile() -> None:
    seen: list[Any] = []

    class Looks(AgentMiddleware[Any, Any]):
        def wrap_model_call(self, request: Any, handler: Any) -> Any:
            seen.append(request.model)
            return handler(request)

    bodies: list[Any] = []
    model = model_of("openai", running_on(bodies))
    create_agent(model, [], middleware=[TokenBudgetMiddleware(100), Looks()]).invoke(ASK)
    assert all(isinstance(one, ChatOpenAI) for one in seen)
    assert seen[0].profile == model.profile
    assert seen[0]._llm_type == model._llm_type


@both_ways
def test_a_used_up_budget_is_not_worth_a_retry(way: Way) -> None:
    model, budget = ScriptedChat(), Budget(100)
    budget.charge(95)
    waits = ModelRetryMiddleware(max_retries=3, initial_delay=30, on_failure="error")
    guard = TokenBudgetMiddleware(budget, on_used_up="error")
    with pytest.raises(BudgetUsedUpError):
        run(create_agent(model, [], middleware=[waits, guard]), ASK, way)
    assert model.calls == []
