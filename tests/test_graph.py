"""The whole graph on scripted models: every method keeps its account, and within its limit."""

from __future__ import annotations

import re
from typing import Any, get_args, get_type_hints

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from pb_graph import build_graph
from pb_graph.graph import graph
from pb_graph.state import Input, State
from tests.support import worlds
from tests.support.chat_model import Call, ScriptedChat
from tests.support.documents import ROOT
from tests.support.graphs import DIAMOND, QUESTION, Way, both_ways, graph_of, report_of
from tests.support.worlds import followed

METHODS = [
    *({"method": method} for method in worlds.OWN_METHODS if method != "plan_and_budget"),
    {"method": "plan_and_budget", "execution": "single_pass"},
    {"method": "plan_and_budget", "execution": "stepwise"},
]
STEPWISE: dict[str, Any] = {"method": "plan_and_budget", "execution": "stepwise"}


@pytest.mark.parametrize("method", METHODS, ids=lambda m: "-".join(m.values()))
def test_every_method_answers_and_accounts_for_every_call(method: dict[str, Any]) -> None:
    model = ScriptedChat(plan=DIAMOND)
    report = report_of(model, budget=400, **method)
    assert report["answer"] == "Final answer: 42"
    assert report["method"] == method["method"]
    assert report["execution"] == method.get("execution")
    assert report["usage"]["measured"]
    assert report["warnings"] == []


@both_ways
def test_independent_sub_questions_are_solved_at_the_same_time(way: Way) -> None:
    plan = ("First?", *(f"Part {j}? | after 1" for j in range(2, 5)), "All? | after 2, 3, 4")
    model = ScriptedChat(plan=plan, seconds=0.05)
    report_of(model, way=way, **STEPWISE)
    assert model.record.most_at_once == 3


def test_a_step_is_shown_the_answers_it_builds_on_and_no_others() -> None:
    def numbered(call: Call) -> str:
        shown = [str(message.text) for message in call.messages if message.type == "ai"]
        number = re.findall(r"sub-question (\d) now", call.ask)[-1]
        return f"found{number} from {','.join(s.split()[0] for s in shown)}"

    model = ScriptedChat(plan=(*DIAMOND[:3], "Apart? | after 0", "End?"), solve=numbered)
    report = report_of(model, schedule="uniform", budget=500, **STEPWISE)
    said = [step["answer"] for step in report["steps"]]
    assert said[0] == "found1 from"
    assert said[1] == "found2 from found1"
    assert said[2] == "found3 from found1"
    assert said[4].endswith("found1,found2,found3,found4")


def test_the_drawing_in_the_documents_has_ways_of_the_graph() -> None:
    drawing = (ROOT / "docs" / "pictures" / "graph.svg").read_text("utf-8")  # laid out by hand
    edges = build_graph(ScriptedChat()).get_graph().edges
    arrows = set(re.findall(r"<title>(\w+) to (\w+)</title>", drawing))
    assert arrows <= {(edge.source, edge.target) for edge in edges}
    assert {*re.findall(r">(\w+)</text>", drawing)} == {name for arrow in arrows for name in arrow}


@hypothesis_settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(worlds.models(), worlds.settings(), st.sampled_from(get_args(Way)))
def test_in_any_world_the_account_is_right_and_the_first_limit_holds(
    model: ScriptedChat, chosen: dict[str, Any], way: Way
) -> None:
    outcome = followed(model, way, **chosen)
    report, (taken,) = outcome.report, outcome.of("intake")
    assert report["usage"]["calls"] == sum(call.finish is not None for call in model.calls)
    assert report["usage"]["output_tokens"] == model.output_tokens
    assert all(call.cap and 1 <= call.cap <= chosen["cutoff"] for call in model.calls)
    assert model.output_tokens <= report["limit"] <= taken["limit"]


@hypothesis_settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(worlds.models(), worlds.settings(**STEPWISE))
def test_in_any_world_each_step_is_done_once_and_after_those_it_needs(
    model: ScriptedChat, chosen: dict[str, Any]
) -> None:
    outcome = followed(model, **chosen)
    steps = outcome.report["steps"]
    done: set[int] = set()
    for event in outcome.events:
        if event["event"] == "step_started":
            step = steps[event["index"]]
            assert set(step["depends_on"]) <= done
            last = event["index"] == len(steps) - 1
            assert not (last and chosen["synthesis"] == "last_step") or len(done) == len(steps) - 1
        elif event["event"] == "step_done":
            assert event["index"] not in done
            done.add(event["index"])
    assert done == set(range(len(steps)))
    assert all(sum(event["shares"]) == chosen["budget"] for event in outcome.of("allocate")[:1])
    assert all(
        step["depends_on"] == [] or max(step["depends_on"]) < j for j, step in enumerate(steps)
    )


def test_a_server_can_describe_input_output_and_context() -> None:
    assert {"question", "messages", "level"} <= set(graph.get_input_jsonschema()["properties"])
    described = set(graph.get_output_jsonschema()["properties"])
    assert described == {"messages", "answer", "report", "structured_response"}
    context = graph.get_context_jsonschema()
    assert context
    assert set(context["properties"]) >= {"settings", "model", "planner"}
    assert (graph.name, graph.checkpointer) == ("plan_and_budget", None)


def test_a_new_question_finds_every_key_of_the_state_emptied_but_those_it_writes() -> None:
    own = set(get_type_hints(State)) - set(get_type_hints(Input))
    (first, *_) = graph_of(ScriptedChat()).stream(QUESTION, stream_mode="updates")
    assert own - set(first["intake"]) == {"report", "structured_response"}
