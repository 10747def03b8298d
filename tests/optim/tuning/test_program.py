"""Candidates, and `GraphProgram` with DSPy's own optimizers and evaluation."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import dspy
import pytest

from optim.tuning import GraphProgram
from optim.tuning.optimizers import silenced
from optim.tuning.program import DEFAULT_INSTRUCTIONS, predictor_of
from pb_graph import Context, InputError, ModelSetupError, Settings, build_graph
from tests.support.chat_model import HTTPError, ScriptedChat, with_schema
from tests.support.tuning_world import DEV, MINIMAL, TRAIN, examples, original, program_of, world

OWN = DEFAULT_INSTRUCTIONS["decompose"]
PLANNING = {"method": "planned_vanilla", "plan_from": 1}
SOLVING = {"method": "global_budget", "budget": 4000}
LEARN, CHOOSE = examples(TRAIN[:8]), examples(DEV[:12])


def right(gold: Any, pred: Any, trace: Any = None) -> bool:  # noqa: ANN401, ARG001
    return bool(pred.answer.split()[-1:] == [gold.answer])


def bootstrapped(program: GraphProgram) -> GraphProgram:
    with silenced():
        found: GraphProgram = dspy.BootstrapFewShot(metric=right, max_bootstrapped_demos=2).compile(
            program, trainset=LEARN
        )
    return found


def test_identity_is_prompts_and_the_settings_that_bear_on_answers() -> None:
    base = original()
    changed = base.with_instruction("decompose", MINIMAL)
    assert base.identity == original(timeout=5).identity
    assert len({base.identity, original(domain="law").identity, changed.identity}) == 3
    assert changed.with_instruction("decompose", f" {OWN}\n") == base


def test_a_tuned_predictor_is_the_one_that_is_sent() -> None:
    def chosen(tuned: str, **settings: Any) -> str:  # noqa: ANN401
        return predictor_of(Settings(**({"method": "plan_and_budget"} | settings)), tuned)

    assert chosen("decompose", planning="two_call") == "decompose"
    assert chosen("decompose", planning="fused") == "fused"
    assert chosen("estimate", planning="two_call", execution="single_pass") == "estimate"
    with pytest.raises(InputError, match="no 'estimate' prompt to tune; available: none"):
        chosen("estimate", method="concise")


METHODS = ("plan_and_budget", "planned_vanilla", "planned_global_budget", "global_budget")


@pytest.mark.parametrize(
    ("method", "planning", "schedule", "budget"),
    [*itertools.product(METHODS, ("fused", "two_call"), ("uniform", "cosine"), (None, 300))],
)
def test_a_program_opens_exactly_the_prompts_that_its_settings_send(
    method: str, planning: str, schedule: str, budget: int | None
) -> None:
    """A prompt that no call reads would be tuned by DSPy in vain."""
    settings: dict[str, Any] = {"method": method, "planning": planning, "schedule": schedule}
    settings |= {"plan_from": 1} | ({"budget": budget} if budget else {})
    program = program_of(ScriptedChat(), settings=settings)
    with dspy.context(trace=[]):
        program(question=DEV[0].question)
        sent = {id(predictor) for predictor, _, _ in dspy.settings.trace}
    assert sent == {id(predictor) for predictor in program.predictors()}


def test_bootstrapped_demos_are_carried_into_the_planners_prompts() -> None:
    model = world()
    program = bootstrapped(program_of(model))
    assert len([demo for demo in program.decompose.demos if demo.get("augmented")]) == 2
    model.calls.clear()
    assert program(question=DEV[0].question).error is None
    plan = model.calls[-2]
    assert [turn.type for turn in plan.messages] == ["system", *["human", "ai"] * 2, "human"]
    assert "follow a usual plan?" in str(plan.messages[2].text)
    judged = dspy.Evaluate(devset=CHOOSE, metric=right, display_progress=False, num_threads=2)
    assert judged(program).score > 0


async def test_a_program_can_be_awaited() -> None:
    found = await program_of(world()).acall(question=DEV[0].question)
    assert found.error is None
    assert found.tokens > 0


def test_the_solvers_own_answers_become_its_worked_examples() -> None:
    model = world()
    program = bootstrapped(program_of(model, settings=SOLVING))
    model.calls.clear()
    program(question=DEV[0].question, level=1)
    (call,) = model.calls
    shown = [str(turn.text) for turn in call.messages if turn.type == "ai"]
    kept = [demo["solution"] for demo in program.solve.demos if demo.get("augmented")]
    assert shown == kept
    assert len(shown) == 2


@pytest.mark.parametrize("method", ["planned_vanilla", "global_budget"])
def test_rows_of_the_training_data_are_no_demos(method: str, tmp_path: Path) -> None:
    """DSPy adds them as they are; a row's level is no reply of the predictor ``level``."""
    model = ScriptedChat()
    program = program_of(model, settings={"method": method, "plan_from": 1})
    labelled = dspy.LabeledFewShot(k=2).compile(program, trainset=LEARN)
    labelled.save(tmp_path / "program.json")
    said = []
    for one in (program, labelled, GraphProgram(model, planner_program=tmp_path / "program.json")):
        model.calls.clear()
        assert not one(question=DEV[0].question).report["warnings"]
        said.append([[str(turn.text) for turn in call.messages] for call in model.calls])
    assert said[0] == said[1] == said[2]


def test_a_mistyped_model_is_raised_and_no_empty_answer() -> None:
    with pytest.raises(ModelSetupError, match="nosuch"):
        GraphProgram("nosuch:x", settings=PLANNING)(question="What?")


def test_an_answer_that_failed_is_wrong_at_its_cost() -> None:
    found = program_of(ScriptedChat(solve=HTTPError(400)))(question="What?")
    assert (found.answer, found.tokens > 0) == ("", True)


@pytest.mark.parametrize("settings", [PLANNING, SOLVING])
def test_a_graph_loads_what_a_program_saves(tmp_path: Path, settings: dict[str, Any]) -> None:
    path = tmp_path / "best.json"
    program = bootstrapped(program_of(settings=settings))
    program.save(path)
    said = []
    for given in (program, path):
        model = world()
        graph = build_graph(model, planner_program=given, cap_policy=with_schema)
        report = graph.invoke({"question": DEV[0].question, "level": 2})["report"]
        assert report["method"] == settings["method"]
        said.append([(turn.type, str(turn.text)) for turn in model.calls[0].messages])
    assert said[0] == said[1]
    assert program_of(settings=settings).load(path).candidate == program.candidate
    assert program_of(settings=None, planner_program=program).candidate == program.candidate


def test_settings_override_those_of_a_saved_program_one_by_one(tmp_path: Path) -> None:
    path = tmp_path / "saved.json"
    settings = Settings(budget=300, cutoff=700, plan_from=None)
    program_of().program().model_copy(update={"settings": settings}).save(path)
    loaded = GraphProgram(planner_program=path).settings
    assert loaded == settings
    assert loaded.model_fields_set == settings.model_fields_set  # the others follow the domain
    changed = GraphProgram(planner_program=path, settings={"cutoff": 900})
    assert changed.settings == Settings(budget=300, cutoff=900, plan_from=None)


def test_a_graph_and_a_run_take_the_program_as_it_is_now() -> None:
    program, model, asked = program_of(), world(), {"question": DEV[0].question}
    graph = build_graph(model, planner_program=program, cap_policy=with_schema)
    other = build_graph(model, settings=Settings(method="vanilla"), cap_policy=with_schema)
    program.decompose.signature = program.decompose.signature.with_instructions(MINIMAL)
    for out in (graph.invoke(asked), other.invoke(asked, context=Context(planner_program=program))):
        assert out["report"]["method"] == "planned_vanilla"
        assert str(model.calls[-2].messages[0].text).startswith(MINIMAL)
