"""One budget over a tree of agents: those that delegate, that pause, and graphs and tools."""
# ruff: noqa: ANN401, ASYNC110 -- graphs of other packages; a test that waits has no event to wait for

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessageChunk, ToolMessage
from langchain_core.outputs import ChatGenerationChunk
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, StructuredTool, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt

from pb_graph import (
    Budget,
    BudgetedChatModel,
    InputError,
    TokenBudgetMiddleware,
    plan_and_budget_tool,
)
from tests.support.agents import ASK, THREAD, agent_of, calls
from tests.support.chat_model import (
    Call,
    HTTPError,
    Reply,
    Said,
    Script,
    ScriptedChat,
    runs_on,
    until_forced,
)
from tests.support.graphs import QUESTION, Way, both_ways, checked, codes, graph_of, run


def once(first: Said, then: Script) -> Any:
    """Says the one until a tool has answered, then the other."""

    def said(call: Call) -> Said:
        if not isinstance(call.messages[-1], ToolMessage):
            return first
        return then(call) if callable(then) else then

    return said


@tool
def approve() -> str:
    """Ask a human."""
    return str(interrupt("may I?"))


def words(number: int) -> str:
    return "word " * number


def delegating(agent: Any) -> BaseTool:
    def delegate(config: RunnableConfig) -> str:
        """Let somebody else do it."""
        return str(agent.invoke(ASK, config)["messages"][-1].text)

    async def adelegate(config: RunnableConfig) -> str:
        return str((await agent.ainvoke(ASK, config))["messages"][-1].text)

    return StructuredTool.from_function(delegate, adelegate, name="delegate")


class Tree:
    """Agents that delegate three deep, all with the middleware; and the provider's own count."""

    def __init__(self, total: int | Budget, *, wide: int = 3, own: int = 10_000) -> None:
        self.leaf = ScriptedChat(solve=runs_on)
        self.middle = ScriptedChat(solve=once(calls("delegate", wide), "middle done"))
        self.top = ScriptedChat(solve=once(calls("delegate", wide), "top done"))
        leaf = agent_of(self.leaf, own)
        middle = agent_of(self.middle, own, [delegating(leaf)])
        self.agent = agent_of(self.top, total, [delegating(middle)])

    @property
    def paid(self) -> int:
        return self.leaf.output_tokens + self.middle.output_tokens + self.top.output_tokens


class TestCreateAgent:
    @both_ways
    def test_three_levels_and_nine_leaves_spend_one_budget(self, way: Way) -> None:
        tree = Tree(2000)
        out = run(tree.agent, ASK, way)
        assert out["messages"][-1].text == "top done"
        assert len(tree.leaf.calls) == 18  # each is cut off, and then finishes
        assert len({call.cap for call in tree.middle.calls if len(call.messages) == 1}) == 1
        assert out["tokens_spent"] == tree.paid <= 2000

    @both_ways
    async def test_runs_at_the_same_time_spend_one_budget(self, way: Way) -> None:
        budget = Budget(3000)
        trees = [Tree(budget, own=500) for _ in range(4)]
        if way == "ainvoke":
            await asyncio.gather(*(tree.agent.ainvoke(ASK) for tree in trees))
        else:
            await asyncio.gather(*(asyncio.to_thread(t.agent.invoke, ASK) for t in trees))
        assert budget.spent == sum(tree.paid for tree in trees) <= 3000
        assert budget.left == 3000 - budget.spent

    def test_a_sub_agents_own_budget_does_not_lift_the_cap(self) -> None:
        own, model = Budget(10**6), ScriptedChat(solve=runs_on)
        top = ScriptedChat(solve=once(calls("delegate", 1), "done"))
        out = agent_of(top, 300, [delegating(agent_of(model, own))]).invoke(ASK)
        assert out["tokens_spent"] == model.output_tokens + top.output_tokens <= 300
        assert own.spent == model.output_tokens

    @pytest.mark.parametrize(("arrived", "left"), [(0, 100), (1, 10)])
    async def test_a_stream_that_ends_in_an_error_keeps_its_cap_once_it_has_begun(
        self, arrived: int, left: int
    ) -> None:
        class Breaks(ScriptedChat):
            def _stream(self, *_: Any, **__: Any) -> Iterator[ChatGenerationChunk]:
                for text in ["so "] * arrived:
                    yield ChatGenerationChunk(message=AIMessageChunk(content=text))
                raise HTTPError(503)

        budget = Budget(100)
        with pytest.raises(HTTPError):
            async for _ in agent_of(Breaks(), budget).astream(ASK, stream_mode="messages"):
                pass
        assert (budget.spent, budget.left) == (0, left)

    @both_ways
    def test_a_model_with_a_budget_of_its_own_is_counted_once_in_each(self, way: Way) -> None:
        daily, model = Budget(500), ScriptedChat(solve=runs_on)
        both = BudgetedChatModel(model=model, budget=daily)
        for total, most in [(Budget(300), 300), (daily, 500)]:
            before = model.output_tokens
            out = run(agent_of(both, total), ASK, way)
            assert out["tokens_spent"] == model.output_tokens - before <= most
            assert daily.spent == model.output_tokens <= 500
        assert [call.cap for call in model.calls] == [270, 30, 100, 50]


def in_one_turn(times: int) -> Reply:
    """As many delegations, each to another worker."""
    each = [calls(f"worker_{number}", 1).tool_calls[0] for number in range(times)]
    return Reply("off we go", tool_calls=[one | {"id": one["name"]} for one in each])  # type: ignore[misc]


class TestGrants:
    """A grant of a sub-agent is its own, whoever calls it."""

    def test_workers_of_a_lead_spend_their_whole_grants(self) -> None:
        budget, worker = Budget(4000), ScriptedChat(solve=runs_on)
        top = ScriptedChat(solve=once(in_one_turn(3), "done"))
        grants = [budget.grant(1100) for _ in range(3)]
        made = [delegating(agent_of(worker, grant)) for grant in grants]
        named = [one.model_copy(update={"name": f"worker_{n}"}) for n, one in enumerate(made)]
        out = run(agent_of(top, budget, named), ASK)
        paid = top.output_tokens + worker.output_tokens
        assert out["messages"][-1].text == "done"
        assert [grant.spent for grant in grants] == [1100] * 3
        assert budget.spent == paid <= 4000
        budget.close()
        assert budget.left == 4000 - paid

    @pytest.mark.parametrize("left", [0, 1, 10])
    def test_an_agent_with_a_grant_of_what_is_used_up_still_answers(self, left: int) -> None:
        budget = Budget(100)
        budget.reserve(100 - left).settle(100 - left)
        out = run(agent_of(ScriptedChat(), budget.grant(50)), ASK)
        said = out["messages"][-1]
        assert said.text
        assert said.response_metadata.get("budget_used_up", False) == (left < 10)
        assert budget.spent <= 100


class TestProcesses:
    """A run that pauses goes on in another process, which has not seen what was spent."""

    @both_ways
    def test_sub_agents_resumed_one_by_one_spend_one_budget(self, way: Way) -> None:
        saver, models = InMemorySaver(), []

        def made() -> Any:
            asks = Reply(words(40), tool_calls=calls("approve", 1).tool_calls)
            child = ScriptedChat(solve=once(asks, words(500)))
            top = ScriptedChat(solve=once(calls("delegate", 3), words(500)))
            models.extend([child, top])
            return create_agent(
                top,
                [delegating(agent_of(child, 600, [approve]))],
                middleware=[TokenBudgetMiddleware(600)],
                checkpointer=saver,
            )

        out = run(made(), ASK, way, config=THREAD)
        pauses = [one.id for one in out["__interrupt__"]]
        for one in pauses:
            out = run(made(), Command(resume={one: "yes"}), way, config=THREAD)
        assert out["tokens_spent"] == sum(model.output_tokens for model in models) <= 600
        assert len(pauses) == 3

    def test_tokens_of_a_tool_that_pauses_are_known(self) -> None:
        saver, models = InMemorySaver(), []

        def made() -> Any:
            solver = ScriptedChat(solve=runs_on)
            asks = calls("plan_and_budget", 2, question="6 * 7?")
            top = ScriptedChat(solve=once(asks, words(300)))
            models.extend([solver, top])
            tools = [plan_and_budget_tool(graph_of(solver, review_plan=True))]
            ours = [TokenBudgetMiddleware(700)]
            return create_agent(top, tools, middleware=ours, checkpointer=saver)

        out = run(made(), ASK, config=THREAD)
        while interrupts := out.get("__interrupt__"):
            answers = {each.id: True for each in interrupts}
            out = run(made(), Command(resume=answers), config=THREAD)
        assert len(models) > 2
        assert out["tokens_spent"] == sum(model.output_tokens for model in models) <= 700


class TestGraph:
    def test_a_questions_budget_shrinks_to_what_is_left_and_the_report_says_so(self) -> None:
        budget, model = Budget(100), ScriptedChat(solve=runs_on)
        graph = graph_of(model, limit=budget, execution="stepwise")
        report = checked(run(graph)["report"])
        assert report["usage"]["output_tokens"] == model.output_tokens == budget.spent <= 100
        assert report["budget"] < 100
        assert report["limit"] <= 100
        assert "budget_lowered" in codes(report)

    @pytest.mark.parametrize("enforcement", ["prompt", "force"])
    def test_questions_at_once_never_spend_more(self, enforcement: str) -> None:
        budget, model = Budget(2000), ScriptedChat(solve=runs_on)
        graph = graph_of(model, limit=budget, enforcement=enforcement, cutoff=900)
        graph.batch([QUESTION] * 8, return_exceptions=True)
        assert budget.spent == model.output_tokens <= 2000

    @pytest.mark.parametrize("total", [900, 1300])
    async def test_questions_at_once_leave_each_other_a_forced_ending(self, total: int) -> None:
        budget, model = Budget(total), ScriptedChat(solve=until_forced, seconds=0.02)
        made: Any = {"method": "global_budget", "enforcement": "force", "budget": 600}
        graph = graph_of(model, limit=budget, **made)
        asked = (graph.ainvoke({**QUESTION, "level": 3}) for _ in range(3))
        outs = await asyncio.gather(*asked, return_exceptions=True)
        answers = sum(isinstance(out, dict) for out in outs)
        assert answers == sum(not call.forced for call in model.solving())  # whatever is paid
        assert budget.spent == model.output_tokens <= total

    @pytest.mark.parametrize("of", ["graph", "tool", "model"])
    async def test_a_cancelled_call_keeps_its_cap(self, of: str) -> None:
        budget, model = Budget(5000), ScriptedChat(solve="late", seconds=60)
        graph = graph_of(model, limit=budget, method="vanilla", cutoff=300)
        made: dict[str, Any] = {
            "graph": graph,
            "tool": plan_and_budget_tool(graph),
            "model": BudgetedChatModel(model=model, budget=budget, per_call=300, reserve=0),
        }
        task = asyncio.create_task(made[of].ainvoke("?" if of == "model" else QUESTION))
        while not model.solving():
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (budget.spent, budget.unknown, budget.left) == (0, 300, 4700)


class TestTool:
    @both_ways
    def test_a_number_is_the_budget_of_each_call_which_an_agent_may_lower(self, way: Way) -> None:
        solver = ScriptedChat(solve=runs_on)
        made = plan_and_budget_tool(graph_of(solver, method="vanilla"), limit=70)
        for given, paid in [({}, 70), ({}, 140), ({"limit": 60}, 200)]:
            args = {"question": "2 + 2?", **given}
            asked = {"name": "plan_and_budget", "args": args, "id": "c1", "type": "tool_call"}
            run(made, asked, way)
            assert solver.output_tokens == paid


@pytest.mark.parametrize("given", [{"total": 500}, True])
def test_a_budget_of_another_type_is_refused(given: Any) -> None:
    with pytest.raises(InputError, match="such as Budget"):
        graph_of(ScriptedChat(), limit=given)
    with pytest.raises(InputError, match="such as Budget"):
        plan_and_budget_tool(ScriptedChat(), limit=given)


async def test_tokens_returned_during_a_wait_are_available() -> None:
    budget, model = Budget(1000), ScriptedChat(solve=words(20), seconds=0.02)
    agent = agent_of(model, budget)
    await asyncio.gather(*(agent.ainvoke(ASK) for _ in range(3)))
    assert [call.cap for call in model.calls] == [900, 880, 860]
    assert "Finish this task" not in str([call.messages for call in model.calls])
