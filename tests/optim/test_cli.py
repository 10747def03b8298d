from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from optim import cli
from optim.evaluate.models import build_models
from tests.support.chat_model import ScriptedChat, says_nothing, with_schema
from tests.support.evaluations import (
    fails_on_the_hardest,
    leaks_collected,
    solves,
    tolerates_inspect,
)

__all__ = ["leaks_collected"]  # applies to every test here

pytestmark = tolerates_inspect


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> ScriptedChat:
    """What every model string stands for."""
    scripted = ScriptedChat(solve=solves)
    monkeypatch.setattr("optim.evaluate.models.resolve", lambda *_, **__: scripted)
    monkeypatch.setattr(
        "optim.evaluate.run.build_models",
        lambda *args, **options: build_models(*args, **options | {"cap_policy": with_schema}),
    )
    return scripted


def pb_optim(*arguments: object) -> Result:
    return CliRunner().invoke(cli.app, [str(argument) for argument in arguments])


def evaluation(log_dir: Path, *more: object) -> Result:
    return pb_optim(
        "eval", "--dataset", "arithmetic", "--model", "test:scripted", "--limit", 5,
        "--log-dir", log_dir, *more,
    )  # fmt: skip


@pytest.mark.usefixtures("model")
def test_eval_prints_the_table(tmp_path: Path) -> None:
    done = evaluation(tmp_path, "--methods", "vanilla,cosine")
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert lines[0].split()[:3] == ["method", "n", "errors"]
    assert [line.split()[0] for line in lines[1:3]] == ["vanilla", "cosine"]
    assert lines[1].split()[1:6] == ["5", "0", "100.0", "3", "3"]
    assert "completion tokens spent in" in done.stdout


@pytest.mark.usefixtures("model")
def test_json_is_all_that_json_prints(tmp_path: Path) -> None:
    done = evaluation(tmp_path, "--methods", "vanilla", "--json")
    document: Any = json.loads(done.stdout)
    assert document["rows"][0]["e3"] == pytest.approx(100.0**2 / 3)
    assert (document["spent"], document["not_started"]) == (15, 0)


def test_settings_from_a_file_and_for_all(model: ScriptedChat, tmp_path: Path) -> None:
    mine = tmp_path / "mine.json"
    mine.write_text('{"method": "global_budget", "budget": 60}')
    logs = tmp_path / "logs"
    done = evaluation(logs, "--methods", "vanilla", "--settings", mine, "--set", "cutoff=70")
    assert done.exit_code == 0, done.output
    assert "mine" in done.stdout
    assert {call.cap for call in model.calls if "60 tokens" not in call.ask} == {70}


@pytest.mark.usefixtures("model")
def test_errors_are_counted_below_the_table(model: ScriptedChat, tmp_path: Path) -> None:
    model.solve = fails_on_the_hardest
    done = evaluation(tmp_path, "--methods", "vanilla")
    assert done.exit_code == 0
    assert "WARNING: 1 ANSWERS NEVER CAME" in done.stdout
    assert "--retry-errors" in done.stdout


def test_when_nothing_was_answered_it_fails_and_says_why(
    model: ScriptedChat, tmp_path: Path
) -> None:
    model.solve = says_nothing
    done = evaluation(tmp_path, "--methods", "vanilla")
    assert done.exit_code == cli.FAILED
    assert "nothing was answered: No answer" in done.stderr


@pytest.mark.usefixtures("model")
def test_a_limit_says_what_was_left_out(tmp_path: Path) -> None:
    options = ("--methods", "vanilla", "--max-tokens-total", 6, "--concurrency", 1)
    done = evaluation(tmp_path, *options)
    assert done.exit_code == 0
    assert "The limit is reached: 3 answers were not begun." in done.stdout


@pytest.mark.usefixtures("model")
def test_a_grid_of_budgets_shows_budgets_against_tokens(tmp_path: Path) -> None:
    done = evaluation(
        tmp_path, "--methods", "global_budget", "--grid-initial", "10,20", "--grid-per-level", "5"
    )
    assert done.exit_code == 0, done.output
    assert "budget" in done.stdout.splitlines()[0]
    assert "global_budget[20+5L]" in done.stdout
    shown: Any = json.loads(
        evaluation(
            tmp_path, "--methods", "global_budget", "--grid-initial", 10, "--grid-per-level", 5,
            "--json",
        ).stdout
    )  # fmt: skip
    assert shown["sensitivity"][0]["budget"] == 25


@pytest.mark.usefixtures("model")
def test_several_planners_are_compared(tmp_path: Path) -> None:
    planners = ("--planner", "test:small", "--planner", "test:large")
    done = evaluation(tmp_path, "--methods", "cosine", *planners)
    assert done.exit_code == 0, done.output
    assert "test:small" in done.stdout
    assert "test:large" in done.stdout


@pytest.mark.usefixtures("model")
@pytest.mark.parametrize("table", ["levels", "latency"])
def test_tables_from_logs(tmp_path: Path, table: str) -> None:
    evaluation(tmp_path, "--methods", "vanilla")
    done = pb_optim(table, tmp_path)
    assert done.exit_code == 0
    assert "vanilla" in done.stdout
    rows: Any = json.loads(pb_optim(table, tmp_path, "--json").stdout)
    assert rows[0]["method"] == "vanilla"
    missing = pb_optim(table, tmp_path / "nowhere")
    assert (missing.exit_code, missing.stdout) == (cli.USAGE, "")
    assert "there is no folder" in missing.stderr


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--methods", "no_such"], "no method named 'no_such'"),
        (["--set", "cutoff"], "--set wants NAME=VALUE, not 'cutoff'"),
        (["--set", "cutoff=0"], "cutoff: Input should be greater than 0"),
        (["--settings", "nowhere.json"], "cannot read the settings file nowhere.json"),
        (["--grid-initial", "1"], "a grid needs both"),
        (["--grid-initial", "x", "--grid-per-level", "1"], "--grid-initial wants whole numbers"),
        (["--levels", "7"], "levels lie between 1 and 5"),
        (["--data", "x.jsonl"], "makes its questions and reads no file"),
        (["--epochs", "0"], "epochs must be at least 1"),
        (["--dataset", "no_such"], "no data set named 'no_such'"),
        (["--field", "x"], "--field wants NAME=VALUE"),
    ],
)
def test_bad_input_is_refused_with_the_reason(
    tmp_path: Path, options: list[str], complaint: str
) -> None:
    done = evaluation(tmp_path, *options)
    assert done.exit_code == cli.USAGE
    assert complaint in done.stderr
    assert done.stdout == ""


def test_a_model_that_cannot_be_had_is_a_failure(tmp_path: Path) -> None:
    done = evaluation(tmp_path, "--methods", "vanilla")
    assert done.exit_code == cli.FAILED
    assert "Cannot set up 'test:scripted'" in done.stderr


def test_ctrl_c_says_how_to_go_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("optim.cli.evaluate._evaluated", interrupted)
    done = evaluation(tmp_path)
    assert done.exit_code == cli.INTERRUPTED
    assert "the same command goes on from here" in done.stderr
