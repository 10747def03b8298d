"""Measuring candidates: each answer is paid for once, and within the budget."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from optim.tuning.evaluator import OutageError, SearchEndedError
from tests.support.chat_model import HTTPError, ScriptedChat, thinks_in_vain
from tests.support.tuning_world import DEV, bench_in, original, world

FEW = DEV[:6]


def test_known_answers_cost_nothing_in_this_start_and_in_the_next(tmp_path: Path) -> None:
    model = world()
    with bench_in(tmp_path, model) as bench:
        first = bench.measure(original(), FEW)
        calls = len(model.calls)
        assert [one.question for one in first] == [q.id for q in FEW]
        assert all(one.tokens == one.report["usage"]["output_tokens"] > 0 for one in first)
        assert bench.measure(original(), FEW) == first == bench.known(original(), DEV)
        assert bench.measure(original(), FEW[:1])[0] == first[0]
        assert (bench.measured(FEW), bench.measured(DEV)) == ([original()], [])
        spent = bench.spent
    with bench_in(tmp_path, model) as bench:
        assert bench.measure(original(), FEW) == first
        assert bench.spent == spent
    assert len(model.calls) == calls
    assert (spent.answers, spent.tokens) == (len(FEW), model.output_tokens)


def test_threads_that_ask_the_same_at_once_pay_once(tmp_path: Path) -> None:
    """DSPy submits an example again when it has taken two minutes."""
    model = world(seconds=0.2)
    with bench_in(tmp_path, model) as bench, ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: bench.measure(original(), FEW[:1])[0], range(8)))
        assert bench.spent.answers == 1
    assert len({(one.score, one.tokens) for one in found}) == 1
    assert len(model.solving()) == 1


def test_a_paid_and_empty_answer_is_wrong_at_its_cost(tmp_path: Path) -> None:
    with bench_in(tmp_path, ScriptedChat(solve=thinks_in_vain)) as bench:
        result = bench.measure(original(cutoff=300), FEW[:1])[0]
    assert (result.score, result.error, result.report["answer"]) == (0.0, None, "")
    assert result.tokens > 300


def test_a_candidate_is_not_measured_by_an_answer_that_never_came(tmp_path: Path) -> None:
    with bench_in(tmp_path, ScriptedChat(solve=HTTPError(400))) as bench:
        with pytest.raises(OutageError, match="HTTP 400"):
            bench.measure(original(), FEW[:1])
        assert bench.refusal is None  # another candidate may fare better
    with bench_in(tmp_path, world()) as bench:
        assert bench.measure(original(), FEW[:1])[0].error is None


def test_a_server_that_is_gone_ends_the_run_instead_of_spending_its_answers(tmp_path: Path) -> None:
    model = ScriptedChat(planner=HTTPError(401), solve=HTTPError(401))
    with bench_in(tmp_path, model, concurrency=1) as bench:
        with pytest.raises(OutageError, match="rerun the same command"):
            bench.measure(original(), DEV)
        assert isinstance(bench.refusal, OutageError)
        assert bench.spent.answers == 8


def test_a_candidate_that_is_always_refused_does_not_end_the_run(tmp_path: Path) -> None:
    model = ScriptedChat(solve=lambda call: HTTPError(400) if call.cap <= 200 else "7")
    with bench_in(tmp_path, model, concurrency=1) as bench:
        bench.measure(original(), FEW)
        refusals = []
        for cutoff in (200, 199):  # two candidates in a row are an outage
            with pytest.raises(OutageError):
                bench.measure(original(cutoff=cutoff), DEV)
            refusals.append(bench.refusal is not None)
    assert refusals == [False, True]


def test_an_answer_that_cannot_be_scored_is_wrong_at_its_cost(tmp_path: Path) -> None:
    def broken(output: str, _: object) -> float:
        raise KeyError(output)

    with bench_in(tmp_path, scorer=broken) as bench:
        result = bench.measure(original(), FEW[:1])[0]
        with pytest.raises(OutageError, match="KeyError"):  # eight in a row
            bench.measure(original(), DEV)
    assert (result.score, result.tokens > 0) == (0.0, True)
    assert "KeyError" in str(result.error)


def test_the_limit_of_answers_is_exact_and_begun_answers_are_kept(tmp_path: Path) -> None:
    with bench_in(tmp_path, answers=4) as bench:
        with pytest.raises(SearchEndedError, match="4 of 4 answers are spent"):
            bench.measure(original(), FEW)
        assert bench.spent.answers == 4
        assert isinstance(bench.refusal, SearchEndedError)
        assert len(bench.known(original(), FEW)) == 4
    with bench_in(tmp_path, answers=6) as bench:
        assert len(bench.measure(original(), FEW)) == 6
