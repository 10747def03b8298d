"""``pb-optim curve``: from options to rows, and from records to what is printed."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from optim import cli
from optim.evaluation import Evaluation, Experiment
from optim.methods import Method, methods
from optim.records import Record
from optim.summary import rows
from pb_graph.budget import LevelTable
from pb_graph.settings import value_of
from tests.optim.bam.test_curve import BUDGETS, record, records


class Stub:
    """What stands for an evaluation: it keeps what it is asked for, and has always the same."""

    def __init__(self, found: list[Record]) -> None:
        self.asked: list[Experiment] = []
        self.records = found

    def __call__(self, experiment: Experiment, **_: object) -> Evaluation:
        self.asked.append(experiment)
        return Evaluation(self.records, rows(self.records), 1234, 2, Path(experiment.log_dir))


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> Stub:
    checked = [record(1, 100, 100 + number, "separate") for number in range(12)]
    found = Stub([*records(), *checked])
    monkeypatch.setattr("optim.evaluation.evaluate", found)
    return found


def curve(*options: object) -> Result:
    words = ["curve", "--dataset", "arithmetic", "--model", "test:scripted", *map(str, options)]
    return CliRunner().invoke(cli.app, words)


def names(stub: Stub) -> list[str]:
    (experiment,) = stub.asked
    assert all(isinstance(method, Method) for method in experiment.methods)
    return [getattr(method, "name", "") for method in experiment.methods]


def test_a_row_is_run_for_each_budget_and_each_check(stub: Stub) -> None:
    done = curve("--budgets", "200,100", "--check", 100, "--concurrency", 3, "--limit", 7)
    assert done.exit_code == 0, done.output
    assert names(stub) == [
        "curve_vanilla[100+0L]",
        "curve_vanilla[200+0L]",
        "separate_vanilla[100+0L]",
        "told_vanilla[100+0L]",
    ]
    assert (stub.asked[0].concurrency, stub.asked[0].limit) == (3, 7)


def test_of_a_row_that_comes_twice_it_takes_the_one_with_labels(stub: Stub) -> None:
    curve("--method", "plan_and_budget", "--set", "execution=single_pass", "--budgets", 100)
    assert names(stub) == ["curve_plan_and_budget[100+0L]"]


def test_it_prints_points_cost_checks_and_totals(stub: Stub) -> None:
    done = curve()
    lines = done.stdout.splitlines()
    assert lines[0].split()[:4] == ["budget", "n", "errors", "accuracy"]
    assert [line.split()[0] for line in lines[1 : 1 + len(BUDGETS)]] == list(map(str, BUDGETS))
    assert "11940 completion tokens for the curve; a run for each budget would" in done.stdout
    assert "The curve against runs of their own" in done.stdout
    assert "Totals by level, by E³" in done.stdout
    assert "2 answers were not begun" in done.stdout
    assert stub.asked


@pytest.mark.usefixtures("stub")
def test_the_totals_are_told_as_a_setting_that_is_one() -> None:
    said = curve("--share", 100).stdout
    line = next(line for line in said.splitlines() if line.startswith("The totals as a setting"))
    assignment = shlex.split(line)[-1].partition("=")
    (method,) = methods("global_budget", {assignment[0]: value_of(assignment[2])})
    assert method.settings.budget == LevelTable(tokens={1: 50, 2: 100, 3: 100, 4: 400, 5: 50})
    assert "the smallest with 100% of the accuracy" in said


@pytest.mark.usefixtures("stub")
def test_json_is_all_that_json_prints_and_the_page_is_written(tmp_path: Path) -> None:
    page = tmp_path / "curve.html"
    document: Any = json.loads(curve("--json", "-o", page).stdout)
    assert [point["budget"] for point in document["points"]] == list(BUDGETS)
    assert (document["spent"], document["totals"]["tokens"]["4"]) == (1234, 400)
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_where_nothing_is_right_there_are_no_totals(stub: Stub) -> None:
    stub.records = [record(5, budget, number) for budget in BUDGETS for number in range(3)]
    said = curve().stdout
    assert "No answer is right at any budget" in said
    assert "The totals as a setting" not in said


def test_where_nothing_was_answered_there_is_no_curve(stub: Stub) -> None:
    stub.records = [record(1, 100, number, score=None) for number in range(3)]
    done = curve()
    assert (done.exit_code, done.stdout) == (1, "")
    assert "nothing was answered: refused" in done.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--method", "stepwise"), "'stepwise' solves in several calls"),
        (("--method", "vanilla,concise"), "a curve is of one method, not of vanilla,concise"),
        (("--check", 70), "no such budget on the curve"),
        (("--budgets", "many"), "--budgets wants whole numbers"),
        (("--share", 200), "should be less than or equal to 100"),
    ],
)
def test_what_cannot_be_done_is_said_before_anything_is_paid(
    stub: Stub, options: tuple[object, ...], message: str
) -> None:
    done = curve(*options)
    assert (done.exit_code, stub.asked) == (2, [])
    assert message in " ".join(done.stderr.split())
