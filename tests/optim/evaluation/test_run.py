"""Evaluations: what is asked, logged, shown by Inspect's tools, and resumed."""

from __future__ import annotations

import dataclasses
import io
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import fsspec
import pytest
from filelock import FileLock
from inspect_ai.event import InfoEvent, ModelEvent, SpanBeginEvent
from inspect_ai.log import EvalLog, EvalSample, list_eval_logs, read_eval_log
from rich.console import Console

from optim.bench.store import LOCK, ReplyCache, StorageError
from optim.datasets import Question, mathematics
from optim.evaluation import Evaluation, EvaluationError, Experiment, evaluate
from optim.records import read_records
from optim.scorers import Score
from pb_graph import InputError
from pb_graph.planner.planner import Planner
from tests.support.chat_model import Call, HTTPError, Said, ScriptedChat, in_turn, thinks_in_vain
from tests.support.evaluations import (
    QUESTIONS,
    contents,
    evaluated,
    experiment,
    fails_on_the_hardest,
    leaks_collected,
    level_of,
    rows,
    solves,
    solves_the_easy_ones,
    tolerates_inspect,
)

__all__ = ["leaks_collected"]  # applies to every test here

pytestmark = tolerates_inspect


def row_of(found: Evaluation, method: str) -> SimpleNamespace:
    return next(row for row in rows(found.records) if row.method == method)


Run = tuple[ScriptedChat, Evaluation]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    plan = ["What is | given?", "What follows? | add | after 1"]
    model = ScriptedChat(solve=solves_the_easy_ones, plan=plan)
    chosen = ["vanilla", "planned_vanilla", "cosine", "linear", "stepwise"]
    folder, always = tmp_path_factory.mktemp("logs"), {"plan_from": 1}
    return model, evaluated(model, folder, methods=chosen, epochs=2, settings=always)


def test_every_method_answers_every_question_in_every_epoch(run: Run) -> None:
    _, found = run
    assert len(found.records) == len({(r.method, r.question, r.epoch) for r in found.records}) == 50
    assert [row.n for row in rows(found.records)] == [10] * 5


def test_planning_is_part_of_t_and_also_shown_apart(run: Run) -> None:
    model, found = run
    vanilla, cosine, planned = (
        row_of(found, name) for name in ("vanilla", "cosine", "planned_vanilla")
    )
    assert (vanilla.accuracy, vanilla.tokens) == (60.0, 4.0)  # 1 + level words
    assert vanilla.e3 == 60.0**2 / 4.0
    spent = {role: next(c for c in model.calls if c.role == role).output_tokens
             for role in ("decompose", "estimate")}  # fmt: skip
    assert cosine.tokens == 4.0 + spent["decompose"] + spent["estimate"]
    assert planned.tokens == 4.0 + spent["decompose"]
    assert cosine.solving_tokens == planned.solving_tokens == 4.0


def test_a_plan_is_asked_for_once_and_charged_to_every_row_of_the_paper_and_epoch(run: Run) -> None:
    model, found = run
    plans = [call for call in model.calls if call.role == "decompose"]
    assert len(plans) == 5
    charged = {r.report["usage"]["by_node"]["plan"]["output_tokens"]
               for r in found.records if r.method not in {"vanilla", "stepwise"}}  # fmt: skip
    assert charged == {plans[0].output_tokens}
    assert found.spent == model.output_tokens < sum(record.tokens for record in found.records)


def test_no_more_questions_than_allowed_are_answered_at_once(tmp_path: Path) -> None:
    model = ScriptedChat(solve=solves, seconds=0.02)
    evaluated(model, tmp_path, methods="vanilla,global_budget", epochs=2, concurrency=3)
    assert model.record.most_at_once == 3


def broken(*_: object, **__: object) -> None:
    msg = "a bug"
    raise RuntimeError(msg)


def test_an_error_of_ours_ends_nothing_and_keeps_its_tokens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pb_graph.nodes.finish._build_report", broken)
    found = evaluated(ScriptedChat(solve=solves), tmp_path, methods="cosine,vanilla")
    assert {(r.error, r.score) for r in found.records} == {("RuntimeError: a bug", None)}
    assert found.spent > 0
    assert min(r.tokens for r in found.records if r.method == "cosine") > 3


def test_the_same_command_scores_failed_answers_again_and_asks_those_that_never_came(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = ScriptedChat(solve=fails_on_the_hardest)
    once: dict[str, Any] = {"settings": {"max_retries": 0}}
    with monkeypatch.context() as patched:
        patched.setattr("optim.scorers.mathematics.MathScorer.score", broken)
        found = evaluated(model, tmp_path, **once)
    assert (rows(found.records)[0].n, rows(found.records)[0].errors) == (0, 5)
    assert "a bug" in str(found.records[0].error)
    model.solve = solves
    mended = evaluated(model, tmp_path, **once)
    assert (rows(mended.records)[0].accuracy, len(model.calls)) == (100.0, 6)


@pytest.mark.parametrize(
    ("method", "fails"),
    [
        ("cosine", {"planner": HTTPError(401)}),
        ("stepwise", {"solve": in_turn("1", HTTPError(401))}),
        ("agree_or_think", {"solve": in_turn("1", HTTPError(401))}),
    ],
)
def test_an_answer_without_one_of_its_calls_is_an_error_and_asked_for_again(
    tmp_path: Path, method: str, fails: dict[str, Any]
) -> None:
    one: dict[str, Any] = {"methods": method, "limit": 1}
    (failed,) = evaluated(ScriptedChat(**{"solve": solves, **fails}), tmp_path, **one).records
    assert (failed.score, "HTTP 401" in str(failed.error)) == (None, True)
    (again,) = evaluated(ScriptedChat(solve=solves), tmp_path, **one).records
    assert (again.score, again.error) == (1.0, None)


def test_an_empty_answer_that_was_paid_for_is_wrong(tmp_path: Path) -> None:
    """Leaving it out would flatter the method whose thinking runs away on hard questions."""

    def runs_away(call: Call) -> Said:
        return thinks_in_vain(call) if level_of(call) >= 4 else solves(call)

    found = evaluated(ScriptedChat(solve=runs_away), tmp_path, settings={"cutoff": 1500})
    row = rows(found.records)[0]
    assert (row.n, row.errors, row.accuracy) == (5, 0, 60.0)
    assert row.tokens > 2 * 1500 / 5
    wrong = [record for record in found.records if not record.output]
    assert [(one.score, one.error) for one in wrong] == [(0.0, None)] * 2
    assert "paid without an answer" in wrong[0].explanation


class Delivers:
    """Tells what an empty answer lacks, as TravelPlanner's scorer does for its rates."""

    def score(self, output: str, question: Question) -> Score:
        del output, question
        return Score(1.0, None, "", {"delivered": True})

    def unanswered(self, question: Question) -> dict[str, object]:
        return {"delivered": False, "asked": question.id}


def test_an_empty_answer_is_in_the_rates_of_a_scorer(tmp_path: Path) -> None:
    found = evaluated(ScriptedChat(solve=thinks_in_vain), tmp_path, scorer=Delivers())
    assert {record.score_metadata["delivered"] for record in found.records} == {False}


def test_a_finished_run_costs_nothing_again_and_more_questions_only_their_own(
    tmp_path: Path,
) -> None:
    model = ScriptedChat(solve=solves)
    first = evaluated(model, tmp_path, methods="vanilla,cosine")
    calls, logs = len(model.calls), list_eval_logs(str(tmp_path))
    second = evaluated(model, tmp_path, methods="vanilla,cosine")
    assert second == first
    assert (len(model.calls), len(list_eval_logs(str(tmp_path)))) == (calls, len(logs))
    more = evaluated(model, tmp_path, limit=10)
    assert (len(model.calls) - calls, len(more.records)) == (5, 10)


def test_one_folder_does_not_mix_conditions(tmp_path: Path) -> None:
    model = ScriptedChat(solve=solves)
    evaluated(model, tmp_path, methods="global_budget")
    changes: dict[str, dict[str, Any]] = {
        "cutoff: 8192 → 77": {"settings": {"cutoff": 77}},
        "seed: 0 → 1": {"seed": 1},
        "estimate_level: False → True": {"estimate_level": True},
        "source: ": {"data": Path(mathematics.__file__).with_name("arithmetic.jsonl")},
    }
    for named, change in changes.items():
        with pytest.raises(InputError, match=f"under other conditions .*{named}"):
            evaluated(model, tmp_path, methods="global_budget", **change)


def test_a_scorer_that_was_mended_judges_anew_and_nothing_is_paid_for(tmp_path: Path) -> None:
    model = ScriptedChat(solve=solves)
    wrong = evaluated(model, tmp_path, scorer=lambda *_: 0.0)
    right = evaluated(model, tmp_path, scorer=lambda *_: 1.0)
    assert {record.score for record in wrong.records} == {0.0}
    assert {record.score for record in right.records} == {1.0}
    assert len(model.calls) == 5


def test_another_process_in_the_folder_is_refused(tmp_path: Path) -> None:
    with FileLock(tmp_path / LOCK), pytest.raises(InputError, match="another process is using"):
        evaluated(ScriptedChat(solve=solves), tmp_path)


def test_a_disk_that_is_full_ends_the_run_with_a_plain_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, execute = ScriptedChat(solve=solves), ReplyCache._execute

    def full(self: ReplyCache, statement: str, *values: object) -> sqlite3.Cursor:
        if statement.startswith("INSERT") and len(model.calls) == 3:
            raise sqlite3.OperationalError
        return execute(self, statement, *values)

    with monkeypatch.context() as patched:
        patched.setattr(ReplyCache, "_execute", full)
        with pytest.raises(StorageError, match="cannot write"):
            evaluated(model, tmp_path, concurrency=1)
    assert len(model.calls) == 3  # two are kept, the third is lost, and no more is begun
    found = evaluated(model, tmp_path)
    assert (rows(found.records)[0].n, len(model.calls)) == (5, 6)


def test_a_task_that_inspect_did_not_run_is_no_interruption(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("optim.evaluation.run.inspect_eval", lambda *_, **__: [])
    with pytest.raises(EvaluationError, match="Inspect did not run all samples"):
        evaluated(ScriptedChat(solve=solves), tmp_path)


def test_a_limit_ends_the_run_cleanly_and_a_higher_one_goes_on(tmp_path: Path) -> None:
    model = ScriptedChat(solve=solves)
    options: dict[str, Any] = {"methods": "vanilla,global_budget", "concurrency": 1}
    cut = evaluated(model, tmp_path, limit_tokens=10, **options)
    assert (len(cut.records), cut.not_started, cut.spent) == (4, 6, 12)
    assert {r.error for r in cut.records} == {None}
    assert evaluated(model, tmp_path, limit_tokens=12, **options).spent == 12  # to the token
    whole = evaluated(model, tmp_path, limit_tokens=1000, **options)
    assert (len(whole.records), whole.not_started) == (10, 0)
    assert whole.spent == model.output_tokens == 30
    none = evaluated(model, tmp_path, methods="concise", limit_tokens=5)
    assert (none.records, none.not_started) == ([], 5)


def test_elsewhere_lines_say_how_far_it_is_and_what_all_will_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("optim.evaluation.run._EVERY", 0.0)
    out = io.StringIO()
    asked = experiment(ScriptedChat(solve=solves), tmp_path, limit=10, concurrency=1)
    evaluate(asked, console=Console(file=out, width=160))
    lines = out.getvalue().splitlines()
    assert len(lines) == 10
    assert lines[5].startswith("6 of 10 answers, 0 errors, 18 completion tokens spent")
    assert lines[5].endswith(" left; about 30 tokens in all")


def test_two_programs_stand_in_one_table_and_each_sends_its_own_prompts(tmp_path: Path) -> None:
    model, animals = ScriptedChat(solve=solves), {"gepa": "whales", "copro": "eagles"}
    files = {name: tmp_path / f"{name}.json" for name in animals}
    for name, file in files.items():
        tuned = Planner()
        for predictor in (tuned.fused, tuned.decompose):
            instruction = f"Think of {animals[name]}."
            predictor.signature = predictor.signature.with_instructions(instruction)
        tuned.save(file)
    options: dict[str, Any] = {"limit": 1, "settings": {"plan_from": 1}}
    listed = ",".join(f"{name}={file}" for name, file in files.items())
    found = evaluated(model, tmp_path / "logs", methods=f"planned_vanilla,{listed}", **options)
    assert {row.method for row in rows(found.records)} == {"planned_vanilla", *animals}
    asked = [str(call.messages) for call in model.calls if call.role != "solve"]
    assert [sum(animal in text for text in asked) for animal in animals.values()] == [1, 1]
    with pytest.raises(InputError, match=r"under other conditions \(the planner's program changed"):
        evaluated(model, tmp_path / "logs", methods=f"gepa={files['copro']}", **options)
    with pytest.raises(InputError, match="add 'default'"):
        evaluated(model, tmp_path / "other", methods="vanilla", planner_program=files["gepa"])


def test_our_planning_comes_twice_where_a_label_tells_the_level() -> None:
    chosen = Experiment(dataset="arithmetic", methods="plan_and_budget@300,vanilla@300")
    unlabelled = [dataclasses.replace(question, level=None) for question in QUESTIONS]
    assert {row.name: row.estimate_level for row in chosen.chosen_methods(QUESTIONS)} == {
        "plan_and_budget@300": False,
        "plan_and_budget_estimated@300": True,
        "vanilla@300": False,
    }
    assert len(chosen.chosen_methods(unlabelled)) == 2
    estimating = dataclasses.replace(chosen, estimate_level=True)
    assert len(estimating.chosen_methods(QUESTIONS)) == 2


def test_the_log_says_how_it_was_made_without_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["/usr/bin/pb-optim", "eval", "--model", "local:/home/me/x.gguf", "--data=/a/b.jsonl"]
    monkeypatch.setattr("sys.argv", [*command, "--model", "open:meta/llama"])
    evaluated(ScriptedChat(solve=solves), tmp_path, settings={"cutoff": 77}, seed=3)
    (log,) = list_eval_logs(str(tmp_path))
    made: Any = (read_eval_log(log, header_only=True).eval.metadata or {})["made_by"]
    assert made["command"] == (
        "pb-optim eval --model local:x.gguf --data=b.jsonl --model open:meta/llama"
    )
    assert (made["seed"], made["epochs"], made["settings"]["cutoff"]) == (3, 1, 77)
    assert made.keys() >= {"date", "version", "data", "split", "temperature", "scorer"}


def test_several_epochs_at_temperature_0_are_refused_before_anything_is_paid(
    tmp_path: Path,
) -> None:
    class Cold(ScriptedChat):
        temperature: float = 0.0

    with pytest.raises(InputError, match="epochs must be at least 1"):
        Experiment(dataset="arithmetic", epochs=0)
    model = Cold(solve=solves)
    with pytest.raises(InputError, match="epochs at temperature 0"):
        evaluated(model, tmp_path, epochs=2)
    assert not model.calls


def log_of(found: Evaluation, method: str) -> EvalLog:
    logs = (
        read_eval_log(info, resolve_attachments=True) for info in list_eval_logs(str(found.log_dir))
    )
    return next(log for log in logs if (log.eval.metadata or {})["method"] == method)


def events(sample: EvalSample, kind: type[Any]) -> list[Any]:
    return [event for event in sample.events if isinstance(event, kind)]


def test_the_metrics_are_those_of_the_table(run: Run) -> None:
    _, seen = run
    log, row = log_of(seen, "cosine"), row_of(seen, "cosine")
    assert log.results
    metrics = {name: metric.value for name, metric in log.results.scores[0].metrics.items()}
    names = ("accuracy", "tokens", "e3", "e3_lower", "e3_upper")
    assert metrics == pytest.approx({name: getattr(row, name) for name in names})


def test_every_call_is_there_under_its_node_and_so_are_plan_and_budgets(run: Run) -> None:
    samples = log_of(run[1], "stepwise").samples or []
    sample = next(one for one in samples if one.metadata["level"] == 3)
    (info,) = events(sample, InfoEvent)
    assert (info.data["level"], info.data["budget"]) == (3, 350)
    assert [step["question"] for step in info.data["steps"]] == ["What is", "What follows?"]
    calls = events(sample, ModelEvent)
    assert [call.model for call in calls] == ["recorded/scripted-1"] * 3
    plan, first, last = calls
    assert "What is" in plan.output.completion
    assert "Solve sub-question 1 now" in first.input[-1].text
    assert "Solve sub-question 2 now" in last.input[-1].text
    assert last.output.completion.startswith("well well well")
    assert last.output.usage.output_tokens == 4
    assert (
        sum(call.output.usage.output_tokens for call in calls)
        == sample.store["report"]["usage"]["output_tokens"]
    )
    spans = [span.name for span in events(sample, SpanBeginEvent)]
    stages = [name for name in spans if name.split()[0] in {"plan", "estimate", "solve", "answer"}]
    assert stages == ["plan", "solve step 1", "solve step 2"]


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An address under which nothing is yet."""
    name = f"run-{uuid4().hex}"
    monkeypatch.chdir(tmp_path)
    yield f"memory://{name}"
    fsspec.filesystem("memory").rm(f"/{name}", recursive=True)


def in_store(model: ScriptedChat, store: str, part: int, **options: Any) -> Evaluation:  # noqa: ANN401
    folder: Any = f"{store}/part-{part}"
    return evaluated(model, folder, **{"part": f"{part}/2", "limit": 12} | options)


def test_parts_in_a_store_go_on_unpaid_and_are_pooled_from_there(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = ScriptedChat(solve=solves)
    assert in_store(model, store, 1, limit_tokens=1, concurrency=1).not_started
    for part in (1, 2, 1):
        in_store(model, store, part)
    asked = [call.ask for call in model.calls]
    assert len(asked) == len(set(asked)) == 12
    whole = evaluated(ScriptedChat(solve=solves), tmp_path / "whole", limit=12)
    assert contents(read_records(store)) == contents(whole.records)
    assert not list(tmp_path.glob("run-*/*/*.eval"))
    assert len(list(tmp_path.glob("run-*/part-*/replies.sqlite"))) == 2
    with pytest.raises(InputError, match="missing parts: 2"):
        read_records(f"{store}/part-1")
    # The logs are enough on another machine, where all of the part is done.
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    in_store(model, store, 1)
    assert len(model.calls) == len(asked)
