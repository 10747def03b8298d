"""The runs of the budget torture test in LangChain's world: trees in four hosts, and failures."""
# ruff: noqa: ANN401 -- graphs of other packages

import asyncio
import operator
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Any, TypedDict

import openai
from langchain.agents import create_agent
from langchain.agents.middleware import ModelRetryMiddleware
from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command, Send, interrupt
from scripted_provider import ANSWER, Provider, script

Ask = Callable[[], Awaitable[str]]
ASK = {"messages": [HumanMessage("Go.")]}
THREAD: RunnableConfig = {"configurable": {"thread_id": "1"}, "recursion_limit": 200}
ONCE = script(("delegate", 1, {}))
_PASSING = (openai.APIConnectionError, openai.RateLimitError, openai.InternalServerError)
_RETRY = ModelRetryMiddleware(max_retries=2, retry_on=_PASSING, initial_delay=0, jitter=False)


@dataclass(frozen=True)
class Leaf:
    """What is special about the sub-agents of a failure."""

    padding: int = 0  # characters of their question
    cancel_after: float | None = None
    stream: bool = False
    conversation: str = ""

    @property
    def question(self) -> str:
        return "Go." + " Go on." * (self.padding // 7)


PLAIN = Leaf()


class Texts(TypedDict):
    """The state of the plain graphs."""

    messages: Annotated[list[Any], operator.add]


def agent(  # noqa: PLR0913, PLR0917 -- the parts of an agent
    guard: Any,
    provider: Provider,
    prompt: str = "",
    tools: tuple[Any, ...] = (),
    leaf: Leaf = PLAIN,
    saver: Any = None,
) -> Any:
    return create_agent(
        guard.client(provider, leaf),
        [*tools],
        system_prompt=prompt or None,
        middleware=[_RETRY, *guard.middleware()],
        checkpointer=saver,
    )


def delegate_to(guard: Any, below: Any, leaf: Leaf = PLAIN) -> Any:
    below = counted(guard, below)

    @tool
    async def delegate(config: RunnableConfig) -> str:
        """Let somebody else do it."""
        asked = below.ainvoke({"messages": [HumanMessage(leaf.question)]}, config)
        try:
            out = await asyncio.wait_for(asked, leaf.cancel_after)
        except TimeoutError:
            return "It took too long."
        return str(out["messages"][-1].text)

    return delegate


def counted(guard: Any, graph: Any) -> Any:
    """Return an agent whose runs that the guard ends are counted."""

    async def run(state: Any, config: RunnableConfig) -> Any:
        try:
            out = await graph.ainvoke(state, config)
        except guard.stops:
            guard.refused += 1
            raise
        last = out["messages"][-1]
        guard.refused += not (ANSWER in last.text or last.usage_metadata)
        return out

    return RunnableLambda(run)


def in_create_agent(guard: Any, provider: Provider, wide: int) -> Any:
    between = agent(guard, provider, ONCE, (delegate_to(guard, agent(guard, provider)),))
    lead = script(("delegate", wide, {}))
    return guard.graph(agent(guard, provider, lead, (delegate_to(guard, between),)))


def in_deepagents(guard: Any, provider: Provider, wide: int) -> Any:
    from deepagents import create_deep_agent  # noqa: PLC0415 -- not in every environment

    def deep(prompt: str, below: Any = None) -> Any:
        sub: Any = {"name": "worker", "description": "Works.", "runnable": below}
        return create_deep_agent(
            model=guard.client(provider),
            system_prompt=prompt,
            subagents=[sub] if below else [],
            middleware=[_RETRY, *guard.middleware()],
        )

    task = {"description": "job", "subagent_type": "worker"}
    between = deep(script(("task", 1, task)), counted(guard, deep("")))
    return guard.graph(deep(script(("task", wide, task)), counted(guard, between)))


def in_supervisor(guard: Any, provider: Provider, wide: int) -> Any:
    from langgraph_supervisor import create_supervisor  # noqa: PLC0415

    leaf, lead = agent(guard, provider), script(("delegate", wide, {}))
    workers = [agent(guard, provider, lead, (delegate_to(guard, leaf),)) for _ in range(2)]
    for number, worker in enumerate(workers):
        worker.name = f"worker_{number}"
    rounds = [(f"transfer_to_worker_{number}", 1, dict[str, Any]()) for number in range(2)]
    boss = guard.model(guard.client(provider))
    return guard.graph(create_supervisor(workers, model=boss, prompt=script(*rounds)).compile())


def in_plain_langgraph(guard: Any, provider: Provider, wide: int) -> Any:
    """Nodes that call a model; each branch is one of so many."""
    model = guard.model(guard.client(provider))

    async def call(_: Texts) -> Any:
        return {"messages": [await model.ainvoke("Go.")]}

    async def branch(_: Texts) -> Any:
        with guard.branch(wide):
            return {"messages": (await between.ainvoke({"messages": []}))["messages"][-1:]}

    def level(name: str, node: Any, wide: int) -> Any:
        builder: Any = StateGraph(Texts)
        for one, function in (("begin", call), (name, node), ("answer", call)):
            builder.add_node(one, function)
        builder.add_edge(START, "begin")
        builder.add_conditional_edges("begin", lambda _: [Send(name, {})] * wide, [name])
        builder.add_edge(name, "answer")
        return builder.compile()

    between = level("leaf", call, 1)
    return guard.graph(level("branch", branch, wide))


def in_shared_messages(guard: Any, provider: Provider, wide: int) -> Any:
    """Nodes that ask with a short prompt of their own, and add the reply to shared messages."""
    model, document = guard.model(guard.client(provider)), HumanMessage("A long document. " * 60)

    async def title(_: Texts) -> Any:
        return {"messages": [await model.ainvoke("Name a title.")]}

    async def branch(_: Texts) -> Any:
        with guard.branch(wide):
            return {"messages": [await model.ainvoke("Go.")]}

    async def answer(state: Texts) -> Any:
        prompt = [document, *state["messages"], HumanMessage("Go.")]
        return {"messages": [await model.ainvoke(prompt)]}

    builder: Any = StateGraph(Texts)
    for name, node in (("title", title), ("branch", branch), ("answer", answer)):
        builder.add_node(name, node)
    builder.add_edge(START, "title")
    builder.add_conditional_edges("title", lambda _: [Send("branch", {})] * wide, ["branch"])
    builder.add_edge("branch", "answer")
    return guard.graph(builder.compile())


HOSTS = {
    "create_agent": in_create_agent,
    "deepagents": in_deepagents,
    "supervisor": in_supervisor,
    "plain LangGraph": in_plain_langgraph,
    "shared messages": in_shared_messages,
}


def run(guard: Any, graph: Any) -> Ask:
    """Return one run of a graph in the guard's context."""

    async def ask() -> str:
        with guard.context():
            out = await graph.ainvoke(ASK, THREAD)
        return str(out["messages"][-1].text)

    return ask


def failing(guard: Any, provider: Provider, prompt: str, leaf: Leaf) -> Ask:
    """Return a run of two levels, which a person's answer may interrupt.

    After an interrupt it goes on with new objects, as in another process; a run that is forked goes
    on twice from the same checkpoint.
    """
    saver = InMemorySaver()

    @tool
    def ask_human() -> str:
        """Ask a person."""
        return str(interrupt("May I?"))

    def build(guard: Any) -> Any:
        below = delegate_to(guard, agent(guard, provider, leaf=leaf), leaf)
        return guard.graph(agent(guard, provider, prompt, (below, ask_human), saver=saver))

    async def ask() -> str:
        graph = build(guard)
        with guard.context():
            out = await graph.ainvoke(ASK, THREAD)
        if prompt.count("ask_human") == 1:
            config = next(saver.list(THREAD)).config
            for reply in ("yes", "no"):
                with guard.context():
                    out = await graph.ainvoke(Command(resume=reply), THREAD | config)
        while "__interrupt__" in out:
            again = guard.elsewhere()
            with again.context():
                out = await build(again).ainvoke(Command(resume="yes"), THREAD)
        return str(out["messages"][-1].text)

    return ask if "ask_human" in prompt else run(guard, build(guard))
