"""What answers prove: certificates, the commands that print them, and what caps would give."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from typer.testing import CliRunner, Result

from optim.cli import app
from optim.records import Record, Records
from optim.reporting import answers, certify
from optim.reporting.caps import read_caps
from optim.reporting.certificate import Certificate
from optim.reporting.tables import figures
from pb_graph.errors import InputError
from pb_graph.settings import Settings
from tests.optim.reporting.samples import answered, record

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


def certified(found: list[Record], **options: Any) -> Certificate:  # noqa: ANN401
    return certify(answers(found), **options)


def trials_of(found: Certificate) -> pd.DataFrame:
    return found.rows.dropna(subset="place").sort_values("place").reset_index()


def test_the_cheapest_proven_row_is_certified_and_the_dear_one_is_not_tested() -> None:
    found = certified(rows())
    assert found.certified == "better"
    assert "at 0.50 (0.50 to 0.50) times its tokens" in found.sentence
    assert list(trials_of(found).method) == ["good", "better", "bad"]
    assert (found.ordering_questions, set(trials_of(found).questions)) == (80, {320})


def test_after_a_failure_nothing_is_tested() -> None:
    bad, worse = row("bad", 300, range(0, QUESTIONS, 5)), row("worse", 100, range(0, QUESTIONS, 4))
    found = certified([*row("vanilla", 500, range(0)), *bad, *worse])
    assert found.certified is None
    assert list(trials_of(found).method) == ["bad"]
    assert "A proof needs at least 123 questions" in found.sentence


def test_a_run_that_is_not_finished_proves_nothing() -> None:
    """The answers that an interrupt cuts off are the long, hard ones."""
    whole = row("vanilla", 500, range(0))
    cut = [one for one in row("terse", 100, range(0)) if int(one.question[13:-5]) % 5]
    assert certified([*whole, *cut]).certified is None  # as if it were wrong there
    torn = [replace(one, made_by={"gaps": "80 questions are missing"}) for one in cut]
    with pytest.raises(InputError, match=r"not finished \(terse: 80 .* --partial"):
        certified([*whole, *torn])
    assert certified([*whole, *torn], is_partial=True).certified is None


def test_a_bet_needs_more_questions_than_the_exact_test() -> None:
    half = [replace(one, score=0.5) for one in row("half", 100, range(0), 150)]
    found = certified([*row("vanilla", 500, range(0), 150), *half])
    assert "A proof needs at least 168 questions" in found.sentence


def test_a_failed_answer_is_wrong_for_its_row_and_makes_it_no_cheaper() -> None:
    lost = row("terse", 100, range(0))
    for number in range(50):
        lost[number] = record("terse", number, score=None, error="HTTP 500")
        lost[number].report["usage"]["output_tokens"] = 0
    [trial] = trials_of(certified([*row("vanilla", 500, range(0)), *lost])).to_dict("records")
    assert (trial["worse"] > 30, trial["is_proven"], trial["tokens"]) == (True, False, 100)


def test_a_failed_answer_of_the_baseline_is_left_out() -> None:
    """Of two answers to each question the baseline lost one: it is right, not half right."""
    epochs = [(number, epoch) for number in range(QUESTIONS) for epoch in (1, 2)]
    twice = [
        record("vanilla", n, epoch=e, score=1.0 if e == 1 else None, error=None) for n, e in epochs
    ]
    half = [record("half", n, epoch=e, score=float(e == 1), error=None) for n, e in epochs]
    for one in half:
        one.report["usage"]["output_tokens"] = 1
    [trial] = trials_of(certified([*twice, *half])).to_dict("records")
    assert (trial["loss"], trial["is_proven"], trial["kind"]) == (50.0, False, "betting")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"baseline": "best"}, "no baseline named 'best'; available: vanilla, good"),
        ({"loss": 0}, "between 0 and 100 points, not 0"),
        ({"loss": 300}, "between 0 and 100 points, not 300"),
        ({"confidence": 100}, "confidence must lie between"),
    ],
)
def test_what_cannot_be_certified_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        certified(rows(), **changes)


def test_rows_of_several_models_are_refused() -> None:
    with pytest.raises(InputError, match="one data set, solver and planner"):
        certified([record("vanilla", 0), record("cosine", 0, model="other")])


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:  # noqa: ANN401
    monkeypatch.setattr("optim.records.read_records", lambda *_, **__: rows())
    monkeypatch.chdir(tmp_path)

    def run(name: str, *options: object) -> Result:
        return CliRunner().invoke(app, [name, "logs", *map(str, options)])

    return run


def test_certify_prints_every_row_and_what_is_proven(command: Any) -> None:  # noqa: ANN401
    done = command("certify", "--loss", 3, "--confidence", 95)
    assert done.exit_code == 0, done.output
    assert "better loses at most 3 points against vanilla, with 95 % confidence" in done.stdout
    assert all(name in done.stdout for name in ("dear", "OckScore", "money", "proven"))
    printed = json.loads(command("certify", "--json").stdout)
    assert printed["certified"] == "better"
    assert {row["method"] for row in printed["rows"]} == {r.method for r in rows()}


def test_report_writes_a_page_or_the_figures(command: Any, tmp_path: Path) -> None:  # noqa: ANN401
    done = command("report", "-o", "page.html", "--paper")
    assert done.stdout == "page.html is written.\n"
    assert "Paper rows" in Path("page.html").read_text("utf-8")
    command("report", "-o", tmp_path / "report.csv")
    table = (tmp_path / "report.csv").read_text(encoding="utf-8")
    assert table.startswith("dataset,model,planner,method,n,")


def run() -> list[Record]:
    """Return right answers of 100 tokens, and one in four wrong with 1,000."""
    return [answered(n, 1000 if n % 4 == 3 else 100, float(n % 4 != 3)) for n in range(40)]


def test_a_longer_answer_is_cut_off_and_wrong() -> None:
    result = read_caps(run(), caps=[50, 100, 600, 1000])
    rows = result.ladder.set_index("cap")
    assert list(rows.accuracy) == [0, 75, 75, 75]
    assert list(rows.tokens) == [52, 102, 102 + 125, 102 + 225]  # planning is paid at every cap
    assert list(rows.ended) == [0, 75, 75, 100]
    assert list(rows.money) == [150 + 4 * tokens for tokens in rows.tokens]
    whole = figures(answers(Records(run()), prices=None)).iloc[0]
    assert rows.loc[1000].e3 == whole.e3
    assert result.chosen == 100
    assert result.held_out.accuracy_difference == 0
    assert result.held_out.tokens_ratio == pytest.approx(102 / 327)


def test_an_answer_that_was_cut_off_did_not_end_and_says_nothing_of_higher_caps() -> None:
    cut = [replace(r, report={**r.report, "cut_off": True}) if r.score == 0.0 else r for r in run()]
    assert list(read_caps(cut, caps=[100, 1000]).ladder.ended) == [75, 75]
    with pytest.raises(InputError, match="10 answers were cut off, at 1,000 tokens or more"):
        read_caps(cut, caps=[100, 2000])


def test_no_more_accuracy_is_lost_than_is_allowed() -> None:
    late = [*run(), *(answered(n, 900, 1.0) for n in range(40, 46))]
    assert read_caps(late, caps=[100, 900, 1000]).chosen == 900
    assert read_caps(late, caps=[100, 900, 1000], loss=20.0).chosen == 100


def test_caps_are_chosen_at_each_level_and_written_as_settings() -> None:
    hard = [answered(n, 700, float(n % 2), level=5) for n in range(40, 60)]
    result = read_caps([*run(), *hard], caps=[100, 700, 1000])
    assert result.by_level == {2: 100, 5: 700}
    assert Settings.read(result.settings()).budget == 700
    levels = json.loads(json.dumps(result.settings(by_level=True)))
    budget: Any = Settings.read(levels).budget
    assert [budget.budget_for(level) for level in range(1, 6)] == [700, 100, 700, 700, 700]


def test_what_was_solved_in_several_calls_has_no_caps() -> None:
    with pytest.raises(InputError, match="several calls"):
        read_caps([answered(n, 100, 1.0, calls=2) for n in range(8)])
    with pytest.raises(InputError, match="--method"):
        read_caps([*run(), replace(answered(41, 100, 1.0), method="vanilla")])
