"""The entrants of the budget torture test: one class a library, used as its README says.

A guard is one budget of one run. Most of them guard LangChain's agents: they give a middleware, a
wrapped model, a wrapped graph or a context, of which `hosts` builds the runs. A library with agents
of its own overrides `tree` and `failing`.
"""
# ruff: noqa: ANN401, PLC0415 -- other packages' objects, of which an environment has some

import asyncio
import os
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from decimal import Decimal
from typing import Any
from uuid import uuid4

import hosts
import httpx
import openai
from hosts import PLAIN, Ask, Leaf
from langchain.agents.middleware import AgentMiddleware, ModelCallLimitMiddleware
from langchain_openai import ChatOpenAI
from langchain_openai.chat_models.base import BaseChatOpenAI
from scripted_provider import MODEL, PER_CALL, PRICE, Provider, http_clients, script

GUARDS: dict[str, type["Guard"]] = {}
_SEND = httpx.AsyncHTTPTransport.handle_async_request


class Guard:
    """No budget at all; and what the entrants have in common.

    Attributes:
        package: Whose version is printed.
        environment: The entrant's folder among the environments; empty: the one that runs.
        units: The units that it can count in, the best one last.
        hosts: The hosts that it can guard.
        stops: What it raises when the budget is used up.
        refused: Runs of agents and sub-agents that it ended.
    """

    package, environment = "langchain", ""
    units: tuple[str, ...] = ("completion", "total", "usd")
    hosts: tuple[str, ...] = ("create_agent", "deepagents")
    stops: tuple[type[Exception], ...] = ()

    def __init__(self, unit: str, total: float) -> None:
        self.unit, self.total, self.refused = unit, total, 0

    @classmethod
    def bare(cls) -> "Guard":
        """Return no guard, in the same kind of agents."""
        return Guard("completion", 10**9)

    def elsewhere(self) -> "Guard":
        """Return the guard of a run that goes on in another process."""
        return type(self)(self.unit, self.total)

    def client(self, provider: Provider, leaf: Leaf = PLAIN) -> Any:
        """Return LangChain's client of the provider."""
        return chat_model(provider, leaf)

    def middleware(self) -> list[Any]:
        """Return the middleware of each agent."""
        return []

    def model(self, model: Any) -> Any:
        """Return a model that no middleware sees, guarded."""
        return model

    def graph(self, graph: Any) -> Any:
        """Return the graph of the lead agent, guarded."""
        return graph

    def context(self) -> AbstractContextManager[Any]:
        """Return a context that is open during the run."""
        return nullcontext()

    def branch(self, wide: int) -> AbstractContextManager[Any]:
        """Return a context for one of several branches of a plain graph."""
        del wide
        return nullcontext()

    def is_unequal(self, known: int, lost: int) -> bool:
        """Return whether the account at the end is not the provider's bill."""
        del known, lost
        return False

    def tree(self, host: str, provider: Provider, wide: int) -> Ask:
        """Return a run of three levels in one host, with so many sub-agents at once."""
        return hosts.run(self, hosts.HOSTS[host](self, provider, wide))

    def failing(self, provider: Provider, prompt: str, leaf: Leaf) -> Ask:
        """Return a run of two levels in which something goes wrong."""
        return hosts.failing(self, provider, prompt, leaf)


def entrant(name: str) -> Callable[[type[Guard]], type[Guard]]:
    def enter(kind: type[Guard]) -> type[Guard]:
        GUARDS[name] = kind
        return kind

    return enter


def chat_model(provider: Provider, leaf: Leaf, kind: type[Any] = ChatOpenAI, **options: Any) -> Any:
    """Return LangChain's client of the provider, capped as every README advises."""
    if leaf.conversation:
        kept = {"previous_response_id": leaf.conversation}
        options |= {"use_responses_api": True, "model_kwargs": kept}
    if (key := str((leaf, kind, options))) not in provider.clients:
        blocking, awaited = http_clients(provider)
        own = {"http_client": blocking, "http_async_client": awaited, "streaming": leaf.stream}
        provider.clients[key] = kind(
            **{"model": MODEL, "api_key": "none", "max_tokens": PER_CALL, **own, **options}
        )
    return provider.clients[key]


@entrant("ours")
class Ours(Guard):
    """Plan-and-Budget: reserves, shrinks a call, and keeps a part for the answer."""

    package = "plan-and-budget"
    hosts = ("create_agent", "deepagents", "supervisor", "plain LangGraph", "shared messages")

    def __init__(self, unit: str, total: float) -> None:
        super().__init__(unit, total)
        from pb_graph import Budget
        from pb_graph.errors import InputError

        self.stops = (InputError,)  # a history that only the server knows is refused
        usd = {"usd": total, "prices": {MODEL: PRICE}}
        units: dict[str, Any] = {"total": {"total_tokens": int(total)}, "usd": usd}
        self.budget = Budget(**units.get(unit, {"total": int(total)}))

    def middleware(self) -> list[Any]:
        from pb_graph import TokenBudgetMiddleware

        return [TokenBudgetMiddleware(self.budget, per_call=PER_CALL)]

    def model(self, model: Any) -> Any:
        from pb_graph import BudgetedChatModel
        from pb_graph.models.client import RetryPolicy

        retry = RetryPolicy(max_retries=8, initial_interval=0)  # the agents try as often
        return BudgetedChatModel(model=model, per_call=PER_CALL, retry_policy=retry)

    def context(self) -> AbstractContextManager[Any]:
        from pb_graph.budget import use_budget

        return use_budget(self.budget)

    def branch(self, wide: int) -> AbstractContextManager[Any]:
        from pb_graph.budget import use_budget

        part = self.budget.total / wide
        stack = ExitStack()
        grant = stack.enter_context(self.budget.grant(part if self.unit == "usd" else int(part)))
        stack.enter_context(use_budget(grant))
        return stack

    def is_unequal(self, known: int, lost: int) -> bool:
        """Return whether the account is not the bill; a lost call must be covered."""
        scale = 10**12 if self.unit == "usd" else 1
        figures = (self.budget.total, self.budget.spent, self.budget.unknown)
        total, spent, unknown = (round(figure * scale) for figure in figures)
        self.budget.close()  # returns what was set aside for a last answer
        returned = round(self.budget.left * scale) == max(0, total - spent - unknown)
        return spent != known or lost > unknown or not returned


@entrant("none")
class Unguarded(Guard):
    """No budget: what the same runs cost."""


@entrant("LangChain")
class CallLimit(Guard):
    """LangChain's limit of model calls, in each agent: it counts nothing else."""

    units = ("completion",)

    def middleware(self) -> list[Any]:
        return [ModelCallLimitMiddleware(run_limit=max(1, int(self.total) // PER_CALL))]


@entrant("breakerbox")
class Breakerbox(Guard):
    """breakerbox: `guard()` around the graph, as in its quickstart."""

    package = environment = "breakerbox"
    units = ("usd",)

    def __init__(self, unit: str, total: float) -> None:
        super().__init__(unit, total)
        from breakerbox.guard import BudgetKilled

        self.stops = (BudgetKilled,)

    def client(self, provider: Provider, leaf: Leaf = PLAIN) -> Any:
        """Return a client whose cap it finds: it does not know the name that ChatOpenAI sends."""
        return chat_model(provider, leaf, BaseChatOpenAI)

    def graph(self, graph: Any) -> Any:
        from breakerbox import guard

        folder = "/tmp/breakerbox"  # noqa: S108 -- its receipts
        most = {"budget_usd": self.total, "max_hops": 10**6}
        return guard(graph, **most, on_trip="kill", report_dir=folder)


@entrant("token-budget-py")
class TokenBudget(Guard):
    """token-budget-py: a pool; the middleware around it is what its README leaves to the user."""

    package, environment = "token-budget-py", "token-budget"

    def __init__(self, unit: str, total: float) -> None:
        super().__init__(unit, total)
        from token_budget import BudgetExceeded, BudgetPool

        self.stops = (BudgetExceeded,)
        self.pool = BudgetPool(**{"usd_cap" if unit == "usd" else "token_cap": total})

    def middleware(self) -> list[Any]:
        guard = self

        class Reserve(AgentMiddleware):
            async def awrap_model_call(self, request: Any, handler: Any) -> Any:
                given = sum(len(str(one.content)) for one in request.messages) // 4 + 100
                with guard.pool.reserve(**guard.units_of(given, PER_CALL)) as reserved:
                    response = await handler(request)
                    usage = response.result[0].usage_metadata or {}
                    counts = (usage.get("input_tokens", 0), usage.get("output_tokens", 0))
                    reserved.commit(**guard.units_of(*counts))
                    return response

        return [Reserve()]

    def units_of(self, given: int, output: int) -> dict[str, Any]:
        if self.unit == "usd":
            return {"usd": (given * PRICE[0] + output * PRICE[1]) / 1e6}
        return {"tokens": output + (given if self.unit == "total" else 0)}


@entrant("shekel")
class Shekel(Guard):
    """shekel: a context that patches the provider's SDK, as in its README's hard cap."""

    package = environment = "shekel"
    units = ("usd",)

    def __init__(self, unit: str, total: float) -> None:
        super().__init__(unit, total)
        from shekel import BudgetExceededError, budget

        self.stops = (BudgetExceededError,)
        price = {"input": PRICE[0] / 1000, "output": PRICE[1] / 1000}
        self.session: Any = budget(max_usd=total, price_per_1k_tokens=price)

    def context(self) -> AbstractContextManager[Any]:
        return self.session


@entrant("inferrail")
class Inferrail(Guard):
    """inferrail: its gateway inside the process, and a budget in the headers of each call."""

    package = environment = "inferrail"
    units = ("usd",)
    hosts = ("create_agent", "deepagents", "supervisor", "plain LangGraph")
    stops = (openai.APIStatusError,)  # 402

    def __init__(self, unit: str, total: float) -> None:
        super().__init__(unit, total)
        name = {"X-Inferrail-Attribute-Work-Id": uuid4().hex}
        self.headers = {**name, "X-Inferrail-Budget-Usd": f"{total:.6f}"}

    def elsewhere(self) -> Guard:
        """Return the same run: its gateway keeps the budget under the run's id."""
        return self

    def client(self, provider: Provider, leaf: Leaf = PLAIN) -> Any:
        """Return a client of the gateway, whose own calls the provider answers."""
        import inferrail

        async def answer(transport: Any, request: httpx.Request) -> httpx.Response:
            if request.url.host != "api.openai.com":
                return await _SEND(transport, request)
            await request.aread()
            return await provider.answer(request)

        httpx.AsyncHTTPTransport.handle_async_request = answer  # type: ignore[method-assign]
        os.environ |= {"XDG_DATA_HOME": "/tmp/inferrail", "OPENAI_API_KEY": "none"}  # noqa: S108
        own = {"http_client": None, "http_async_client": httpx.AsyncClient()}
        url = inferrail.start()
        return chat_model(provider, leaf, base_url=url, default_headers=self.headers, **own)


@entrant("pydantic-ai")
class PydanticAI(Guard):
    """pydantic-ai: `UsageLimits`, and a usage that sub-agents share, as its documents show."""

    package, environment = "pydantic-ai-slim", "pydantic-ai"
    hosts = ("its own agents",)

    def __init__(self, unit: str, total: float) -> None:
        super().__init__(unit, total)
        from pydantic_ai import UsageLimitExceeded, UsageLimits

        self.stops = (UsageLimitExceeded,)
        names = {"completion": "output_tokens_limit", "total": "total_tokens_limit"}
        most: Any = Decimal(str(total)) if unit == "usd" else int(total)
        self.limits = UsageLimits(request_limit=None, **{names.get(unit, "cost_limit"): most})

    @classmethod
    def bare(cls) -> Guard:
        return cls("completion", 10**9)

    def tree(self, host: str, provider: Provider, wide: int) -> Ask:
        del host
        between = self._agent(provider, script(("delegate", 1, {})), self._agent(provider))
        return self._ask(self._agent(provider, script(("delegate", wide, {})), between))

    def failing(self, provider: Provider, prompt: str, leaf: Leaf) -> Ask:
        if "ask_human" in prompt:  # it keeps no checkpoints
            raise NotImplementedError
        return self._ask(self._agent(provider, prompt, self._agent(provider, own=leaf), leaf))

    def _agent(
        self,
        provider: Provider,
        prompt: str = "",
        below: Any = None,
        leaf: Leaf = PLAIN,
        own: Leaf = PLAIN,
    ) -> Any:
        from pydantic_ai import Agent, RunContext
        from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
        from pydantic_ai.providers.openai import OpenAIProvider

        http = http_clients(provider)[1]
        client = openai.AsyncOpenAI(api_key="none", http_client=http, max_retries=8)
        kind: Any = OpenAIResponsesModel if own.conversation else OpenAIChatModel
        told: Any = {"max_tokens": PER_CALL, "openai_previous_response_id": own.conversation}
        model = kind(MODEL, provider=OpenAIProvider(openai_client=client))
        agent: Any = Agent(model, system_prompt=prompt, model_settings=told)

        async def delegate(ctx: RunContext[None]) -> str:
            """Let somebody else do it."""
            shared = {"usage": ctx.usage, "usage_limits": self.limits}
            if leaf.stream:
                async with below.run_stream(leaf.question, **shared) as result:
                    return str(await result.get_output())
            try:
                asked = below.run(leaf.question, **shared)
                return str((await asyncio.wait_for(asked, leaf.cancel_after)).output)
            except TimeoutError:
                return "It took too long."
            except self.stops:
                self.refused += 1
                raise

        if below:
            agent.tool(delegate)
        return agent

    def _ask(self, agent: Any) -> Ask:
        async def ask() -> str:
            return str((await agent.run("Go.", usage_limits=self.limits)).output)

        return ask
