"""The verdict: only the winner of dev is tested, and what it says is what the questions show."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from optim.datasets import Question
from optim.e3 import describe
from optim.reporting.formatting import format_confidence
from optim.tuning.options import OPTIMIZERS
from optim.tuning.search import Search, split_of
from tests.support.chat_model import Call, HTTPError, Said, ScriptedChat
from tests.support.tuning_world import (
    DEV,
    HELD_OUT,
    MINIMAL,
    PLAIN,
    THOROUGH,
    Style,
    asked_in,
    bench_in,
    original,
    search,
    world,
)

candidates = OPTIMIZERS["candidates"]

ALWAYS_RIGHT = {"minimal": Style(1.0, 100), "usual": Style(1.0, 400)}
ON_DEV = {question.id for question in DEV}


def judged(
    folder: Path,
    model: ScriptedChat,
    texts: list[str] | None = None,
    held_out: int = 6,
) -> Search:
    split = split_of((), DEV[:12], HELD_OUT[:held_out], 0)
    with bench_in(folder, model, answers=300) as bench:
        return search(bench, split, candidates(texts=texts or [MINIMAL]), start=original())


def elsewhere(answer: Any) -> ScriptedChat:  # noqa: ANN401
    """The usual world on dev; on other questions what is given, by question and plan."""
    model = world(ALWAYS_RIGHT)
    usual = model.solve

    def solve(call: Call) -> Said:
        question, text = asked_in(call), "\n".join(str(m.text) for m in call.messages)
        if question.id in ON_DEV:
            return usual(call)  # type: ignore[no-any-return]
        return answer(question, "minimal" if "minimal plan" in text else "usual")  # type: ignore[no-any-return]

    model.solve = solve
    return model


class TestBetter:
    def test_what_is_far_better_on_many_questions_is_called_better(self, tmp_path: Path) -> None:
        verdict = judged(tmp_path, world(ALWAYS_RIGHT), held_out=40).verdict
        assert verdict.verdict == "better"
        assert verdict.comparison is not None
        assert verdict.reason == (
            f"On the held-out questions, against the original: {describe(verdict.comparison)}. "
            "Higher with a one-sided confidence of > 99 %."
        )
        assert "accuracy undecided: no question differs; tokens 0.27 times (" in verdict.reason

    def test_what_is_not_sure_enough_never_looks_as_if_it_were(self) -> None:
        """Rounded up, it would be 90 % where 90 % would do, and 100 % of what nobody knows."""
        assert [format_confidence(sure) for sure in (0.899, 0.9, 0.999, 1.0)] == [
            "89 %", "90 %", "> 99 %", "> 99 %",
        ]  # fmt: skip

    def test_a_few_questions_do_not_prove_it(self, tmp_path: Path) -> None:
        """Both always right on three questions: that accuracies are equal is not known."""
        result = judged(
            tmp_path, world({"minimal": Style(1, 300), "usual": Style(1, 400)}), None, 3
        )
        assert result.verdict.verdict == "undecided"
        assert result.verdict.is_adopted
        assert result.candidate.instructions == {"decompose": MINIMAL}
        assert "not a proven improvement" in result.verdict.reason
        assert "give more, and the budget for them, in a new run" in result.verdict.reason

    def test_as_good_by_other_right_answers_is_undecided(self, tmp_path: Path) -> None:
        """Equal by the figures, yet not the same: what dev preferred is not shown to be worse."""
        right = {"minimal": HELD_OUT[:3], "usual": HELD_OUT[3:6]}
        model = elsewhere(
            lambda q, plan: "so " * 90 + (q.targets[0] if q in right[plan] else "wrong")
        )
        verdict = judged(tmp_path, model).verdict
        assert verdict.comparison is not None
        assert verdict.comparison.e3_a == verdict.comparison.e3_b > 0
        assert verdict.verdict == "undecided"


class TestKept:
    def test_nothing_right_on_either_side_is_no_success(self, tmp_path: Path) -> None:
        model = elsewhere(lambda _q, plan: "so " * (900 if plan == "minimal" else 90) + "wrong")
        result = judged(tmp_path, model)
        assert (result.verdict.verdict, result.verdict.is_adopted) == ("kept", False)
        assert "Neither answers any right, which is no success" in result.verdict.reason
        assert result.candidate == original()

    def test_the_same_results_are_no_success(self, tmp_path: Path) -> None:
        result = judged(tmp_path, elsewhere(lambda q, _plan: "so " * 90 + q.targets[0]))
        assert result.verdict.verdict == "kept"
        assert "the same results" in result.verdict.reason

    def test_the_ratio_is_told_also_where_it_is_below_one(self, tmp_path: Path) -> None:
        def dearer(question: Question, plan: str) -> str:
            return "so " * (900 if plan == "minimal" else 90) + question.targets[0]

        result = judged(tmp_path, elsewhere(dearer))
        assert result.verdict.verdict == "kept"
        assert result.verdict.comparison is not None
        assert f"{result.verdict.comparison.ratio:.2f} times" in result.verdict.reason

    def test_only_the_winner_of_dev_is_tested(self, tmp_path: Path) -> None:
        """The second of dev would pass, and gets no chance: each further test adds luck."""
        styles = {"minimal": Style(1, 100), "thorough": Style(1, 200), "usual": Style(1, 400)}
        model = world(styles)
        usual = model.solve

        def solve(call: Call) -> Said:
            text = "\n".join(str(message.text) for message in call.messages)
            spoilt = "minimal plan" in text and asked_in(call).id not in ON_DEV
            return "wrong" if spoilt else usual(call)

        model.solve = solve
        result = judged(tmp_path, model, [MINIMAL, THOROUGH])
        assert result.verdict.verdict == "kept"
        assert result.spent.answers == 3 * 12 + 2 * 6

    def test_without_a_winner_nothing_is_compared(self, tmp_path: Path) -> None:
        result = judged(tmp_path, world(ALWAYS_RIGHT), [PLAIN])
        assert result.verdict.reason == "No candidate had a higher E³ on dev than the original."
        assert result.spent.answers == 2 * 12


def test_a_question_that_a_server_refuses_costs_no_verdict(tmp_path: Path) -> None:
    refused = HELD_OUT[3]

    def answer(question: Question, plan: str) -> Said:
        words = {"minimal": 100, "usual": 400}[plan]
        return HTTPError(400) if question is refused else Style(1.0, words).answer(question)

    found = judged(tmp_path, elsewhere(answer), held_out=16).verdict
    assert found.comparison is not None
    assert found.comparison.questions == 15
    assert found.reason.endswith("Excluded, because they failed: 1 questions.")
