"""`tune` as a DSPy user calls it: a program, examples, a metric, and a tuned program back."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dspy
import pytest

from optim.extras import MissingPackageError
from optim.scorers import Score
from optim.tuning import GraphProgram, TuneBudget, TuneResult, tune
from optim.tuning.candidate import DEFAULT_INSTRUCTIONS
from optim.tuning.options import OPTIMIZERS, SETTINGS_SEARCH
from optim.tuning.search import questions_of
from pb_graph import InputError, Settings, build_graph
from pb_graph.program import PlannerProgram
from tests.support.chat_model import ScriptedChat, with_schema
from tests.support.tuning_world import (
    DEV,
    HELD_OUT,
    MINIMAL,
    NOTHING_BETTER,
    PLAIN,
    THOROUGH,
    TRAIN,
    Exact,
    says,
    world,
)

candidates = OPTIMIZERS["candidates"]

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
    chosen: dict[str, Any] = {"settings": {"method": "planned_vanilla", "plan_from": 1}} | options
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
        "callback": lambda _: None,
    }
    return tune(run_dir=folder, **{**chosen, **options})


def tried(result: TuneResult) -> list[str]:
    return [trial.candidate.text("decompose") for trial in result.search.trials]


def test_a_notebook_tunes_a_program_uses_it_and_saves_it(tmp_path: Path) -> None:
    program = program_of()
    result = tune(
        program,
        examples(TRAIN[:10]),
        examples(DEV[:30]),
        scorer=ends_with_the_answer,
        optimizer="gepa",
        budget=400,
        reflection_model=says(PLAIN, THOROUGH, MINIMAL),
        run_dir=tmp_path / "run",
    )
    assert result.verdict.is_adopted
    assert result.verdict.reason in " ".join(repr(result).split())
    assert program.candidate.instructions == {}  # the given program is left as it was
    question = HELD_OUT[0].question
    before, after = program(question=question), result.program(question=question)
    assert after.answer
    assert after.tokens < before.tokens

    path = tmp_path / "tuned.json"
    result.save(path)
    assert PlannerProgram.load(path) == result.artefact
    graph = build_graph(world(), planner_program=path, cap_policy=with_schema)
    assert graph.invoke({"question": question})["answer"] == after.answer
    again = program_of(planner_program=path, settings=None)
    assert again.candidate == result.program.candidate


def test_where_nothing_is_better_the_original_is_kept(tmp_path: Path) -> None:
    result = run(tmp_path, world(NOTHING_BETTER))
    assert (result.verdict.is_adopted, result.verdict.verdict) == (False, "kept")
    assert result.program.candidate == program_of().candidate
    assert repr(result).startswith("The original is kept. No candidate")
    assert "candidate  " in result._repr_html_()


def test_the_record_names_questions_models_and_cost(tmp_path: Path) -> None:
    result = run(tmp_path, dataset="my questions", budget=TuneBudget(answers=300))
    record = result.record
    cost, listed = result.search.spent, record["candidates"]
    assert (record["dataset"], record["train"], record["dev"]) == ("my questions", 0, 12)
    assert record["models"]["solver"] == "scripted-1"
    assert record["models"]["reflection"] is None
    assert (record["answers"], record["tokens"]) == (cost.answers, cost.tokens) == (60, cost.tokens)
    assert [one["role"] for one in listed] == ["original", "other", "other", "chosen"]
    chosen = listed[-1]
    assert chosen["instructions"] == {"decompose": MINIMAL}
    assert chosen["e3"] == pytest.approx(chosen["accuracy"] ** 2 / chosen["tokens"])
    assert [one["is_on_front"] for one in listed] == [False, False, True, True]


def test_candidates_are_given_in_a_list_or_a_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.txt"
    path.write_text(MINIMAL)
    for number, given in enumerate(([MINIMAL], path)):
        found = run(tmp_path / str(number), candidates=given)
        assert tried(found) == [DEFAULT_INSTRUCTIONS["decompose"], MINIMAL]


def test_without_a_reflection_model_the_planners_writes(tmp_path: Path) -> None:
    thinks = world()
    thinks.solve = lambda _: MINIMAL
    program = program_of(planner=thinks)
    result = run(tmp_path, program=program, optimizer="copro", candidates=None, rounds=1)
    assert result.program.candidate.instructions == {"decompose": MINIMAL}


def test_settings_are_tuned_by_the_same_call(tmp_path: Path) -> None:
    optimizer = SETTINGS_SEARCH(most=8)
    result = run(tmp_path, tuned="settings", optimizer=optimizer, candidates=None, budget=200)
    assert result.record["optimizer"] == "settings"
    assert result.program.settings == result.artefact.settings


def test_progress_goes_to_standard_error_unless_a_callback_listens(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(tmp_path, callback=None)
    heard = capsys.readouterr()
    assert heard.out == ""
    assert "12 dev and 6 held-out questions" in heard.err
    run(tmp_path)
    assert capsys.readouterr() == ("", "")


# What is refused


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"budget": 30}, r"30 answers are too few: .* take 36"),
        ({"budget": 0}, "must be above 0"),
        ({"rounds": 0}, "rounds must be at least 1"),
        ({"program": dspy.Predict("question -> answer")}, "a GraphProgram, not a Predict"),
        ({"program": program_of(settings={"review_plan": True})}, "review_plan pauses"),
        ({"optimizer": "adam"}, "no optimizer named 'adam'; there are: gepa, copro"),
        ({"tuned": "solver"}, "one of decompose, estimate, solve, all, settings, not 'solver'"),
        ({"tuned": "estimate"}, "no 'estimate' prompt to tune"),
        (
            {"tuned": "estimate", "program": program_of(settings={"method": "global_budget"})},
            "the level of every question is known",
        ),
        ({"reflection_model": "openai:gpt-4o"}, "makes no use of --reflection-model"),
        ({"objectives": 2}, "makes no use of --objectives"),
        ({"tuned": "all"}, "candidates tunes decompose, estimate, solve, not all"),
        ({"optimizer": "shortest"}, "shortest tunes solve, not decompose"),
        ({"optimizer": "gepa"}, "gepa makes no use of --candidates"),
        ({"tuned": "settings", "optimizer": None}, "settings makes no use of --candidates"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_paid(
    options: dict[str, Any], complaint: str, tmp_path: Path
) -> None:
    model = world()
    with pytest.raises(InputError, match=complaint):
        run(tmp_path, model, **options)
    assert not model.calls


def test_an_unknown_choice_is_named(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="breadth"):
        run(tmp_path, breadth=3)


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


def test_a_changed_metric_judges_anew_and_no_model_is_asked(tmp_path: Path) -> None:
    def changed(example: Any, prediction: Any, trace: Any = None) -> float:  # noqa: ANN401, ARG001
        return 1.0

    class Broken:
        def score(self, *_: object) -> Score:
            return {}["?"]

    changed.__qualname__ = Broken.__qualname__ = ends_with_the_answer.__qualname__
    model = world()
    with pytest.raises(InputError, match=r"12 of them failed, one with: KeyError: '\?'"):
        run(tmp_path, model, scorer=Broken())
    paid = len(model.calls)
    assert run(tmp_path, model, scorer=changed).search.original.measurement.accuracy == 100
    asked = len(model.calls)
    again = run(tmp_path, model, scorer=ends_with_the_answer)
    assert again.search.original.measurement.accuracy < 100
    assert (paid, len(model.calls)) == (24, asked)


def test_a_missing_package_is_named_before_anything_is_paid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "optuna" else usual(name)
    )
    model = world()
    with pytest.raises(MissingPackageError, match=r"this needs optuna: .*\[tune\]"):
        run(tmp_path, model, optimizer="miprov2", reflection_model=says(PLAIN), candidates=None)
    assert not model.calls


def test_settings_override_those_of_a_saved_program_one_by_one(tmp_path: Path) -> None:
    path = tmp_path / "saved.json"
    saved = program_of().program().model_copy(update={"settings": Settings(budget=300, cutoff=700)})
    saved.save(path)
    assert GraphProgram(planner_program=path).settings == Settings(budget=300, cutoff=700)
    changed = GraphProgram(planner_program=path, settings={"cutoff": 900})
    assert changed.settings == Settings(budget=300, cutoff=900)
    assert GraphProgram(planner_program=path, settings=Settings()).settings == Settings()
