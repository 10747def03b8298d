"""``pb-optim simulate`` and ``calibrate``: from answers to settings to what they are worth."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from optim import cli
from optim.datasets.arithmetic import generate
from optim.evaluate.models import build_models
from optim.methods import method_from_file
from optim.simulate import RULES
from pb_graph import Settings
from pb_graph.assignments import value_of
from tests.support.chat_model import Call, Said, ScriptedChat, with_schema
from tests.support.evaluations import leaks_collected, tolerates_inspect

__all__ = ["leaks_collected"]  # applies to every test here

pytestmark = tolerates_inspect

QUESTIONS = generate(30)


def pb_optim(*arguments: object) -> Result:
    return CliRunner().invoke(cli.app, [str(argument) for argument in arguments])


def simulated(*more: object) -> Result:
    return pb_optim("simulate", "--queries", 500, "--budget", "100,400", *more)


def right_more_often_with_more_tokens(call: Call) -> Said:
    """Of the six questions of a level, as many are solved as 1 - 0.05 - 20 / b; all at level 5."""
    text = "\n".join(str(message.text) for message in call.messages)
    number, question = next((i, q) for i, q in enumerate(QUESTIONS) if q.question in text)
    granted = re.search(r"(\d+) tokens", text)
    assert granted
    solved = question.level == 5 or (number // 5 + 0.5) / 6 < 1 - 0.05 - 20 / int(granted[1])
    return rf"\boxed{{{question.targets[0] if solved else -1}}}"


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Thirty questions at four budgets."""
    folder = tmp_path_factory.mktemp("logs")
    scripted = ScriptedChat(solve=right_more_often_with_more_tokens)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("optim.evaluate.models.resolve", lambda *_, **__: scripted)
        patched.setattr(
            "optim.evaluate.run.build_models",
            lambda *args, **options: build_models(*args, **options | {"cap_policy": with_schema}),
        )
        done = pb_optim(
            "eval", "--dataset", "arithmetic", "--model", "test:scripted", "--limit", 30,
            "--log-dir", folder, "--methods", "global_budget", "--set", "enforcement=cap",
            "--grid-initial", "25,50,100,400", "--grid-per-level", 0,
        )  # fmt: skip
    assert done.exit_code == 0, done.output
    return folder


def test_simulate_prints_a_table_for_each_measure() -> None:
    done = simulated()
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert lines[0].startswith("500 queries of 5 steps, hardest first; c and beta about those of")
    for heading in ("Utility of a query (Eq. 4)", "Accuracy, %", "E³, with every token of"):
        at = next(i for i, line in enumerate(lines) if line.startswith(heading))
        assert lines[at + 1].split() == ["rule", "B=100", "B=400"]
        assert [row.split("  ")[0] for row in lines[at + 2 : at + 11]] == [
            rule.replace("_", " ") for rule in RULES
        ]
    assert re.search(r"optimal +\d+\.\d\d ±\d+\.\d\d", done.stdout)


def test_json_is_all_that_json_prints() -> None:
    rows: Any = json.loads(simulated("--json").stdout)
    assert [(row["budget"], row["rule"]) for row in rows] == [
        (budget, rule) for budget in (100, 400) for rule in RULES
    ]
    assert json.loads(simulated("--json").stdout) == rows
    assert json.loads(simulated("--json", "--seed", 1).stdout) != rows


def test_options_make_the_world() -> None:
    usual = simulated("--json").stdout
    for option in (
        ["--even"], ["--ungraded"], ["--steps", 3], ["--c-spread", 1], ["--beta-spread", 0],
        ["--aleatoric", 0.3],
    ):  # fmt: skip
        assert simulated("--json", *option).stdout != usual, option


def test_calibrate_shows_the_fit_and_writes_settings(logs: Path, tmp_path: Path) -> None:
    file = tmp_path / "bam.json"
    done = pb_optim("calibrate", logs, "--output", file, "--pool")
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["level", "source", "questions", "budgets", "c", "beta", "aleatoric"]
    assert [line.split()[0] for line in lines[1:6]] == list("12345")
    assert lines[7].split() == ["level", "budget", "questions", "accuracy", "fitted"]
    assert lines[8].split()[:3] == ["1", "25", "6"]
    assert f"pb-optim eval --settings {file}" in lines[-1]
    assert method_from_file(file).settings.schedule == "bam"


def test_the_file_serves_eval_solve_and_simulate(logs: Path, tmp_path: Path) -> None:
    file = tmp_path / "bam.json"
    document: Any = json.loads(pb_optim("calibrate", logs, "-o", file, "--pool", "--json").stdout)
    written = json.loads(file.read_text())
    assert document["settings"] == written
    *told, last = document["levels"]
    assert last["source"] == "pooled"
    for fit in told:  # what the model really does
        assert fit["curve"]["beta"]["lower"] <= 1 <= fit["curve"]["beta"]["upper"]
        assert fit["curve"]["c"]["lower"] <= 20 <= fit["curve"]["c"]["upper"]
    # `pb-graph solve --set bam='{…}'` reads it so:
    chosen = Settings.read({"schedule": "bam", "bam": value_of(json.dumps(written["bam"]))})
    assert chosen == method_from_file(file).settings
    assert simulated("--json", "--settings", file).stdout != simulated("--json").stdout
    assert f"c and beta about those of {file}." in simulated("--settings", file).stdout


def test_levels_that_tell_too_little_write_nothing(logs: Path, tmp_path: Path) -> None:
    file = tmp_path / "bam.json"
    done = pb_optim("calibrate", logs, "-o", file, "--json")
    assert done.exit_code == cli.USAGE
    assert done.stdout == ""
    assert "the answers do not tell c and beta. level 5: beta is anything from" in done.stderr
    assert not file.exists()


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--budget", "x"], "--budget wants whole numbers"),
        (["--budget", "0"], "budgets of at least 1 token"),
        (["--steps", "0"], "1 to 20 steps"),
        (["--queries", "1"], "at least 2 queries"),
        (["--settings", "nowhere.json"], "cannot read the settings file nowhere.json"),
    ],
)
def test_a_simulation_that_cannot_be_says_why(options: list[str], complaint: str) -> None:
    done = pb_optim("simulate", *options)
    assert done.exit_code == cli.USAGE
    assert complaint in done.stderr
    assert done.stdout == ""


def test_calibrating_nothing_or_to_nowhere_says_why(logs: Path, tmp_path: Path) -> None:
    missing = pb_optim("calibrate", tmp_path / "nowhere")
    assert (missing.exit_code, missing.stdout) == (cli.USAGE, "")
    assert "there is no folder" in missing.stderr
    unwritable = pb_optim("calibrate", logs, "--pool", "-o", tmp_path / "no" / "bam.json")
    assert (unwritable.exit_code, unwritable.stdout) == (cli.USAGE, "")
    assert "cannot write" in unwritable.stderr
