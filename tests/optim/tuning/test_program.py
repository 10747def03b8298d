"""`GraphProgram` with DSPy's own optimizers and evaluation, and what is saved of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dspy
import pytest

from optim.tuning import GraphProgram
from optim.tuning.optimizers import silenced
from pb_graph import (
    Context,
    InputError,
    ModelSetupError,
    PlannerProgramError,
    Settings,
    build_graph,
)
from tests.support.chat_model import HTTPError, ScriptedChat, with_schema
from tests.support.tuning_world import DEV, MINIMAL, TRAIN, world

SOLVING = {"method": "global_budget", "budget": 4000}


def examples(questions: Sequence[Any]) -> list[dspy.Example]:
    return [
        dspy.Example(question=q.question, answer=q.targets[0], level=q.level).with_inputs(
            "question", "level"
        )
        for q in questions
    ]


LEARN, CHOOSE = examples(TRAIN[:8]), examples(DEV[:12])


def right(gold: Any, pred: Any, trace: Any = None) -> bool:  # noqa: ANN401, ARG001
    return bool(pred.answer.split()[-1:] == [gold.answer])


def program_of(model: ScriptedChat | None = None, **settings: Any) -> GraphProgram:  # noqa: ANN401
    chosen = {"plan_from": 1} | (settings or {"method": "planned_vanilla"})
    return GraphProgram(model or world(), settings=chosen, cap_policy=with_schema)


def instruction(program: Any, name: str = "decompose") -> str:  # noqa: ANN401
    return str(getattr(program, name).signature.instructions)


def score(program: GraphProgram) -> float:
    judged = dspy.Evaluate(devset=CHOOSE, metric=right, display_progress=False, num_threads=2)
    return float(judged(program).score)


def bootstrapped(program: GraphProgram) -> GraphProgram:
    with silenced():
        found: GraphProgram = dspy.BootstrapFewShot(metric=right, max_bootstrapped_demos=2).compile(
            program, trainset=LEARN
        )
    return found


def test_a_model_of_dspys_is_refused_and_a_sampler_of_its_programs_is_not() -> None:
    program = program_of()
    with pytest.raises(InputError, match=r"make another, such as GraphProgram\('openai"):
        program.set_lm(dspy.LM("openai/gpt-5-mini"))
    best = dspy.BestOfN(module=program, N=2, reward_fn=lambda *_: 1.0, threshold=1.0)
    with dspy.context(lm=dspy.LM("openai/gpt-5-mini")):
        assert best(question=DEV[0].question).answer


# DSPy's optimizers


def test_bootstrapped_demos_are_carried_into_the_planners_prompts() -> None:
    model = world()
    program = bootstrapped(program_of(model))
    assert len([demo for demo in program.decompose.demos if demo.get("augmented")]) == 2
    model.calls.clear()
    answered = program(question=DEV[0].question)
    assert answered.error is None
    plan, _ = model.calls
    assert [turn.type for turn in plan.messages] == ["system", *["human", "ai"] * 2, "human"]
    assert str(plan.messages[2].text).startswith('{"steps": ["What follows from a usual plan?')
    assert score(program) > 0


@pytest.mark.parametrize("method", ["planned_vanilla", "global_budget"])
def test_rows_of_the_training_data_are_no_demos(method: str, tmp_path: Path) -> None:
    """DSPy adds them as they are; a row's level is no reply of the predictor ``level``."""
    model = ScriptedChat()
    program = program_of(model, method=method)
    labelled = dspy.LabeledFewShot(k=2).compile(program, trainset=LEARN)
    labelled.save(tmp_path / "program.json")
    said = []
    for one in (program, labelled, GraphProgram(model, planner_program=tmp_path / "program.json")):
        model.calls.clear()
        assert not one(question=DEV[0].question).report["warnings"]
        said.append([[str(turn.text) for turn in call.messages] for call in model.calls])
    assert said[0] == said[1] == said[2]


def test_every_open_predictor_is_traced_as_itself() -> None:
    program = program_of(ScriptedChat(), method="plan_and_budget")
    with dspy.context(trace=[]):
        program(question=DEV[0].question)
        traced = [predictor for predictor, _, _ in dspy.settings.trace]
    assert {id(one) for one in traced} == {id(one) for one in program.predictors()}
    assert [name for name, _ in program.named_predictors()] == ["decompose", "estimate", "level"]


def test_the_solvers_own_answers_become_its_worked_examples() -> None:
    model = world()
    program = bootstrapped(program_of(model, **SOLVING))
    assert [name for name, _ in program.named_predictors()] == ["solve"]
    model.calls.clear()
    program(question=DEV[0].question, level=1)
    (call,) = model.calls
    shown = [str(turn.text) for turn in call.messages if turn.type == "ai"]
    kept = [demo["solution"] for demo in program.solve.demos if demo.get("augmented")]
    assert shown == kept
    assert len(shown) == 2


def test_a_level_is_read_as_that_of_a_question_is() -> None:
    found = program_of(ScriptedChat(), method="global_budget")(question="What?", level="Level 4")
    assert found.report["level"] == 4


# Errors


@pytest.mark.parametrize(
    "settings", [{"method": "vanilla"}, {"method": "planned_vanilla", "plan_from": 1}]
)
def test_a_mistyped_model_is_raised_and_no_empty_answer(settings: dict[str, Any]) -> None:
    program = GraphProgram("nosuch:x", settings=settings)
    with pytest.raises(ModelSetupError, match="nosuch"):
        program(question="What?")


def test_an_answer_that_failed_is_wrong_at_what_it_cost() -> None:
    found = program_of(ScriptedChat(solve=HTTPError(400)))(question="What?")
    assert (found.answer, found.tokens > 0) == ("", True)


# What is kept of it


def test_a_graph_takes_the_program_as_it_is_now() -> None:
    program = program_of(method="planned_vanilla", cutoff=3000)
    model = world()
    graph = build_graph(model, planner_program=program, cap_policy=with_schema)
    program.decompose.signature = program.decompose.signature.with_instructions(MINIMAL)
    report = graph.invoke({"question": DEV[0].question})["report"]
    assert report["method"] == "planned_vanilla"
    assert str(model.calls[0].messages[0].text).startswith(MINIMAL)
    own = build_graph(model, planner_program=program, settings=Settings(method="vanilla"))
    assert own.invoke({"question": DEV[0].question})["report"]["method"] == "vanilla"


def test_so_does_a_run() -> None:
    program, model = program_of(method="planned_vanilla"), world()
    graph = build_graph(model, settings=Settings(method="vanilla"), cap_policy=with_schema)
    for words in (MINIMAL, "Plan."):
        program.decompose.signature = program.decompose.signature.with_instructions(words)
        given = {"question": DEV[0].question}
        out = graph.invoke(given, context=Context(planner_program=program))
        assert out["report"]["method"] == "planned_vanilla"
        assert str(model.calls[-2].messages[0].text).startswith(words)


@pytest.mark.parametrize("settings", [{"method": "planned_vanilla", "plan_from": 1}, SOLVING])
def test_what_it_saves_is_what_a_graph_loads(tmp_path: Path, settings: dict[str, Any]) -> None:
    path = tmp_path / "best.json"
    program = bootstrapped(program_of(**settings))
    program.save(path)
    said = []
    for given in (program, path, str(path)):
        model = world()
        graph = build_graph(model, planner_program=given, cap_policy=with_schema)
        report = graph.invoke({"question": DEV[0].question, "level": 2})["report"]
        assert report["method"] == settings["method"]
        said.append([(turn.type, str(turn.text)) for turn in model.calls[0].messages])
    assert said[0] == said[1] == said[2]
    assert program_of(**settings).load(path).candidate == program.candidate


def test_what_is_no_program_is_refused_by_its_type() -> None:
    with pytest.raises(PlannerProgramError, match=r"a GraphProgram, not a Predict"):
        build_graph(world(), planner_program=dspy.Predict("a -> b"))
