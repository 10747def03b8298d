"""In LangChain agents: the graph as a tool, and a token budget for the agent's own calls."""
# ruff: noqa: ANN401 -- agents, and what they are called with, have no types worth repeating

from __future__ import annotations

from typing import Any, get_args

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, ModelRetryMiddleware
from langchain.agents.middleware.types import ModelRequest, ModelResponse
from langchain.agents.structured_output import ProviderStrategy, ToolStrategy
from langchain_core.callbacks import UsageMetadataCallbackHandler
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from pydantic import SecretStr

from pb_graph import Budget, InputError, TokenBudgetMiddleware, plan_and_budget_tool
from pb_graph.agents.budgeted_request import FINISH
from pb_graph.budget.bill import Bill
from tests.support.agents import ASK, THREAD, Pens, agent_of, calls, look_up, tool_call
from tests.support.chat_model import (
    Call,
    HTTPError,
    Reply,
    Said,
    ScriptedChat,
    in_turn,
    runs_on,
    says_nothing,
)
from tests.support.graphs import Way, checked, graph_of, run

TOOL = "plan_and_budget"
PLAN = tool_call(TOOL, question="14 / 2 * 3?")
CACHED = {"type": "text", "text": "Be kind.", "cache_control": {"type": "ephemeral"}}


def tool_messages(out: dict[str, Any]) -> list[ToolMessage]:
    return [message for message in out["messages"] if isinstance(message, ToolMessage)]


class TestTool:
    @pytest.mark.parametrize("way", get_args(Way))
    def test_an_agent_gets_the_answer_and_its_host_the_report(self, way: Way) -> None:
        solver, usage = ScriptedChat(solve="21"), UsageMetadataCallbackHandler()
        agent = create_agent(
            ScriptedChat(solve=in_turn(Reply(tool_calls=[PLAN]), "It buys 21 pens.")),
            [plan_and_budget_tool(graph_of(solver))],
        )
        out = run(agent, ASK, way, config={"callbacks": [usage]})
        (said,) = tool_messages(out)
        report = checked(said.artifact)
        assert (said.text, out["messages"][-1].text) == ("21", "It buys 21 pens.")
        assert report["usage"]["output_tokens"] == solver.output_tokens
        agents_own = 4  # 'It buys 21 pens.'
        counted = usage.usage_metadata["scripted-1"]["output_tokens"]
        assert counted == solver.output_tokens + agents_own

    def test_a_question_without_an_answer_is_told_to_the_agent(self) -> None:
        made = plan_and_budget_tool(ScriptedChat(solve=says_nothing))
        said = made.invoke(PLAN)
        assert said.text.startswith("No answer, after ")
        assert checked(said.artifact)["usage"]["calls"] > 0

    @pytest.mark.parametrize("way", get_args(Way))
    def test_each_of_several_calls_may_pause_and_none_is_paid_for_twice(self, way: Way) -> None:
        solver = ScriptedChat(solve="21")
        asks = Reply(
            tool_calls=[tool_call(TOOL, number, question=f"{number}?") for number in (1, 2, 3)]
        )
        agent = create_agent(
            ScriptedChat(solve=in_turn(asks, "It buys 21 pens.")),
            [plan_and_budget_tool(graph_of(solver, review_plan=True))],
            checkpointer=InMemorySaver(),
        )
        asked = run(agent, ASK, way, config=THREAD)["__interrupt__"]
        planned = len(solver.calls)
        answers = Command(resume={one.id: {"plan": one.value["plan"][:1]} for one in asked})
        out = run(agent, answers, way, config=THREAD)
        assert len(asked) == 3
        assert [message.text for message in tool_messages(out)] == ["21"] * 3
        assert len(solver.calls) - planned == len(solver.solving()) == 3


def request_of(model: Any = None, **settings: Any) -> ModelRequest[Any]:
    messages: list[Any] = [HumanMessage("?")]
    return ModelRequest(model=model or ScriptedChat(), messages=messages, model_settings=settings)


class TestTokenBudget:
    @pytest.mark.parametrize("way", get_args(Way))
    def test_a_truncated_answer_is_kept_and_finished(self, way: Way) -> None:
        def solve(call: Call) -> Said:
            return "21 pens" if call.ask.startswith(FINISH) else runs_on(call)

        model = ScriptedChat(solve=solve)
        out = run(agent_of(model, 100, []), ASK, way)
        _, said = out["messages"]
        begun, ending = said.text.split("\n\n")
        assert len(begun.split()) == 90
        assert ending == "21 pens"
        assert begun in model.calls[-1].messages[-2].text
        assert [call.cap for call in model.calls] == [90, 10]
        assert out["tokens_spent"] == said.usage_metadata["output_tokens"] == 92
        assert said.response_metadata["finish_reason"] == "stop"

    def test_tool_calls_of_a_truncated_answer_are_dropped(self) -> None:
        """Of a stream that is cut off, LangChain closes the arguments where they ended."""
        asked = [tool_call("look_up", 1, word="pencil"), tool_call("look_up", 2, word="pen")]
        blocks = [{"type": "tool_use", "id": one["id"], "name": "look_up"} for one in asked]
        metadata = {"stop_reason": "max_tokens"}
        said = [
            AIMessage([CACHED, *blocks], tool_calls=asked, response_metadata=metadata),
            AIMessage("21 pens"),
        ]
        response = TokenBudgetMiddleware(100).wrap_model_call(
            request_of(), lambda _: ModelResponse(result=[said.pop(0)])
        )
        (answer,) = response.model_response.result
        assert isinstance(answer, AIMessage)
        assert answer.tool_calls == []
        assert not any("tool_use" in str(block) for block in answer.content)
        assert answer.text.endswith("21 pens")

    @pytest.mark.parametrize("form", [ProviderStrategy, ToolStrategy])
    def test_a_truncated_typed_answer_is_asked_for_again(self, form: Any) -> None:
        whole = calls("Pens", number=21) if form is ToolStrategy else '{"number": 21}'
        model = ScriptedChat(
            solve=lambda asked: whole if FINISH in str(asked.messages) else runs_on(asked)
        )
        ours = TokenBudgetMiddleware(100)
        agent: Any = create_agent(model, [], response_format=form(Pens), middleware=[ours])
        out = agent.invoke(ASK)
        assert out["structured_response"] == Pens(number=21)
        assert out["tokens_spent"] <= 100
        assert "and so on" not in str(model.calls[-1].messages)

    def test_an_estimate_of_an_answer_without_usage_is_at_most_its_cap(self) -> None:
        budget = Budget(100)
        said = AIMessage("extraordinary " * 50, response_metadata={"finish_reason": "stop"})
        TokenBudgetMiddleware(budget).wrap_model_call(
            request_of(), lambda _: ModelResponse(result=[said])
        )
        assert budget.spent == 90

    def test_no_call_is_capped_below_what_the_responses_api_takes(self) -> None:
        asked: list[int] = []

        def answer(request: Any) -> ModelResponse[Any]:
            asked.append(request.model_settings["max_completion_tokens"])
            return ModelResponse(result=[AIMessage("21 pens")])

        model = ChatOpenAI(model="m", api_key=SecretStr("k"), use_responses_api=True)
        for total in (15, 17, 18):  # of 17 two are reserved, which leaves 15
            TokenBudgetMiddleware(total).wrap_model_call(request_of(model), answer)
        assert asked == [17, 16]

    def test_tokens_spent_count_the_run_and_not_the_thread(self) -> None:
        model = ScriptedChat(solve="two words")
        agent = create_agent(
            model, [], middleware=[TokenBudgetMiddleware(100)], checkpointer=InMemorySaver()
        )
        spent = [agent.invoke(ASK, THREAD)["tokens_spent"] for _ in range(3)]
        assert spent == [2, 2, 2]


@pytest.mark.parametrize(
    "wrong",
    [{"budget": 1}, {"per_call": 0}, {"tell_every": -1}, {"on_used_up": "ask"}, {"reserve": 0}],
)
def test_an_argument_out_of_range_is_refused_by_name(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"^{next(iter(wrong))} must"):
        TokenBudgetMiddleware(**{"budget": 9} | wrong)


class Chooses(AgentMiddleware[Any, Any]):
    """Asks another model something before the agent's own is asked."""

    def __init__(self, model: ScriptedChat) -> None:
        super().__init__()
        self.model = model

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        self.model.invoke("Which tools?")
        return handler(request)


RETRIES = ModelRetryMiddleware(max_retries=3, initial_delay=0, jitter=False)


class TestNearerTheModel:
    """Middleware behind ours makes model calls that it was not told of."""

    @pytest.mark.parametrize("way", get_args(Way))
    def test_a_retry_reserves_tokens_of_its_own(self, way: Way) -> None:
        model = ScriptedChat(solve=in_turn(ConnectionError("lost"), HTTPError(429), "21 pens"))
        budget = Budget(1000)
        ours = TokenBudgetMiddleware(budget, per_call=300)
        out = run(create_agent(model, [], middleware=[ours, RETRIES]), ASK, way)
        assert out["messages"][-1].text == "21 pens"
        assert (budget.spent, budget.unknown, budget.left) == (2, 300, 698)

    @pytest.mark.parametrize("way", get_args(Way))
    def test_a_retry_is_not_made_when_nothing_is_left_for_it(self, way: Way) -> None:
        model, budget = ScriptedChat(solve=ConnectionError("lost")), Budget(700)
        ours = TokenBudgetMiddleware(budget, per_call=300)
        run(create_agent(model, [], middleware=[ours, RETRIES]), ASK, way)
        assert [call.cap for call in model.calls] == [300, 300]
        assert (budget.spent, budget.unknown, budget.left) == (0, 600, 100)

    def test_other_calls_of_a_middleware_are_counted(self) -> None:
        model, beside = ScriptedChat(solve="21 pens"), ScriptedChat(solve="look_up and look_down")
        middleware = [TokenBudgetMiddleware(100), Chooses(beside)]
        out = create_agent(model, [look_up], middleware=middleware).invoke(ASK)
        assert out["tokens_spent"] == 5

    @pytest.mark.parametrize("way", get_args(Way))
    def test_attempts_of_an_outer_middleware_share_the_account(self, way: Way) -> None:
        model = ScriptedChat(solve=in_turn(ConnectionError("lost"), "so " * 500))
        agent = create_agent(model, [], middleware=[RETRIES, TokenBudgetMiddleware(100)])
        out = run(agent, ASK, way)
        assert [call.cap for call in model.calls] == [90, 10]
        assert out["tokens_spent"] == 100  # a lost call counts with its cap


class TestHostsOwn:
    """What a host put into a request is there after the middleware, too."""

    @staticmethod
    def passed_on(request: ModelRequest[Any], **options: Any) -> ModelRequest[Any]:
        seen: list[ModelRequest[Any]] = []

        def handler(request: ModelRequest[Any]) -> ModelResponse[Any]:
            seen.append(request)
            return ModelResponse(result=[AIMessage("42")])

        TokenBudgetMiddleware(100, **options).wrap_model_call(request, handler)
        return seen[0]

    @pytest.mark.parametrize("place", ["max_tokens", "max_completion_tokens", "in the request"])
    def test_a_smaller_limit_of_the_host_is_kept(self, place: str) -> None:
        own: dict[str, Any] = {} if place == "in the request" else {place: 40}
        model = ChatOpenAI(model="any", api_key=SecretStr("any"), **own)
        settings = {} if own else {"max_tokens": 40}
        asked = self.passed_on(request_of(model, **settings)).model_settings
        assert {asked[name] for name in asked if "max" in name} == {40}

    @pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens", "max_output_tokens"])
    def test_a_larger_limit_of_the_host_is_replaced_by_the_cap(self, name: str) -> None:
        """Servers of one's own heed the newer name, and we say the older."""
        elsewhere: Any = {"base_url": "http://127.0.0.1:9/v1", "api_key": SecretStr("any")}
        own = {name: 5000, "extra_body": {"my": 1}}
        request = request_of(ChatOpenAI(model="any", **elsewhere), **own)
        body = {"my": 1, "max_tokens": 90}
        assert self.passed_on(request).model_settings == {"extra_body": body}

    @pytest.mark.parametrize(("own", "settings"), [({"n": 3}, {}), ({}, {"n": 3})])
    def test_several_answers_in_one_call_are_refused(self, own: Any, settings: Any) -> None:
        request = request_of(ChatOpenAI(model="any", api_key=SecretStr("any"), **own), **settings)
        with pytest.raises(InputError, match="3 answers may cost 3 caps"):
            self.passed_on(request)

    def test_a_note_to_the_model_comes_behind_the_blocks_that_a_cache_knows(self) -> None:
        state: Any = {"messages": [], "tokens_by_model": {"m": Bill(output=80, input=9).usage()}}
        request = request_of().override(state=state, system_message=SystemMessage([CACHED]))
        said: Any = self.passed_on(request).system_message
        assert said.content[0] == CACHED
        assert said.content[1]["text"].startswith("Remaining budget: 20 tokens")

    def test_the_sdk_repeats_no_call_and_streams_report_usage(self) -> None:
        """Retries inside an SDK are billed and cannot be counted."""
        model = ChatOpenAI(model="any", base_url="http://127.0.0.1:9/v1", api_key=SecretStr("any"))
        asked: Any = self.passed_on(request_of(model)).model
        assert asked.max_retries == asked.root_client.max_retries == 0
        assert asked.stream_usage is True
