"""The verdict: only the winner of dev is tested, and it says what the questions show."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from optim.datasets import Question
from optim.tuning.search import Search
from tests.support.chat_model import Call, HTTPError, Said, ScriptedChat
from tests.support.tuning_world import (
    DEV,
    HELD_OUT,
    MINIMAL,
    THOROUGH,
    Style,
    asked_in,
    original,
    run,
    trying,
    world,
)

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
        question, text = asked_in(call), "\n".join(str(m.text) for m in call.messages)
        style = next((name for name in ALWAYS_RIGHT if f"{name} plan" in text), "usual")
        return usual(call) if question.id in ON_DEV else answer(question, style)

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
