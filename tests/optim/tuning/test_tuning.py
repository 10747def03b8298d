"""`tune` as a DSPy user calls it: a program, examples, a metric, and a tuned program back."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dspy
import pytest

from optim.extras import MissingPackageError
from optim.scorers import Score, ScorerError
from optim.tuning import GraphProgram, Limits, Silence, TuneResult, tune
from optim.tuning.candidate import OWN
from optim.tuning.evaluator import OutageError
from optim.tuning.examples import question_of, questions_of, scorer_of
from optim.tuning.optimizer import Optimizer
from optim.tuning.optimizers import candidates, random_search
from optim.tuning.reflection import ReflectionError
from optim.tuning.settings_search import settings_search
from pb_graph import InputError, Settings, build_graph
from pb_graph.program import PlannerProgram
from tests.support.artefacts import planner
from tests.support.chat_model import HTTPError, ScriptedChat, with_schema
from tests.support.tuning_world import (
    DEV,
    HELD_OUT,
    MINIMAL,
    NOTHING_BETTER,
    PLAIN,
    THOROUGH,
    TRAIN,
    Exact,
    Style,
    says,
    world,
)

FEW, REST = DEV[:12], HELD_OUT[:6]


def examples(questions: Sequence[Any]) -> list[dspy.Example]:
    """What a notebook would hold."""
    return [
        dspy.Example(question=q.question, answer=q.targets[0], level=q.level).with_inputs(
            "question"
        )
        for q in questions
    ]


def ends_with_the_answer(gold: Any, pred: Any, trace: Any = None) -> bool:  # noqa: ANN401, ARG001
    """A metric as DSPy has them."""
    return bool(pred.answer.split()[-1] == gold.answer)


def program_of(model: ScriptedChat | None = None, **options: Any) -> GraphProgram:  # noqa: ANN401
    chosen: dict[str, Any] = {"settings": {"method": "planned_vanilla"}} | options
    return GraphProgram(model or world(), cap_policy=with_schema, **chosen)


def run(folder: Path, model: ScriptedChat | None = None, **options: Any) -> TuneResult:  # noqa: ANN401
    chosen: dict[str, Any] = {
        "program": program_of(model),
        "train": (),
        "dev": FEW,
        "held_out": REST,
        "scorer": Exact(),
        "budget": 300,
        "optimizer": "candidates",
        "candidates": [PLAIN, THOROUGH, MINIMAL],
        "callback": Silence(),
    }
    return tune(run_dir=folder, **{**chosen, **options})


# As in a notebook


def test_a_notebook_tunes_a_program_uses_it_and_saves_it(tmp_path: Path) -> None:
    program = GraphProgram(
        world(), settings=Settings(method="planned_vanilla"), cap_policy=with_schema
    )
    result = tune(
        program,
        examples(TRAIN[:10]),
        examples(DEV[:30]),
        scorer=ends_with_the_answer,
        optimizer="gepa",
        budget=400,
        reflection_model=says(PLAIN, THOROUGH, MINIMAL),
        run_dir=tmp_path / "run",
        seed=0,
    )
    assert result.adopted
    assert result.verdict.reason in " ".join(repr(result).split())
    question = HELD_OUT[0].question
    before, after = program(question=question), result.program(question=question)
    assert after.tokens < before.tokens
    assert after.answer

    result.save(tmp_path / "tuned.json")
    graph = build_graph(world(), planner_program=tmp_path / "tuned.json", cap_policy=with_schema)
    assert graph.invoke({"question": question})["answer"] == after.answer
    again = program_of(planner_program=tmp_path / "tuned.json", settings=None)
    assert again.candidate == result.program.candidate
    assert result.program.decompose.signature.instructions == MINIMAL


def test_the_program_that_was_given_is_left_as_it_was(tmp_path: Path) -> None:
    program = program_of()
    result = run(tmp_path, program=program)
    assert result.adopted
    assert program.candidate.instructions == {}
    assert result.program.candidate.instructions == {"decompose": MINIMAL}


def test_where_nothing_is_better_the_original_is_kept(tmp_path: Path) -> None:
    model = world(NOTHING_BETTER)
    result = run(tmp_path, model)
    assert (result.adopted, result.verdict.verdict) == (False, "kept")
    assert result.program.candidate == program_of().candidate
    assert repr(result).startswith("The original is kept. No candidate")
    assert "candidate  " in result._repr_html_()


def test_the_record_names_questions_models_and_cost(tmp_path: Path) -> None:
    result = run(tmp_path, dataset="my questions", budget=Limits(calls=300))
    record = result.record
    assert (record.data.name, record.data.dev, record.data.held_out) == ("my questions", 12, 6)
    assert record.models.solver == "scripted-1"
    assert record.cost.metric_calls == result.search.spent.calls


def test_an_optimizer_may_be_one_of_ones_own_making(tmp_path: Path) -> None:
    result = run(tmp_path, optimizer=random_search(texts=[MINIMAL]), candidates=[PLAIN])
    assert result.search.rounds == ["pool", "random"]
    assert result.program.candidate.instructions == {"decompose": MINIMAL}


def test_one_that_chooses_from_a_list_gets_the_candidates(tmp_path: Path) -> None:
    own = Optimizer("own", "a list", lambda task, *, texts: task.candidates(texts), chooses=True)
    for name, optimizer in {"own": own, "candidates": candidates}.items():
        result = run(tmp_path / name, optimizer=optimizer, candidates=[PLAIN, MINIMAL])
        assert set(result.search.rounds) == {name}
        assert result.program.candidate.instructions == {"decompose": MINIMAL}


def test_without_a_reflection_model_the_planners_writes(tmp_path: Path) -> None:
    thinks = world()
    thinks.solve = lambda _: MINIMAL
    program = program_of(planner=thinks)
    result = run(tmp_path, program=program, optimizer="copro", candidates=[PLAIN], rounds=1)
    assert result.search.rounds == ["pool", "copro"]
    assert result.program.candidate.instructions == {"decompose": MINIMAL}


def test_candidates_may_be_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text(json.dumps([MINIMAL]))
    for given in (path, str(path)):
        result = run(tmp_path / "run", candidates=given)
        texts = [trial.candidate.text("decompose") for trial in result.search.trials]
        assert texts == [OWN["decompose"], MINIMAL]


def test_settings_are_tuned_by_the_same_call(tmp_path: Path) -> None:
    result = run(
        tmp_path, tuned="settings", optimizer=settings_search(most=8), candidates=None, budget=200
    )
    assert result.search.optimizer == "settings"
    assert result.program.settings == result.artefact.settings


def test_progress_goes_to_standard_error_unless_someone_else_listens(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(tmp_path, callback=None)
    heard = capsys.readouterr()
    assert heard.out == ""
    assert "12 dev and 6 held-out questions" in heard.err
    run(tmp_path)
    assert capsys.readouterr() == ("", "")


# What is refused


def test_a_plan_that_waits_for_a_person_is_refused_before_anything_is_paid(tmp_path: Path) -> None:
    model = world()
    program = program_of(model, settings={"review_plan": True})
    with pytest.raises(InputError, match="review_plan pauses for a person"):
        program(question=DEV[0].question)
    with pytest.raises(InputError, match="review_plan pauses for a person"):
        run(tmp_path, program=program)
    assert not model.calls


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"dev": []}, "the dev split is empty"),
        ({"held_out": []}, "the held-out split is empty"),
        ({"dev": DEV[:5], "held_out": None}, "5 dev questions are too few"),
        ({"train": FEW[:1]}, "dev and train share 1 questions"),
        ({"budget": 30}, r"30 answers are too few: .* take 36"),
        ({"budget": 0}, "must be above 0"),
        ({"rounds": 0}, "rounds must be at least 1"),
        ({"program": dspy.Predict("question -> answer")}, "a GraphProgram, not a Predict"),
        ({"optimizer": "adam"}, "no optimizer named 'adam'; there are: gepa, copro"),
        ({"tuned": "solver"}, "one of decompose, estimate, solve, all, settings, not 'solver'"),
        ({"tuned": "estimate"}, "no 'estimate' prompt to tune"),
        (
            {"tuned": "estimate", "program": program_of(settings={"method": "global_budget"})},
            "the level of every question is known",
        ),
        (
            {"reflection_model": "openai:gpt-4o"},
            r"would not be asked.*leave it out, or choose gepa",
        ),
        (
            {"optimizer": candidates(texts=[PLAIN]), "reflection_model": "openai:gpt-4o"},
            "would not be asked",
        ),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_paid(
    options: dict[str, Any], complaint: str, tmp_path: Path
) -> None:
    model = world()
    with pytest.raises(InputError, match=complaint):
        run(tmp_path, model, **options)
    assert not model.calls


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"optimizer": "gepa"}, r"the optimizer \(--optimizer\)"),
        ({"candidates": [PLAIN]}, r"the candidates \(--candidates\)"),
        ({"reflection_model": "openai:gpt-4o"}, r"the reflection model \(--reflection-model\)"),
        ({"optimizer": "gepa", "candidates": [PLAIN]}, r".*--optimizer\) and .*--candidates\)"),
    ],
)
def test_the_settings_search_refuses_what_it_would_ignore(
    options: dict[str, Any], named: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=f"changes no prompt: leave out {named}"):
        run(tmp_path, tuned="settings", **{"optimizer": None, "candidates": None} | options)


def test_where_every_answer_is_wrong_it_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none of the 12 dev questions .* a stronger model"):
        run(tmp_path, world({"usual": Style(0.0, 5)}))


def test_a_reflection_model_that_returns_nothing_is_named(tmp_path: Path) -> None:
    with pytest.raises(ReflectionError, match=r"reflection model .* returned nothing"):
        run(tmp_path, optimizer="gepa", candidates=None, reflection_model=says(""))


def test_the_folder_of_another_run_is_refused(tmp_path: Path) -> None:
    run(tmp_path)
    with pytest.raises(InputError, match="holds another run: its seed, tuning_seed differ"):
        run(tmp_path, seed=1)


def test_a_mended_metric_judges_anew_and_no_model_is_asked(tmp_path: Path) -> None:
    def mended(example: Any, prediction: Any, trace: Any = None) -> float:  # noqa: ANN401, ARG001
        return 1.0

    class Broken:
        def score(self, *_: object) -> Score:
            return {}["?"]

    mended.__qualname__ = Broken.__qualname__ = ends_with_the_answer.__qualname__
    model = world()
    with pytest.raises(InputError, match=r"12 of them failed, one with: KeyError: '\?'"):
        run(tmp_path, model, scorer=Broken())
    paid = len(model.calls)
    assert run(tmp_path, model, scorer=mended).search.original.measurement.accuracy == 100
    asked = len(model.calls)
    again = run(tmp_path, model, scorer=ends_with_the_answer)
    assert again.search.original.measurement.accuracy < 100
    assert (paid, len(model.calls)) == (24, asked)


def test_a_model_out_of_reach_ends_the_run(tmp_path: Path) -> None:
    away = ScriptedChat(planner=HTTPError(401), solve=HTTPError(401))
    with pytest.raises(OutageError, match="12 tries in a row"):
        run(tmp_path, away, dev=DEV)


# The program


def test_the_program_answers_and_says_what_it_cost() -> None:
    model = world()
    found = program_of(model)(question=DEV[0].question, level=DEV[0].level, unheard_of=1)
    assert found.answer == found.report["answer"]
    assert found.tokens == found.report["usage"]["output_tokens"] == model.output_tokens
    assert (found.report["level"], found.error) == (DEV[0].level, None)


def test_a_failed_question_is_a_wrong_answer_at_what_it_cost() -> None:
    found = program_of(ScriptedChat(solve=HTTPError(400)))(question="What?")
    assert found.answer == ""
    assert found.tokens > 0
    assert "400" in found.error


async def test_in_an_event_loop_it_is_called_as_any_module_of_dspys() -> None:
    about = {"question": DEV[0].question, "level": DEV[0].level}
    awaited, called = await program_of().acall(**about), program_of()(**about)
    assert (awaited.answer, awaited.tokens) == (called.answer, called.tokens)
    assert awaited.report["usage"]["by_node"].keys() == called.report["usage"]["by_node"].keys()
    failed = await program_of(ScriptedChat(solve=HTTPError(400))).acall(**about)
    assert (failed.answer, failed.tokens > 0) == ("", True)


def test_a_copy_that_an_optimizer_has_changed_is_the_one_that_is_used() -> None:
    program = program_of()
    copy = program.deepcopy()
    copy.decompose.signature = copy.decompose.signature.with_instructions(MINIMAL)
    usual, frugal = (one(question=DEV[0].question).tokens for one in (program, copy))
    assert frugal < usual
    assert copy.graphs is program.graphs


@pytest.mark.parametrize(
    ("settings", "open_to_tuning"),
    [
        ({}, ["decompose", "estimate"]),
        ({"planning": "fused"}, ["fused"]),
        ({"method": "planned_vanilla", "planning": "fused"}, ["decompose"]),
        ({"method": "global_budget"}, ["level", "solve"]),
        ({"method": "global_budget", "budget": 200}, ["solve"]),
        ({"method": "vanilla"}, ["solve"]),
    ],
)
def test_the_predictors_that_the_settings_use_are_open(
    settings: dict[str, Any], open_to_tuning: list[str]
) -> None:
    program = program_of(settings=settings)
    assert [name for name, _ in program.named_predictors()] == open_to_tuning


def test_settings_override_those_of_a_saved_program_one_by_one(tmp_path: Path) -> None:
    saved = planner().program().model_copy(update={"settings": Settings(budget=300, cutoff=700)})
    saved.save(tmp_path / "saved.json")
    path = tmp_path / "saved.json"
    assert GraphProgram(planner_program=path).settings == Settings(budget=300, cutoff=700)
    changed = GraphProgram(planner_program=path, settings={"cutoff": 900})
    assert changed.settings == Settings(budget=300, cutoff=900)
    assert GraphProgram(planner_program=path, settings=Settings()).settings == Settings()


def test_a_stock_optimizer_of_dspys_can_run_it() -> None:
    """Its own metric, its own evaluation: the program is a DSPy module like any other."""
    judged = dspy.Evaluate(
        devset=examples(FEW), metric=ends_with_the_answer, display_progress=False, num_threads=2
    )(program_of())
    assert 0 < judged.score < 100


# What a DSPy user has at hand


def test_an_example_becomes_a_question() -> None:
    found = question_of(dspy.Example(question="What?", answers=["4", "four"], level="Level 3"))
    assert (found.question, found.targets, found.level) == ("What?", ("4", "four"), 3)
    assert found.id == question_of(dspy.Example(question="What?", answer="5")).id


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ([{"question": "What?"}], "example 1: it is of type dict, not a dspy.Example"),
        ([dspy.Example(question="What?")], "example 1: no 'answer'"),
        ([dspy.Example(question="What?", answer=a) for a in "ab"], "example 2 .* there already"),
    ],
)
def test_what_is_no_question_is_refused_by_its_place(given: list[Any], complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        questions_of(given)


def test_a_metric_sees_the_example_with_all_its_fields() -> None:
    given = dspy.Example(question="What?", answer="4", tolerance=2)
    scorer: Any = scorer_of(lambda gold, pred: float(int(pred.answer) - 4 <= gold.tolerance))
    question = question_of(given)
    assert [scorer.score(answer, question).value for answer in ("5", "9")] == [1.0, 0.0]
    assert scorer_of(ends_with_the_answer).score("4", DEV[0]).value == 0.0  # type: ignore[union-attr]


def test_a_metric_that_fails_leaves_the_answer_unscored() -> None:
    for metric in (lambda *_: 1 / 0, lambda *_: 7.0):
        scorer: Any = scorer_of(metric)
        with pytest.raises(ScorerError, match=r"the scorer .* failed"):
            scorer.score("4", DEV[0])


def test_the_artefact_is_the_program_with_its_settings(tmp_path: Path) -> None:
    result = run(tmp_path / "run")
    result.save(tmp_path / "tuned.json")
    loaded = PlannerProgram.load(tmp_path / "tuned.json")
    assert loaded == result.artefact
    assert loaded.settings == result.program.settings


def test_a_missing_package_is_named_before_anything_is_paid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "optuna" else usual(name)
    )
    model = world()
    with pytest.raises(
        MissingPackageError, match=r"this needs optuna: .*'plan-and-budget\[tune\]'"
    ):
        run(tmp_path, model, optimizer="miprov2", reflection_model=says(PLAIN), candidates=None)
    assert not model.calls
