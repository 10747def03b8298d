from __future__ import annotations

import dataclasses
import json
import random
from pathlib import Path
from typing import Any

import pytest
from inspect_ai import Task
from inspect_ai import eval as inspect_eval
from inspect_ai.dataset import Sample
from inspect_ai.log import (
    EvalConfig,
    EvalDataset,
    EvalError,
    EvalLog,
    EvalSample,
    EvalSpec,
    write_eval_log,
)
from rich.console import Console

from optim.evaluation import Evaluation, evaluate
from optim.records import planning_tokens, read_records
from optim.report.tables import by_level, latency
from optim.summary import rows
from pb_graph import InputError
from pb_graph.types import Report
from tests.optim.report.samples import _usage, report
from tests.support.chat_model import ScriptedChat
from tests.support.evaluations import (
    QUESTIONS,
    evaluated,
    experiment,
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
        "scripted-1",
        "scripted-1",
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


def old_log(folder: Path, report: Report, error: str) -> None:
    """A log of an earlier version: a single sample, which ended in an error."""
    about = {"dataset": "arithmetic", "method": "vanilla", "model": "m", "planner": "m"}
    conditions = {"settings": {"cutoff": 60}, "seed": 7, "estimate_level": False, "source": None}
    spec = EvalSpec(
        created="2026-05-01T10:00:00+00:00", task="t", model="m",
        dataset=EvalDataset(sample_ids=["q"]), config=EvalConfig(epochs=1),
        metadata=about | {"fingerprint": "f", "scorer": "math", "conditions": conditions},
    )  # fmt: skip
    sample = EvalSample(
        id="q", epoch=1, input="?", target="4", store={"report": report, "error": error},
        error=EvalError(message=error, traceback="", traceback_ansi=""), metadata={"level": 2},
    )  # fmt: skip
    write_eval_log(
        EvalLog(version=2, status="success", eval=spec, samples=[sample]), str(folder / "old.eval")
    )


def silent(tokens: int) -> Report:
    usage = _usage(tokens, 1)
    by_node = {"answer": usage}
    return report("vanilla", 2, random.Random(0)) | {  # noqa: S311
        "answer": "", "level": 2, "usage": {**usage, "by_node": by_node},
    }  # type: ignore[return-value] # fmt: skip


def test_a_paid_answer_that_came_to_nothing_is_wrong_in_old_logs_too(tmp_path: Path) -> None:
    reason = "No answer, after 60 completion tokens.\n- every reply of the model was empty"
    old_log(tmp_path, silent(60), reason)
    (record,) = read_records(tmp_path)
    assert (record.score, record.error, record.tokens) == (0.0, None, 60)
    assert record.explanation == reason
    (row,) = rows([record])
    assert (row.n, row.errors, row.accuracy, row.tokens) == (1, 0, 0.0, 60.0)


@pytest.mark.parametrize(
    ("tokens", "reason"),
    [(0, "No answer, after 0 completion tokens."), (60, "RuntimeError: a bug of ours")],
)
def test_what_was_never_answered_for_an_outside_reason_stays_an_error(
    tmp_path: Path, tokens: int, reason: str
) -> None:
    old_log(tmp_path, silent(tokens), reason)
    (record,) = read_records(tmp_path)
    assert (record.score, record.error) == (None, reason)


def test_a_record_tells_how_it_was_made_as_far_as_the_log_knows(tmp_path: Path) -> None:
    old_log(tmp_path, silent(60), "No answer, after 60 completion tokens.")
    (record,) = read_records(tmp_path)
    assert record.made_by == {
        "date": "2026-05-01T10:00:00+00:00", "data": "arithmetic", "seed": 7, "scorer": "math",
        "epochs": 1, "settings": {"cutoff": 60},
    }  # fmt: skip


def test_the_scorers_metadata_reaches_the_record(run: Evaluation) -> None:
    scored = [r for r in run.records if r.score is not None]
    assert {r.score_metadata["boxed"] for r in scored} == {True}


def test_a_record_says_whose_word_the_level_is(tmp_path: Path) -> None:
    model = ScriptedChat(solve=solves, level=2)
    chosen = "vanilla,concise,planned_vanilla,global_budget"
    told = evaluated(model, tmp_path / "a", methods=chosen).records
    guessed = evaluated(model, tmp_path / "b", methods=chosen, estimate_level=True).records
    by_method = {(r.method, r.level_source) for r in told}
    unaware = {("vanilla", None), ("concise", None)}
    assert by_method == unaware | {("planned_vanilla", "label"), ("global_budget", "label")}
    assert {(r.method, r.level_source) for r in guessed} == unaware | {
        ("planned_vanilla", None), ("global_budget", "estimated"),
    }  # fmt: skip


def test_the_latest_log_of_a_task_counts_and_no_answer_twice(tmp_path: Path) -> None:
    model = ScriptedChat(solve=solves)
    evaluated(model, tmp_path, limit=5)
    evaluated(model, tmp_path, limit=10)
    assert len(list(tmp_path.glob("*.eval"))) == 2
    records = read_records(tmp_path)
    assert len(records) == len({record.question for record in records}) == 10


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"question": "What is 2 + 3?", "answer": "5"}, "text, accepted answers"),
        ({"answer": "6"}, "accepted answers"),
        ({}, "scorer"),
    ],
)
def test_methods_that_were_asked_or_scored_otherwise_are_not_compared(
    tmp_path: Path, change: dict[str, str], named: str
) -> None:
    data, row = tmp_path / "own.jsonl", {"id": "q", "question": "What is 2 + 2?", "answer": "4"}
    for method, changes in (("vanilla", {}), ("concise", change)):
        data.write_text(json.dumps(row | changes))
        own: dict[str, Any] = {"dataset": "jsonl", "data": data, "limit": None}
        own["scorer"] = "math" if method == "vanilla" or change else "rouge"
        asked = experiment(ScriptedChat(solve="4"), tmp_path, methods=method)
        evaluate(dataclasses.replace(asked, **own), console=Console(quiet=True))
    with pytest.raises(InputError, match=f"'q' of 'jsonl' differs in {named} between"):
        read_records(tmp_path)
    assert [record.method for record in read_records(tmp_path, methods=["concise"])] == ["concise"]


def test_what_a_log_lacks_is_told(tmp_path: Path) -> None:
    model = ScriptedChat(solve=solves)
    few = evaluated(model, tmp_path, max_tokens_total=5, concurrency=1, epochs=2).records
    for found in (few, read_records(tmp_path)):
        assert {r.made_by["gaps"] for r in found} == {f"its log has {len(few)} of its 10 answers"}
    evaluated(model, tmp_path, epochs=2)
    assert not any("gaps" in record.made_by for record in read_records(tmp_path))


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
