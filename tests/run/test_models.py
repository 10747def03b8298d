"""What a run is given: models, tools of the solver, and a type of its answer."""
# ruff: noqa: ANN401 -- models and settings of any kind

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.messages import ToolMessage
from langchain_core.outputs import ChatResult
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt
from pydantic import BaseModel, Field

import optim.rivals  # noqa: F401 -- registers methods that take no tools
from pb_graph import BudgetedChatModel, Context, InputError, ModelSetupError, Settings, build_graph
from pb_graph.run.tools import MAX_RESULT
from tests.support.chat_model import (
    Call,
    HTTPError,
    Reply,
    Said,
    Script,
    ScriptedChat,
    in_turn,
    runs_on,
    with_schema,
)
from tests.support.graphs import CHAIN, QUESTION, Way, both_ways, checked, codes, graph_of, run


def test_a_run_may_name_its_own_models(monkeypatch: pytest.MonkeyPatch) -> None:
    made = {"fake:solver": ScriptedChat(), "fake:planner": ScriptedChat()}
    monkeypatch.setattr("pb_graph.run.parts.resolve", lambda name, _: made[name])
    given = ScriptedChat()
    run(graph_of(given), context=Context(model="fake:solver", planner="fake:planner"))
    assert given.calls == []
    assert {call.role for call in made["fake:solver"].calls} == {"solve"}
    assert "solve" not in {call.role for call in made["fake:planner"].calls}


@pytest.mark.parametrize(
    ("model", "complaint"),
    [
        (RunnableLambda(len), "RunnableLambda is not a chat model"),
        (ScriptedChat() | RunnableLambda(len), "RunnableSequence is not a chat model"),
        (ScriptedChat().with_retry(), r"is not a chat model\..*with_fallbacks"),
        (ScriptedChat().bind_tools([abs]), r"tools in build_graph\(tools="),
        (42, "int is not a chat model"),
        (BudgetedChatModel(model=ScriptedChat(), budget=100), "reserve all tokens twice"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_model_that_cannot_be_used_shows_when_the_graph_is_built(
    model: Any, complaint: str
) -> None:
    with pytest.raises(ModelSetupError, match=complaint):
        build_graph(model)


def test_each_role_may_have_a_model_of_its_own() -> None:
    models = {
        name: ScriptedChat(levels=[1, 5]) for name in ("model", "planner", "estimator", "easy")
    }
    settings = Settings(execution="stepwise", planning="two_call", plan_from=1)
    graph = build_graph(**models, settings=settings, cap_policy=with_schema)
    run(graph)
    assert {name: [call.role for call in model.calls] for name, model in models.items()} == {
        "planner": ["decompose"],
        "estimator": ["estimate", "estimate"],
        "easy": ["solve"],
        "model": ["solve"],
    }
    assert "What is given?" in models["easy"].calls[0].ask


async def test_an_event_loop_goes_on_while_a_local_model_loads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def load(*_: object) -> ScriptedChat:
        time.sleep(0.5)
        return ScriptedChat()

    monkeypatch.setattr("pb_graph.run.parts.resolve", load)
    graph = build_graph("local:smollm2-135m", settings={"method": "vanilla"}, limit=1000)
    first = asyncio.create_task(graph.ainvoke(QUESTION))
    await asyncio.sleep(0.2)
    second, lags = asyncio.create_task(graph.ainvoke(QUESTION)), [0.0]
    while not second.done():
        before = time.perf_counter()
        await asyncio.sleep(0.01)
        lags.append(time.perf_counter() - before)
    assert (await first)["answer"] == (await second)["answer"]
    assert max(lags) < 0.25


ONE_CALL: dict[str, Any] = {"method": "global_budget", "budget": 100}


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def wants(name: str, said: str = "", **args: Any) -> Reply:
    call: Any = {"name": name, "args": args, "id": f"call-{args}"}
    return Reply(f"Let me see. {said}", tool_calls=[call])


def graph_with_tools(model: ScriptedChat, *tools: Callable[..., Any], **settings: Any) -> Any:
    return build_graph(model, settings=Settings(**(ONE_CALL | settings)), tools=tools)


@both_ways
def test_the_solver_gets_the_results_of_the_tools_it_calls(way: Way) -> None:
    model = ScriptedChat(solve=in_turn(wants("add", a=2, b=3), wants("add", a=5, b=1), "It is 6."))
    out = run(graph_with_tools(model, add), QUESTION, way)
    assert out["answer"] == "It is 6."
    results = [said.text for said in model.calls[-1].messages if isinstance(said, ToolMessage)]
    assert results == ["5", "6"]
    assert [t["function"]["name"] for t in model.calls[0].arguments["tools"]] == ["add"]
    assert checked(out["report"])["usage"]["output_tokens"] == 3 + 3 + 3


@both_ways
@pytest.mark.parametrize("reserve", [0, 48])
@pytest.mark.parametrize("execution", ["single_pass", "stepwise"])
def test_calls_of_tools_come_out_of_the_share(execution: str, reserve: int, way: Way) -> None:
    def solve(call: Call) -> Said:
        return "Final answer: 42" if call.forced else wants("add", "hm " * 9, a=1, b=1)

    model = ScriptedChat(solve=solve)
    graph = graph_with_tools(
        model, add, method="plan_and_budget", execution=execution, reserve=reserve
    )
    report = checked(run(graph, QUESTION, way)["report"])
    assert reserve == 0 or "Final" in report["answer"]
    assert model.output_tokens == report["usage"]["output_tokens"] <= report["limit"]
    for step in report["steps"]:
        assert execution == "single_pass" or step["tokens"] <= step["share"]


def test_a_step_that_fails_after_a_tool_has_also_cost_the_call_before_it() -> None:
    said = in_turn(wants("add", a=1, b=1), HTTPError(400), "42")
    stepwise: Any = {"method": "plan_and_budget", "execution": "stepwise", "plan_from": 1}
    graph = graph_with_tools(ScriptedChat(plan=CHAIN, solve=said), add, **stepwise)
    step = checked(run(graph)["report"])["steps"][0]
    assert (step["finish"], step["tokens"]) == ("error", 3)


def test_a_call_that_cannot_be_read_is_answered_beside_one_that_can() -> None:
    """As servers demand of every call in the message that goes back to them."""

    class Stutters(ScriptedChat):
        def _result(self, call: Call) -> ChatResult:
            result = super()._result(call)
            said: Any = result.generations[0].message
            broken = {"name": "add", "args": '{"a": 2', "id": "broken", "error": None}
            said.invalid_tool_calls = [broken] * bool(said.tool_calls)
            return result

    model = Stutters(solve=in_turn(wants("add", a=2, b=3), "It is 5."))
    assert run(graph_with_tools(model, add))["answer"] == "It is 5."
    told = [said for said in model.calls[-1].messages if isinstance(said, ToolMessage)]
    assert [said.text for said in told] == ["5", "add was not called: its arguments are no JSON"]
    assert told[-1].tool_call_id == "broken"


@both_ways
def test_what_goes_wrong_is_told_to_the_model(way: Way) -> None:
    def fails(a: int) -> str:
        """Fail."""
        msg = f"no {a}, Bearer abcdef0123456789"
        raise OSError(msg)

    def talks() -> str:
        """Talk."""
        return "x" * 10**6

    model = ScriptedChat(
        solve=in_turn(
            wants("fails", a=1), wants("fails", b="?"), wants("none"), wants("talks"), "42"
        )
    )
    assert run(graph_with_tools(model, fails, talks), QUESTION, way)["answer"] == "42"
    found = [said.text for said in model.calls[-1].messages if isinstance(said, ToolMessage)]
    assert found[0].startswith("OSError: no 1")
    assert "abcdef" not in found[0]
    assert "a" in found[1]
    assert found[2] == "There is no tool 'none'; there are: fails, talks"
    assert len(found[3]) < MAX_RESULT + 10


@both_ways
def test_a_tool_may_ask_a_human_and_no_other_is_called_again(way: Way) -> None:
    made: list[int] = []

    def count(a: int) -> int:
        """Count."""
        made.append(a)
        return a

    @tool
    def ask(question: str) -> str:
        """Ask the user."""
        return str(interrupt(question))

    model = ScriptedChat(solve=in_turn(wants("count", a=1), wants("ask", question="How?"), "42"))
    graph = build_graph(
        model, settings=Settings(method="vanilla"), tools=[count, ask], checkpointer=InMemorySaver()
    )
    thread = {"configurable": {"thread_id": "1"}}
    (asked,) = run(graph, QUESTION, way, config=thread)["__interrupt__"]
    assert asked.value == "How?"
    assert run(graph, Command(resume="So."), way, config=thread)["answer"] == "42"
    assert made == [1]
    assert model.calls[-1].messages[-1].text == "So."


class Priced(BaseModel):
    total: int = Field(alias="totalPrice")


class Pens(BaseModel):
    """How many pens."""

    pens: int = Field(ge=0)
    why: str = ""


FOUND = {"pens": 21, "why": ""}
TYPED: list[dict[str, Any]] = [
    {"method": "vanilla"},
    {"method": "global_budget", "reserve": 0},
    {"execution": "single_pass"},
    {"execution": "stepwise"},
    {"execution": "stepwise", "synthesis": "call"},
]


def typed_graph(model: ScriptedChat, **settings: Any) -> Any:
    chosen = Settings(**settings)
    return build_graph(model, settings=chosen, cap_policy=with_schema, response_format=Pens)


def test_the_answer_can_be_read_back_by_a_type_with_aliases() -> None:
    model = ScriptedChat(solve='{"totalPrice": 3}')
    found = build_graph(model, response_format=Priced).invoke(QUESTION)["structured_response"]
    assert Priced.model_validate(found).total == 3
    with pytest.raises(InputError, match="must be a pydantic model"):
        build_graph(model, response_format={"type": "object"})  # type: ignore[arg-type]


@pytest.mark.parametrize("settings", TYPED, ids=str)
def test_the_answer_is_json_of_its_type_beside_the_text(settings: Any) -> None:
    model = ScriptedChat(solve='7 groups, so {"pens": "21"}')
    out = run(typed_graph(model, **settings))
    assert out["structured_response"] == FOUND
    assert out["answer"].endswith('7 groups, so {"pens": "21"}')
    closing = model.solving()[-1]
    assert '"minimum": 0' in closing.ask
    assert closing.schema is None


def asked_again(call: Call) -> Said:
    return '{"pens": 21}' if call.forced else "It is twenty-one."


def runs_on_until_forced(call: Call) -> Said:
    return '{"pens": 21}' if call.forced else runs_on(call)


FORCED = [(runs_on_until_forced, settings) for settings in TYPED[2:]]
"""Under a mere cap, a reply that is cut off leaves nothing for another."""


@both_ways
@pytest.mark.parametrize(
    ("solve", "settings"),
    [*((asked_again, settings) for settings in TYPED), *FORCED],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_one_more_call_within_the_limit_is_held_to_the_schema(
    solve: Script, settings: Any, way: Way
) -> None:
    model = ScriptedChat(solve=solve)
    out = run(typed_graph(model, **settings), QUESTION, way)
    assert out["structured_response"] == FOUND
    last = model.solving()[-1]
    assert last.schema == Pens.model_json_schema()
    assert model.output_tokens == checked(out["report"])["usage"]["output_tokens"]
    assert model.output_tokens <= out["report"]["limit"]


@pytest.mark.parametrize("said", ["It is twenty-one.", '{"pens": -1}', '{"pens": [', "[" * 9999])
def test_an_answer_that_does_not_fit_its_type_is_none_and_said(said: str) -> None:
    out = run(typed_graph(ScriptedChat(solve=said)))
    assert out["structured_response"] is None
    assert codes(out["report"])[-1] == "no_structured_response"
