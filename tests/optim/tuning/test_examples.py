"""Worked examples from the model's own shortest right answers, and `tune` for solver and all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from optim import cli
from optim.datasets import Question
from optim.tuning import GraphProgram, TuneResult, tune
from optim.tuning.candidate import Candidate
from optim.tuning.options import OPTIMIZERS, Optimizer
from optim.tuning.search import split_of
from pb_graph import InputError, Settings, build_graph
from tests.support.chat_model import Call, Reply, Said, ScriptedChat, with_schema
from tests.support.tuning_world import (
    DEV,
    HELD_OUT,
    MINIMAL,
    TRAIN,
    Exact,
    asked_in,
    bench_in,
    luck,
    says,
    search,
)

shortest = OPTIMIZERS["shortest"]
LIST = Optimizer("list", lambda task: task.candidates([MINIMAL]))

LEARN, CHOOSE, LAST = TRAIN[:10], DEV[:12], HELD_OUT[:6]
BUDGET = {"method": "global_budget", "budget": 900}


def imitates(call: Call) -> Said:
    """Writes half as much for two examples of its own, and a third for four; wrong after six.

    Each time it is asked a question again, it is a word shorter than before.
    """
    question = asked_in(call)
    own = sum("so " in str(turn.text) for turn in call.messages if turn.type == "ai")
    right = luck(question) < (0.8 if own < 6 else 0.3)
    words = {0: 120, 2: 60, 4: 40}.get(own, 30) + 10 * (question.level or 1)
    return "so " * words + (boxed(question) if right else r"\boxed{wrong}")


def boxed(question: Question) -> str:
    return rf"\boxed{{{question.targets[0]}}}"


def world(**fields: Any) -> ScriptedChat:  # noqa: ANN401
    return ScriptedChat(solve=imitates, **fields)


def tuned(folder: Path, model: ScriptedChat | None = None, **options: Any) -> TuneResult:  # noqa: ANN401
    program = GraphProgram(model or world(), settings=BUDGET, cap_policy=with_schema)
    chosen: dict[str, Any] = {
        "program": program,
        "train": LEARN,
        "dev": CHOOSE,
        "held_out": LAST,
        "scorer": Exact(),
        "budget": 200,
        "tuned": "solve",
        "callback": lambda _: None,
    }
    return tune(run_dir=folder, **chosen | options)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> TuneResult:
    return tuned(tmp_path_factory.mktemp("run"))


def shown(candidate: Candidate) -> list[str]:
    return [example["problem"] for example in candidate.examples.get("solve", ())]


def test_sets_of_two_four_and_six_are_tried_and_the_best_on_dev_is_used(found: TuneResult) -> None:
    trials = {len(shown(one.candidate)): one.measurement for one in found.search.trials}
    assert set(trials) == {0, 2, 4, 6}
    best = max(trials, key=lambda size: trials[size].e3)
    assert len(shown(found.program.candidate)) == best == 4
    assert found.record["optimizer"] == "shortest"


def test_only_right_answers_to_training_questions_are_shown(found: TuneResult) -> None:
    known = {question.question: question for question in LEARN}
    six = max((one.candidate for one in found.search.trials), key=lambda one: len(shown(one)))
    for example in six.examples["solve"]:
        assert example["solution"].endswith(boxed(known[example["problem"]]))
    others = {question.question for question in (*CHOOSE, *LAST)}
    assert not others & set(shown(six))


def test_a_set_takes_from_each_level_in_turn(found: TuneResult) -> None:
    level = {question.question: question.level for question in LEARN}
    right = [question for question in LEARN if luck(question) < 0.8]
    order = [level[problem] for problem in shown(found.program.candidate)]
    assert order == sorted({one.level for one in right}, key=str)[:4]


def test_input_tokens_and_numbers_of_examples_are_in_the_table(
    found: TuneResult, tmp_path: Path
) -> None:
    rows = {sum(one["examples"].values()): one for one in found.record["candidates"]}
    inputs = [rows[size]["input_tokens"] for size in (2, 4, 6)]
    assert inputs == sorted(inputs)
    assert inputs[0] > 0
    found.save(tmp_path / "tuned.json")
    printed = CliRunner().invoke(cli.app, ["show", str(tmp_path / "tuned.json")]).stdout
    assert "prompt" in printed
    (line,) = [line for line in printed.splitlines() if "4 examples for solve" in line]
    assert "chosen" in line
    assert f" {inputs[1]:.0f} " in line


def test_what_is_saved_teaches_the_solver_of_a_graph(found: TuneResult, tmp_path: Path) -> None:
    found.save(tmp_path / "tuned.json")
    model = world()
    graph = build_graph(model, planner_program=tmp_path / "tuned.json")
    assert graph.invoke({"question": DEV[0].question})["report"]["method"] == "global_budget"
    turns = [str(turn.text) for turn in model.calls[-1].messages if turn.type == "ai"]
    examples = found.program.candidate.examples["solve"]
    assert turns == [example["solution"] for example in examples]


def test_the_same_call_again_pays_for_nothing(tmp_path: Path) -> None:
    first, model = tuned(tmp_path), world()
    again = tuned(tmp_path, model)
    assert again.program.candidate == first.program.candidate
    assert not model.calls


# Which answers become examples


def kept(folder: Path, solve: Any, **options: Any) -> list[dict[str, str]]:  # noqa: ANN401
    """The largest set that comes of a solver."""
    model = options.pop("kind", ScriptedChat)(solve=solve)
    start = Candidate(settings=Settings(**BUDGET))
    with bench_in(folder, model, answers=200) as bench:
        split = split_of(LEARN, CHOOSE, LAST, 0)
        result = search(bench, split, shortest(**options), start=start, tuned="solve")
    sets = [one.candidate.examples.get("solve", ()) for one in result.trials]
    return [dict(example) for example in max(sets, key=len)]


def test_of_several_samples_the_shortest_right_one_is_kept(tmp_path: Path) -> None:
    times: dict[str, int] = {}

    def varies(call: Call) -> str:
        question = asked_in(call)
        seen = times[question.id] = times.get(question.id, 0) + 1
        said = r"\boxed{wrong}" if seen % 4 == 2 else boxed(question)
        return "so " * (40, 10, 5, 20)[seen % 4] + said

    found = kept(tmp_path, varies, samples=4, sizes=(10,))
    assert len(found) == 10
    assert {example["solution"].count("so ") for example in found} == {10}


class Cold(ScriptedChat):
    temperature: float = 0.0


def test_at_temperature_0_each_question_is_asked_once(tmp_path: Path) -> None:
    asked: list[str] = []

    def notes(call: Call) -> str:
        asked.append(asked_in(call).id)
        return boxed(asked_in(call))

    kept(tmp_path, notes, kind=Cold)
    assert all(asked.count(question.id) == 1 for question in LEARN)


@pytest.mark.parametrize(
    ("solve", "why"),
    [
        (lambda call: "so " * 600 + boxed(asked_in(call)), "too long"),
        (
            lambda call: boxed(asked_in(call)) if call.forced else Reply(reasoning=10**6),
            "forced",
        ),
    ],
)
def test_long_answers_and_forced_endings_are_no_examples(
    tmp_path: Path,
    solve: Any,  # noqa: ANN401
    why: str,
) -> None:
    assert kept(tmp_path, solve) == [], why


@pytest.mark.parametrize("word", ["solve", "all"])
def test_without_training_questions_it_refuses_before_anything_is_paid(
    tmp_path: Path, word: str
) -> None:
    model = world()
    with pytest.raises(InputError, match="found among training questions"):
        tuned(tmp_path, model, train=(), tuned=word)
    assert not model.calls


# What --tune says


def test_the_solvers_instruction_is_tuned_by_the_other_optimizers(tmp_path: Path) -> None:
    reflects = says("Be MINIMAL: two lines.")
    tuned(tmp_path, optimizer="gepa", reflection_model=reflects, rounds=1)
    prompt = reflects.calls[0].ask
    assert "the instruction that the solver works by" in prompt
    assert "sub-question" not in prompt


def test_all_tunes_each_prompt_that_the_settings_use(tmp_path: Path) -> None:
    model = ScriptedChat(solve=lambda call: asked_in(call).targets[0])
    program = GraphProgram(model, cap_policy=with_schema)
    result = tuned(tmp_path, program=program, tuned="all", optimizer=LIST, budget=300)
    told = [set(one.candidate.instructions) for one in result.search.trials]
    assert {"decompose"} in told
    assert any("estimate" in names for names in told)


def test_all_finds_worked_examples_where_the_solver_is_shown_some(tmp_path: Path) -> None:
    result = tuned(tmp_path, tuned="all", optimizer=LIST)
    assert {trial.origin for trial in result.search.trials[1:]} == {"shortest"}
