"""A policy of `auto` is chosen on logged answers, and judged on those it was not chosen on."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

from optim.cli import app
from optim.records import Record
from optim.tune.auto_policy import Trace, fit_policy, traces
from pb_graph import InputError, build_graph
from pb_graph.program import PlannerProgram
from pb_graph.settings import AutoPolicy
from tests.optim.report.samples import record
from tests.support.chat_model import ScriptedChat


def trace(number: int, *, easy: bool) -> Trace:
    """Easy questions are right in 50 tokens; hard ones run on when short, and need 400."""
    short = (1.0, 50, True) if easy else (0.0, 600, False)
    return Trace(str(number), 1 if easy else 5, short, (1.0, 250 if easy else 400, True))


READ_ON = partial(AutoPolicy, surprisal=0)
"""Answers in the logs were read to their end."""
WORLD = [trace(number, easy=number % 2 == 0) for number in range(60)]


@pytest.mark.parametrize(
    ("policy", "easy", "hard"),
    [
        ({"short": 60, "plain": 500}, (1.0, 50), (1.0, 60 + 400)),
        ({"short": 40, "plain": 500}, (1.0, 40 + 250), (1.0, 40 + 400)),
        ({"short": 60, "plain": 300}, (1.0, 50), (0.0, 60 + 300)),
        ({"short": 60, "plain": 500, "plain_from": 5}, (1.0, 50), (1.0, 400)),
    ],
)
def test_what_a_policy_would_have_come_to(
    policy: dict[str, int], easy: tuple[float, int], hard: tuple[float, int]
) -> None:
    found = AutoPolicy.model_validate(policy | {"tries": 1, "confidence": 0})
    assert (WORLD[0].under(found), WORLD[1].under(found)) == (easy, hard)
    sure = found.model_copy(update={"confidence": 0.3})  # of which its server told nothing
    assert WORLD[0].under(sure) == WORLD[0].under(AutoPolicy(plain=found.plain))


def test_the_best_policy_that_keeps_the_accuracy_is_found() -> None:
    fit = fit_policy(WORLD)
    assert fit.policy == READ_ON(tries=1, short=60, confidence=0, plain=400, plain_from=5)
    assert set(fit.folds) == {fit.policy}
    assert fit.expected.e3 == pytest.approx(100**2 / 225)
    assert fit.plain.e3 == pytest.approx(100**2 / 325)
    assert fit.against_plain.ratio == pytest.approx(325 / 225)


def test_short_and_wrong_answers_win_only_where_accuracy_may_be_lost() -> None:
    cheap = [
        Trace(str(n), None, (float(n % 3 == 0), 20, True), (1.0, 300, True)) for n in range(60)
    ]
    assert fit_policy(cheap).policy == READ_ON(tries=0, plain=300)
    assert fit_policy(cheap, loss=70).policy == READ_ON(tries=1, short=40, confidence=0, plain=200)


def test_answers_are_told_apart_by_the_confidence_they_were_written_with() -> None:
    asked = [
        Trace(str(n), None, (float(n % 2), 50, True), (1.0, 300, True), 0.55 if n % 2 else 0.12)
        for n in range(60)
    ]
    fit = fit_policy(asked)
    assert fit.policy == READ_ON(tries=1, short=60, confidence=0.15, plain=300)
    assert asked[0].under(fit.policy) == (1.0, 50 + 300)
    assert asked[1].under(fit.policy) == (1.0, 50)
    assert asked[0].under(AutoPolicy(tries=1, short=60, confidence=0)) == (0.0, 50)


def test_the_rows_are_read_from_logs() -> None:
    records: list[Record] = [
        record(method, number, error=None, score=1.0)
        for method in ("worked_examples@600", "by_kind", "cosine")
        for number in range(25)
    ]
    found = traces(records)
    assert len(found) == 25
    by_question = {(r.question, r.method): r for r in records}
    first = found[0]
    own = first.question.partition("/")[2]
    assert first.plain[1] == by_question[own, "by_kind"].solving_tokens


def test_questions_of_two_data_sets_are_two_even_with_equal_ids() -> None:
    asked = [
        replace(
            record(method, number, error=None, score=float(dataset == "gsm8k")), dataset=dataset
        )
        for method in ("worked_examples", "by_kind")
        for number in range(25)
        for dataset in ("gsm8k", "math500")
    ]
    found = traces(asked)
    assert len(found) == 50
    fit = fit_policy(found, loss=60)
    assert fit.expected.e3 > 0
    assert fit.against_plain.questions == 50


def test_two_rows_of_one_way_are_refused_by_name() -> None:
    twice = [record(f"by_kind@{cap}", 1, error=None, score=1.0) for cap in (600, 1500)]
    with pytest.raises(InputError, match=r"by by_kind@600 and by by_kind@1500.*--logs"):
        traces(twice)


def test_too_few_questions_say_what_to_run() -> None:
    with pytest.raises(InputError, match="pb-optim eval --methods worked_examples,by_kind"):
        traces([record("by_kind", 1, error=None, score=1.0)])


def test_the_command_writes_a_program_that_answers_by_the_policy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [
        record(method, number, error=None, score=1.0)
        for method in ("worked_examples", "by_kind")
        for number in range(25)
    ]
    monkeypatch.setattr("optim.records.read_records", lambda _: found)
    words = ["tune", "--tune", "auto", "--run-dir", str(tmp_path)]
    refused = CliRunner().invoke(app, words)
    assert refused.exit_code == 2
    assert "logs of worked_examples and by_kind" in " ".join(refused.output.split())
    more = ["--logs", "logs", "--dataset", "gsm8k", "--set", "budget=9", "--budget-tokens", "9"]
    refused = CliRunner().invoke(app, [*words, *more])
    told = " ".join(refused.output.split())
    assert "would ignore dataset, limits, settings: leave it out" in told
    (tmp_path / "file").touch()
    refused = CliRunner().invoke(app, [*words, "--logs", "logs", "--run-dir", tmp_path / "file"])
    assert (refused.exit_code, "cannot write to" in refused.output) == (2, True)
    assert "against by_kind" in CliRunner().invoke(app, [*words, "--logs", "logs"]).stdout
    done = CliRunner().invoke(app, [*words, "--logs", "logs", "--json"])
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    settings = PlannerProgram.load(tmp_path / "program.json").settings
    assert settings is not None
    assert settings.method == "auto"
    assert settings.auto == AutoPolicy.model_validate(told["policy"])
    model = ScriptedChat(solve="Final answer: 42")
    graph = build_graph(model, planner_program=tmp_path / "program.json")
    report = graph.invoke({"question": "What is 6 * 7?"})["report"]
    assert (report["method"], report["answer"]) == ("auto", "Final answer: 42")
