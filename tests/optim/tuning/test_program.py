"""Candidates, and `GraphProgram` and E³ with DSPy's own optimizers and evaluation."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dspy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optim.datasets.dataset import question_of
from optim.e3 import E3Metric, ReferencePoint, e3, metric, surrogate
from optim.scorers import ScorerError, from_dspy
from optim.tuning import GraphProgram
from optim.tuning.optimizers import silenced
from optim.tuning.program import DEFAULT_INSTRUCTIONS, predictor_of
from pb_graph import Context, InputError, ModelSetupError, Settings, build_graph
from tests.support.chat_model import HTTPError, ScriptedChat, with_schema
from tests.support.tuning_world import (
    DEV,
    HELD_OUT,
    MINIMAL,
    TRAIN,
    Exact,
    Style,
    examples,
    language_model,
    original,
    program_of,
    world,
)

OWN = DEFAULT_INSTRUCTIONS["decompose"]
PLANNING = {"method": "planned_vanilla", "plan_from": 1}
SOLVING = {"method": "global_budget", "budget": 4000}
LEARN, CHOOSE = examples(TRAIN[:12]), examples(DEV[:20])


def right(gold: Any, pred: Any, trace: Any = None) -> bool:  # noqa: ANN401, ARG001
    return bool(pred.answer.split()[-1:] == [gold.answer])


def bootstrapped(program: GraphProgram, judge: Callable[..., Any] = right) -> GraphProgram:
    optimizer = dspy.BootstrapFewShot(metric=judge, max_bootstrapped_demos=2)
    with silenced():
        found: GraphProgram = optimizer.compile(program, trainset=LEARN)
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


def test_a_program_that_pauses_for_a_review_is_refused() -> None:
    with pytest.raises(InputError, match="review_plan pauses"):
        program_of(settings={"review_plan": True})


def test_an_answer_that_failed_is_wrong_at_its_cost() -> None:
    found = program_of(ScriptedChat(solve=HTTPError(400)))(question="What?")
    assert (found.answer, found.tokens > 0) == ("", True)


@pytest.mark.parametrize("settings", [PLANNING, SOLVING])
def test_a_graph_loads_what_a_program_saves(tmp_path: Path, settings: dict[str, Any]) -> None:
    path = tmp_path / "best.json"
    program = bootstrapped(program_of(settings=settings))
    program.save(path)
    said = []
    for source in (program, path):
        model = world()
        graph = build_graph(model, planner_program=source, cap_policy=with_schema)
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


FRUGAL, VERBOSE = "Ask MINIMAL questions.", "Ask THOROUGH questions, twice."
ANSWERS = st.lists(st.tuples(st.sampled_from([0, 1e-3, 0.5, 1]), st.floats(1, 1e5)), min_size=1)


# At most 12 lines each, as in docs/tuning.md


def by_gepa(program: GraphProgram, judge: E3Metric, lm: dspy.LM) -> Any:  # noqa: ANN401
    made = dspy.GEPA(
        metric=judge, max_metric_calls=150, reflection_lm=lm, reflection_minibatch_size=8
    )
    return made.compile(program, trainset=LEARN, valset=CHOOSE)


def by_copro(program: GraphProgram, judge: E3Metric, lm: dspy.LM) -> Any:  # noqa: ANN401
    made = dspy.COPRO(metric=judge, prompt_model=lm, breadth=4, depth=1)
    return made.compile(program, trainset=CHOOSE, eval_kwargs={"num_threads": 4})


def by_miprov2(program: GraphProgram, judge: E3Metric, lm: dspy.LM) -> Any:  # noqa: ANN401
    few: Any = {"num_candidates": 4, "max_bootstrapped_demos": 0, "max_labeled_demos": 0}
    made = dspy.MIPROv2(metric=judge, prompt_model=lm, task_model=lm, auto=None, **few)
    whole: Any = {"num_trials": 6, "minibatch": False, "program_aware_proposer": False}
    return made.compile(program, trainset=LEARN, valset=CHOOSE, **whole)


@pytest.mark.parametrize("compiled", [by_gepa, by_copro, by_miprov2])
def test_stock_optimizers_choose_the_frugal_instruction(compiled: Callable[..., Any]) -> None:
    program = program_of()
    judge, lm = metric(program, CHOOSE, Exact()), language_model(VERBOSE, FRUGAL)
    with silenced(), dspy.context(lm=lm, disable_history=True):
        found = compiled(program, judge, lm)
    assert found.decompose.signature.instructions == FRUGAL


def test_the_majority_of_programs_is_that_of_their_answers() -> None:
    both = dspy.Ensemble(reduce_fn=dspy.majority).compile([program_of(), program_of()])
    [asked] = examples(DEV[:1])
    assert both(**asked.inputs()).answer == program_of()(**asked.inputs()).answer


def test_bootstrapping_keeps_right_answers_only() -> None:
    judge = metric(program_of(), CHOOSE, Exact())
    found = bootstrapped(program_of(), judge)
    right = {one.question for one in LEARN if judge(one, program_of()(**one.inputs()))}
    shown = [demo for demo in found.decompose.demos if demo.get("augmented")]
    assert len(shown) == 2
    assert {demo["problem"] for demo in shown} <= right


@given(ANSWERS, st.floats(0.1, 100), st.floats(1, 1e5))
def test_the_mean_surrogate_never_exceeds_the_true_ratio(
    answers: list[tuple[float, float]], accuracy: float, tokens: float
) -> None:
    incumbent = ReferencePoint(accuracy, tokens)
    mean = sum(surrogate(a, t, incumbent) for a, t in answers) / len(answers)
    ratio = e3(*zip(*answers, strict=True)) / (accuracy**2 / tokens)
    assert mean <= ratio + 1e-9 * (1 + abs(mean) + ratio)


def test_the_incumbent_is_measured_once_and_feedback_says_where_the_tokens_went() -> None:
    model = world()
    judge = metric(program_of(model), examples(DEV), Exact())
    assert judge.reference.accuracy == pytest.approx(56.7, abs=0.1)
    assert round(judge.reference.tokens) == 933
    assert len(model.solving()) == len(DEV)
    question = DEV[0]
    pred = program_of()(question=question.question)
    told = judge(examples([question])[0], pred, None, "decompose", None)
    assert 0.0 <= told.score < 1.0
    lines = told.feedback.splitlines()
    assert f" The answer is {question.targets[0]}." in lines[0]
    assert lines[1] == f"It cost {pred.tokens} tokens, no more than the 933 on average."
    assert "of them went into planning (estimate " in lines[2]


def test_an_answer_is_scored_by_a_dspy_metric_that_sees_all_fields() -> None:
    given = dspy.Example(question="What?", answer="4", tolerance=2)
    scorer = from_dspy(lambda gold, pred: float(int(pred.answer) - 4 <= gold.tolerance))
    question = question_of(given)
    said = ("5", "9", r"It is \boxed{5}.", "I count.\n\nFinal answer: 5")
    assert [scorer.score(answer, question).value for answer in said] == [1.0, 0.0, 1.0, 1.0]
    broken = from_dspy(lambda *_: 7.0)
    with pytest.raises(ScorerError):
        broken.score("4", DEV[0])


def test_an_example_becomes_a_question() -> None:
    found = question_of(dspy.Example(question="What?", answers=["4", "four"], level="Level 3"))
    assert (found.question, found.targets, found.level) == ("What?", ("4", "four"), 3)
    assert found.id == question_of(dspy.Example(question="What?", answer="5")).id


def test_a_dev_set_that_cannot_measure_a_program_is_refused() -> None:
    program = program_of(world({"usual": Style(0.0, 5)}))
    with pytest.raises(InputError, match="none of the 6 answers is right"):
        metric(program, HELD_OUT[:6], Exact())
    with pytest.raises(InputError, match="have no tokens"):
        metric(lambda **_: dspy.Prediction(answer="4"), HELD_OUT[:6], Exact())
    with pytest.raises(InputError, match="tokens above 0"):
        ReferencePoint(50, 0)


def test_a_program_is_measured_in_the_context_of_its_caller() -> None:
    class Asks(dspy.Module):  # type: ignore[misc]
        def forward(self, question: str, **_: object) -> dspy.Prediction:  # noqa: ARG002
            return dspy.Prediction(answer=dspy.settings.lm, tokens=7)

    with dspy.context(lm="4"):
        judge = metric(Asks(), [dspy.Example(question="2 + 2?", answer="4")
                                .with_inputs("question")] * 3, "math")  # fmt: skip
    assert (judge.reference.accuracy, judge.reference.tokens) == (100.0, 7.0)
    with pytest.raises(ZeroDivisionError):
        metric(lambda **_: 1 / 0, HELD_OUT[:2], Exact())
