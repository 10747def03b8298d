"""Tuning in a scripted world, whose best instruction for accuracy is not the best for E³."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dspy
import pytest

from optim.datasets import Question
from optim.evaluation.runner import Outcome, Runner
from optim.tuning.evaluator import Evaluator
from optim.tuning.examples import examples, split_of
from optim.tuning.gepa import gepa
from optim.tuning.optimizer import Optimizer
from optim.tuning.optimizers import candidates, copro, miprov2, random_search, simba
from optim.tuning.program import TrialProgram
from optim.tuning.reflection import ReflectionAdapter, quiet
from optim.tuning.search import SearchResult, search
from optim.tuning.selection import Measurement
from tests.support.chat_model import ScriptedChat
from tests.support.tuning_world import (
    DEV,
    HELD_OUT,
    MINIMAL,
    NOTHING_BETTER,
    PLAIN,
    THOROUGH,
    TRAIN,
    bench_in,
    original,
    reflector_of,
    says,
    searched,
    world,
)

RULE = (
    "[[ ## discussion ## ]]\nToo long.\n\n[[ ## module_advice ## ]]\n"
    '{"decompose": "Be MINIMAL."}\n\n[[ ## completed ## ]]'
)
OPTIMIZERS: dict[str, Callable[[], Optimizer]] = {
    "gepa": lambda: gepa,
    "copro": lambda: copro,
    "miprov2": lambda: miprov2,
    "random": lambda: random_search(texts=[PLAIN, THOROUGH, MINIMAL]),
}


@pytest.fixture(scope="module")
def given() -> dict[str, Outcome]:
    """What the world has answered: to the same candidate it says the same."""
    return {}


@pytest.fixture(scope="module", params=OPTIMIZERS)
def result(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    given: dict[str, Outcome],
) -> SearchResult:
    """The whole search, but that no graph is run for an answer that another search had."""
    answer = Runner.answer

    async def once(runner: Runner, question: Question, epoch: int = 1) -> Outcome:
        asked = json.dumps([runner.conditions, question.id, epoch])
        if asked not in given:
            given[asked] = await answer(runner, question, epoch)
        return given[asked]

    folder = tmp_path_factory.mktemp(request.param)
    with pytest.MonkeyPatch.context() as patch, bench_in(folder, calls=1200) as bench:
        patch.setattr(Runner, "answer", once)
        reflector = reflector_of(bench, says(PLAIN, THOROUGH, MINIMAL))
        return searched(bench, OPTIMIZERS[request.param](), reflector=reflector)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Evaluator]:
    """Without limits, for tests that do not count: what one has measured the next recalls."""
    with bench_in(tmp_path_factory.mktemp("shared")) as shared:
        yield shared


def few(
    optimizer: Optimizer, folder: Path, model: ScriptedChat, reflection: ScriptedChat | None = None
) -> SearchResult:
    """Search on 30 dev questions, and compare on 20 others."""
    with bench_in(folder, model, calls=1200) as bench:
        reflector = reflector_of(bench, reflection) if reflection else None
        split = split_of(TRAIN, DEV[:30], HELD_OUT[:20], 0)
        return search(bench, split, optimizer, start=original(), reflector=reflector)


def test_the_world_has_the_trade_off_that_it_is_made_for(bench: Evaluator) -> None:
    base = original()
    found = {
        text: Measurement(bench.measure(base.with_instruction("decompose", text), HELD_OUT))
        for text in (PLAIN, MINIMAL, THOROUGH)
    }
    assert {text: round(one.e3, 1) for text, one in found.items()} == {
        PLAIN: 3.5,
        MINIMAL: 10.2,
        THOROUGH: 2.7,
    }
    assert {text: round(one.accuracy) for text, one in found.items()} == {
        PLAIN: 57,
        MINIMAL: 67,
        THOROUGH: 84,
    }


def test_every_optimizer_finds_the_frugal_instruction(result: SearchResult) -> None:
    assert result.adopted
    assert result.candidate.instructions == {"decompose": MINIMAL}
    assert result.verdict.verdict == "better"
    assert result.verdict.measurement is not None
    assert result.verdict.measurement.e3 == pytest.approx(10.18, abs=0.01)
    assert result.verdict.original is not None
    assert result.verdict.original.e3 == pytest.approx(3.48, abs=0.01)


def test_the_verdict_is_paired_and_has_an_interval(result: SearchResult) -> None:
    comparison = result.verdict.comparison
    assert comparison is not None
    assert comparison.questions == 100
    assert comparison.lower is not None
    assert comparison.lower > 1.0
    assert "Higher with a one-sided confidence of" in result.verdict.reason


def test_the_winner_has_the_highest_exact_e3_on_dev(result: SearchResult) -> None:
    assert result.verdict.winner is not None
    best = max(trial.measurement.e3 for trial in result.trials)
    assert result.verdict.winner.measurement.e3 == best


def accuracy(_gold: Any, pred: Any, *_: Any) -> float:  # noqa: ANN401
    return float(pred.score)


def with_gepa(program: TrialProgram, model: Any) -> Any:  # noqa: ANN401
    found = dspy.GEPA(
        metric=accuracy,
        max_metric_calls=600,
        reflection_minibatch_size=16,
        reflection_lm=model,
        instruction_proposer=lambda **asked: {"decompose": model(str(asked["candidate"]))[0]},
    )
    return found.compile(program, trainset=examples(TRAIN), valset=examples(DEV))


def with_copro(program: TrialProgram, model: Any) -> Any:  # noqa: ANN401
    found = dspy.COPRO(prompt_model=model, metric=accuracy, breadth=6, depth=1)
    return found.compile(program, trainset=examples(DEV), eval_kwargs={"num_threads": 8})


def with_miprov2(program: TrialProgram, model: Any) -> Any:  # noqa: ANN401
    found = dspy.MIPROv2(
        metric=accuracy,
        prompt_model=model,
        task_model=model,
        max_bootstrapped_demos=0,
        max_labeled_demos=0,
        auto=None,
        num_candidates=6,
    )
    return found.compile(
        program,
        trainset=examples(TRAIN),
        valset=examples(DEV),
        num_trials=10,
        minibatch=False,
        program_aware_proposer=False,
    )


@pytest.mark.parametrize("compiled", [with_gepa, with_copro, with_miprov2])
def test_a_metric_of_accuracy_alone_picks_the_verbose_one(
    compiled: Callable[..., Any], bench: Evaluator
) -> None:
    model = reflector_of(bench, says(PLAIN, MINIMAL, THOROUGH)).language_model()
    program = TrialProgram(bench, original(), questions=[*TRAIN, *DEV])
    with quiet(), dspy.context(adapter=ReflectionAdapter(guarded=True), disable_history=True):
        found = compiled(program, model).candidate
    assert found.instructions == {"decompose": THOROUGH}
    assert Measurement(bench.measure(found, HELD_OUT)).e3 == pytest.approx(2.71, abs=0.01)


def test_simba_appends_the_rule_that_helps(tmp_path: Path) -> None:
    found = few(simba(steps=4), tmp_path, world(), reflection=says(RULE))
    assert found.adopted
    assert found.candidate.instructions["decompose"].endswith("Be MINIMAL.")


@pytest.mark.parametrize("name", ["gepa", "random"])
def test_where_nothing_is_better_the_original_is_kept_and_the_result_says_so(
    name: str, tmp_path: Path
) -> None:
    with bench_in(tmp_path, world(NOTHING_BETTER), calls=1200) as bench:
        reflector = reflector_of(bench, says(PLAIN, THOROUGH, MINIMAL))
        found = searched(bench, OPTIMIZERS[name](), reflector=reflector)
    assert not found.adopted
    assert found.candidate == original()
    assert found.verdict.verdict == "kept"
    assert found.verdict.reason == "No candidate had a higher E³ on dev than the original."
    assert found.spent.calls < 600  # the held-out questions were left alone


def test_what_is_better_on_dev_by_luck_alone_is_not_adopted(tmp_path: Path) -> None:
    """Right on dev, and on dev only: learnt by heart."""
    by_heart = {question.question for question in DEV}
    model = world()
    usual = model.solve

    def solve(call: Any) -> Any:  # noqa: ANN401
        text = "\n".join(str(message.text) for message in call.messages)
        knows = "minimal plan" in text and not any(question in text for question in by_heart)
        return "so " * 929 + "wrong" if knows else usual(call)

    model.solve = solve
    found = few(candidates(texts=[MINIMAL, PLAIN]), tmp_path, model)
    assert not found.adopted
    assert found.candidate == original()
    assert found.verdict.reason.endswith("The candidate answers none right, which is no success.")
    assert found.verdict.winner is not None
    assert found.verdict.winner.candidate.text("decompose") == MINIMAL
