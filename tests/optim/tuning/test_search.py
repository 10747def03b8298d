from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from optim.evaluation.resume import claim
from optim.tuning.candidate import Candidate, predictors_of
from optim.tuning.evaluator import OutageError
from optim.tuning.examples import split_of
from optim.tuning.gepa import gepa
from optim.tuning.optimizer import Optimizer, Round
from optim.tuning.optimizers import candidates, copro, miprov2, random_search
from optim.tuning.reflection import ReflectionError
from optim.tuning.search import SearchResult, search
from pb_graph import InputError, Settings
from tests.support.chat_model import HTTPError, ScriptedChat
from tests.support.tuning_world import (
    DEV,
    HELD_OUT,
    MINIMAL,
    PLAIN,
    THOROUGH,
    TRAIN,
    Style,
    bench_in,
    original,
    reflector_of,
    says,
    world,
)

FEW, REST = DEV[:12], HELD_OUT[:6]


def run(
    folder: Path,
    optimizer: Optimizer | None = None,
    model: ScriptedChat | None = None,
    *,
    reflection: ScriptedChat | None = None,
    calls: int | None = 300,
    **options: Any,  # noqa: ANN401
) -> SearchResult:
    """Search on a few questions."""
    sets = {"train": (), "dev": FEW, "held_out": REST}
    sets |= {name: options.pop(name) for name in sets if name in options}
    with bench_in(folder, model, calls=calls) as bench:
        return search(
            bench,
            split_of(**sets, seed=options.get("seed", 0)),
            optimizer or candidates(texts=[PLAIN, THOROUGH, MINIMAL]),
            start=options.pop("start", original()),
            reflector=reflector_of(bench, reflection) if reflection else None,
            **options,
        )


# What is refused


def test_an_empty_dev_split_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the dev split is empty"):
        run(tmp_path, dev=[])


def test_too_few_questions_to_hold_any_out_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="5 dev questions are too few"):
        run(tmp_path, dev=DEV[:5], held_out=None)


@pytest.mark.parametrize(
    ("sets", "names"),
    [
        ({"train": FEW[:1]}, "dev and train share 1 questions"),
        ({"train": REST}, "held-out and train share 6 questions"),
        ({"held_out": FEW[3:5]}, "held-out and dev share 2 questions"),
    ],
)
def test_a_question_in_two_sets_is_refused(
    sets: dict[str, Any], names: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=names):
        run(tmp_path, **sets)


def test_where_every_answer_is_wrong_it_says_what_to_do(tmp_path: Path) -> None:
    hopeless = world({"usual": Style(0.0, 5)})
    with pytest.raises(InputError, match=r"none of the 12 dev questions .*--levels.*stronger"):
        run(tmp_path, model=hopeless)


def test_where_every_answer_fails_the_reason_is_named(tmp_path: Path) -> None:
    with pytest.raises(OutageError, match=r"(?s) tries.*HTTP 400.*goes on"):
        run(tmp_path, model=ScriptedChat(solve=HTTPError(400)))


def test_a_model_out_of_reach_ends_the_run(tmp_path: Path) -> None:
    away = ScriptedChat(planner=HTTPError(401), solve=HTTPError(401))
    with pytest.raises(OutageError):
        run(tmp_path, model=away, dev=DEV)


@pytest.mark.parametrize("optimizer", [gepa, copro, miprov2], ids=lambda one: one.name)
def test_a_reflection_model_that_returns_nothing_is_named(
    optimizer: Optimizer, tmp_path: Path
) -> None:
    with pytest.raises(ReflectionError, match=r"reflection model .* returned nothing"):
        run(tmp_path, optimizer, reflection=says(""))


def test_what_was_measured_counts_where_a_reflection_model_falls_silent(tmp_path: Path) -> None:
    said = itertools.chain([MINIMAL] * 2, itertools.repeat(""))
    silent = ScriptedChat(solve=lambda _: next(said))
    found = run(tmp_path, gepa, reflection=silent, train=TRAIN[:8])
    assert found.candidate.instructions == {"decompose": MINIMAL}
    assert found.ended.startswith("the reflection model ScriptedChat returned nothing")


def test_a_budget_that_measures_no_candidate_is_refused_before_anything_is_paid(
    tmp_path: Path,
) -> None:
    model = world()
    with pytest.raises(InputError, match=r"30 answers are too few: .* take 36"):
        run(tmp_path, model=model, calls=30)
    assert not model.calls


def test_a_method_that_plans_nothing_has_no_prompt_to_tune(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"with method=vanilla .* no 'decompose' prompt"):
        run(tmp_path, start=original(method="vanilla"))


@pytest.mark.parametrize(
    ("settings", "tuned", "predictor"),
    [
        ({"method": "plan_and_budget"}, "decompose", "decompose"),
        ({"execution": "single_pass"}, "estimate", "estimate"),
        ({"schedule": "uniform"}, "estimate", "level"),
        ({"method": "planned_global_budget", "planning": "fused"}, "estimate", "level"),
        ({"planning": "fused"}, "decompose", "fused"),
        ({"method": "planned_vanilla", "planning": "fused"}, "decompose", "decompose"),
        ({"method": "vanilla"}, "solve", "solve"),
        ({"method": "vanilla"}, "settings", "decompose"),
    ],
)
def test_what_is_tuned_is_the_predictor_that_is_asked(
    settings: dict[str, Any], tuned: str, predictor: str
) -> None:
    assert predictors_of(Settings(**settings), tuned) == [predictor]


@pytest.mark.parametrize(
    "settings",
    [{"planning": "fused"}, {"method": "vanilla"}, {"method": "global_budget", "budget": 300}],
)
def test_an_estimate_that_is_not_asked_for_cannot_be_tuned(settings: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="'estimate' prompt"):
        predictors_of(Settings(**settings), "estimate")


def test_the_folder_of_another_run_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        ScriptedChat, "_identifying_params", property(lambda self: {"usage": self.reports_usage})
    )
    run(tmp_path)
    others: list[tuple[dict[str, Any], str]] = [
        ({"dev": DEV[1:13], "train": FEW[:1]}, "dev, train"),
        ({"start": original(domain="physics")}, "original"),
        ({"optimizer": random_search(texts=[MINIMAL])}, "optimizer"),
        ({"seed": 1}, "tuning_seed"),
        ({"model": ScriptedChat(reports_usage=False)}, "planner, solver"),
    ]
    for other, named in others:
        with pytest.raises(InputError, match=f"holds another run: its {named} differ"):
            run(tmp_path, **other)


@pytest.mark.parametrize(("before", "now"), [({}, {"metric": "e3"}), ({"metric": "e3"}, {})])
def test_a_condition_that_only_one_side_has_is_another_run(
    tmp_path: Path, before: dict[str, str], now: dict[str, str]
) -> None:
    claim(tmp_path, {"seed": 0, **before})
    with pytest.raises(InputError, match="holds another run: its metric differ"):
        claim(tmp_path, {"seed": 0, **now})


def test_a_run_file_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text("[]")
    with pytest.raises(InputError, match="no run's description"):
        claim(tmp_path, {})
    (tmp_path / "run.json").write_text("{")
    with pytest.raises(InputError, match="cannot read"):
        claim(tmp_path, {})


# How it goes


def test_a_third_of_dev_is_held_out_evenly_over_the_levels() -> None:
    split = split_of((), DEV[:30], None, seed=0)
    assert (len(split.dev), len(split.held_out)) == (20, 10)
    assert sorted(q.level or 0 for q in split.held_out) == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    assert not {q.id for q in split.dev} & {q.id for q in split.held_out}
    assert split_of((), DEV[:30], None, seed=0) == split


def test_a_spent_budget_ends_the_search_and_leaves_enough_for_the_verdict(
    tmp_path: Path,
) -> None:
    found = run(tmp_path, candidates(texts=[MINIMAL, PLAIN, THOROUGH]), calls=45)
    assert found.ended.startswith("the budget of 45 answers is spent")
    assert [trial.candidate.text("decompose") for trial in found.trials[1:]] == [MINIMAL]
    assert found.adopted
    assert found.spent.calls <= 45


def test_also_where_ones_own_optimizer_measures_beyond_it(tmp_path: Path) -> None:
    def greedy(task: Round) -> list[Candidate]:
        found = task.candidates([MINIMAL, PLAIN, THOROUGH])
        for candidate in found:
            task.evaluator.measure(candidate, task.dev)
        return found

    found = run(tmp_path, Optimizer("greedy", "measures all", greedy), calls=45)
    assert found.ended.startswith("the budget of 45 answers is spent")
    assert found.verdict.verdict == "kept"


def test_the_pool_comes_first_and_the_optimizer_goes_on_from_its_best(tmp_path: Path) -> None:
    found = run(tmp_path, gepa, pool=[PLAIN, MINIMAL], reflection=says(THOROUGH), train=TRAIN[:8])
    assert found.rounds[:2] == ["pool", "gepa"]
    assert found.candidate.instructions == {"decompose": MINIMAL}


def test_a_record_names_the_optimizer_also_where_the_pool_took_the_whole_budget(
    tmp_path: Path,
) -> None:
    found = run(tmp_path, gepa, pool=[PLAIN, MINIMAL], reflection=says(THOROUGH), calls=36)
    assert (found.rounds, found.optimizer) == (["pool"], "gepa")


def test_a_round_without_a_gain_is_the_last(tmp_path: Path) -> None:
    found = run(tmp_path, copro(breadth=3, depth=1), reflection=says(PLAIN), rounds=5)
    assert found.ended == "the last round gained less than 1.0%"
    assert len(found.rounds) == 1


def test_another_predictor_can_be_tuned(tmp_path: Path) -> None:
    start = original(method="plan_and_budget", execution="single_pass", enforcement="prompt")
    found = run(tmp_path, candidates(texts=["Judge."]), tuned="estimate", start=start)
    assert [dict(trial.candidate.instructions) for trial in found.trials] == [
        {},
        {"estimate": "Judge."},
    ]


def test_tuning_can_begin_from_other_words_than_the_packages(tmp_path: Path) -> None:
    begun = original().with_instruction("decompose", THOROUGH)
    found = run(tmp_path, candidates(texts=[MINIMAL]), start=begun)
    assert found.original.candidate == begun
    assert found.candidate == original().with_instruction("decompose", MINIMAL)


def test_the_same_call_again_pays_for_nothing_and_finds_the_same(tmp_path: Path) -> None:
    model, reflection = world(), says(PLAIN, THOROUGH, MINIMAL)
    first = run(tmp_path, gepa, model, reflection=reflection, train=TRAIN[:8])
    calls, asked = len(model.calls), len(reflection.calls)
    second = run(tmp_path, gepa, model, reflection=reflection, train=TRAIN[:8])
    assert (len(model.calls), len(reflection.calls)) == (calls, asked)
    assert second.trials == first.trials
    assert second.verdict == first.verdict
    assert (second.spent.calls, second.spent.tokens) == (first.spent.calls, first.spent.tokens)
    assert first.spent.tokens == model.output_tokens + reflection.output_tokens


def test_a_result_without_candidates_is_still_a_result(tmp_path: Path) -> None:
    found = run(tmp_path, candidates(texts=[]))
    assert (found.candidate, found.adopted) == (original(), False)
    assert isinstance(found.candidate, Candidate)
