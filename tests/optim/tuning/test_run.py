"""`tune`, from Python and as ``pb-optim tune``: a program and questions in, a tuned program out."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import dspy
import pytest
from typer.testing import CliRunner, Result

from optim import cli
from optim.tuning import TuneResult, tune
from optim.tuning.optimizers import OptimizerTask, read_instructions
from optim.tuning.options import OPTIMIZERS, Optimizer, TuneOptions
from optim.tuning.program import DEFAULT_INSTRUCTIONS, GraphProgram
from optim.tuning.search import questions_of
from pb_graph import InputError, build_graph
from pb_graph.planner.planner import Planner, load_planner
from pb_graph.program import PlannerProgram
from tests.support.chat_model import ScriptedChat, with_schema
from tests.support.tuning_world import (
    DEV,
    FEW,
    HELD_OUT,
    MINIMAL,
    NOTHING_BETTER,
    PLAIN,
    REST,
    THOROUGH,
    TRAIN,
    Exact,
    examples,
    program_of,
    says,
    texts,
    world,
)

SOLVES = {"method": "global_budget"}


def ends_with_the_answer(gold: Any, pred: Any, trace: Any = None) -> bool:  # noqa: ANN401, ARG001
    """A metric as DSPy has them."""
    return bool(pred.answer.split()[-1] == gold.answer)


def run(folder: Path, model: ScriptedChat | None = None, **options: Any) -> TuneResult:  # noqa: ANN401
    """Tune on a few questions."""
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
    return tune(run_dir=folder, **chosen | options)


# From Python


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
    assert after.tokens < before.tokens

    path = tmp_path / "tuned.json"
    result.save(path)
    assert PlannerProgram.load(path) == result.artefact
    graph = build_graph(world(), planner_program=path, cap_policy=with_schema)
    report = graph.invoke({"question": question})["report"]
    assert (report["answer"], report["method"]) == (after.answer, "planned_vanilla")
    again = program_of(planner_program=path, settings=None)
    assert again.candidate == result.program.candidate


def test_where_nothing_is_better_the_original_is_kept(tmp_path: Path) -> None:
    result = run(tmp_path, world(NOTHING_BETTER))
    assert (result.verdict.is_adopted, result.verdict.verdict) == (False, "kept")
    assert result.program.candidate == program_of().candidate
    assert result.artefact.state == load_planner(None).program().state
    assert repr(result).startswith("The original is kept. No candidate")


def test_the_record_names_questions_models_and_cost(tmp_path: Path) -> None:
    record = run(tmp_path, about={"dataset": "my questions"}).record
    facts, listed = record["facts"], record["candidates"]
    assert (facts["dataset"], facts["train"], facts["dev"]) == ("my questions", 0, 12)
    assert (facts["solver"], facts["reflection"], facts["answers"]) == ("scripted-1", None, 60)
    assert [one["role"] for one in listed] == ["original", "other", "other", "chosen"]
    chosen = listed[-1]
    assert chosen["instructions"] == {"decompose": MINIMAL}
    assert chosen["e3"] == pytest.approx(chosen["accuracy"] ** 2 / chosen["tokens"])
    assert [one["is_on_front"] for one in listed] == [False, False, True, True]


def test_candidates_are_given_in_a_list_or_a_file_or_are_the_packages(tmp_path: Path) -> None:
    path = tmp_path / "mine.txt"
    path.write_text(MINIMAL)
    own = DEFAULT_INSTRUCTIONS["decompose"]
    for given, tried in (
        ([MINIMAL], [MINIMAL]),
        (path, [MINIMAL]),
        (None, read_instructions(None, "decompose")),
    ):
        found = run(tmp_path / str(len(str(given))), candidates=given)
        assert texts(found.search.trials) == [own, *tried]


def test_without_a_reflection_model_the_planners_writes(tmp_path: Path) -> None:
    thinks = world()
    thinks.solve = says(MINIMAL).solve
    program = program_of(planner=thinks)
    result = run(tmp_path, program=program, optimizer="copro", candidates=None)
    assert result.program.candidate.instructions == {"decompose": MINIMAL}


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
        ({"program": program_of(settings={"review_plan": True})}, "review_plan pauses"),
        ({"optimizer": "geppa"}, "no optimizer named 'geppa'.* did you mean 'gepa'?"),
        ({"tuned": "solver"}, "candidates tunes decompose, estimate, solve, not solver"),
        ({"optimizer": "shortest"}, "shortest tunes solve, not decompose"),
        ({"tuned": "estimate"}, "no 'estimate' prompt to tune"),
        (
            {
                "dev": [replace(one, domain="instruction following") for one in FEW],
                "program": GraphProgram(ScriptedChat()),
            },
            "plan_from=None there is no 'decompose' prompt to tune",
        ),
        (
            {"tuned": "estimate", "program": program_of(settings=SOLVES)},
            "the level of every question is known",
        ),
        (
            {"tuned": "solve", "optimizer": "shortest", "program": program_of(settings=SOLVES)},
            "found among training questions",
        ),
        ({"dev": [{"question": "What?"}]}, "it is of type dict, not a dspy.Example"),
    ],
)
def test_choices_without_sense_are_refused_before_anything_is_paid(
    options: dict[str, Any], complaint: str, tmp_path: Path
) -> None:
    model = world()
    with pytest.raises(InputError, match=complaint):
        run(tmp_path, model, **options)
    assert not model.calls


@pytest.mark.parametrize("name", ["budget", "concurrency"])
def test_a_number_below_one_is_refused(name: str) -> None:
    with pytest.raises(InputError, match=f"{name} must be at least 1, not 0"):
        TuneOptions(**{name: 0})


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ([dspy.Example(question="What?")], "no 'answer'"),
        ([dspy.Example(question="What?", answer=a) for a in "ab"], "there twice"),
        ([DEV[0], DEV[0]], "there twice"),
    ],
)
def test_an_example_that_is_no_question_or_repeats_one_is_refused(
    given: list[Any], complaint: str
) -> None:
    with pytest.raises(InputError, match=complaint):
        questions_of(given)


# The command


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> ScriptedChat:
    """What every model string stands for."""
    scripted = world()
    for module in ("evaluation.models", "tuning.reflection"):
        monkeypatch.setattr(f"optim.{module}.resolve", lambda *_, **__: scripted)
    return scripted


def tuning(folder: Path, *more: object) -> Result:
    words = (
        "tune", "--dataset", "arithmetic", "--limit", 15, "--model", "test:m",
        "--set", "method=planned_vanilla", "--optimizer", "candidates", "--run-dir", folder, *more,
    )  # fmt: skip
    return CliRunner().invoke(cli.app, list(map(str, words)))


@pytest.mark.usefixtures("model")
def test_the_command_tells_the_way_and_writes_a_program(tmp_path: Path) -> None:
    shown = Planner()
    shown.decompose.demos = [{"problem": "Old?", "plan": '{"steps": ["Old step?"]}'}]
    shown.save(tmp_path / "first.json")
    (tmp_path / "mine.txt").write_text(f"{PLAIN}\n---\n{MINIMAL}")
    folder = tmp_path / "run"
    done = tuning(
        folder, "--candidates", tmp_path / "mine.txt", "--program", tmp_path / "first.json"
    )
    assert done.exit_code == 0, done.output
    heard = " ".join(done.stderr.split())
    assert "10 dev and 5 held-out questions; 10 answers are kept back" in heard
    assert "the best so far" in heard
    assert "program.json is written: pb-graph solve --program" in heard
    assert MINIMAL in " ".join(done.stdout.split())
    loaded = load_planner(folder / "program.json").decompose  # examples of the program stay
    assert (loaded.signature.instructions, loaded.demos) == (MINIMAL, shown.decompose.demos)


@pytest.mark.usefixtures("model")
def test_json_is_all_that_standard_output_holds(tmp_path: Path) -> None:
    done = tuning(tmp_path / "run", "--json", "--budget-answers", 60)
    assert done.exit_code == 0, done.output
    facts = json.loads(done.stdout)["tuning"]["facts"]
    assert (facts["optimizer"], facts["dataset"], facts["scorer"]) == (
        "candidates", "arithmetic", "math",
    )  # fmt: skip
    assert "command" in facts


@pytest.mark.usefixtures("model")
def test_an_optimizer_that_learns_gets_a_quarter_of_the_questions(tmp_path: Path) -> None:
    sizes: list[int] = []

    def learns(task: OptimizerTask) -> list[Any]:
        sizes.extend([len(task.train), len(task.dev)])
        return []

    OPTIMIZERS["learns"] = Optimizer("learns", learns, learns=True)
    try:
        done = tuning(tmp_path / "run", "--optimizer", "learns", "--limit", 40)
    finally:
        del OPTIMIZERS["learns"]
    assert done.exit_code == 0, done.output
    assert sizes == [10, 20]


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        (("--budget-answers", 10), "10 answers are too few"),
        (("--optimizer", "adam", "--dataset", "nowhere"), "no optimizer named"),  # before the data
        (("--levels", "x"), "--levels wants whole numbers"),
        (("--tune", "settings"), "candidates tunes decompose, estimate, solve, not settings"),
    ],
)
@pytest.mark.usefixtures("model")
def test_misuse_is_told_in_a_sentence(
    more: tuple[object, ...], complaint: str, tmp_path: Path
) -> None:
    done = tuning(tmp_path / "run", *more)
    assert done.exit_code == 2
    assert complaint in done.stderr
    assert "Traceback" not in done.output


def test_the_help_is_a_page_and_names_an_optimizer_of_ones_own() -> None:
    script = (
        "from optim.tuning.options import optimizer\n"
        "optimizer('mine')(print)\n"
        "from optim.cli import app; app(['tune', '--help'])"
    )
    done = subprocess.run(  # noqa: S603 -- our own code
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert "mine" in done.stdout
    shown = CliRunner().invoke(cli.app, ["tune", "--help"], terminal_width=80).stdout
    assert len(shown.strip().splitlines()) <= 60
