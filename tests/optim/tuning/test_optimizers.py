"""Optimizers in a scripted world, whose best instruction for accuracy is not the best for E³."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import dspy
import pytest

from optim.tuning.evaluator import Evaluator
from optim.tuning.optimizers import EvaluatedProgram, OptimizerTask
from optim.tuning.options import OPTIMIZERS, Optimizer, optimizer
from optim.tuning.select import Measurement
from pb_graph import InputError
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

candidates, copro, gepa, miprov2 = (
    OPTIMIZERS[name] for name in ("candidates", "copro", "gepa", "miprov2")
)

FOUND: dict[str, Callable[[], Optimizer]] = {
    "gepa": lambda: gepa,
    "copro": lambda: copro,
    "miprov2": lambda: miprov2,
    "candidates": lambda: candidates(texts=[PLAIN, THOROUGH, MINIMAL]),
}


def task(bench: Evaluator, reflection: ScriptedChat | None = None, **fields: Any) -> OptimizerTask:  # noqa: ANN401
    """A round on a few questions."""
    dev = fields.pop("dev", DEV[:12])
    chosen: dict[str, Any] = {
        "train": TRAIN[:10],
        "answers": 120,
        "seed": 1,
        "reflector": reflector_of(bench, reflection or says(PLAIN, THOROUGH, MINIMAL)),
    }
    return OptimizerTask(
        evaluator=bench,
        incumbent=original(),
        reference=Measurement(bench.measure(original(), dev)).reference,
        dev=dev,
        predictor="decompose",
        **chosen | fields,
    )


def texts(found: Any) -> list[str]:  # noqa: ANN401
    return [candidate.text("decompose") for candidate in found]


# The world, and what optimizers find in it


def test_the_world_has_the_trade_off_that_it_is_made_for(tmp_path: Path) -> None:
    base = original()
    with bench_in(tmp_path) as bench:
        found = {
            text: Measurement(bench.measure(base.with_instruction("decompose", text), HELD_OUT))
            for text in (PLAIN, MINIMAL, THOROUGH)
        }
    figures = {text: (round(one.e3, 1), round(one.accuracy)) for text, one in found.items()}
    assert figures == {PLAIN: (3.5, 57), MINIMAL: (10.2, 67), THOROUGH: (2.7, 84)}


@pytest.mark.parametrize("name", FOUND)
def test_every_optimizer_finds_the_frugal_instruction(name: str, tmp_path: Path) -> None:
    with bench_in(tmp_path, answers=1200) as bench:
        reflector = reflector_of(bench, says(PLAIN, THOROUGH, MINIMAL))
        result = searched(bench, FOUND[name](), reflector=reflector, rounds=1)
    assert result.candidate.instructions == {"decompose": MINIMAL}
    assert result.verdict.verdict == "better"
    assert result.verdict.measurement is not None
    assert result.verdict.measurement.e3 == pytest.approx(10.18, abs=0.01)
    comparison = result.verdict.comparison
    assert comparison is not None
    assert comparison.lower is not None
    assert (comparison.questions, comparison.lower > 1.0) == (100, True)


def test_where_nothing_is_better_the_original_is_kept_and_nothing_held_out_is_asked(
    tmp_path: Path,
) -> None:
    with bench_in(tmp_path, world(NOTHING_BETTER), answers=1200) as bench:
        found = searched(bench, FOUND["candidates"]())
    assert (found.candidate, found.verdict.verdict) == (original(), "kept")
    assert found.verdict.reason == "No candidate had a higher E³ on dev than the original."
    assert found.spent.answers == 4 * 60


def test_an_optimizer_object_of_dspys_brings_its_own_metric(tmp_path: Path) -> None:
    with bench_in(tmp_path) as bench:
        work = task(bench)
        copro_of_ones_own = dspy.COPRO(
            metric=work.metric(),
            prompt_model=work.reflection.language_model(),
            breadth=4,
            depth=1,
        )
        compiles = Optimizer("own", "optim.tuning.optimizers:compile_with")
        found = compiles(made=copro_of_ones_own, eval_kwargs={}).candidates(work)
    assert MINIMAL in texts(found)


def test_a_users_optimizer_is_registered_by_name() -> None:
    @optimizer("brief", once=True)
    def brief(work: OptimizerTask) -> list[Any]:
        return list(work.candidates([MINIMAL]))

    assert OPTIMIZERS.pop("brief") is brief
    assert brief.once


# Traps of stock optimizers


@pytest.mark.parametrize("chosen", [copro, gepa, miprov2], ids=lambda one: one.name)
def test_a_spent_budget_ends_an_optimizer_silently_with_what_it_has(
    chosen: Optimizer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with bench_in(tmp_path, answers=30) as bench:
        work = task(bench)
        chosen.candidates(work)
        assert bench.spent.answers == 30
    assert capsys.readouterr() == ("", "")


def test_an_optimizer_that_has_instructions_written_needs_a_writer(tmp_path: Path) -> None:
    with bench_in(tmp_path) as bench:
        for chosen in (copro, gepa, miprov2):
            with pytest.raises(InputError, match="--reflection-model"):
                chosen.candidates(task(bench, dev=DEV[:6], reflector=None))


def test_unusable_and_repeated_instructions_are_left_out(tmp_path: Path) -> None:
    given = ["", MINIMAL, "x" * 9000, MINIMAL]
    with bench_in(tmp_path) as bench:
        found = candidates(texts=given).candidates(task(bench, dev=DEV[:6]))
    assert texts(found) == [MINIMAL]


# The program that optimizers run


def test_a_copy_is_told_apart_by_its_instruction(tmp_path: Path) -> None:
    with bench_in(tmp_path) as bench:
        work = task(bench)
        program = EvaluatedProgram(work)
        changed = program.deepcopy()
        changed.decompose.signature = changed.decompose.signature.with_instructions(MINIMAL)
        usual, frugal = (one(question=DEV[0].question, id=DEV[0].id) for one in (program, changed))
        assert frugal.tokens < usual.tokens
        assert texts(work.seen.values()) == texts([program.candidate, changed.candidate])


def test_the_program_never_raises_and_refuses_what_is_no_result(tmp_path: Path) -> None:
    with bench_in(tmp_path, answers=12) as bench:
        work = task(bench)
        program = EvaluatedProgram(work)
        known, new = DEV[0], TRAIN[0]
        assert not program(question=known.question, id=known.id).refused
        beyond = program(question=new.question, id=new.id)
        assert (beyond.score, beyond.refused, beyond.tokens) == (0.0, True, 0)
        program.decompose.signature = program.decompose.signature.with_instructions(" ")
        assert program(question=known.question, id=known.id).refused
        program.decompose.demos = [dspy.Example(problem="?", plan="1. ?")]
        with pytest.raises(InputError, match="0 demos"):
            _ = program.candidate


def test_a_cached_answer_leaves_the_same_trace_as_a_new_one(tmp_path: Path) -> None:
    with bench_in(tmp_path) as bench:
        program = EvaluatedProgram(task(bench))
        traces = []
        for _ in range(2):
            with dspy.context(trace=[]):
                program(question=DEV[0].question, id=DEV[0].id)
                traces.append(dspy.settings.trace)
    ((predictor, given, said),) = traces[0]
    assert (predictor, given["problem"]) == (program.decompose, DEV[0].question)
    assert said.plan.startswith("1. What follows from a usual plan?")
    assert traces[1] == traces[0]
