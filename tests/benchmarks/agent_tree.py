"""One budget over trees of agents whose models fail: `python tests/benchmarks/agent_tree.py`.

By default 1,000 runs, a quarter each in deepagents, create_agent, langgraph-supervisor and plain
LangGraph: eight sub-agents at once, three levels deep, and every tenth model call goes wrong
(refused, cut off with a bill, or lost after it was paid). For each host it prints the runs, model
calls, faults, units over the budget, crashes, and runs whose account is not the scripted
provider's, to the unit. The last three must be 0, else it exits with 1. A call that was lost after
it was paid has no bill: its reservation must cover it. ``--unit`` counts completion tokens, all
tokens, or pico-dollars (below which the agents' own budgets stay in completion tokens).
"""
# ruff: noqa: ANN401, S311 -- graphs of other packages; faults are drawn, not secret

import argparse
import asyncio
import operator
import random
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, TypedDict

sys.path.insert(0, str(Path(__file__).parents[2]))
from deepagents import create_deep_agent
from langchain.agents import create_agent
from langchain.agents.middleware import ModelRetryMiddleware
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import tool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.graph import START, StateGraph
from langgraph.types import Send
from langgraph_supervisor import create_supervisor

from pb_graph import Budget, BudgetedChatModel, BudgetUsedUpError, TokenBudgetMiddleware
from pb_graph.budget import current_budget, use_budget
from pb_graph.budget.rates import Bill
from pb_graph.models.client import RetryPolicy, settle_failed
from pb_graph.models.input_bound import bound_input
from tests.support.chat_model import CutOffError, HTTPError

WIDE, PER_CALL, LONGEST = 8, 300, 400
# Completion tokens that eight tool calls have at least: nobody believes a bill below their text.
LEAST_CALLS = 20
PRICES = {"scripted": (1.0, 4.0, 0.1)}
# Totals that are about as scarce as 4,000 completion tokens: prompts count by their bounds.
PER = {"completion tokens": 1, "tokens": 1, "dollars": 10**12}
UNITS = {"completion": 1, "total": 6, "usd": 15}
ASK = {"messages": [HumanMessage("Go.")]}


@dataclass
class Provider:
    """The provider's books of one run."""

    known: list[Bill] = field(default_factory=list)
    lost: list[Bill] = field(default_factory=list)
    calls: int = 0
    faults: int = 0

    async def billed(self, cap: int, size: int, chance: random.Random, share: float) -> Bill:
        """What a call of a prompt of so many bytes cost, or the fault that it ends in."""
        self.calls += 1
        await asyncio.sleep(0)
        given = chance.randrange(1, max(2, size))
        tokens = min(cap, chance.randrange(1, LONGEST))
        bill = Bill("x:scripted", tokens, given, chance.randrange(given + 1))
        if chance.random() >= share:
            self.known.append(bill)
            return bill
        self.faults += 1
        kind = chance.randrange(3)
        if kind == 0:
            raise HTTPError(429)
        if kind == 1:
            self.known.append(Bill("x:scripted", tokens, 9))
            raise CutOffError(tokens)
        self.lost.append(bill)
        msg = "the connection broke"
        raise ConnectionError(msg)


class World:
    """What the models of all hosts share; ``provider`` is a new one for each run."""

    def __init__(self, seed: int, share: float) -> None:
        self.provider = Provider()
        self.chance = random.Random(seed)
        self.share = share


class Model(BaseChatModel):
    """Calls its tools once, together or in turn, if it has any, and then answers."""

    world: Any
    asks: list[dict[str, Any]] = []  # noqa: RUF012 -- pydantic copies it
    in_turn: bool = False
    model_name: str = "scripted"

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self.bind(tools=[convert_to_openai_tool(one) for one in tools], **kwargs)

    def _generate(self, *args: Any, **kwargs: Any) -> ChatResult:
        raise NotImplementedError

    async def _agenerate(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        del stop, run_manager
        world = self.world
        size = sum(len(str(message.content).encode()) for message in messages)
        bill = await world.provider.billed(kwargs["max_tokens"], size, world.chance, world.share)
        is_cut = bill.output < LEAST_CALLS
        own = [call["name"] for call in self.asks]
        rounds = sum(
            bool(m.tool_calls) and m.tool_calls[0]["name"] in own
            for m in messages
            if isinstance(m, AIMessage)
        )
        following = self.asks[rounds : rounds + 1]
        asked = following if self.in_turn else self.asks * (not rounds)
        message = AIMessage(
            "done",
            tool_calls=asked if kwargs.get("tools") and not is_cut else [],
            usage_metadata={
                "input_tokens": bill.input,
                "output_tokens": bill.output,
                "total_tokens": bill.input + bill.output,
                "input_token_details": {"cache_read": bill.cached},
            },
            response_metadata={"finish_reason": "stop"},
        )
        return ChatResult(generations=[ChatGeneration(message=message)])


async def paid(world: World) -> int:
    """A call of a model that nothing looks after: reserved and settled by hand."""
    account = current_budget()
    assert account
    for _ in range(3):
        bound = bound_input(Model(world=world), ASK["messages"])
        with await account.areserve(PER_CALL, at_least=PER_CALL, call=bound) as call:
            try:
                bill = await world.provider.billed(call.tokens, 3, world.chance, world.share)
            except (HTTPError, ConnectionError) as error:
                settle_failed(call, error)
                continue
            call.settle(bill.output, input_tokens=bill.input, cached=bill.cached)
            return bill.output
    return 0


def asks(name: str, times: int, **args: str) -> list[dict[str, Any]]:
    return [
        {"name": name, "args": args, "id": f"{name} {number}", "type": "tool_call"}
        for number in range(times)
    ]


def guards(total: int | Budget) -> list[Any]:
    return [
        ModelRetryMiddleware(max_retries=2, initial_delay=0, jitter=False),
        TokenBudgetMiddleware(total, per_call=PER_CALL),
    ]


def delegating(agent: Any) -> Any:
    @tool
    async def delegate(config: RunnableConfig) -> str:
        """Let somebody else do it."""
        return str((await agent.ainvoke(ASK, config))["messages"][-1].text)

    return delegate


def in_create_agent(world: World, total: int) -> Any:
    leaf = create_agent(Model(world=world), [], middleware=guards(total))
    middle = Model(world=world, asks=asks("delegate", 1))
    between = create_agent(middle, [delegating(leaf)], middleware=guards(total))
    top = Model(world=world, asks=asks("delegate", WIDE))
    return create_agent(top, [delegating(between)], middleware=guards(total))


def in_deepagents(world: World, total: int) -> Any:
    def sub(runnable: Any) -> list[Any]:
        return [{"name": "worker", "description": "Works.", "runnable": runnable}]

    one = {"description": "job", "subagent_type": "worker"}
    leaf = create_deep_agent(model=Model(world=world), middleware=guards(total))
    between = create_deep_agent(
        model=Model(world=world, asks=asks("task", 1, **one)),
        subagents=sub(leaf),
        middleware=guards(total),
    )
    return create_deep_agent(
        model=Model(world=world, asks=asks("task", WIDE, **one)),
        subagents=sub(between),
        middleware=guards(total),
    )


def in_supervisor(world: World, total: int) -> Any:
    leaf = create_agent(Model(world=world), [], middleware=guards(total))
    workers = [
        create_agent(
            Model(world=world, asks=asks("delegate", WIDE)),
            [delegating(leaf)],
            name=f"worker_{number}",
            middleware=guards(total),
        )
        for number in range(2)
    ]
    handed = [asks(f"transfer_to_worker_{number}", 1)[0] for number in range(2)]
    boss = BudgetedChatModel(
        model=Model(world=world, asks=handed, in_turn=True),
        per_call=PER_CALL,
        retry_policy=RetryPolicy(initial_interval=0),
    )
    return create_supervisor(workers, model=boss).compile()  # type: ignore[arg-type]


class Sums(TypedDict):
    """The state of the plain graphs."""

    tokens: Annotated[list[int], operator.add]


def in_plain_langgraph(world: World, _: int) -> Any:
    """Nodes that reserve by hand; each of the eight branches has a grant."""

    async def call(_: Sums) -> Any:
        try:
            return {"tokens": [await paid(world)]}
        except BudgetUsedUpError:
            return {"tokens": [0]}

    def level(name: str, node: Callable[..., Any], wide: int) -> Any:
        builder: Any = StateGraph(Sums)
        builder.add_node("own", call)
        builder.add_node(name, node)
        builder.add_edge(START, "own")
        builder.add_conditional_edges("own", lambda _: [Send(name, {})] * wide, [name])
        return builder.compile()

    between = level("leaf", call, 2)

    async def granted(_: Sums) -> Any:
        account = current_budget()
        assert account
        with account.grant(account.share(1 / WIDE)) as grant, use_budget(grant):
            return await between.ainvoke({"tokens": []})

    return level("branch", granted, WIDE)


HOSTS: dict[str, Callable[[World, int], Any]] = {
    "deepagents": in_deepagents,
    "create_agent": in_create_agent,
    "supervisor": in_supervisor,
    "plain LangGraph": in_plain_langgraph,
}


@dataclass
class Tally:
    """What came of the runs in one host."""

    runs: int = 0
    calls: int = 0
    faults: int = 0
    units: int = 0
    over: int = 0
    crashes: int = 0
    unequal: int = 0


def budget_of(unit: str, total: int) -> Budget:
    """A budget in a unit that is about as scarce as so many completion tokens."""
    if unit == "usd":
        return Budget(usd=total * UNITS[unit] / 1e6, prices=PRICES)
    return Budget(total_tokens=total * UNITS[unit]) if unit == "total" else Budget(total)


async def one(host: str, graph: Any, world: World, budget: Budget, tally: Tally) -> None:
    """One run under a budget of its own."""
    world.provider = provider = Provider()
    given: Any = {"tokens": []} if host == "plain LangGraph" else ASK
    tally.runs += 1
    try:
        with use_budget(budget):
            await graph.ainvoke(given)
    except Exception as error:  # noqa: BLE001 -- that is what is counted
        tally.crashes += 1
        print(f"{host}: {type(error).__name__}: {error}"[:200])
    tally.calls += provider.calls
    tally.faults += provider.faults
    known, lost = (sum(map(budget.rate.cost, bills)) for bills in (provider.known, provider.lost))
    tally.units += known + lost
    figures = (budget.total, budget.spent, budget.unknown)
    total, spent, unknown = (round(figure * PER[budget.unit]) for figure in figures)
    tally.over += max(0, known + lost - total)
    budget.close()  # returns what was set aside for a last answer
    returned = round(budget.left * PER[budget.unit]) == max(0, total - spent - unknown)
    tally.unequal += spent != known or lost > unknown or not returned


def main() -> int:
    """Run all hosts."""
    warnings.filterwarnings("ignore")  # the supervisor package builds on what has moved
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--runs", type=int, default=1000)
    options.add_argument("--budget", type=int, default=4000)
    options.add_argument("--unit", choices=UNITS, default="completion")
    options.add_argument("--faults", type=float, default=0.1)
    options.add_argument("--seed", type=int, default=1)
    chosen = options.parse_args()
    bad = False
    for host, build in HOSTS.items():
        world, tally, began = World(chosen.seed, chosen.faults), Tally(), time.perf_counter()
        graph = build(world, chosen.budget)
        for _ in range(chosen.runs // len(HOSTS)):
            budget = budget_of(chosen.unit, chosen.budget)
            asyncio.run(one(host, graph, world, budget, tally))
        print(f"{host}: {tally}, {(time.perf_counter() - began) / tally.runs:.2f} s a run")
        bad |= bool(tally.over or tally.crashes or tally.unequal)
    return int(bad)


if __name__ == "__main__":
    sys.exit(main())
