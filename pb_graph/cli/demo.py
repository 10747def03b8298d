"""``pb-graph demo``: one team of agents without a budget, under a check, and under a `Budget`.

Only the model is scripted, so the demo needs no key and no network. A lead hands jobs to eight
sub-agents at once, and each searches again and again. A token costs the same in each run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from time import sleep
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, AgentState
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolCall, UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import BaseTool, tool
from rich.bar import Bar
from rich.console import Console
from rich.live import Live
from rich.table import Column, Table

from pb_graph import Budget, TokenBudgetMiddleware

BUDGET = 4000  # completion tokens of the team
_WORKERS, _SEARCHES = 8, 7
_PAUSE_EVERY, _SECONDS = 200, 0.02  # tokens between two pauses, and the length of a pause
_BAR, _SCALE = 30, 3 * BUDGET  # characters of a full bar, and the tokens that fill it
_ANSWER = "Supplier 5 is the cheapest. Final answer: supplier 5"


class _ScriptedModel(FakeListChatModel):
    """Calls its tool as often as each of its rounds says, then answers. A token is a word."""

    run: Any  # pays for the tokens
    rounds: Sequence[int]

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Any:  # noqa: ANN401 -- inherited
        return self.bind(tools=[tool.name for tool in tools], **kwargs)

    async def _agenerate(self, messages: list[BaseMessage], *_: Any, **kwargs: Any) -> ChatResult:  # noqa: ANN401
        done = sum(isinstance(message, AIMessage) for message in messages)
        tools = kwargs.get("tools", []) if done < len(self.rounds) else []
        length = 150 + (37 * sum(map(ord, messages[0].text)) + 53 * done) % 100  # by job and round
        words = ["hmm"] * length if tools else self.responses[0].split()
        written = words[: kwargs.get("max_tokens")]
        for _token in written:  # the agents take turns, in the same order each time
            self.run.spent += 1
            if self.run.spent % _PAUSE_EVERY == 0:
                sleep(_SECONDS)  # noqa: ASYNC251 -- with timers, the order would depend on the machine
            await asyncio.sleep(0)
        count, is_cut = len(written), len(written) < len(words)
        jobs = range(self.rounds[done] if tools and not is_cut else 0)
        calls = [ToolCall(name=tools[0], args={"job": f"job {n}"}, id=f"{done} {n}") for n in jobs]
        usage = UsageMetadata(input_tokens=9, output_tokens=count, total_tokens=count + 9)
        end = {"finish_reason": "length" if is_cut else "stop"}
        text = " ".join(written)
        reply = AIMessage(text, tool_calls=calls, usage_metadata=usage, response_metadata=end)
        return ChatResult(generations=[ChatGeneration(message=reply)])


class _CheckAfterEachCall(AgentMiddleware[AgentState[Any], Any]):
    """Add up the bills of all agents, and end the run once they exceed the budget."""

    spent = 0

    async def aafter_model(self, state: AgentState[Any], runtime: object) -> None:  # noqa: ARG002
        message: Any = state["messages"][-1]
        self.spent += message.usage_metadata["output_tokens"]
        if self.spent > BUDGET:
            raise OverflowError


@dataclass
class Run:
    """One run of the team: its middleware, its bill, and whether the lead's answer is complete."""

    name: str
    middleware: Sequence[AgentMiddleware[Any, Any]] = ()
    spent: int = 0
    end: str = "no answer"

    async def play(self) -> None:
        """Let the team work until it ends or is stopped."""

        @tool
        async def search(job: str) -> str:
            """Search the web."""
            return f"{job}: nothing new"

        @tool
        async def delegate(job: str) -> str:
            """Hand a job to a sub-agent."""
            return await ask(job, search, [1] * _SEARCHES, f"{job} is done")

        async def ask(job: str, its_tool: BaseTool, rounds: list[int], answer: str) -> str:
            model = _ScriptedModel(run=self, rounds=rounds, responses=[answer])
            agent = create_agent(model, [its_tool], middleware=self.middleware)
            out = await agent.ainvoke({"messages": [HumanMessage(job)]})
            return str(out["messages"][-1].text)

        with suppress(OverflowError):
            reply = await ask("Go.", delegate, [_WORKERS], _ANSWER)
            self.end = "an answer" if reply.endswith(_ANSWER) else self.end


def draw(runs: Sequence[Run]) -> Table:
    """Draw a bar for each run, in red once it is above the budget."""
    title = f"A lead and {_WORKERS} sub-agents at once. Budget: {BUDGET:,} completion tokens"
    spent, over = Column("spent", justify="right"), Column("over", justify="right")
    table = Table("", "", spent, over, "end", box=None, title=title, title_justify="left")
    for run in runs:
        more = max(0, run.spent - BUDGET)
        bar = Bar(_SCALE, 0, run.spent, width=_BAR, color="red" if more else "green")
        table.add_row(run.name, bar, f"{run.spent:,}", f"{more:,}", run.end)
    return table


def play(console: Console) -> list[Run]:
    """Play the three runs on a console, and return them."""
    runs = [Run("no budget"), Run("check after calls", [_CheckAfterEachCall()])]
    runs.append(Run("shared Budget", [TokenBudgetMiddleware(Budget(BUDGET))]))
    with Live(get_renderable=lambda: draw(runs), console=console, transient=True):
        for run in runs:
            asyncio.run(run.play())
    console.print(draw(runs))
    return runs
