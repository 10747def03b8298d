"""A certificate from records, and the command that prints it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from optim.cli import app
from optim.datasets.dataset import digest
from optim.records import Record
from optim.report.certificate import certify
from pb_graph.errors import InputError
from tests.optim.report.samples import record

QUESTIONS = 400


def row(method: str, tokens: int, wrong: range, questions: int = QUESTIONS) -> list[Record]:
    """Right but for these questions, at so many tokens each."""
    found = [
        record(method, number, score=float(number not in wrong), error=None)
        for number in range(questions)
    ]
    for one in found:
        one.report["usage"]["output_tokens"] = tokens
    return found


def rows() -> list[Record]:
    nothing = range(0)
    return [
        *row("vanilla", 500, nothing),
        *row("good", 300, range(2)),
        *row("better", 250, range(2, 4)),
        *row("bad", 100, range(0, QUESTIONS, 5)),
        *row("dear", 900, nothing),
    ]


def test_the_cheapest_proven_row_is_certified_and_the_dear_one_no_candidate() -> None:
    found = certify(rows())
    assert (found.certified, found.saving) == ("better", 0.5)
    assert [(one.row, one.proven) for one in found.trials][-1] == ("bad", False)
    assert "dear" in found.left_out
    assert (found.order, found.ordering_questions) == ("split", 80)
    assert all(one.questions == QUESTIONS - 80 for one in found.trials)


def test_the_questions_of_the_order_are_in_no_test() -> None:
    whole = certify(rows(), order=["good", "better"])
    assert {one.questions for one in whole.trials} == {QUESTIONS}
    assert (whole.order, whole.ordering_questions) == ("given", 0)
    assert certify(rows(), seed=1).to_dict() != certify(rows()).to_dict()
    assert certify(rows()).to_dict() == certify(rows()).to_dict()


def test_after_a_failure_nothing_is_tested() -> None:
    found = certify(rows(), order=["bad", "good"])
    assert (found.certified, found.saving, found.not_tested) == (None, None, ["good"])


def test_an_answer_that_never_came_is_wrong_for_its_row() -> None:
    lost = row("terse", 100, range(0))
    for number in range(20):
        lost[number] = record("terse", number, score=None, error="HTTP 500")
    found = certify([*row("vanilla", 500, range(0)), *lost], order=["terse"])
    (trial,) = found.trials
    assert (trial.harmed, trial.questions, trial.proven) == (20, QUESTIONS, False)


def test_what_is_saved_is_told_of_the_questions_that_both_have_answered() -> None:
    """Asked the cheap half only, a row that saves nothing must not look as if it did."""
    every = row("vanilla", 100, range(0))
    for one in every[QUESTIONS // 2 :]:
        one.report["usage"]["output_tokens"] = 1000
    same = row("same", 100, range(0), questions=QUESTIONS // 2)
    found = certify([*every, *same], order=["same"])
    assert (found.certified, found.saving) == ("same", 1.0)


def test_an_answer_that_never_came_makes_its_row_no_cheaper() -> None:
    lost = row("terse", 100, range(0))
    lost[0] = record("terse", 0, score=None, error="HTTP 500")
    lost[0].report["usage"]["output_tokens"] = 0
    found = certify([*row("vanilla", 500, range(0)), *lost], order=["terse"])
    assert (found.tokens["terse"], found.saving) == (100.0, 0.2)


def test_an_answer_that_never_came_is_none_of_the_reference_and_no_easier_to_match() -> None:
    """Of two answers to each question the reference lost one: it is right, not half right."""
    twice = [
        record("vanilla", number, epoch=epoch, score=1.0 if epoch == 1 else None,
               error=None if epoch == 1 else "HTTP 500")
        for number in range(QUESTIONS)
        for epoch in (1, 2)
    ]  # fmt: skip
    half = [
        record("half", number, epoch=epoch, score=float(epoch == 1), error=None)
        for number in range(QUESTIONS)
        for epoch in (1, 2)
    ]
    (trial,) = certify([*twice, *half], order=["half"]).trials
    assert (trial.loss, trial.proven) == (0.5, False)


def test_the_certificate_shows_what_it_is_about_and_whether_it_was_changed() -> None:
    told = certify(rows()).to_dict()
    assert (told["about"]["dataset"], told["reference"]) == ("math500", "vanilla")
    assert told.pop("digest") == digest(told)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"reference": "best"}, "no row named 'best'; choose one with --reference: vanilla, good"),
        ({"order": ["good", "worse"]}, "no row named 'worse'; choose one with --order"),
        ({"order": ["good", "vanilla"]}, "each row once, and not the reference 'vanilla'"),
        ({"split": 100}, "--split lies between 0 and 100 percent, not at 100"),
        ({"split": 99.9}, "400 questions are too few"),
        ({"loss": 0}, "between 0 and 100 points"),
        ({"confidence": 100}, "confidence lies between"),
    ],
)
def test_what_cannot_be_certified_is_said(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        certify(rows(), **changes)


def test_rows_of_several_models_are_refused() -> None:
    with pytest.raises(InputError, match="one data set, solver and planner"):
        certify([record("vanilla", 0), record("cosine", 0, model="other")])


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:  # noqa: ANN401
    monkeypatch.setattr("optim.records.read_records", lambda _: rows())
    monkeypatch.chdir(tmp_path)

    def run(*options: object) -> Result:
        return CliRunner().invoke(app, ["certify", "logs", *map(str, options)])

    return run


def test_the_command_prints_the_tests_and_writes_the_certificate(command: Any) -> None:  # noqa: ANN401
    done = command("--loss", 3, "--confidence", 95)
    assert done.exit_code == 0, done.output
    assert "better loses at most 3 points against vanilla, with 95 % confidence" in done.stdout
    assert "at 0.50 times its tokens" in done.stdout
    assert json.loads(Path("certificate.json").read_text())["certified"] == "better"
    printed = command("--json", "-o", "other.json")
    assert json.loads(printed.stdout) == json.loads(Path("other.json").read_text())


def test_the_command_says_what_a_proof_would_take(command: Any) -> None:  # noqa: ANN401
    done = command("--order", "bad,good")
    assert "No row is proven to lose at most 3 points against vanilla" in done.stdout
    assert "takes 99 questions" in done.stdout
    assert "Not tested, after the first failure: good." in done.stdout
    assert command("--reference", "good", "--order", "dear,nobody").exit_code == 2


def test_what_a_proof_takes_is_told_of_the_bound_that_was_tried(
    command: Any,  # noqa: ANN401
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Graded scores are bet on: 99 questions, as many as right or wrong ones take, are too few."""
    found = [*row("vanilla", 500, range(99), 99), *row("short", 100, range(99), 99)]
    graded = [replace(one, score=0.5) for one in found]
    monkeypatch.setattr("optim.records.read_records", lambda _: graded)
    assert "takes 135 questions" in command("--order", "short").stdout
