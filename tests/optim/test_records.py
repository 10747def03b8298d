from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from inspect_ai import Task
from inspect_ai import eval as inspect_eval
from inspect_ai.dataset import Sample

from optim.evaluate import Evaluation
from optim.experiments.latency import latency
from optim.experiments.levels import by_level
from optim.planning_cost import planning_tokens
from optim.records import paid_for_nothing, read_records
from pb_graph import InputError
from tests.support.chat_model import ScriptedChat
from tests.support.evaluations import (
    QUESTIONS,
    evaluated,
    fails_on_the_hardest,
    leaks_collected,
    solves,
    solves_the_easy_ones,
    tolerates_inspect,
)
from tests.support.graphs import checked

__all__ = ["leaks_collected"]  # applies to every test here

pytestmark = tolerates_inspect


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Evaluation:
    model = ScriptedChat(solve=fails_on_the_hardest, plan=["A | b|c?", "Then?\n<script>"])
    folder = tmp_path_factory.mktemp("logs")
    return evaluated(model, folder, methods=["stepwise", "vanilla", "mine"][:2], epochs=2)


def test_records_read_back_are_what_was_run(run: Evaluation) -> None:
    found = read_records(run.log_dir)
    assert sorted(found, key=str) == sorted(run.records, key=str)


def test_methods_come_in_the_order_of_the_papers_tables(run: Evaluation) -> None:
    assert list(dict.fromkeys(r.method for r in read_records(run.log_dir))) == [
        "vanilla",
        "stepwise",
    ]


def test_a_record_says_all_about_its_answer(run: Evaluation) -> None:
    record = next(r for r in run.records if r.method == "stepwise" and r.level == 1)
    question = next(q for q in QUESTIONS if q.id == record.question)
    assert (record.dataset, record.model, record.planner) == (
        "arithmetic",
        "ScriptedChat",
        "ScriptedChat",
    )
    assert record.question_text == question.question
    assert record.target == question.targets[0]
    assert record.output == rf"It is \boxed{{{record.target}}}"
    assert (record.score, record.error, record.epoch) == (1.0, None, 1)
    assert record.explanation == f"{record.target} equals {record.target}"


def test_a_report_is_the_graphs_own(run: Evaluation) -> None:
    for record in run.records:
        report = checked(record.report)
        assert record.tokens == report["usage"]["output_tokens"]
        assert record.solving_tokens == record.tokens - planning_tokens(record.report)


def test_an_error_has_a_reason_a_cost_and_no_score(run: Evaluation) -> None:
    failed = [r for r in run.records if r.level == 5]
    assert len(failed) == 4
    for record in failed:
        assert record.score is None
        assert "HTTP 500" in str(record.error)
        assert record.explanation == record.output == ""
    assert {r.tokens > 0 for r in failed if r.method == "stepwise"} == {True}


def test_a_record_is_plain_json(run: Evaluation) -> None:
    row = run.records[0].to_dict()
    assert json.loads(json.dumps(row)) == row
    assert row["tokens"] == run.records[0].tokens


def test_the_latest_log_of_a_task_counts_and_no_answer_twice(tmp_path: Path) -> None:
    model = ScriptedChat(solve=solves)
    evaluated(model, tmp_path, limit=5)
    evaluated(model, tmp_path, limit=10)
    assert len(list(tmp_path.glob("*.eval"))) == 2
    records = read_records(tmp_path)
    assert len(records) == len({record.question for record in records}) == 10


def test_folders_below_are_read_too_and_other_logs_left_out(tmp_path: Path) -> None:
    evaluated(ScriptedChat(solve=solves), tmp_path / "a" / "b")
    other = Task(dataset=[Sample(input="Hi")], name="other")
    inspect_eval(other, model="mockllm/model", log_dir=str(tmp_path), display="none")
    assert {record.dataset for record in read_records(tmp_path)} == {"arithmetic"}


def test_a_folder_without_logs_says_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no log of `pb-optim eval`"):
        read_records(tmp_path)
    with pytest.raises(InputError, match="there is no folder"):
        read_records(tmp_path / "nowhere")
    (tmp_path / "broken.eval").write_text("no log")
    with pytest.raises(InputError, match="cannot read the log"):
        read_records(tmp_path)


# Tables made of records


def test_tokens_and_score_by_level(tmp_path: Path) -> None:
    records = evaluated(ScriptedChat(solve=solves_the_easy_ones), tmp_path, limit=10).records
    cells = by_level(records)
    assert [row["level"] for row in cells] == [1, 2, 3, 4, 5]
    assert [row["accuracy"] for row in cells] == [100.0, 100.0, 100.0, 0.0, 0.0]
    assert [row["T"] for row in cells] == [2.0, 3.0, 4.0, 5.0, 6.0]


def test_seconds_of_planning_and_of_solving_add_up(run: Evaluation) -> None:
    table: dict[Any, Any] = {row["method"]: row for row in latency(run.records)}
    stepwise = table["stepwise"]
    assert stepwise["n"] == 8
    parts = stepwise["plan_s"] + stepwise["estimate_s"] + stepwise["solving_s"]
    assert parts == pytest.approx(stepwise["total_s"])
    assert table["vanilla"]["plan_s"] == table["vanilla"]["estimate_s"] == 0.0
    assert table["vanilla"]["planning_%"] == 0.0


@pytest.mark.parametrize(
    ("answer", "solving", "finish", "expected"),
    [
        ("", 300, "stop", True),  # thinking ate the cap
        ("", 1, "length", True),
        ("42", 300, "stop", False),
        ("", 0, "stop", False),  # no solving call came back: the plan alone was paid for
        ("", 300, "error", False),  # a step failed
    ],
)
def test_an_answer_is_wrong_and_not_missing_where_solving_was_paid_and_nothing_failed(
    answer: str, solving: int, finish: str, expected: bool
) -> None:
    by_node = {"plan": {"output_tokens": 20}, "solve": {"output_tokens": solving}}
    report: Any = {
        "answer": answer,
        "steps": [{"finish": "stop"}, {"finish": finish}],
        "usage": {"by_node": by_node},
    }
    assert paid_for_nothing(report) is expected
