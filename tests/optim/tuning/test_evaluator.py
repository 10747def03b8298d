from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from filelock import FileLock

from optim.evaluation.store import StorageError
from optim.scorers import Score, ScorerError
from optim.tuning.candidate import DEFAULT_INSTRUCTIONS, Candidate
from optim.tuning.evaluator import BudgetSpentError, OutageError
from optim.tuning.options import TuneBudget
from pb_graph import InputError, Settings
from tests.support.chat_model import HTTPError, ScriptedChat, in_turn, thinks_in_vain
from tests.support.tuning_world import DEV, MINIMAL, TRAIN, bench_in, original, world

FEW = DEV[:6]


# Measuring


def test_results_come_in_the_order_of_the_questions(tmp_path: Path) -> None:
    with bench_in(tmp_path) as bench:
        found = bench.measure(original(), FEW)
    assert [one.question for one in found] == [q.id for q in FEW]
    assert {one.error for one in found} == {None}
    assert all(one.tokens == one.report["usage"]["output_tokens"] > 0 for one in found)


def test_what_is_known_costs_nothing_in_this_start_and_in_the_next(tmp_path: Path) -> None:
    model = world()
    with bench_in(tmp_path, model) as bench:
        first = bench.measure(original(), FEW)
        calls = len(model.calls)
        assert bench.measure(original(), FEW) == first
        assert bench.one(original(), FEW[0]) == first[0]
        assert bench.is_cached(original(), FEW)
        assert not bench.is_cached(original(), DEV)
        spent = bench.spent
    with bench_in(tmp_path, model) as bench:
        assert bench.is_cached(original(), FEW)
        assert bench.measure(original(), FEW) == first
        assert (bench.spent.answers, bench.spent.tokens) == (spent.answers, spent.tokens)
    assert len(model.calls) == calls
    assert spent.answers == len(FEW)
    assert spent.tokens == model.output_tokens


def test_a_candidate_brings_its_own_words_and_settings(tmp_path: Path) -> None:
    model = world()
    frugal = original().with_instruction("decompose", MINIMAL)
    with bench_in(tmp_path, model) as bench:
        usual, terse = bench.one(original(), FEW[0]), bench.one(frugal, FEW[0])
        vanilla = bench.one(Candidate(settings=Settings(method="planned_global_budget")), FEW[0])
    assert terse.tokens < usual.tokens
    assert vanilla.report["method"] == "planned_global_budget"
    plans = [call for call in model.calls if call.node == "plan"]
    told = {str(call.messages[0].text).split("\n")[0] for call in plans}
    assert told == {DEFAULT_INSTRUCTIONS["decompose"].split("\n")[0], MINIMAL}


def test_threads_that_ask_the_same_at_once_pay_once(tmp_path: Path) -> None:
    """DSPy submits an example again when it has taken two minutes."""
    model = world(seconds=0.2)
    with bench_in(tmp_path, model) as bench, ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: bench.one(original(), FEW[0]), range(8)))
        assert bench.spent.answers == 1
    assert all(one is found[0] for one in found)
    assert len(model.solving()) == 1


def test_no_more_answers_than_allowed_run_at_once(tmp_path: Path) -> None:
    model = world(seconds=0.05)
    with bench_in(tmp_path, model, concurrency=2) as bench:
        bench.measure(original(), FEW)
    assert model.record.most_at_once == 2


def test_what_is_paid_and_comes_to_nothing_is_wrong_at_what_it_cost(tmp_path: Path) -> None:
    with bench_in(tmp_path, ScriptedChat(solve=thinks_in_vain)) as bench:
        result = bench.one(original(cutoff=300), FEW[0])
    assert (result.score, result.error, result.report["answer"]) == (0.0, None, "")
    assert result.tokens > 300


def test_a_bad_moment_of_the_server_decides_nothing(tmp_path: Path) -> None:
    """Not a wrong answer, and not a smaller set of questions: it is asked for again."""
    healthy = world()
    hiccups = in_turn(HTTPError(400), HTTPError(400), "")
    model = world()
    model.solve = lambda call: hiccups(call) or healthy.solve(call)
    with bench_in(tmp_path, model) as bench:
        results = bench.measure(original(), FEW)
    assert {result.error for result in results} == {None}
    with bench_in(tmp_path / "undisturbed", healthy) as bench:
        assert [one.score for one in results] == [
            one.score for one in bench.measure(original(), FEW)
        ]


def test_a_candidate_is_not_measured_by_an_answer_that_never_came(tmp_path: Path) -> None:
    model = ScriptedChat(solve=HTTPError(400))
    with bench_in(tmp_path, model) as bench:
        with pytest.raises(OutageError, match=f"{FEW[0].id} failed 3 times"):
            bench.measure(original(), FEW[:1])
        assert bench.refusal is None  # another candidate may fare better
        assert len(model.solving()) == 6  # each once more without the stream that it may refuse
    healthy = world()
    with bench_in(tmp_path, healthy) as bench:
        assert bench.one(original(), FEW[0]).error is None


class Moody:
    """A scorer that is of one mood or another, or of none."""

    def __init__(self, mood: float | None) -> None:
        self.mood = mood

    def score(self, *_: object) -> Score:
        if self.mood is None:
            msg = "no idea"
            raise ScorerError(msg)
        return Score(self.mood, None, "")


def test_an_answer_that_cannot_be_judged_scores_nothing_and_says_so(tmp_path: Path) -> None:
    with bench_in(tmp_path, scorer=Moody(None)) as bench:
        result = bench.one(original(), FEW[0])
    assert (result.score, result.error) == (0.0, "no idea")
    assert result.tokens > 0
    with bench_in(tmp_path, scorer=Moody(1)) as bench:  # started again, it is scored again
        assert bench.one(original(), FEW[0]).error is None


def test_a_score_stays_what_it_was_when_the_run_is_started_again(tmp_path: Path) -> None:
    with bench_in(tmp_path, scorer=Moody(0.25)) as bench:
        before = bench.measure(original(), FEW[:2])
    with bench_in(tmp_path, scorer=Moody(0.5)) as bench:
        assert bench.measure(original(), FEW[:2]) == before


def test_candidates_that_ask_the_same_share_the_replies(tmp_path: Path) -> None:
    """What is the same to the model is paid for once, whatever the settings are called."""
    model = world()
    with bench_in(tmp_path, model) as bench:
        first = bench.measure(original(), FEW[:3])
        calls, tokens = len(model.calls), bench.spent.tokens
        other = bench.measure(original(schedule="cosine"), FEW[:3])
        assert [one.tokens for one in other] == [one.tokens for one in first]
        assert (len(model.calls), bench.spent.tokens) == (calls, tokens)
        assert bench.spent.answers == 6  # the budget of answers counts both


def test_a_closed_bench_answers_no_more(tmp_path: Path) -> None:
    with bench_in(tmp_path) as bench:
        bench.one(original(), FEW[0])
    with pytest.raises(RuntimeError, match="not running"):
        bench.one(original(), FEW[1])
    assert "pb-optim-tune" not in {thread.name for thread in threading.enumerate()}


# Limits


def test_the_limit_of_answers_is_kept_exactly_and_what_had_begun_is_kept(tmp_path: Path) -> None:
    with bench_in(tmp_path, answers=4) as bench:
        with pytest.raises(BudgetSpentError, match="budget of 4 answers is spent"):
            bench.measure(original(), FEW)
        assert bench.spent.answers == 4
        assert isinstance(bench.refusal, BudgetSpentError)
        known = [q for q in FEW if bench.is_cached(original(), [q])]
        assert len(bench.measure(original(), known)) == 4  # recalled: still free
    with bench_in(tmp_path, answers=6) as bench:
        assert len(bench.measure(original(), FEW)) == 6


def test_a_limit_of_tokens_begins_no_answer_once_it_is_reached(tmp_path: Path) -> None:
    with bench_in(tmp_path, tokens=1000, concurrency=1) as bench:
        with pytest.raises(BudgetSpentError, match="1000 tokens"):
            bench.measure(original(), FEW)
        assert 1 <= bench.spent.answers <= 2


def test_what_is_reserved_is_left_for_the_end(tmp_path: Path) -> None:
    with bench_in(tmp_path, answers=8) as bench:
        bench.hold_back(4)
        with pytest.raises(BudgetSpentError):
            bench.measure(original(), FEW)
        assert bench.spent.answers == 4
        bench.hold_back(0)
        assert len(bench.measure(original(), FEW)) == 6


@pytest.mark.parametrize("limit", [{"answers": 0}, {"tokens": -1}])
def test_a_limit_that_allows_nothing_is_refused(limit: dict[str, int]) -> None:
    with pytest.raises(InputError, match="must be above 0"):
        TuneBudget(**limit)


def test_a_server_that_is_gone_ends_the_run_instead_of_spending_its_answers(
    tmp_path: Path,
) -> None:
    model = ScriptedChat(planner=HTTPError(401), solve=HTTPError(401))
    with bench_in(tmp_path, model, concurrency=1) as bench:
        with pytest.raises(OutageError, match="12 tries in a row failed without a token"):
            bench.measure(original(), DEV)
        assert bench.spent.answers == 4
        assert len(model.calls) == 24  # a plan, then an answer


# The folder


def test_a_folder_in_use_is_refused(tmp_path: Path) -> None:
    lock = FileLock(tmp_path / ".pb-optim.lock")
    with lock, pytest.raises(InputError, match="another process is using the folder"):
        bench_in(tmp_path)


def test_a_bench_that_could_not_be_set_up_lets_go_of_its_folder(tmp_path: Path) -> None:
    (tmp_path / "replies.sqlite").write_text("nonsense " * 1000)
    for _ in range(2):
        with pytest.raises(StorageError, match=r"replies.sqlite: file is not a database"):
            bench_in(tmp_path)


def test_no_concurrency_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="concurrency must be at least 1"):
        bench_in(tmp_path, concurrency=0)


def test_answers_are_told_to_whoever_watches(tmp_path: Path) -> None:
    heard = []
    with bench_in(tmp_path) as bench:
        bench.watcher = lambda: heard.append(bench.spent.answers)
        bench.measure(original(), TRAIN[:2])
    assert len(heard) == 2


def test_a_full_disk_refuses_every_further_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An optimizer that only sees a refused prediction would go on asking."""
    model = world()
    with bench_in(tmp_path, model) as bench:
        bench.one(original(), FEW[0])

        def full(*_: object) -> None:
            raise StorageError

        monkeypatch.setattr(bench.replies, "put_result", full)
        for question in FEW[1:3]:
            with pytest.raises(StorageError):
                bench.one(original(), question)
        assert isinstance(bench.refusal, StorageError)
        assert len(model.solving()) == 2
