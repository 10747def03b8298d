"""GEPA: what it accepts, what it is told, and that it takes the same way again."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from optim.tuning.gepa import Acceptance
from optim.tuning.options import OPTIMIZERS
from tests.optim.tuning.test_optimizers import task, texts
from tests.support.tuning_world import (
    DEV,
    MINIMAL,
    PLAIN,
    THOROUGH,
    TRADE_OFF,
    TRAIN,
    Style,
    bench_in,
    original,
    reflector_of,
    says,
    searched,
    world,
)

gepa = OPTIMIZERS["gepa"]

Rows = list[tuple[float, float]]


def minibatch(rows: Rows) -> Any:  # noqa: ANN401
    return SimpleNamespace(objective_scores=[{"accuracy": a, "neg_tokens": -t} for a, t in rows])


@pytest.mark.parametrize(
    ("before", "after", "by_e3", "by_both"),
    [
        ([(1, 100), (0, 100)], [(1, 90), (0, 100)], True, True),
        ([(1, 100), (0, 100)], [(1, 100), (0, 100)], False, False),
        # Twice as often right at 3.5 times the tokens: E³ rises, though the tangent's mean falls.
        ([(1, 100), (0, 100)], [(1, 350), (1, 350)], True, True),
        ([(1, 100), (0, 100)], [(1, 900), (1, 900)], False, True),
        ([(0, 100), (0, 100)], [(0, 1), (0, 1)], False, False),
    ],
)
def test_a_minibatch_is_judged_by_e3_or_by_both_objectives(
    before: Rows, after: Rows, *, by_e3: bool, by_both: bool
) -> None:
    proposal: Any = SimpleNamespace(eval_before=minibatch(before), eval_after=minibatch(after))
    state: Any = None
    assert Acceptance(1).should_accept(proposal, state) is by_e3
    assert Acceptance(2).should_accept(proposal, state) is by_both


def test_a_minibatch_with_a_refused_answer_is_not_accepted() -> None:
    refused = SimpleNamespace(objective_scores=[{"accuracy": 1.0, "neg_tokens": -1.0}, {}])
    proposal: Any = SimpleNamespace(eval_before=minibatch([(1, 100)]), eval_after=refused)
    state: Any = None
    assert not Acceptance(1).should_accept(proposal, state)
    assert not Acceptance(2).should_accept(proposal, state)


def test_no_answer_is_skipped_as_perfect(tmp_path: Path) -> None:
    """With scores of 1 and more GEPA skips every minibatch, and nothing is ever proposed."""
    right = {name: Style(1.0, style.words) for name, style in TRADE_OFF.items()}
    easy = [[q for q in questions if q.level == 1] for questions in (TRAIN, DEV)]
    with bench_in(tmp_path, world(right)) as bench:
        found = gepa.candidates(task(bench, train=easy[0], dev=easy[1]))
    assert MINIMAL in texts(found)


def test_it_is_given_no_folder_to_leave_a_pickle_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with bench_in(tmp_path / "run") as bench:
        gepa.candidates(task(bench))
        folder = bench.run_dir
    assert {path.parent for path in tmp_path.rglob("*") if path.is_file()} == {folder}


def test_the_reflection_model_sees_instruction_plan_and_outcome(tmp_path: Path) -> None:
    model = says(MINIMAL)
    with bench_in(tmp_path) as bench:
        gepa.candidates(task(bench, model))
    asked = model.calls[0].ask
    assert original().text("decompose") in asked
    assert any(question.question in asked for question in TRAIN)
    assert "1. What follows from a usual plan?" in asked
    assert "tokens, " in asked


def test_two_objectives_keep_the_front_of_accuracy_and_tokens(tmp_path: Path) -> None:
    with bench_in(tmp_path, answers=1200) as bench:
        reflector = reflector_of(bench, says(PLAIN, THOROUGH, MINIMAL))
        found = searched(bench, gepa(objectives=2), reflector=reflector, rounds=1)
    assert [one.candidate.text("decompose") for one in found.front] == [MINIMAL, THOROUGH]
    assert found.candidate.instructions == {"decompose": MINIMAL}  # E³ still decides


def test_the_same_seed_and_answers_lead_the_same_way(tmp_path: Path) -> None:
    paths = []
    for name in ("one", "two"):
        with bench_in(tmp_path / name, world()) as bench:
            paths.append((texts(gepa.candidates(task(bench))), bench.spent))
    assert paths[0] == paths[1]
