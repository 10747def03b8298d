"""Agents under budgets of other units, paused and raised, and told what is left."""
# ruff: noqa: ANN401 -- agents and their output

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain.agents import create_agent
from langchain.agents.middleware import (
    AgentMiddleware,
    ModelFallbackMiddleware,
    ModelRetryMiddleware,
)
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt

from pb_graph import (
    Budget,
    BudgetedChatModel,
    InputError,
    TokenBudgetMiddleware,
    build_graph,
    plan_and_budget_tool,
)
from pb_graph.agents.call import FINISH
from pb_graph.budget.bill import Bill
from tests.support.agents import ASK, THREAD, agent_of, always, calls, look_up
from tests.support.chat_model import Call, ScriptedChat, in_turn, runs_on
from tests.support.graphs import Way, both_ways, run

PRICES = {"scripted-1": (1.0, 4.0), "dear": (10.0, 40.0)}


def paid(rate: Any, *models: ScriptedChat) -> int:
    """The provider's own bill, in the units of a budget."""
    rows = [(model, call) for model in models for call in model.calls]
    return sum(
        rate.cost(Bill(f"x:{model.model_name}", output=call.output_tokens, input=given_to(call)))
        for model, call in rows
    )


def spent(budget: Budget) -> int:
    return round(budget.spent * budget.rate.scale)


def given_to(call: Call) -> int:
    return sum(len(str(message.content).split()) for message in call.messages)


UNITS = ("total", "total_tokens", "usd")


def amount(unit: str, tokens: int) -> float:
    """Return about so many tokens in a unit; of an agent's, a tenth are completion tokens."""
    return {"total": tokens // 10 + 1, "total_tokens": tokens}.get(unit, tokens * 4e-6)


def budget_of(unit: str, size: int) -> Budget:
    return Budget(**{unit: amount(unit, size)}, prices=PRICES)  # type: ignore[arg-type]


@pytest.mark.parametrize("unit", UNITS)
class TestUnits:
    @both_ways
    def test_an_agent_that_never_ends_stays_within_its_budget_and_answers(
        self, unit: str, way: Way
    ) -> None:
        model, budget = ScriptedChat(solve=always(40)), budget_of(unit, 6000)
        agent = create_agent(model, [look_up], middleware=[TokenBudgetMiddleware(budget)])
        out = run(agent, ASK, way)
        assert FINISH in str(model.calls[-1].messages)
        assert not model.calls[-1].arguments.get("tools")
        assert not out["messages"][-1].tool_calls
        assert out["tokens_spent"] == model.output_tokens
        assert spent(budget) == paid(budget.rate, model)
        assert budget.spent <= budget.total
        assert len(model.calls) > 3


class TestDollars:
    def test_a_fallback_is_reserved_at_its_own_price(self) -> None:
        broken = ScriptedChat(solve=lambda _: ConnectionRefusedError("no"))
        dear = ScriptedChat(solve=runs_on, model_name="dear")
        budget = Budget(usd=0.02, prices=PRICES)
        guards: Any = [TokenBudgetMiddleware(budget, per_call=200), ModelFallbackMiddleware(dear)]
        create_agent(broken, [], middleware=guards).invoke(ASK)
        assert dear.calls
        assert budget.spent + budget.unknown <= budget.total
        assert spent(budget) == paid(budget.rate, dear)

    def test_a_prompt_that_another_middleware_makes_longer_is_bounded(self) -> None:
        class Longer(AgentMiddleware[Any, Any]):
            def wrap_model_call(self, request: Any, handler: Any) -> Any:
                more = [*request.messages, HumanMessage("word " * 2000)]
                return handler(request.override(messages=more))

        model, budget = ScriptedChat(), Budget(total_tokens=1500)
        guards = [TokenBudgetMiddleware(budget), Longer()]
        out = create_agent(model, [], middleware=guards).invoke(ASK)
        assert len(model.calls) == 1  # in which the middle of the prompt is left out
        assert out["messages"][-1].text
        assert budget.spent <= budget.total


def pausing(model: ScriptedChat, budget: Any, saver: Any, **options: Any) -> Any:
    guard = TokenBudgetMiddleware(budget, on_used_up="pause", **options)
    return create_agent(model, [look_up], middleware=[guard], checkpointer=saver)


class TestPausing:
    def paused(self, unit: str = "total_tokens") -> tuple[ScriptedChat, Any, Any, Any]:
        model, saver = ScriptedChat(solve=always(40)), InMemorySaver()
        agent = pausing(model, budget_of(unit, 3300), saver)
        return model, saver, agent, agent.invoke(ASK, THREAD)

    @pytest.mark.parametrize("unit", UNITS)
    def test_a_pause_tells_what_was_spent_and_what_is_asked_next(self, unit: str) -> None:
        model, _, agent, out = self.paused(unit)
        value = out["__interrupt__"][0].value
        assert value["unit"] == {"total": "completion tokens", "usd": "dollars"}.get(unit, "tokens")
        assert value["spent"] + value["left"] == pytest.approx(value["total"])
        assert sum(row["output_tokens"] for row in value["tokens"].values()) == model.output_tokens
        assert "seven words" in value["asked"]
        assert agent.get_state(THREAD).next

    @pytest.mark.parametrize("is_elsewhere", [False, True], ids=["here", "another process"])
    def test_a_raised_run_goes_on_and_pauses_again(self, *, is_elsewhere: bool) -> None:
        model, saver, agent, first = self.paused()
        before = len(model.calls)
        if is_elsewhere:
            agent = pausing(model, budget_of("total_tokens", 3300), saver)
        out = agent.invoke(Command(resume={"action": "raise", "by": 1000}), THREAD)
        assert len(model.calls) > before
        one, two = (found["__interrupt__"][0].value for found in (first, out))
        assert two["total"] == one["total"] + 1000
        assert one["spent"] < two["spent"] <= two["total"]
        assert out["tokens_spent"] == model.output_tokens

    @pytest.mark.parametrize(("action", "further"), [("finish", 1), ("stop", 0)])
    def test_a_run_told_to_end_pays_for_one_answer_at_most(self, action: str, further: int) -> None:
        model, _, agent, _ = self.paused()
        before = len(model.calls)
        out = agent.invoke(Command(resume={"action": action}), THREAD)
        assert len(model.calls) <= before + further
        assert not out["messages"][-1].tool_calls
        said = out["messages"][-1]
        assert ("stopped" in said.text) == (action == "stop")
        is_refused = not said.usage_metadata
        assert said.response_metadata.get("budget_used_up", False) == is_refused
        assert "__interrupt__" not in out


LOOKS_UP = calls("look_up", text="hm " * 400, word="pen")


@pytest.mark.parametrize("is_elsewhere", [False, True], ids=["here", "another process"])
def test_a_raise_counts_once_if_its_node_starts_over(*, is_elsewhere: bool) -> None:
    deaths = [KeyboardInterrupt]  # in the ending of an answer that is cut off

    def solve(call: Call) -> Any:
        if FINISH in str(call.messages):
            if deaths:
                raise deaths.pop()
            return "21"
        looks_up = calls("look_up", text="hm " * 850, word="pen")
        return runs_on(call) if isinstance(call.messages[-1], ToolMessage) else looks_up

    model, saver = ScriptedChat(solve=solve), InMemorySaver()
    agent = pausing(model, 1000, saver, per_call=900)
    assert "__interrupt__" in agent.invoke(ASK, THREAD, durability="sync")
    with pytest.raises(KeyboardInterrupt):
        agent.invoke(Command(resume={"action": "raise", "by": 700}), THREAD, durability="sync")
    if is_elsewhere:
        agent = pausing(model, 1000, saver, per_call=900)
    out = agent.invoke(None, THREAD, durability="sync")
    assert agent.get_state(THREAD).values["budget_total"] == 1700
    assert out["tokens_spent"] <= 1700


@pytest.mark.parametrize("action", ["stop", "raise"])
def test_a_decision_is_read_before_anything_is_spent_in_another_process(action: str) -> None:
    """An attempt whose reply was lost stands in no state, and has cost what it may cost."""

    def made(solve: Any) -> tuple[ScriptedChat, Any]:
        model = ScriptedChat(solve=solve)
        retries = ModelRetryMiddleware(max_retries=2, initial_delay=0, jitter=False)
        guard = TokenBudgetMiddleware(1000, per_call=400, on_used_up="pause")
        return model, create_agent(
            model, [look_up], middleware=[retries, guard], checkpointer=saver
        )

    saver = InMemorySaver()
    _, agent = made(in_turn(LOOKS_UP, ConnectionError("reset by peer")))
    paused = agent.invoke(ASK, THREAD)["__interrupt__"][0].value
    assert paused["spent"] == 900
    model, agent = made("21")
    out = agent.invoke(Command(resume={"action": action, "by": 500}), THREAD)
    assert out["tokens_spent"] == 900 + model.output_tokens
    assert [call.cap for call in model.calls] == ([] if action == "stop" else [400])


@pytest.mark.parametrize(("killed", "in_flight"), [("in a call", 400), ("in the tool", 0)])
def test_a_budget_of_another_process_counts_what_sub_agents_had_spent(
    killed: str, in_flight: int
) -> None:
    saver = InMemorySaver()

    def made(budget: Budget, *, dies: bool) -> Any:
        words = "hm " * 400
        turns = [calls("look_up", text=words, word="pen")] * 2
        dies_in_call = dies and killed == "in a call"
        last = KeyboardInterrupt() if dies_in_call else "21"  # as a process that is killed

        def work(call: Call) -> Any:
            done = sum(isinstance(message, ToolMessage) for message in call.messages)
            if done < len(turns):
                return turns[done]
            if isinstance(last, KeyboardInterrupt):
                raise last
            return last

        below = agent_of(ScriptedChat(solve=work), budget, [look_up], per_call=400)

        @tool
        def delegate(config: RunnableConfig) -> str:
            """Let somebody else do it."""
            text = str(below.invoke(ASK, config)["messages"][-1].text)
            if dies:
                raise KeyboardInterrupt
            return text

        asks = calls("delegate", text="hm " * 100)
        lead = ScriptedChat(solve=lambda c: asks if len(c.messages) == 1 else "done")
        guard = TokenBudgetMiddleware(budget, per_call=400)
        return create_agent(lead, [delegate], middleware=[guard], checkpointer=saver)

    with pytest.raises(KeyboardInterrupt):
        made(Budget(3000), dies=True).invoke(ASK, THREAD, durability="sync")
    budget = Budget(3000)
    agent = made(budget, dies=False)
    out = agent.invoke(None, THREAD, durability="sync")
    assert budget.spent == out["tokens_spent"] == 100 + 800 + in_flight + 1 + 1


@pytest.mark.parametrize("is_elsewhere", [False, True], ids=["here", "another process"])
@pytest.mark.parametrize("drafts", ["a model", "a graph"])
def test_what_a_tool_spent_before_it_asked_a_person_counts(
    drafts: str, *, is_elsewhere: bool
) -> None:
    saver, model = InMemorySaver(), ScriptedChat(solve="a draft of a letter")
    lead = ScriptedChat(solve=lambda call: calls("write") if len(call.messages) == 1 else "done")

    def made() -> Any:
        graph = build_graph(model, settings={"method": "vanilla"})

        @tool
        def write() -> str:
            """Write a letter, which a person signs."""
            if drafts == "a model":
                BudgetedChatModel(model=model).invoke("Write.")
            else:
                graph.invoke({"question": "Write."})
            return str(interrupt("Sign?"))

        guard = TokenBudgetMiddleware(1000)
        return create_agent(lead, [write], middleware=[guard], checkpointer=saver)

    agent = made()
    agent.invoke(ASK, THREAD)
    out = (made() if is_elsewhere else agent).invoke(Command(resume="yes"), THREAD)
    assert out["tokens_spent"] == model.output_tokens + lead.output_tokens
    assert len(model.calls) == 1 + (drafts == "a model")


def test_a_finished_call_of_a_killed_node_is_not_paid_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The ending of an answer that was cut off was under way when the process was killed."""
    saver = InMemorySaver()

    def made(*, dies: bool) -> tuple[ScriptedChat, Any]:
        def solve(call: Call) -> Any:
            if FINISH not in str(call.messages):
                return runs_on(call)
            if dies:
                raise KeyboardInterrupt
            return "21"

        model = ScriptedChat(solve=solve)
        guard = TokenBudgetMiddleware(2000, per_call=400)
        return model, create_agent(model, [], middleware=[guard], checkpointer=saver)

    _, agent = made(dies=True)
    with pytest.raises(KeyboardInterrupt):
        agent.invoke(ASK, THREAD, durability="sync")
    monkeypatch.setattr("pb_graph.agents.middleware._LOADED", "another process")
    model, agent = made(dies=False)
    out = agent.invoke(None, THREAD, durability="sync")
    assert [FINISH in str(call.messages) for call in model.calls] == [True]
    assert out["messages"][-1].text.startswith("and so on")
    assert out["messages"][-1].text.endswith("21")
    assert out["tokens_spent"] == 400 + 400 + 1


DECISIONS = st.lists(
    st.one_of(st.integers(1, 2000), st.sampled_from(["finish", "stop", "raised meanwhile"])),
    max_size=6,
)


@pytest.mark.parametrize("unit", UNITS)
@given(words=st.integers(40, 90), size=st.integers(1500, 6000), decisions=DECISIONS)
@settings(deadline=None, max_examples=10)
def test_no_sequence_of_pauses_and_raises_spends_more_than_the_total(
    unit: str, words: int, size: int, decisions: list[int | str]
) -> None:
    model, budget = ScriptedChat(solve=always(words)), budget_of(unit, size)
    agent = pausing(model, budget, InMemorySaver())
    out = agent.invoke(ASK, THREAD)
    for decision in [*decisions, "stop"]:
        assert spent(budget) == paid(budget.rate, model)
        assert budget.spent <= budget.total
        if "__interrupt__" not in out:
            break
        answer: dict[str, Any] = {"action": decision}
        if not isinstance(decision, str):
            answer = {"action": "raise", "by": amount(unit, decision)}
        elif decision == "raised meanwhile":
            budget.raise_to(budget.total * 2)
            answer = {"action": "finish"}
        out = agent.invoke(Command(resume=answer), THREAD)
    assert out["tokens_spent"] == model.output_tokens
    assert budget.spent <= budget.total


@pytest.mark.parametrize(("every", "told"), [(1, [1, 2, 3]), (2, [2]), (0, [])])
def test_the_model_is_told_what_is_left_after_tool_results(every: int, told: list[int]) -> None:
    looks_up = [calls("look_up", text="hm " * words, word="pen") for words in (10, 11, 12)]
    model = ScriptedChat(solve=in_turn(*looks_up, "done"))
    guard = TokenBudgetMiddleware(1000, tell_every=every)
    out = create_agent(model, [look_up], middleware=[guard]).invoke(ASK)
    lines = [str(call.messages[-1].content).rpartition("\n")[2] for call in model.calls]
    left = [f"Remaining budget: {1000 - spent} tokens of 1000 tokens." for spent in (10, 21, 33)]
    assert [n for n, line in enumerate(lines) if line.startswith("Remaining")] == told
    assert {line for line in lines if line.startswith("Remaining")} <= {*left}
    assert "Remaining" not in str([m for m in out["messages"] if isinstance(m, ToolMessage)])


def test_a_number_that_is_no_number_of_tokens_says_what_was_meant() -> None:
    with pytest.raises(InputError, match=r"Budget\(usd=0.5\)"):
        Budget(0.5)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"settings=Settings\(plan_from=1\)"):
        plan_and_budget_tool(ScriptedChat(), plan_from=1)
