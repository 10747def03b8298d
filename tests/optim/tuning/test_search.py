"""The loop: each answer is paid for once, what is refused, when it ends, and that it resumes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from optim.bench.store import RefusedError
from optim.datasets import Question
from optim.tuning.evaluator import OutageError, SearchEndedError, UnscoredError
from optim.tuning.options import OPTIMIZERS, TuneOptions
from optim.tuning.program import Candidate
from optim.tuning.run import draw, split_of
from optim.tuning.search import Search, Trial, winner_of
from pb_graph.errors import InputError, PlanAndBudgetError
from tests.optim.reporting.samples import answered
from tests.support.chat_model import Call, HTTPError, Said, ScriptedChat
from tests.support.tuning_world import (
    DEV,
    FEW,
    HELD_OUT,
    MINIMAL,
    PLAIN,
    REST,
    THOROUGH,
    Style,
    asked_in,
    bench_in,
    original,
    run,
    style_in,
    texts,
    trying,
    world,
)

gepa = OPTIMIZERS["gepa"]
ALL = trying(PLAIN, THOROUGH, MINIMAL)


@pytest.mark.parametrize(
    ("sets", "complaint"),
    [
        ({"held_out": []}, "must not be empty"),
        ({"dev": DEV[:5], "held_out": None}, "5 dev questions are too few"),
        ({"train": FEW[:1]}, "dev and train share 1 questions"),
        ({"held_out": FEW[3:5]}, "held-out and dev share 2 questions"),
    ],
)
def test_questions_in_two_sets_and_too_few_are_refused(
    sets: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(InputError, match=complaint):
        split_of(**{"train": (), "dev": FEW, "held_out": REST, "seed": 0} | sets)


def test_a_third_of_dev_is_held_out_evenly_over_the_levels() -> None:
    split = split_of((), DEV[:30], None, seed=0)
    assert (len(split.dev), len(split.held_out)) == (20, 10)
    assert sorted(q.level or 0 for q in split.held_out) == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    assert not {q.id for q in split.dev} & {q.id for q in split.held_out}
    assert split_of((), DEV[:30], None, seed=0) == split


def test_each_level_is_drawn_by_its_share() -> None:
    levels = [1] * 20 + [2] * 14 + [3] * 14 + [4] * 6 + [5] * 6
    questions = [replace(one, level=level) for one, level in zip(DEV, levels, strict=True)]
    drawn, rest = draw(questions, of=3, seed=0)
    assert Counter(one.level for one in drawn) == {1: 6, 2: 5, 3: 5, 4: 2, 5: 2}
    assert Counter(one.level for one in rest) == {1: 14, 2: 9, 3: 9, 4: 4, 5: 4}


def test_one_text_with_several_references_makes_several_questions() -> None:
    dev = [replace(one, question="How many?", reference=one.id) for one in FEW]
    assert len(split_of((), dev, None, seed=0).dev) == 8


def test_a_prompt_that_no_question_sends_ends_the_search_after_the_original(tmp_path: Path) -> None:
    model = world()
    model.planner = "L2"
    with pytest.raises(InputError, match="No dev question has level 4"):
        run(tmp_path, ALL, model, start=original(plan_from=4), estimate_level=True)
    assert len(model.calls) == 2 * len(FEW)


def test_where_every_answer_is_wrong_it_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none of the 12 answers is right.* a stronger model"):
        run(tmp_path, ALL, world({"usual": Style(0.0, 5)}))


def test_the_folder_of_another_run_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        ScriptedChat, "_identifying_params", property(lambda self: {"usage": self.reports_usage})
    )
    run(tmp_path, ALL)
    others: list[tuple[dict[str, Any], str]] = [
        ({"dev": DEV[1:13], "train": FEW[:1]}, "dev: .*train: "),
        ({"start": original(domain="physics"), "seed": 1}, "domain: .* → physics, seed: 0 → 1"),
        ({"model": ScriptedChat(reports_usage=False)}, "the planner's .*the model's parameters"),
    ]
    for other, named in others:
        with pytest.raises(InputError, match=rf"holds another run \(.*{named}"):
            run(tmp_path, **{"optimizer": ALL} | other)


def test_a_spent_budget_ends_the_search_and_leaves_enough_for_the_verdict(tmp_path: Path) -> None:
    found = run(tmp_path, trying(MINIMAL, PLAIN, THOROUGH), answers=45)
    assert found.ended.startswith("33 of 45 answers are spent")
    assert texts(found.trials[1:]) == [MINIMAL]
    assert found.verdict.is_adopted
    assert found.evaluator.answers <= 45


def test_a_candidate_that_a_server_refuses_ends_only_that_one(tmp_path: Path) -> None:
    model = world()
    usual = model.solve

    def solve(call: Call) -> Said:
        fails = style_in(call) == "minimal" and asked_in(call).id == DEV[0].id
        return HTTPError(400) if fails else usual(call)

    model.solve = solve
    assert texts(run(tmp_path, ALL, model).trials[1:]) == [PLAIN, THOROUGH]


def test_another_predictor_can_be_tuned(tmp_path: Path) -> None:
    start = original(
        method="plan_and_budget", planning="two_call", execution="single_pass", enforcement="prompt"
    )
    found = run(tmp_path, trying("Judge."), tuned="estimate", start=start)
    told = [dict(trial.candidate.instructions) for trial in found.trials]
    assert told == [{}, {"estimate": "Judge."}]


def test_money_counts_the_prompt_and_tokens_do_not() -> None:
    short, wordy = answered(0, 100, 1.0, prompt=100), answered(0, 90, 1.0, prompt=500)
    chosen = {}
    for objective, price in (("e3", 0.0), ("money", 1 / 4)):
        trials = [
            Trial(Candidate(), [one], name, price)
            for name, one in (("short", short), ("wordy", wordy))
        ]
        winner = winner_of(trials)
        chosen[objective] = winner.name if winner else "short"
    assert chosen == {"e3": "wordy", "money": "short"}
    assert wordy.cost(1 / 5) == 92 + 600 / 5


def test_a_long_instruction_is_left_out_and_the_number_of_candidates_foretold(
    tmp_path: Path,
) -> None:
    said: list[str] = []
    model = world({"minimal": Style(1.0, 100), "usual": Style(1.0, 400)})
    found = run(tmp_path, trying(MINIMAL), model, max_prompt_tokens=1, callback=said.append)
    assert [trial.name for trial in found.trials] == ["original"]
    assert any("--max-prompt-tokens" in text for text in said)
    assert "This budget tries about" in said[0]


def test_an_unknown_objective_is_refused() -> None:
    with pytest.raises(InputError, match="e3, money or front"):
        TuneOptions(objective="accuracy")


ALWAYS_RIGHT = {"minimal": Style(1.0, 100), "thorough": Style(1.0, 200), "usual": Style(1.0, 400)}
ON_DEV = {question.id for question in DEV}

Answer = Callable[[Question, str], Said]
"""The answer to a held-out question, by the plan's style."""


def judged(folder: Path, model: ScriptedChat, *instructions: str, held_out: int = 6) -> Search:
    return run(folder, trying(*instructions or [MINIMAL]), model, held_out=HELD_OUT[:held_out])


def elsewhere(answer: Answer) -> ScriptedChat:
    """The usual world on dev; on other questions the given answers."""
    model = world(ALWAYS_RIGHT)
    usual = model.solve

    def solve(call: Call) -> Said:
        question = asked_in(call)
        return usual(call) if question.id in ON_DEV else answer(question, style_in(call))

    model.solve = solve
    return model


def test_a_far_better_candidate_is_called_better_on_many_questions(tmp_path: Path) -> None:
    verdict = judged(tmp_path, world(ALWAYS_RIGHT), held_out=40).verdict
    assert verdict.verdict == "better"
    assert verdict.reason.endswith("Higher with a one-sided confidence of 99 %.")


def test_a_few_questions_do_not_prove_it(tmp_path: Path) -> None:
    """Both always right on three questions: that accuracies are equal is not known."""
    styles = {"minimal": Style(1, 300), "usual": Style(1, 400)}
    result = judged(tmp_path, world(styles), held_out=3)
    assert result.verdict.verdict == "undecided"
    assert result.candidate.instructions == {"decompose": MINIMAL}
    assert "90 % required" in result.verdict.reason


def test_as_good_by_other_right_answers_is_undecided(tmp_path: Path) -> None:
    """Equal by the figures, yet not the same: the winner of dev is not shown to be worse."""
    right = {"minimal": HELD_OUT[:3], "usual": HELD_OUT[3:6]}
    model = elsewhere(lambda q, plan: "so " * 90 + (q.targets[0] if q in right[plan] else "wrong"))
    verdict = judged(tmp_path, model).verdict
    assert verdict.comparison is not None
    assert verdict.comparison.e3_a == verdict.comparison.e3_b > 0
    assert verdict.verdict == "undecided"


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (lambda _q, plan: "so " * (900 if plan == "minimal" else 90) + "wrong", "has no ratio"),
        (lambda q, _plan: "so " * 90 + q.targets[0], "original is kept"),
        (lambda q, plan: "so " * (900 if plan == "minimal" else 90) + q.targets[0], "E³ 0."),
    ],
    ids=["nothing right on either side", "the same results", "a ratio below one"],
)
def test_the_original_is_kept(answer: Answer, reason: Any, tmp_path: Path) -> None:  # noqa: ANN401
    result = judged(tmp_path, elsewhere(answer))
    assert (result.verdict.verdict, result.candidate) == ("kept", original())
    assert reason in result.verdict.reason


def test_only_the_winner_of_dev_is_tested(tmp_path: Path) -> None:
    """The second of dev would pass, and gets no chance: each further test adds luck."""
    model = elsewhere(lambda q, plan: "wrong" if plan == "minimal" else q.targets[0])
    result = judged(tmp_path, model, MINIMAL, THOROUGH)
    assert result.verdict.verdict == "kept"
    assert result.evaluator.answers == 3 * 12 + 2 * 6


def test_a_question_that_a_server_refuses_costs_no_verdict(tmp_path: Path) -> None:
    def answer(question: Question, plan: str) -> Said:
        refused = question is HELD_OUT[3]
        return HTTPError(400) if refused else ALWAYS_RIGHT[plan].answer(question)

    found = judged(tmp_path, elsewhere(answer), held_out=16).verdict
    assert found.comparison is not None
    assert found.comparison.questions == 15
    assert found.reason.endswith("Excluded, because they failed: 1 questions.")


SIX = DEV[:6]


def test_known_answers_cost_nothing_in_this_start_and_in_the_next(tmp_path: Path) -> None:
    model = world()
    with bench_in(tmp_path, model) as bench:
        first = bench.measure(original(), SIX)
        calls = len(model.calls)
        assert [one.question for one in first] == [q.id for q in SIX]
        assert all(one.tokens == one.report["usage"]["output_tokens"] > 0 for one in first)
        assert bench.measure(original(), SIX) == first == bench.known(original(), DEV)
        assert bench.measure(original(), SIX[:1])[0] == first[0]
        assert (bench.measured(SIX), bench.measured(DEV)) == ([original()], [])
        spent = bench.spent()
    with bench_in(tmp_path, model) as bench:
        assert bench.measure(original(), SIX) == first
        assert bench.spent() == spent
    assert len(model.calls) == calls
    assert spent == f"{len(SIX)} answers, {model.output_tokens:,} completion tokens"


def test_a_candidate_is_not_measured_by_an_answer_that_never_came(tmp_path: Path) -> None:
    with bench_in(tmp_path, ScriptedChat(solve=HTTPError(400))) as bench:
        with pytest.raises(OutageError, match="HTTP 400"):
            bench.measure(original(), SIX[:1])
        assert bench.refusal is None  # another candidate may fare better
    with bench_in(tmp_path, world()) as bench:
        assert bench.measure(original(), SIX[:1])[0].error is None


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
        bench.measure(original(), SIX)
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
            bench.measure(original(), SIX[:1])
        assert bench.refusal is None
        with pytest.raises(InputError, match="KeyError"):  # eight in a row
            bench.measure(original(), DEV)
        assert isinstance(bench.refusal, UnscoredError)
    with bench_in(tmp_path) as bench:  # the scorer is mended, and the answer is there already
        assert bench.measure(original(), SIX[:1])[0].score is not None


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
            bench.measure(original(), SIX)
        assert bench.answers == 4
        assert isinstance(bench.refusal, SearchEndedError)
        assert len(bench.known(original(), SIX)) == 4
    with bench_in(tmp_path, answers=6) as bench:
        assert len(bench.measure(original(), SIX)) == 6
