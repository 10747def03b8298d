"""``pb-optim tune``: from options to a program and a page in the run folder."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from optim import cli
from optim.tuning import TuneBudget
from optim.tuning.candidate import read_instructions
from optim.tuning.options import OPTIMIZERS, TuneCommand
from optim.tuning.run import TuneResult, run_command
from pb_graph import InputError, build_graph
from pb_graph.planner.planner import Planner, load_planner
from pb_graph.program import PlannerProgram
from tests.support.chat_model import ScriptedChat, with_schema
from tests.support.tuning_world import (
    DEV,
    MINIMAL,
    NOTHING_BETTER,
    PLAIN,
    THOROUGH,
    Exact,
    says,
    world,
)


def tuned(folder: Path, model: ScriptedChat | None = None, **options: Any) -> TuneResult:  # noqa: ANN401
    """Tune on 20 of the world's questions."""
    chosen: dict[str, Any] = {
        "settings": {"method": "planned_vanilla", "plan_from": 1},
        "budget": TuneBudget(answers=70),
        "limit": 20,
        "optimizer": "candidates",
    }
    return run_command(
        TuneCommand(
            dataset="arithmetic",
            model=model or world(),
            scorer=Exact(),
            run_dir=folder,
            cap_policy=with_schema,
            **chosen | options,
        )
    )


@pytest.fixture(scope="module")
def candidates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("candidates") / "candidates.txt"
    path.write_text(f"{PLAIN}\n---\n{MINIMAL}\n---\n{THOROUGH}")
    return path


@pytest.fixture(scope="module")
def found(candidates: Path) -> TuneResult:
    """A tuning that finds something better."""
    return tuned(candidates.parent / "run", candidates=candidates)


# The outcome


def test_the_program_that_is_written_is_what_a_graph_loads(
    found: TuneResult, candidates: Path
) -> None:
    path = candidates.parent / "run" / "program.json"
    assert PlannerProgram.load(path) == found.artefact
    assert load_planner(path).decompose.signature.instructions == MINIMAL
    model = world()
    graph = build_graph(model, planner_program=path, cap_policy=with_schema)
    report = graph.invoke({"question": DEV[0].question})["report"]
    assert report["method"] == "planned_vanilla"  # its settings come with it
    assert report["steps"][0]["question"] == "What follows from a minimal plan?"


def test_a_program_that_was_kept_is_the_packages_own_and_says_so(
    tmp_path: Path, candidates: Path
) -> None:
    kept = tuned(tmp_path / "run", world(NOTHING_BETTER), candidates=candidates)
    assert (kept.record["verdict"], kept.record["held_out"]) == ("kept", None)
    assert kept.artefact.state == load_planner(None).program().state
    assert "The original is kept." in (tmp_path / "run" / "candidates.html").read_text(
        encoding="utf-8"
    )


def test_without_a_file_the_packages_list_is_tried(tmp_path: Path) -> None:
    kept = tuned(tmp_path, world(NOTHING_BETTER), limit=6)
    texts = {trial.candidate.text("decompose") for trial in kept.search.trials[1:]}
    assert texts == set(read_instructions(None, "decompose"))


def test_who_learns_from_examples_gets_a_quarter_to_learn_from(tmp_path: Path) -> None:
    model = says(MINIMAL)
    learnt = tuned(
        tmp_path, optimizer="gepa", limit=40, budget=TuneBudget(answers=150), reflection_model=model
    )
    split = learnt.search.split
    assert (len(split.train), len(split.dev), len(split.held_out)) == (10, 20, 10)
    assert learnt.program.candidate.instructions == {"decompose": MINIMAL}
    assert learnt.record["models"]["reflection"] == "ScriptedChat"


def test_it_can_go_on_from_a_program(tmp_path: Path, found: TuneResult) -> None:
    found.save(tmp_path / "first.json")
    second = tuned(tmp_path / "run", program=tmp_path / "first.json", settings={})
    assert second.search.original.candidate == found.search.candidate


def test_examples_of_a_program_stay_while_its_instruction_is_tuned(
    tmp_path: Path, candidates: Path
) -> None:
    shown = Planner()
    shown.decompose.demos = [{"problem": "Old?", "plan": '{"steps": ["Old step?"]}'}]
    shown.save(tmp_path / "shown.json")
    tuned(tmp_path / "run", program=tmp_path / "shown.json", candidates=candidates)
    loaded = load_planner(tmp_path / "run" / "program.json").decompose
    assert (loaded.signature.instructions, loaded.demos) == (MINIMAL, shown.decompose.demos)


def test_bad_rows_are_left_out_as_the_error_about_them_advises(tmp_path: Path) -> None:
    rows = [{"question": f"What is {n} + 1?", "answer": str(n + 1)} for n in range(6)]
    file = tmp_path / "rows.jsonl"
    file.write_text("\n".join(map(json.dumps, [*rows, {"question": "Why?"}])))
    words = ["tune", "--dataset", "jsonl", "--data", str(file), "--limit", "5"]
    words += ["--optimizer", "candidates", "--run-dir", str(tmp_path / "run")]
    refused = " ".join(CliRunner().invoke(cli.app, words).output.split())
    assert "--skip-bad-rows" in refused
    skipped = CliRunner().invoke(cli.app, [*words, "--skip-bad-rows"])
    assert "5 dev questions are too few" in " ".join(skipped.output.split())


def test_a_command_without_sense_is_refused_before_its_data_are_read() -> None:
    nowhere: dict[str, Any] = {"dataset": "jsonl", "data": "/nowhere"}
    with pytest.raises(InputError, match="no optimizer named 'adam'"):
        run_command(TuneCommand(**nowhere, optimizer="adam"))


# The command line


def pb_optim(*arguments: object) -> Result:
    return CliRunner().invoke(cli.app, [str(argument) for argument in arguments])


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> ScriptedChat:
    """What every model string stands for."""
    scripted = world()
    monkeypatch.setattr("optim.evaluation.models.resolve", lambda *_, **__: scripted)
    return scripted


def tuning(folder: Path, *more: object) -> Result:
    return pb_optim(
        "tune", "--dataset", "arithmetic", "--limit", 15, "--model", "test:m",
        "--set", "method=planned_vanilla", "--optimizer", "candidates", "--run-dir", folder, *more,
    )  # fmt: skip


@pytest.mark.usefixtures("model")
def test_the_command_shows_the_way_and_the_outcome(tmp_path: Path, candidates: Path) -> None:
    done = tuning(tmp_path / "run", "--candidates", candidates, "--budget-answers", 200)
    assert done.exit_code == 0, done.output
    heard = " ".join(done.stderr.split())
    assert "10 dev and 5 held-out questions; 10 answers are kept back" in heard
    assert "the best so far" in heard
    assert "program.json is written: pb-graph solve --program" in heard
    assert MINIMAL in " ".join(done.stdout.split())


@pytest.mark.usefixtures("model")
def test_json_is_all_that_standard_output_holds(tmp_path: Path, candidates: Path) -> None:
    done = tuning(tmp_path / "run", "--candidates", candidates, "--json", "--budget-answers", 60)
    assert done.exit_code == 0, done.output
    tuned = json.loads(done.stdout)["tuning"]
    assert tuned["optimizer"] == "candidates"
    assert tuned["made_by"].keys() == {"command", "scorer"}
    assert tuned["made_by"]["scorer"] == "math"


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        (("--budget-answers", 10), "10 answers are too few"),
        (("--budget-tokens", 0), "must be above 0"),
        (("--optimizer", "adam"), "no optimizer named"),
        (("--optimizer", "geppa"), "did you mean 'gepa'?"),
        (("--levels", "x"), "--levels wants whole numbers"),
        (("--set", "method=vanilla"), "no 'decompose' prompt to tune"),
        (("--candidates", "/nowhere"), "cannot read the candidates"),
        (("--tune", "settings"), "candidates tunes decompose, estimate, solve, not settings"),
        (("--reflection-model", "test:m"), "makes no use of --reflection-model"),
        (("--rounds", 0), "rounds must be at least 1"),
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


def test_an_interrupt_says_that_nothing_is_lost(
    tmp_path: Path, model: ScriptedChat, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pressed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("optim.tuning.run.tune", pressed)
    done = tuning(tmp_path / "run")
    assert done.exit_code == 130
    assert "the same command goes on from here" in done.stderr
    assert not model.calls


def test_the_help_names_every_optimizer_also_a_users() -> None:
    """Names stand beside the field that they fill, so the registry is all there is to extend."""
    shown = pb_optim("tune", "--help").stdout
    assert all(name in shown for name in OPTIMIZERS)
    script = (
        "from optim.tuning.options import optimizer\n"
        "optimizer('mine')(print)\n"
        "from optim.cli import app; app(['tune', '--help'])"
    )
    done = subprocess.run(  # noqa: S603 -- our own code
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert "mine" in done.stdout
