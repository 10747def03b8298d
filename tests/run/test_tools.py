"""Tools of the solver: called while it works, paid out of the share of the step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import pytest
from langchain_core.messages import ToolMessage
from langchain_core.outputs import ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt

import optim.rivals  # noqa: F401 -- registers methods that take no tools
from pb_graph import Settings, build_graph
from pb_graph.run.tools import MAX_RESULT
from tests.support.chat_model import Call, Reply, Said, ScriptedChat, in_turn
from tests.support.graphs import QUESTION, Way, checked, run

both_ways = pytest.mark.parametrize("way", get_args(Way))
ONE_CALL: dict[str, Any] = {"method": "global_budget", "budget": 100}


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def wants(name: str, said: str = "", **args: Any) -> Reply:  # noqa: ANN401
    call: Any = {"name": name, "args": args, "id": f"call-{args}"}
    return Reply(f"Let me see. {said}", tool_calls=[call])


def graph_of(model: ScriptedChat, *tools: Callable[..., Any], **settings: Any) -> Any:  # noqa: ANN401
    return build_graph(model, settings=Settings(**(ONE_CALL | settings)), tools=tools)


@both_ways
def test_the_solver_gets_the_results_of_the_tools_it_calls(way: Way) -> None:
    model = ScriptedChat(solve=in_turn(wants("add", a=2, b=3), wants("add", a=5, b=1), "It is 6."))
    out = run(graph_of(model, add), QUESTION, way)
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
    graph = graph_of(model, add, method="plan_and_budget", execution=execution, reserve=reserve)
    report = checked(run(graph, QUESTION, way)["report"])
    assert reserve == 0 or "Final" in report["answer"]
    assert model.output_tokens == report["usage"]["output_tokens"] <= report["limit"]
    for step in report["steps"]:
        assert execution == "single_pass" or step["tokens"] <= step["share"]


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
    assert run(graph_of(model, add))["answer"] == "It is 5."
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
    assert run(graph_of(model, fails, talks), QUESTION, way)["answer"] == "42"
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
