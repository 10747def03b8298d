"""``pb-optim simulate`` and ``calibrate``: from answers to settings to what they are worth."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from optim import cli
from optim.bam.simulate import RULES
from optim.cli.bam import _next
from optim.evaluation import Experiment
from optim.methods import Method, method_from_file
from pb_graph import Settings
from pb_graph.errors import InputError
from pb_graph.settings import value_of
from tests.optim.report.samples import record
from tests.support import golden

LOGS = golden.BUDGET_LOGS
"""Twelve questions of levels 1 and 3 at four budgets."""

FIT = ("calibrate", LOGS, "--pool", "--aleatoric", 0.05)


def pb_optim(*arguments: object) -> Result:
    return CliRunner().invoke(cli.app, [str(argument) for argument in arguments])


def simulated(*more: object) -> Result:
    return pb_optim("simulate", "--queries", 500, "--budget", "100,400", *more)


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
        ["--even"], ["--ungraded"], ["--credits", "1,2,3,4,5"], ["--steps", 3],
        ["--c-spread", 1], ["--beta-spread", 0], ["--aleatoric", 0.3],
    ):  # fmt: skip
        assert simulated("--json", *option).stdout != usual, option


def test_calibrate_shows_the_fit_and_writes_settings(tmp_path: Path) -> None:
    file = tmp_path / "bam.json"
    done = pb_optim(*FIT, "--output", file)
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["level", "source", "questions", "budgets", "c", "beta", "aleatoric"]
    assert [line.split()[0] for line in lines[1:6]] == list("12345")
    assert lines[7].split() == ["level", "budget", "questions", "accuracy", "%", "fitted", "%"]
    assert lines[8].split()[:3] == ["1", "25", "6"]
    assert "Warning: Level 2 has the parameters of all levels together" in done.stdout
    assert method_from_file(file).settings.schedule == "bam"


def test_the_next_command_measures_the_default_and_the_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "my bam.json"
    last = pb_optim(*FIT, "-o", file).stdout.splitlines()[-1]
    words = shlex.split(last[last.index("pb-optim eval") :])
    asked: list[Experiment] = []

    def caught(experiment: Experiment, planners: object) -> None:
        asked.append(experiment)
        raise InputError(str(planners))

    monkeypatch.setattr("optim.cli.evaluate.evaluate_planners", caught)
    pb_optim(*words[1:])
    (experiment,) = asked
    names, mine = experiment.methods
    assert names == "plan_and_budget"
    assert isinstance(mine, Method)
    assert (mine.name, mine.settings) == ("my bam", method_from_file(file).settings)
    assert (experiment.dataset, experiment.model) == ("arithmetic", golden.MODEL)


def test_the_next_command_names_the_file_and_the_split_of_the_questions() -> None:
    made = {"command": "pb-optim eval", "data": "mine.jsonl", "split": "train"}
    told = shlex.split(_next(record("cosine", 0, made_by=made), "bam.json"))
    assert told[2:8] == ["--dataset", "math500", "--data", "mine.jsonl", "--split", "train"]
    older = _next(record("cosine", 0, made_by={"data": "split as usual"}), "bam.json")
    assert "--data" not in shlex.split(older)


def test_the_file_serves_eval_solve_and_simulate(tmp_path: Path) -> None:
    file = tmp_path / "bam.json"
    document: Any = json.loads(pb_optim(*FIT, "-o", file, "--json").stdout)
    written = json.loads(file.read_text())
    assert document["settings"] == written
    assert [fit["source"] for fit in document["levels"]] == ["pooled"] * 2 + ["fit"] + [
        "pooled"
    ] * 2
    # `pb-graph solve --set bam='{…}'` reads it so:
    chosen = Settings.read({"schedule": "bam", "bam": value_of(json.dumps(written["bam"]))})
    assert chosen == method_from_file(file).settings
    fitted = simulated("--json", "--bam", file).stdout
    assert fitted != simulated("--json").stdout
    assert fitted == simulated("--json", "--settings", file).stdout  # its older name
    assert f"c and beta about those of {file}." in simulated("--bam", file).stdout


def test_levels_that_tell_too_little_write_nothing(tmp_path: Path) -> None:
    file = tmp_path / "bam.json"
    done = pb_optim("calibrate", LOGS, "-o", file, "--json")
    assert done.exit_code == cli.USAGE
    assert done.stdout == ""
    assert "the answers do not tell c and beta. level 1: beta is anything from" in done.stderr
    assert "level 3: beta is anything from 0.26 to 7.4, wider than a factor of 10" in done.stderr
    assert not file.exists()


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--budget", "x"], "--budget wants whole numbers"),
        (["--budget", "0"], "budgets of at least 1 token"),
        (["--steps", "0"], "1 to 20 steps"),
        (["--queries", "1"], "at least 2 queries"),
        (["--bam", "nowhere.json"], "cannot read the settings file nowhere.json"),
    ],
)
def test_a_simulation_that_cannot_be_says_why(options: list[str], complaint: str) -> None:
    done = pb_optim("simulate", *options)
    assert done.exit_code == cli.USAGE
    assert complaint in done.stderr
    assert done.stdout == ""


def test_calibrating_nothing_or_to_nowhere_says_why(tmp_path: Path) -> None:
    missing = pb_optim("calibrate", tmp_path / "nowhere")
    assert (missing.exit_code, missing.stdout) == (cli.USAGE, "")
    assert "there is no folder" in missing.stderr
    unwritable = pb_optim(*FIT, "-o", tmp_path / "no" / "bam.json")
    assert (unwritable.exit_code, unwritable.stdout) == (cli.USAGE, "")
    assert "cannot write" in unwritable.stderr
