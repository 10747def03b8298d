"""The budget in any order of LangChain's middleware, over models of any provider."""
# ruff: noqa: ANN401 -- middleware and agents

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, get_args

import httpx
import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import (
    AgentMiddleware,
    ModelFallbackMiddleware,
    ModelRetryMiddleware,
)
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_ollama import ChatOllama
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from pb_graph import Budget, BudgetedChatModel, BudgetUsedUpError, TokenBudgetMiddleware
from tests.support.agents import ASK
from tests.support.chat_model import HTTPError, ScriptedChat, runs_on
from tests.support.graphs import Way, run

WAYS = get_args(Way)
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
        message = {"role": "assistant", "content": text}
        usage = {"prompt_tokens": 9, "completion_tokens": cap, "total_tokens": 9 + (cap or 0)}
        choice = {"index": 0, "finish_reason": "length", "message": message}
        return httpx.Response(200, json={"model": "m", "choices": [choice], "usage": usage})

    return answer


def model_of(provider: str, answer: Answer) -> BaseChatModel:
    transport = httpx.MockTransport(answer)
    if provider == "ollama":
        return ChatOllama(model="llama3", client_kwargs={"transport": transport})
    clients = {"http_client": httpx.Client(transport=transport)}
    clients |= {"http_async_client": httpx.AsyncClient(transport=transport)}
    return ChatOpenAI(model="gpt-4o-mini", api_key=SecretStr("any"), **clients)  # type: ignore[arg-type]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("first", ["openai", "ollama"])
def test_a_fallback_of_another_provider_is_capped_by_its_own_name(
    first: str, place: int, way: Way
) -> None:
    second, bodies = {"openai": "ollama", "ollama": "openai"}[first], list[Any]()
    budget = Budget(1000)
    middleware: list[Any] = [
        ModelFallbackMiddleware(model_of(second, running_on(bodies))),
        RETRIES,
    ]
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


@pytest.mark.parametrize("way", WAYS)
def test_a_used_up_budget_is_not_worth_a_retry(way: Way) -> None:
    model, budget = ScriptedChat(), Budget(100)
    budget.charge(95)
    waits = ModelRetryMiddleware(max_retries=3, initial_delay=30, on_failure="error")
    guard = TokenBudgetMiddleware(budget, on_used_up="error")
    with pytest.raises(BudgetUsedUpError):
        run(create_agent(model, [], middleware=[waits, guard]), ASK, way)
    assert model.calls == []
