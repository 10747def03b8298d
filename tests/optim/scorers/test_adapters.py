"""Scorers of Inspect judge here what they judge there, and are told apart by their arguments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import Score, Target, accuracy, match, model_graded_qa, pattern, scorer
from inspect_ai.solver import TaskState

from optim.datasets import Question
from optim.scorers import ScorerError, as_scorer, scorer_code, scorer_name
from tests.support.chat_model import ScriptedChat
from tests.support.evaluations import evaluated, leaks_collected, solves, tolerates_inspect

__all__ = ["leaks_collected"]

pytestmark = tolerates_inspect

PARIS = Question("q", "Where?", targets=("Paris", "Lyon"))
CHOICES = {"choices": ["Rome", "Paris", "Oslo"]}
LETTER = Question("c", "Where?", targets=("B",), metadata=CHOICES)


@scorer(metrics=[accuracy()])
def gives(value: Any) -> Any:  # noqa: ANN401 -- whatever a scorer may give
    async def score(state: TaskState, target: Target) -> Score | None:
        del state, target
        return None if value is None else Score(value=value, explanation="so")

    return score


@pytest.mark.parametrize(
    ("made", "output", "value"),
    [
        (match(), r"It is \boxed{Lyon}", 1),
        (match(), "Paris, or so", 0),
        (pattern(r"in (\w+)"), "He lives in Paris.", 1),
    ],
)
def test_stock_scorers_judge_the_answer_by_the_targets(made: Any, output: str, value: int) -> None:  # noqa: ANN401
    assert as_scorer(made).score(output, PARIS).value == value


@pytest.mark.parametrize(
    ("output", "value"),
    [
        (r"So \boxed{B}", 1),
        ("Final answer: B) Paris", 1),
        (r"\boxed{B) -3}", 1),
        ("**Answer:** B", 1),
        ("It is Paris, so the answer is (B). That is all.", 1),
        ("<think>The answer is A.</think>B", 1),
        (r"\boxed{\mathbf{B}}", 1),
        ("ANSWER: [B]", 1),
        ("ANSWER: <B>", 1),
        ('***"B"***', 1),
        ("There are $\\boxed{3}$.\n答案\N{FULLWIDTH COLON}B", 1),
        ("The correct option is B, since it is Paris.", 1),
        ("The answer is B because it is Paris.", 1),
        (r"\boxed{A}", 0),
        ("Answer: B, C", 0),
        ("B and C", 0),
        ("Best of all.", 0),
        (r"\boxed{A, B}", 0),
        ("B: Paris, C: Oslo", 0),
        (r"\boxed{B) C)}", 0),
        ("A big B in the text", 0),
    ],
)
def test_choice_reads_the_letter_that_is_stated(output: str, value: int) -> None:
    assert as_scorer("choice").score(output, LETTER).value == value


@pytest.mark.parametrize(
    ("target", "output", "value"),
    [
        ("Paris", "It is **Paris**!", 1),
        ("72", r"\boxed{72}", 1),
        ("72", "It is `72`.", 1),
        ("北京", "首都是北京。", 1),
        ("2", "The total is 72", 0),
        ("9", "It is 3.9", 0),
        ("5", "It is -5", 0),
        ("1/2", "3 1/2", 0),
        ("5", "It is >= 5", 0),
        ("Paris", "It is not Paris.", 0),
        ("no", "A casino", 0),
        ("Paris", "Paris, or so", 0),
    ],
)
def test_match_takes_whole_words_and_numbers(target: str, output: str, value: int) -> None:
    assert as_scorer("match").score(output, Question("q", "?", targets=(target,))).value == value


@pytest.mark.parametrize(("value", "worth"), [("C", 1), ("P", 0.5), ("I", 0), (0.25, 0.25)])
def test_their_words_and_numbers_are_scores(value: str | float, worth: float) -> None:
    assert as_scorer(gives(value)).score("x", PARIS).value == worth


@pytest.mark.parametrize("value", [None, "maybe", 7, [1, 0]])
def test_what_is_no_single_score_is_an_error_not_a_0(value: object) -> None:
    with pytest.raises(ScorerError, match=r"the scorer gives failed"):
        as_scorer(gives(value)).score("x", PARIS)


def test_other_arguments_are_another_scorer_and_no_key_is_told() -> None:
    judge = get_model("mockllm/judge", api_key="sk-hidden", base_url="http://127.0.0.1:1")
    made = match(), match(location="any"), pattern("a"), model_graded_qa(model=judge)
    assert [scorer_name(one) for one in made] == ["match", "match", "pattern", "model_graded_qa"]
    codes = [scorer_code(one) for one in made]
    assert codes[0] == ""
    assert len(set(codes)) == 4


def test_a_judging_model_scores_and_its_tokens_are_not_the_methods(tmp_path: Path) -> None:
    replies = [ModelOutput.from_content("judge", f"GRADE: {grade}") for grade in "CICIC"]
    for reply in replies:  # else a tokenizer is fetched to count them
        reply.usage = ModelUsage(input_tokens=50, output_tokens=5, total_tokens=55)
    judge = get_model("mockllm/judge", custom_outputs=replies)
    plain = evaluated(ScriptedChat(solve=solves), tmp_path / "a")
    found = evaluated(
        ScriptedChat(solve=solves), tmp_path / "b", scorer=model_graded_qa(model=judge)
    )
    assert sorted(record.score or 0.0 for record in found.records) == [0, 0, 1, 1, 1]
    assert [one.tokens for one in found.records] == [one.tokens for one in plain.records]
    assert found.spent == plain.spent
