"""In LangChain agents: the graph as a tool, and a token budget for the agent's own calls."""
# ruff: noqa: ANN401 -- agents, and what they are called with, have no types worth repeating

from __future__ import annotations

import itertools
import json
from typing import Any

import httpx
import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, ModelRetryMiddleware
from langchain.agents.middleware.types import ModelRequest, ModelResponse
from langchain.agents.structured_output import ProviderStrategy, ToolStrategy
from langchain_core.callbacks import UsageMetadataCallbackHandler
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver

from pb_graph import (
    Budget,
    BudgetedChatModel,
    InputError,
    TokenBudgetMiddleware,
    plan_and_budget_tool,
)
from pb_graph.agents.call import FINISH
from tests.support.agents import ASK, THREAD, Pens, agent_of, always, calls, look_up, tool_call
from tests.support.chat_model import (
    Call,
    HTTPError,
    Reply,
    Said,
    ScriptedChat,
    in_turn,
    runs_on,
    says_nothing,
    thinks_in_vain,
)
from tests.support.clients import ELSEWHERE, completion, over
from tests.support.graphs import Way, both_ways, checked, graph_of, run

TOOL = "plan_and_budget"
PLAN = tool_call(TOOL, question="14 / 2 * 3?")
CACHED = {"type": "text", "text": "Be kind.", "cache_control": {"type": "ephemeral"}}


class TestTool:
    @both_ways
    def test_an_agent_gets_the_answer_and_its_host_the_report(self, way: Way) -> None:
        solver, usage = ScriptedChat(solve="21"), UsageMetadataCallbackHandler()
        agent = create_agent(
            ScriptedChat(solve=in_turn(Reply(tool_calls=[PLAN]), "It buys 21 pens.")),
            [plan_and_budget_tool(graph_of(solver))],
        )
        out = run(agent, ASK, way, config={"callbacks": [usage]})
        (said,) = (message for message in out["messages"] if message.type == "tool")
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


def openai(bodies: list[Any], *, status: int = 200, **own: Any) -> ChatOpenAI:
    """Return OpenAI's client; what it sends is added to `bodies`."""
    text = {"type": "output_text", "text": "21 pens", "annotations": []}
    message = {"type": "message", "id": "m", "role": "assistant", "content": [text]}
    usage = {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11}
    usage |= {"input_tokens": 9, "output_tokens": 2}  # as the responses API says it
    both: Any = {"created_at": 0, "status": "completed", "usage": usage}

    def answer(request: httpx.Request) -> httpx.Response:
        bodies.append(json.loads(request.content))
        if status != 200:
            return httpx.Response(status, json={"error": {"message": "no"}})
        return completion("21 pens", output=[message | {"status": "completed"}], **both)

    return ChatOpenAI(**{"model": "any", **over(answer), **own})


class TestTokenBudget:
    @both_ways
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
        request: Any = ModelRequest(model=ScriptedChat(), messages=[HumanMessage("?")])
        response = TokenBudgetMiddleware(100).wrap_model_call(
            request, lambda _: ModelResponse(result=[said.pop(0)])
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
        model.solve = runs_on
        out = agent.invoke(ASK)
        assert out["structured_response"] is None
        assert out["messages"][-1].response_metadata["budget_used_up"]

    def test_no_call_is_capped_below_what_the_responses_api_takes(self) -> None:
        bodies: list[Any] = []
        model = openai(bodies, use_responses_api=True)
        for total in (15, 17, 18):  # of 17 two are reserved, which leaves 15
            agent_of(model, total).invoke(ASK)
        assert [body["max_output_tokens"] for body in bodies] == [17, 16]

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


RETRIES = ModelRetryMiddleware(max_retries=3, initial_delay=0, jitter=False)


class TestNearerTheModel:
    """Middleware behind ours makes model calls that it was not told of."""

    @both_ways
    def test_a_retry_reserves_tokens_of_its_own(self, way: Way) -> None:
        model = ScriptedChat(solve=in_turn(ConnectionError("lost"), HTTPError(429), "21 pens"))
        budget = Budget(1000)
        ours = TokenBudgetMiddleware(budget, per_call=300)
        out = run(create_agent(model, [], middleware=[ours, RETRIES]), ASK, way)
        assert out["messages"][-1].text == "21 pens"
        assert (budget.spent, budget.unknown, budget.left) == (2, 300, 698)

    def test_retries_end_when_the_budget_is_used_up(self) -> None:
        model, budget = ScriptedChat(solve=ConnectionError("lost")), Budget(700)
        ours = TokenBudgetMiddleware(budget, per_call=300)
        run(create_agent(model, [], middleware=[ours, RETRIES]), ASK)
        assert [call.cap for call in model.calls] == [300, 300, 100]
        assert (budget.spent, budget.unknown, budget.left) == (0, 700, 0)

    @both_ways
    def test_attempts_of_an_outer_middleware_share_the_account(self, way: Way) -> None:
        model = ScriptedChat(solve=in_turn(ConnectionError("lost"), "so " * 500))
        agent = create_agent(model, [], middleware=[RETRIES, TokenBudgetMiddleware(100)])
        out = run(agent, ASK, way)
        assert [call.cap for call in model.calls] == [90, 10]
        assert out["tokens_spent"] == 100  # a lost call counts with its cap

    def test_a_last_answer_that_is_lost_leaves_room_for_another(self) -> None:
        model = ScriptedChat(solve=in_turn(ConnectionError("lost"), "21"))
        budget = Budget(3000)
        budget.reserve(2700).settle(2700)
        agent = create_agent(model, [], middleware=[RETRIES, TokenBudgetMiddleware(budget)])
        assert agent.invoke(ASK)["messages"][-1].text == "21"
        assert [call.cap for call in model.calls] == [268, 32]


class TestHostsOwn:
    """What a host put into a request is there after the middleware, too."""

    @staticmethod
    def body_of(settings: dict[str, Any] | None = None, **own: Any) -> dict[str, Any]:
        bodies: list[Any] = []

        class Sets(AgentMiddleware[Any, Any]):
            def wrap_model_call(self, request: Any, handler: Any) -> Any:
                return handler(request.override(model_settings=settings or {}))

        middleware = [TokenBudgetMiddleware(100), Sets()]
        create_agent(openai(bodies, **own), [], middleware=middleware).invoke(ASK)
        return dict(bodies[0])

    @pytest.mark.parametrize(("limit", "cap"), [(40, 40), (5000, 90)])
    @pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens", "max_output_tokens"])
    def test_the_smaller_of_a_hosts_limit_and_the_cap_is_sent(
        self, name: str, limit: int, cap: int
    ) -> None:
        """Servers of one's own heed the newer name, and we say the older."""
        asked = self.body_of({name: limit, "extra_body": {"my": 1}}, base_url=ELSEWHERE)
        assert {key: asked[key] for key in asked if "max" in key} == {"max_tokens": cap}
        assert asked["my"] == 1
        assert self.body_of(max_completion_tokens=limit)["max_completion_tokens"] == cap

    @pytest.mark.parametrize(("own", "settings"), [({"n": 3}, {}), ({}, {"n": 3})])
    def test_several_answers_in_one_call_are_refused(self, own: Any, settings: Any) -> None:
        with pytest.raises(InputError, match="3 answers may cost 3 caps"):
            self.body_of(settings, **own)

    def test_the_sdk_repeats_no_call_and_streams_report_usage(self) -> None:
        """Retries inside an SDK are billed and cannot be counted."""
        bodies: list[Any] = []
        agent = agent_of(openai(bodies, status=500, base_url=ELSEWHERE), 100)
        with pytest.raises(Exception, match="no"):
            [*agent.stream(ASK, stream_mode="messages")]
        assert [body["stream_options"] for body in bodies] == [{"include_usage": True}]


class TestTheLastAnswer:
    """The finishing call, and what is said of an answer that stays unfinished."""

    def test_tool_calls_and_results_stand_in_it_as_text(self) -> None:
        """Bedrock and its gateways refuse them in a request without tools."""
        model = ScriptedChat(solve=always(40, "21"))
        out = agent_of(model, 300, [look_up]).invoke(ASK)
        last = model.calls[-1].messages
        assert out["messages"][-1].text == "21"
        assert "pen: seven words" in str(last)
        assert FINISH in last[-1].text
        assert not any(isinstance(m, ToolMessage) or getattr(m, "tool_calls", 0) for m in last)

    @pytest.mark.parametrize("last", [calls("look_up", text="hm"), calls("look_up", text=""), ""])
    def test_tool_calls_that_it_asks_for_are_not_made(self, last: Any) -> None:
        out = agent_of(ScriptedChat(solve=always(40, last)), 300, [look_up]).invoke(ASK)
        said = out["messages"][-1]
        assert not said.tool_calls
        assert said.text == "hm" or said.text.startswith("The task is not finished")
        assert said.response_metadata["budget_used_up"]
        assert out["tokens_spent"] <= 300

    @pytest.mark.parametrize("solve", [runs_on, thinks_in_vain])
    def test_an_answer_that_stays_cut_says_so(self, solve: Any) -> None:
        out = agent_of(ScriptedChat(solve=solve), 300).invoke(ASK)
        said = out["messages"][-1]
        marks = {"finish_reason": "length", "budget_used_up": True}
        assert said.response_metadata.items() >= marks.items()
        assert said.text.startswith("and so on" if solve is runs_on else "The task is not finished")
        assert said.usage_metadata["output_tokens"] == out["tokens_spent"] == 300

    def test_workers_are_refused_rather_than_paid_for_calls_that_cannot_help(self) -> None:
        budget, model = Budget(300), ScriptedChat(solve=runs_on)
        budget.charge(285)
        out = BudgetedChatModel(model=model, budget=budget, reserve=0).invoke("Go.")
        assert model.calls == []
        assert "is not finished" in out.text

    @pytest.mark.parametrize("total", [{"total_tokens": 2100}, {"usd": 0.0042}, {"total": 900}])
    def test_a_lead_gets_its_answer_when_its_team_has_spent_the_budget(self, total: Any) -> None:
        prices: Any = {"prices": {"scripted-1": (1.0, 4.0)}} if "usd" in total else {}
        budget = Budget(**total, **prices)
        model = ScriptedChat(solve=lambda c: "21" if "REPORTS" in str(c.messages) else runs_on(c))
        lead = BudgetedChatModel(model=model, budget=budget, per_call=150)
        worker = BudgetedChatModel(model=model, budget=budget, per_call=150, reserve=0)
        task = HumanMessage("Look at every part of the task with care. " * 25)
        first = lead.invoke([task])
        reports = [worker.invoke([task, HumanMessage("A part.")]).text for _ in range(8)]
        said = lead.invoke(
            [task, first, HumanMessage("REPORTS " + " ".join(text[:60] for text in reports))]
        )
        assert said.text == "21"
        assert "is not finished" in reports[-1]
        assert 0.3 * budget.total < budget.spent <= budget.total


@pytest.mark.parametrize("every", [1, 3])
def test_notes_stay_where_they_were_sent(every: int) -> None:
    """A prompt cache knows a prompt by its beginning."""
    looks_up = [calls("look_up", text="hm " * n, word="pen") for n in (10, 11, 12, 380, 14)]
    model = ScriptedChat(solve=in_turn(*looks_up, "done"))
    agent_of(model, 500, [look_up], tell_every=every).invoke(ASK)
    prompts = [[str(m.content) for m in call.messages] for call in model.calls]
    for before, after in itertools.pairwise(prompts[:-1]):
        assert after[: len(before)] == before
