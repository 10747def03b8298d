"""E³ as a metric of stock DSPy: bounded, with feedback, and what its optimizers choose by it."""

from __future__ import annotations

from collections.abc import Callable
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
from pb_graph import InputError
from tests.support.tuning_world import (
    DEV,
    HELD_OUT,
    TRAIN,
    Exact,
    Style,
    examples,
    language_model,
    program_of,
    world,
)

FRUGAL, VERBOSE = "Ask MINIMAL questions.", "Ask THOROUGH questions, twice."
AT = ReferencePoint(50.0, 100.0)
ANSWERS = st.lists(st.tuples(st.sampled_from([0, 1e-3, 0.5, 1]), st.floats(1, 1e5)), min_size=1)
LEARN, CHOOSE = examples(TRAIN[:12]), examples(DEV[:20])


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
    made = dspy.MIPROv2(
        metric=judge,
        prompt_model=lm,
        task_model=lm,
        auto=None,
        num_candidates=4,
        max_bootstrapped_demos=0,
        max_labeled_demos=0,
    )
    return made.compile(
        program,
        trainset=LEARN,
        valset=CHOOSE,
        num_trials=6,
        minibatch=False,
        program_aware_proposer=False,
    )


@pytest.mark.parametrize("compiled", [by_gepa, by_copro, by_miprov2])
def test_stock_optimizers_choose_the_frugal_instruction(compiled: Callable[..., Any]) -> None:
    program = program_of()
    judge, lm = metric(program, CHOOSE, Exact()), language_model(VERBOSE, FRUGAL)
    with silenced(), dspy.context(lm=lm, disable_history=True):
        found = compiled(program, judge, lm)
    assert found.decompose.signature.instructions == FRUGAL


def test_bootstrapping_keeps_right_answers_only() -> None:
    judge = metric(program_of(), CHOOSE, Exact())
    with silenced():
        found = dspy.BootstrapFewShot(metric=judge, max_bootstrapped_demos=2).compile(
            program_of(), trainset=LEARN
        )
    right = {
        example.question for example in LEARN if judge(example, program_of()(**example.inputs()))
    }
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
    assert (judge.reference.accuracy, round(judge.reference.tokens)) == (
        pytest.approx(56.7, abs=0.1),
        933,
    )
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
    assert [scorer.score(answer, question).value for answer in ("5", "9")] == [1.0, 0.0]
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
