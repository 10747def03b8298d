"""Models that think before each reply: their class, their room, their plans and their endings."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from langchain_deepseek import ChatDeepSeek
from langchain_openai import ChatOpenAI

from pb_graph import NoAnswerError, Settings, build_graph
from tests.benchmarks.thinking_world import FORMS, Form, ThinkingWorld
from tests.support.chat_model import ScriptedChat
from tests.support.clients import over
from tests.support.graphs import checked, codes

ASK = {"question": "What is 12 * 7?"}
VISIBLE = [("reasoning_content", ChatDeepSeek), ("tags", None), ("closing_tag", None)]


def report_of(world: ThinkingWorld, name: str = "r1", **given: Any) -> dict[str, Any]:  # noqa: ANN401
    """Answer a question; a part of `given` is the question's, and the rest is the graph's."""
    level = given.pop("level", None)
    model = world.model(name, **given.pop("model", {}))
    asked = ASK if level is None else {**ASK, "level": level}
    return checked(build_graph(model, **given).invoke(asked)["report"])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("level", "think"), [(1, 2000), (3, 500), (5, 2000), (None, 1000)])
def test_the_default_answers_within_its_limit(form: Form, level: int | None, think: int) -> None:
    world = ThinkingWorld(form=form, think=think)
    report = report_of(world, level=level)
    assert report["answer"] == world.answer
    assert (report["model_class"], report["model_class_source"]) == ("thinking", "name")
    assert report["usage"]["output_tokens"] == world.billed <= report["limit"]
    thought = report["usage"]["output_token_details"]
    assert ("reasoning_estimated" in thought) == ("reasoning" not in form)
    assert thought["reasoning"] == pytest.approx(sum(sent.thought for sent in world.log), rel=0.3)


def test_what_is_told_leaves_out_the_thinking_and_nothing_asks_for_steps() -> None:
    planned, single, stepwise = (ThinkingWorld(level=4), ThinkingWorld(), ThinkingWorld(level=4))
    report = report_of(planned, level=4)
    assert (report["budget"], report["execution"]) == (450 + 4950, "single_pass")
    (asked,) = planned.solving()
    assert "1. 225 tokens\n2. 225 tokens" in asked.last
    report_of(single, level=1)
    assert "less than 200 tokens" in single.solving()[0].last
    report_of(stepwise, level=4, settings={"execution": "stepwise", "synthesis": "call"})
    assert "in at most 225 tokens" in stepwise.log[-1].last
    for sent in (asked, *single.solving()):
        assert [message["role"] for message in sent.body["messages"]] == ["user"]
        assert "step by step" not in sent.last


class TestPlanner:
    def test_one_call_gives_level_plan_and_credits(self) -> None:
        world = ThinkingWorld(think=1500, level=5)
        report = report_of(world)
        assert (report["level"], report["level_source"]) == (5, "estimated")
        assert len(report["steps"]) == 2
        assert [sent.call.role for sent in world.log] == ["fused", "solve"]

    def test_an_easy_question_keeps_its_level_and_drops_the_plan(self) -> None:
        world = ThinkingWorld(level=2)
        report = report_of(world)
        assert (report["level"], len(report["steps"]), codes(report)) == (2, 1, [])

    def test_a_plan_that_was_cut_off_is_never_asked_for_at_the_same_cap(self) -> None:
        world = ThinkingWorld(think=2040)
        report = report_of(world, level=4, settings=Settings.paper(schedule="weighted"))
        caps = [sent.cap for sent in world.log if sent.call.role == "decompose"]
        assert (caps, len(report["steps"])) == ([2048, 6144], 2)
        lost = ThinkingWorld(think=9000)
        report_of(lost, level=4, settings={"enforcement": "prompt", "cutoff": 20_000})
        assert [sent.cap for sent in lost.log if sent.call.role == "fused"] == [2048]

    def test_a_planner_that_can_stop_thinking_is_asked_to(self) -> None:
        world = ThinkingWorld(stops=True)
        report = report_of(world, cap_policy="vllm")
        level, plan, answer = world.log
        assert (level.cap, level.thought, plan.thought, answer.thought) == (2, 0, 0, 300)
        assert report["level_source"] == "estimated"

    def test_another_planner_is_asked_as_its_own_class(self) -> None:
        world, planner = ThinkingWorld(), ScriptedChat(level="L4")
        report = report_of(world, planner=planner)
        assert [call.cap for call in planner.calls] == [2, 512]
        assert (len(report["steps"]), len(world.log)) == (2, 1)


class TestEnding:
    @pytest.mark.parametrize(("form", "kind"), VISIBLE)
    def test_the_thought_is_continued_where_the_server_can(self, form: Form, kind: Any) -> None:  # noqa: ANN401
        world = ThinkingWorld(form=form, think=5000, continues=True)
        model = {} if kind is None else {"kind": kind}
        report = report_of(world, level=1, model=model, cap_policy="vllm")
        assert (report["answer"], report["finish"]) == ("Final answer: 84", "forced")
        begun = world.log[-1].body["messages"][-1]
        assert begun["role"] == "assistant"
        assert begun["content"].startswith("<think>\nhmm ")
        assert begun["content"].endswith("hmm\n</think>\n\nFinal answer:")

    def test_elsewhere_a_second_call_is_shown_the_thought_and_does_not_think(self) -> None:
        world = ThinkingWorld(form="tags", think=5000, stops=True)
        report = report_of(world, level=1, cap_policy="vllm")
        *_, shown, asked = world.log[-1].body["messages"]
        assert (report["answer"], world.log[-1].thought) == ("Final answer: 84", 0)
        assert shown["content"].startswith("My thoughts so far:\nhmm ")
        assert asked["content"].startswith("Stop here.")

    def test_a_thought_that_ended_by_itself_and_was_never_closed_is_the_answer(self) -> None:
        model = ScriptedChat(solve="<think>\n12 * 7 is 84.")
        out = build_graph(model, settings=Settings(method="vanilla")).invoke(ASK)
        assert out["answer"] == "12 * 7 is 84."

    def test_a_step_without_a_result_is_a_warning_and_the_next_one_is_told(self) -> None:
        world = ThinkingWorld(think=lambda body: 300 if len(body["messages"]) > 2 else 9000)
        settings = {"execution": "stepwise", "plan_from": 1, "budget": 2000}
        report = report_of(world, level=1, settings=settings, planner=ScriptedChat())
        assert codes(report)[0] == "no_result"
        assert "cut off without a result" in str(world.log[-1].body["messages"])


def test_a_fallback_that_thinks_gets_room_to_think() -> None:
    world = ThinkingWorld(think=1500)
    small = ChatOpenAI(model="qwen2.5-1.5b", **over(lambda _: httpx.Response(401)))
    graph = build_graph(small.with_fallbacks([world.model("deepseek-reasoner")]))
    report = checked(graph.invoke({**ASK, "level": 1})["report"])
    assert (report["answer"], report["model_class"]) == (world.answer, "thinking")
    assert report["usage"]["output_tokens"] == world.billed <= report["limit"]


class TestUnknownClass:
    @pytest.mark.parametrize(("form", "calls"), [("reasoning_content", 3), ("closing_tag", 4)])
    def test_a_model_that_turns_out_to_think_is_asked_again_within_its_limit(
        self, form: Form, calls: int
    ) -> None:
        world = ThinkingWorld(think=1500, form=form)
        graph = build_graph(world.model("some-model"))
        first, second = (checked(graph.invoke({**ASK, "level": 1})["report"]) for _ in range(2))
        assert first["answer"] == second["answer"] == world.answer
        assert first["usage"]["output_tokens"] <= first["limit"]
        assert (first["model_class_source"], second["model_class_source"]) == ("default", "reply")
        assert (second["model_class"], len(world.log)) == ("thinking", calls)

    def test_a_model_that_thinks_without_an_end_costs_no_more_than_the_limit(self) -> None:
        world = ThinkingWorld(think=9000)
        with pytest.raises(NoAnswerError) as caught:
            build_graph(world.model("m")).invoke({**ASK, "level": 2})
        assert world.billed <= caught.value.report["limit"]

    def test_what_stands_before_a_closing_mark_that_comes_later_is_no_answer(self) -> None:
        def think(body: dict[str, Any]) -> int:
            return 10 if body["messages"][-1]["content"].startswith("Stop here") else 1500

        world = ThinkingWorld(think=think, form="closing_tag")
        report = checked(build_graph(world.model("m")).invoke({**ASK, "level": 1})["report"])
        assert (report["answer"], len(world.log)) == ("Final answer: 84", 2)

    def test_a_model_that_does_not_think_gets_no_room_for_it_the_next_time(self) -> None:
        world = ThinkingWorld(think=0)
        graph = build_graph(world.model("some-model"))
        limits = [graph.invoke({**ASK, "level": 1})["report"]["limit"] for _ in range(2)]
        assert limits == [200 + 2200, 200]


def test_what_is_set_beats_the_class() -> None:
    own = {"execution": "stepwise", "planner_cap": 900, "budget": 4000, "style": "prose"}
    world = ThinkingWorld(think=200)
    report = report_of(world, level=4, settings=own, model_class="thinking")
    assert (report["model_class"], report["execution"]) == ("thinking", "stepwise")
    assert (report["budget"], report["style"], world.log[0].cap) == (4000, "prose", 900)
