"""The planner as a DSPy module: called, tuned, saved and loaded, and its program in graphs."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import dspy
import pytest

from pb_graph import Context, Planner, Settings, build_graph
from pb_graph.errors import InputError, PlannerProgramError
from pb_graph.planner.planner import Decompose, PlannerAdapter, load_planner
from pb_graph.planner.plans import Difficulty, Level, Plan, PlannedStep
from pb_graph.planner.requests import PlannerRequest
from pb_graph.program import PlannerProgram
from pb_graph.styles import Example, Style
from tests.support.chat_model import ScriptedChat
from tests.support.graphs import checked, graph_of, run

STEPS = [
    PlannedStep(question="First?", hint="look", after=[], level=2, credit=30),
    PlannedStep(question="Second?", after=[1], level=3, credit=70),
]
REQUEST: PlannerRequest[Plan] = PlannerRequest("decompose", "plan", {}, "FORM", schema=None)
DEMOS: dict[str, dict[str, Any]] = {
    "decompose": {"plan": Plan(steps=[PlannedStep(question="First?"), PlannedStep(question="2?")])},
    "estimate": {"difficulty": Difficulty(level=2, levels=[2, 3], credits=[30, 70])},
    "fused": {"plan": Plan(steps=STEPS)},
    "level": {"level": Level(level=4)},
    "solve": {"solution": "2"},
}


class Scripted(dspy.utils.DummyLM):  # type: ignore[misc]
    """A stock language model of DSPy that says these replies as they stand."""

    def _format_answer_fields(self, field_names_and_values: dict[str, Any]) -> str:
        return str(field_names_and_values["reply"])


def call(*replies: str, planner: Planner | None = None, **given: Any) -> tuple[Any, list[Any]]:  # noqa: ANN401
    lm = Scripted([{"reply": reply} for reply in replies])
    with dspy.context(lm=lm):
        found = (planner or Planner())(question="What is 6 * 7 + 1?", **given)
    return found, [entry["messages"] for entry in lm.history]


class TestCalled:
    def test_a_call_returns_a_cleaned_plan(self) -> None:
        reply = '{"steps": ["What is 6 * 7? | it is 41", "And 1 more? | add | after 1"]}'
        found, asked = call(reply, level=3, settings=Settings(planning="two_call"))
        assert [step["question"] for step in found.plan] == ["What is 6 * 7?", "And 1 more?"]
        assert [step["hint"] for step in found.plan] == ["", "add"]
        assert [step["depends_on"] for step in found.plan] == [[], [0]]
        assert (found.level, len(found.warnings)) == (3, 1)
        (messages,) = asked
        assert "level 3 of 5" in messages[-1]["content"]

    def test_a_level_that_is_not_given_is_asked_for_before_the_plan(self) -> None:
        found, asked = call("L4", '{"steps": ["a?", "b?"]}')
        assert found.level == 4
        assert "level 4 of 5" in asked[1][-1]["content"]

    def test_a_fused_plan_has_levels_and_credits(self) -> None:
        reply = Plan(steps=STEPS).to_text()
        found, _ = call(reply, level=2, settings=Settings(planning="fused"))
        assert [(step["level"], step["credit"]) for step in found.plan] == [(2, 30), (3, 70)]

    async def test_it_can_be_awaited(self) -> None:
        lm = Scripted([{"reply": "L1"}, {"reply": '["a?"]'}])
        with dspy.context(lm=lm):
            found = await Planner().acall(question="What is 6 * 7?")
        assert (found.level, len(found.plan)) == (1, 1)

    def test_own_instructions_and_a_further_field_are_told(self) -> None:
        planner = Planner()
        signature = planner.fused.signature.with_instructions("Be brief.")
        planner.fused.signature = signature.append("audience", dspy.InputField(), str)
        _, (messages,) = call('["a?"]', planner=planner, level=1, audience="children")
        assert messages[0]["content"].startswith("Be brief.\n")
        assert messages[-1]["content"].endswith("Audience:\nchildren")

    def test_a_graph_can_be_asked_for_the_plan_alone(self) -> None:
        model = ScriptedChat()
        found = graph_of(model, budget=100).plan("How many?", 2)
        assert [step["credit"] for step in found["steps"]] == [50, 50]
        assert (found["level"], found["shares"]) == (2, [50, 50])
        assert found["synthesis"] == "last_step"
        assert found["tokens"] == model.output_tokens
        assert model.solving() == []


def tuned() -> Planner:
    planner = Planner()
    for name, shown in DEMOS.items():
        predictor = getattr(planner, name)
        predictor.signature = predictor.signature.with_instructions(f"Tuned {name}: ünïcode")
        demo = dspy.Example(problem="Old problem", **shown).with_inputs("problem")
        predictor.demos = [demo, {"problem": "Older"} | shown]
    return planner


def prompts(planner: Planner) -> list[list[dict[str, Any]]]:
    return [
        PlannerAdapter(REQUEST).format(predictor.signature, predictor.demos, {"problem": "New"})
        for _, predictor in planner.named_predictors()
        if predictor is not planner.solve  # which is never asked
    ]


class TestSaved:
    def test_all_predictors_are_saved_and_loaded_from_any_form_of_a_program(
        self, tmp_path: Path
    ) -> None:
        planner, path = tuned(), tmp_path / "planner.json"
        planner.save(path)
        shown = (Example("Old problem", "2"), Example("Older", "2"))
        for program in (planner, path, str(path), PlannerProgram.load(path)):
            loaded = load_planner(program)
            assert prompts(loaded) == prompts(planner)
            assert loaded.teaching == Style("Tuned solve: ünïcode", shown)
        assert prompts(load_planner(None)) == prompts(Planner())
        assert Planner().teaching is None

    def test_no_model_is_saved(self) -> None:
        planner = Planner()
        planner.set_lm(dspy.LM("openai/some-model", api_base="http://host"))
        assert "host" not in planner.program().model_dump_json()

    def test_a_program_of_other_fields_is_refused(self) -> None:
        other = Planner()
        other.decompose.signature = Decompose.append("audience", dspy.InputField(), str)
        with pytest.raises(InputError, match="other fields in 'decompose'"):
            Planner().load(other.program())


FRUGAL = "You plan how to solve a problem; you never solve it.\n\nUse two short sub-questions."


def tuned_program() -> PlannerProgram:
    """Return a program with a prompt, settings, and a record, which is carried along unread."""
    planner = Planner()
    planner.decompose.signature = planner.decompose.signature.with_instructions(FRUGAL)
    settings = Settings(schedule="linear", plan_from=1, planning="two_call", budget=300)
    record = {"verdict": "undecided", "candidates": [{"name": "original"}]}
    return planner.program().model_copy(update={"settings": settings, "tuning": record})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "tuned_program.json"
    tuned_program().save(file)
    return file


class TestTheFile:
    def test_what_is_saved_is_loaded_and_saved_again_as_it_is(
        self, path: Path, tmp_path: Path
    ) -> None:
        loaded, again = PlannerProgram.load(path), tmp_path / "again.json"
        assert loaded == tuned_program()
        loaded.save(again)
        assert again.read_bytes() == path.read_bytes()


class TestRefusals:
    @pytest.mark.parametrize(
        "content",
        [
            b"",
            b'{"format": "something else", "state": {}}',
            pickle.dumps({"format": "plan-and-budget planner"}),
        ],
        ids=lambda content: repr(content[:20]),
    )
    def test_other_content_is_no_planner_program(self, tmp_path: Path, content: bytes) -> None:
        path = tmp_path / "tuned_program.json"
        path.write_bytes(content)
        with pytest.raises(PlannerProgramError, match=r"not a planner program.*Planner\.save"):
            PlannerProgram.load(path)

    def test_a_damaged_part_is_named(self, path: Path) -> None:
        damaged = json.loads(path.read_text("utf-8")) | {"settings": {"max_steps": 99}}
        path.write_text(json.dumps(damaged), "utf-8")
        with pytest.raises(InputError, match=r"is damaged: settings\.max_steps: .*to 20"):
            PlannerProgram.load(path)


class TestUse:
    def test_a_graph_plans_with_its_prompts_and_runs_with_its_settings(self, path: Path) -> None:
        for program in (path, tuned_program()):
            model = ScriptedChat()
            report = checked(run(build_graph(model, planner_program=program))["report"])
            assert str(model.calls[1].messages[0].text).startswith(FRUGAL)
            assert (report["schedule"], report["budget"]) == ("linear", 300)

    def test_a_run_may_bring_one_with_the_settings_it_was_measured_with(self, path: Path) -> None:
        model = ScriptedChat()
        report = run(build_graph(model), context=Context(planner_program=path))["report"]
        assert str(model.calls[1].messages[0].text).startswith(FRUGAL)
        assert report["budget"] == 300
        own = Context(planner_program=path, settings=Settings(budget=400))
        assert run(build_graph(model), context=own)["report"]["budget"] == 400

    def test_settings_of_the_caller_come_first(self, path: Path) -> None:
        graph = build_graph(ScriptedChat(), planner_program=path, settings=Settings())
        report = run(graph)["report"]
        assert report["schedule"] == Settings().schedule != "linear"
        assert report["budget"] == Settings().budget_for(3) != 300
