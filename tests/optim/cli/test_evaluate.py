"""``pb-optim eval``: from options to an experiment, and from an evaluation to what is printed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from optim import cli
from optim.datasets import DATASETS
from optim.evaluation import Evaluation, Experiment
from optim.scorers import NAMES as SCORERS
from optim.tuning.options import OPTIMIZERS
from tests.optim.reporting.samples import records
from tests.support.evaluations import QUESTIONS, rows


def pb_optim(*arguments: object) -> Result:
    return CliRunner().invoke(cli.app, [str(argument) for argument in arguments])


def evaluation(*more: object) -> Result:
    return pb_optim("eval", "--dataset", "arithmetic", "--model", "test:scripted", *more)


class Stub:
    """What stands for an evaluation: it keeps what it is asked for, and has always the same."""

    def __init__(self) -> None:
        self.asked: list[Experiment] = []
        self.records = records(["vanilla", "cosine"], errors=False)
        self.not_started = 0

    def __call__(self, experiment: Experiment, **_: object) -> Evaluation:
        self.asked.append(experiment)
        return Evaluation(self.records, 1234, self.not_started, Path(experiment.log_dir))


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> Stub:
    found = Stub()
    monkeypatch.setattr("optim.evaluation.run.evaluate", found)
    return found


@pytest.mark.usefixtures("stub")
def test_eval_prints_the_table_and_a_sentence_for_each_comparison() -> None:
    done = evaluation()
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert lines[0].split()[:3] == ["method", "accuracy,", "%"]
    assert [line.split()[0] for line in lines[1:3]] == ["vanilla", "cosine"]
    assert lines[3].startswith("cosine against vanilla: ")
    assert lines[4] == "1234 completion tokens spent in logs; shared plans count once."
    assert "Warning" not in done.stdout


def test_money_is_counted_as_asked(stub: Stub, tmp_path: Path) -> None:
    prices = tmp_path / "prices.json"
    names = {name for record in stub.records for name in (record.model, record.planner)}
    prices.write_text(json.dumps(dict.fromkeys(names, (1, 8, 0.1))))
    units, double, dollars = (
        json.loads(evaluation("--json", *options).stdout)["figures"][0]
        for options in (
            ("--prices", "none", "--price-ratio", 4),
            ("--prices", "none", "--price-ratio", 8),
            ("--prices", prices),
        )
    )
    assert units["money_unit"] == "units"
    assert double["money"] - units["money"] == pytest.approx(4 * units["tokens"])
    assert dollars["money_unit"].startswith("US $")


def test_options_say_what_is_evaluated(stub: Stub, tmp_path: Path) -> None:
    mine = tmp_path / "mine.json"
    mine.write_text('{"method": "global_budget", "budget": 60}')
    done = evaluation(
        "--methods", f"vanilla,cosine,{mine}", "--set", "cutoff=70", "--levels", "1,2",
        "--field", "answer=gold", "--epochs", 2, "--log-dir", "here",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    (asked,) = stub.asked
    chosen = asked.chosen_methods(QUESTIONS)
    assert [method.name for method in chosen] == ["vanilla", "cosine", "mine"]
    assert {method.settings.cutoff for method in chosen} == {70}
    assert (asked.levels, asked.fields, asked.epochs) == ([1, 2], {"answer": "gold"}, 2)
    assert (asked.log_dir, asked.model) == ("here", "test:scripted")


def test_before_it_begins_it_says_how_much_it_asks_for(tmp_path: Path) -> None:
    done = evaluation("--log-dir", tmp_path, "--limit", 30, "--limit-tokens", 9000)
    told = " ".join(done.stderr.split())
    size = "3 methods (vanilla, default, default_estimated) x 30 questions = 90 answers by test"
    assert size in told
    assert "at most 9,000 completion tokens" in told


def test_at_a_terminal_a_large_run_is_asked_about(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("optim.cli.commands.is_interactive", lambda: True)
    large = ("--log-dir", tmp_path, "--methods", "vanilla")
    assert "Begin? [y/N]" in evaluation(*large).stderr
    begun = evaluation(*large, "--yes").stderr
    assert "Begin?" not in begun
    assert "no provider is called" in begun


def test_a_grid_of_budgets_shows_budgets_against_tokens(stub: Stub) -> None:
    grid = ("--methods", "global_budget", "--grid", "10,20+5")
    expected = ["global_budget[10+5L]", "global_budget[20+5L]"]
    stub.records = records(expected, errors=False, level_source="label")
    done = evaluation(*grid)
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    at = lines.index("E³ by B_init (down) and B_per_level (across)")
    e3s = [f"{row.e3:.2f}" for row in rows(stub.records)]
    cells = [line.split()[-2:] for line in lines[at + 3 : at + 5]]
    assert cells == [["10", e3s[0]], ["20", e3s[1]]]
    assert any("told the levels, free of charge" in line for line in lines)
    document: Any = json.loads(evaluation(*grid, "--json").stdout)
    assert [row["method"] for row in document["figures"]] == expected
    assert [row["initial"] for row in document["budget_grid"]] == [10, 20]


def test_errors_are_loud(stub: Stub) -> None:
    stub.records = records(["vanilla", "cosine"], errors=True)
    failed = [record for record in stub.records if record.score is None]
    assert failed
    told = evaluation().stdout
    assert f"Warning: {len(failed)} of 60 answers failed" in told
    assert f"times: {failed[0].error}" in told
    stub.records = failed
    done = evaluation()
    assert done.exit_code == cli.FAILED
    assert f"nothing was answered: {failed[0].error}" in done.stderr


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--methods", "no_such"], "no method named 'no_such'"),
        (["--set", "cutoff"], "--set must be NAME=VALUE, not 'cutoff'"),
        (["--methods", "nowhere.json"], "cannot read the settings file nowhere.json"),
        (["--dataset", "maths500"], "; did you mean 'math500'?"),
        (["--prices", "nowhere.json"], "cannot read the prices in nowhere.json"),
    ],
)
def test_bad_input_is_refused_with_the_reason(
    tmp_path: Path, options: list[str], complaint: str
) -> None:
    done = evaluation("--log-dir", tmp_path, *options)
    assert done.exit_code == cli.USAGE
    assert complaint in done.stderr
    assert done.stdout == ""


def test_a_part_is_an_option_and_one_without_a_question_is_no_failure(stub: Stub) -> None:
    stub.records = []
    done = evaluation("--part", "3/16")
    assert done.exit_code == 0, done.output
    assert [asked.part for asked in stub.asked] == ["3/16"]
    assert "No question falls into this part" in done.stderr


@pytest.mark.parametrize(
    ("command", "names"),
    [
        ("eval", [*DATASETS, *SCORERS, "vanilla,default", "paper", "published"]),
        ("tune", [*DATASETS, *OPTIMIZERS, *SCORERS, "decompose", "estimate", "settings"]),
    ],
)
def test_help_lists_every_name_that_an_option_takes(command: str, names: list[str]) -> None:
    shown = CliRunner().invoke(cli.app, [command, "--help"], terminal_width=200).stdout
    missing = [name for name in names if name not in shown]
    assert not missing
