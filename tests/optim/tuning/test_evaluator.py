"""Measuring candidates: each answer is paid for once, and within the budget."""

from __future__ import annotations

from pathlib import Path

import pytest

from optim.bench.store import RefusedError
from optim.tuning.evaluator import OutageError, SearchEndedError, UnscoredError
from pb_graph.errors import InputError, PlanAndBudgetError
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
        spent = bench.spent()
    with bench_in(tmp_path, model) as bench:
        assert bench.measure(original(), FEW) == first
        assert bench.spent() == spent
    assert len(model.calls) == calls
    assert spent == f"{len(FEW)} answers, {model.output_tokens:,} completion tokens"


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


@pytest.mark.parametrize(("status", "answers"), [(503, 8), (401, 3), (403, 3), (404, 3)])
def test_a_server_that_is_gone_ends_the_run_instead_of_spending_its_answers(
    tmp_path: Path, status: int, answers: int
) -> None:
    model = ScriptedChat(
        planner=HTTPError(status), solve=HTTPError(status), max_retries=0, retries_itself=False
    )
    with bench_in(tmp_path, model, concurrency=1) as bench:
        with pytest.raises(PlanAndBudgetError, match="rerun the same command"):
            bench.measure(original(max_retries=0), DEV)
        assert isinstance(bench.refusal, RefusedError if answers == 3 else OutageError)
        assert bench.answers == answers


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


def test_a_candidate_is_not_measured_by_an_answer_that_cannot_be_scored(tmp_path: Path) -> None:
    def broken(output: str, _: object) -> float:
        raise KeyError(output)

    with bench_in(tmp_path, scorer=broken) as bench:
        with pytest.raises(UnscoredError, match=r"cannot be scored: .*KeyError.*leave"):
            bench.measure(original(), FEW[:1])
        assert bench.refusal is None
        with pytest.raises(InputError, match="KeyError"):  # eight in a row
            bench.measure(original(), DEV)
        assert isinstance(bench.refusal, UnscoredError)
    with bench_in(tmp_path) as bench:  # the scorer is mended, and the answer is there already
        assert bench.measure(original(), FEW[:1])[0].score is not None


@pytest.mark.parametrize("limit", [{"limit_tokens": 2500}, {"limit_usd": 0.0025}])
def test_a_limit_keeps_what_the_held_out_questions_will_cost(
    tmp_path: Path, limit: dict[str, float]
) -> None:
    prices = {"scripted-1": (0.0, 1.0)}
    with bench_in(tmp_path, concurrency=1, prices=prices, **limit) as bench:
        bench.reserved = 2
        with pytest.raises(SearchEndedError, match=r"are spent, and 2 are kept .* higher limit"):
            bench.measure(original(), DEV)
        searched, bench.reserved, bench.refusal = bench.answers, 0, None
        with pytest.raises(SearchEndedError):
            bench.measure(original(), DEV)
        assert bench.answers - searched >= 1


def test_the_limit_of_answers_is_exact_and_begun_answers_are_kept(tmp_path: Path) -> None:
    with bench_in(tmp_path, answers=4) as bench:
        with pytest.raises(SearchEndedError, match="4 of 4 answers are spent"):
            bench.measure(original(), FEW)
        assert bench.answers == 4
        assert isinstance(bench.refusal, SearchEndedError)
        assert len(bench.known(original(), FEW)) == 4
    with bench_in(tmp_path, answers=6) as bench:
        assert len(bench.measure(original(), FEW)) == 6
