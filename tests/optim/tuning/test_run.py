"""`tune`, from Python and as ``pb-optim tune``: a tuned program out, shown as it was recorded."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import dspy
import pytest
from typer.testing import CliRunner, Result

from optim import cli, read_records, report
from optim.datasets import questions
from optim.records import ANSWERS
from optim.reporting import answers, certify, figures
from optim.scorers import from_dspy
from optim.tuning import TuneResult, tune
from optim.tuning.optimizers import OptimizerTask
from optim.tuning.options import OPTIMIZERS, Optimizer
from optim.tuning.program import GraphProgram
from pb_graph import InputError, build_graph
from pb_graph.planner.planner import Planner, load_planner
from pb_graph.program import PlannerProgram
from pb_graph.settings import Settings
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
    language_model,
    program_of,
    says,
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


def test_a_notebook_tunes_a_program_uses_it_and_saves_it(tmp_path: Path) -> None:
    program = program_of()
    result = tune(
        program,
        examples(TRAIN[:10]),
        examples(DEV[:30]),
        scorer=from_dspy(ends_with_the_answer),
        optimizer="gepa",
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


def test_an_optimizer_of_dspys_is_compiled_and_measured(tmp_path: Path) -> None:
    writes = language_model(PLAIN, MINIMAL)
    own = dspy.COPRO(metric=lambda _, pred: pred.score, prompt_model=writes, breadth=3, depth=1)
    result = run(tmp_path, optimizer=own, candidates=None)
    assert result.search.candidate.text("decompose") == MINIMAL


def test_where_nothing_is_better_the_original_is_kept(tmp_path: Path) -> None:
    result = run(tmp_path, world(NOTHING_BETTER))
    assert (result.verdict.is_adopted, result.verdict.verdict) == (False, "kept")
    assert result.program.candidate.instructions == {}
    assert result.program.settings.domain == "arithmetic"  # whose defaults were measured
    assert result.artefact.state == load_planner(None).program().state


def test_the_record_names_questions_models_and_cost(tmp_path: Path) -> None:
    record = run(tmp_path, about={"dataset": "my questions"}).record
    facts, listed = record["facts"], record["candidates"]
    assert (facts["dataset"], facts["train"], facts["dev"]) == ("my questions", 0, 12)
    assert (facts["solver"], facts["reflection"], facts["answers"]) == ("scripted-1", None, 60)
    assert [one["role"] for one in listed] == ["original", "other", "other", "chosen"]
    assert listed[-1]["instructions"] == {"decompose": MINIMAL}
    assert [one["is_on_front"] for one in listed] == [False, False, True, True]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"budget": 30}, r"30 answers are too few: .* take 36"),
        ({"budget": 0}, "budget must be at least 1, not 0"),
        ({"optimizer": "geppa"}, "no optimizer named 'geppa'.* did you mean 'gepa'?"),
        ({"optimizer": "shortest", "candidates": None}, "shortest tunes solve, not decompose"),
        ({"optimizer": "gepa"}, "gepa writes its own instructions"),
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
            {"tuned": "solve", "optimizer": "shortest", "candidates": None},
            "chosen from training questions",
        ),
        ({"dev": [{"question": "What?"}]}, "it is of type dict, not a dspy.Example"),
        ({"dev": [DEV[0], DEV[0]]}, "duplicate questions"),
    ],
)
def test_choices_without_sense_are_refused_before_anything_is_paid(
    options: dict[str, Any], complaint: str, tmp_path: Path
) -> None:
    model = world()
    with pytest.raises(InputError, match=complaint):
        run(tmp_path, model, **options)
    assert not model.calls


def test_a_plan_prompt_is_sent_for_every_question_without_a_level(tmp_path: Path) -> None:
    told: list[str] = []
    unlabelled = {
        name: [replace(one, level=None) for one in questions]
        for name, questions in (("dev", FEW), ("held_out", REST))
    }
    program = program_of(settings={"method": "planned_vanilla"})
    result = run(tmp_path, world(level=2), program=program, callback=told.append, **unlabelled)
    assert result.verdict.winner is not None
    assert result.artefact.settings == result.program.settings
    assert result.program.settings.plan_from == 1
    assert told[0].startswith("Every question is planned (plan_from=1)")


def test_a_tuning_has_records_for_tables_certificates_and_pages(tmp_path: Path) -> None:
    result = run(tmp_path / "run", about={"dataset": "mine", "scorer": "exact"}, prices=None)
    dev, held_out = (figures(answers(result.records)).groupby("dataset").get_group(name)
                     for name in ("mine, dev", "mine, held out"))  # fmt: skip
    assert [*dev.method] == ["original", *(f"candidates {place}" for place in (1, 2, 3))]
    assert ([*held_out.method], [*held_out.n]) == (["original", "candidates 3"], [len(REST)] * 2)
    assert {row["money_unit"] for row in result.record["candidates"]} == {"units"}
    read = read_records(tmp_path)
    assert read == result.records
    report(read, tmp_path / "page.html")
    assert "candidates 3" in (tmp_path / "page.html").read_text(encoding="utf-8")
    of_dev = answers(record for record in read if record.dataset == "mine, dev")
    assert certify(of_dev, baseline="original", loss=60).baseline == "original"
    (tmp_path / "run" / ANSWERS).write_text('{"dataset": "mine"}', encoding="utf-8")
    with pytest.raises(InputError, match="is damaged or of another version"):
        read_records(tmp_path)


@pytest.fixture(autouse=True)
def model(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every model string stand for the world."""
    for module in ("bench.bench", "tuning.evaluator"):
        monkeypatch.setattr(f"optim.{module}.resolve", lambda *_, **__: world())


def tuning(folder: Path, *more: object) -> Result:
    words = (
        "tune", "--dataset", "arithmetic", "--limit", 15, "--model", "test:m",
        "--set", "method=planned_vanilla", "--optimizer", "candidates", "--run-dir", folder, *more,
    )  # fmt: skip
    return CliRunner().invoke(cli.app, list(map(str, words)))


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
    assert "program.json is written: pb-graph solve --program" in heard
    assert MINIMAL in " ".join(done.stdout.split())
    loaded = load_planner(folder / "program.json").decompose  # examples of the program stay
    assert (loaded.signature.instructions, loaded.demos) == (MINIMAL, shown.decompose.demos)


def test_an_optimizer_that_learns_gets_a_quarter_of_the_questions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []

    def learns(task: OptimizerTask) -> list[Any]:
        sizes.extend([len(task.train), len(task.dev)])
        return []

    read = Mock(side_effect=questions._read_file)
    monkeypatch.setattr(questions, "_read_file", read)
    monkeypatch.setitem(OPTIMIZERS, "learns", Optimizer("learns", learns, learns=True))
    done = tuning(tmp_path / "run", "--optimizer", "learns", "--limit", 40)
    assert done.exit_code == 0, done.output
    assert sizes == [10, 20]
    assert read.call_count == 1


Record = dict[str, Any]

PROGRAM = Path(__file__).parents[2] / "golden" / "program.json"

HOSTILE = "[red]x[/red] \x1b[2J</pre><script>alert(1)</script><img src=x onerror=owned()>"


@pytest.fixture
def record() -> Record:
    found = PlannerProgram.load(PROGRAM).tuning
    assert found is not None
    return found


def show(path: Path, *arguments: str) -> Result:
    return CliRunner().invoke(cli.app, ["show", str(path), *arguments])


def show_changed(folder: Path, record: Record, **fields: Any) -> Result:  # noqa: ANN401
    changed = {"tuning": record | fields}
    PlannerProgram.load(PROGRAM).model_copy(update=changed).save(folder / "changed.json")
    return show(folder / "changed.json")


def lines_with(result: Result, *words: str) -> list[str]:
    assert result.exit_code == 0, result.output
    return [line for line in result.stdout.splitlines() if all(word in line for word in words)]


def test_show_says_what_came_of_the_tuning_and_what_it_cost(record: Record) -> None:
    shown = show(PROGRAM)
    assert shown.stdout.startswith("The tuned program is ")
    assert " ".join(record["reason"].split()) in " ".join(shown.stdout.split())
    for name in ("optimizer: candidates", "seed: 0", "answers: 380", "date: 20"):
        assert lines_with(shown, name)
    assert lines_with(shown, "chosen, held out", "67.0 (")
    assert lines_with(shown, "The dev figures favor the winner")


def test_a_changed_prompt_stands_below_the_packages_own(tmp_path: Path) -> None:
    recorded = PlannerProgram.load(PROGRAM)
    state = Planner().program().state | {"decompose": recorded.state["decompose"]}
    recorded.model_copy(update={"state": state}).save(tmp_path / "program.json")
    text = show(tmp_path / "program.json").stdout
    own = Planner().decompose.signature.instructions.splitlines()[0]
    assert text.index(f"- {own}") < text.index("+ Use two FRUGAL sub-questions.")
    assert "estimate: the package's own prompt" in text


def test_a_kept_original_is_told_as_one(record: Record, tmp_path: Path) -> None:
    alone = {"held_out": None, "candidates": record["candidates"][:1]}
    shown = show_changed(tmp_path, record, verdict="kept", reason="None.", **alone)
    assert shown.stdout.startswith("The original is kept. None.")
    assert not lines_with(shown, "original, held out")


def test_settings_are_shown_where_they_differ(tmp_path: Path) -> None:
    path = tmp_path / "by_hand.json"
    settings = Settings(budget=250, schedule="linear")
    Planner().program().model_copy(update={"settings": settings}).save(path)
    shown = show(path)
    assert lines_with(shown, "Changed settings: ", "budget=250", "schedule=", "linear")
    assert not lines_with(shown, "enforcement")


def test_text_of_a_model_is_shown_as_text(record: Record, tmp_path: Path) -> None:
    hostile = show_changed(
        tmp_path, record, reason=HOSTILE, facts={**record["facts"], "x": HOSTILE}
    )
    assert "[red]x[/red]" in hostile.stdout
    assert "\x1b[2J" not in hostile.stdout


def test_json_is_the_whole_file() -> None:
    printed = json.loads(show(PROGRAM, "--json").stdout)
    assert printed["tuning"] == json.loads(PROGRAM.read_text(encoding="utf-8"))["tuning"]
    assert "FRUGAL" in printed["state"]["decompose"]["signature"]["instructions"]
