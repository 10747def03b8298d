from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from optim.scorers import ScorerError
from optim.scorers.rouge import RougeScorer, read_answer

if TYPE_CHECKING:
    from collections.abc import Mapping

PERFECT = [
    "Yes", "the cat and the man sat by the door", "[13, -16, 59]", "[['4', 'e'], ['2', '2']]",
    "SELECT a FROM b WHERE c > 3", "Who kicked the longest field goal?", "6.0 sec", "red_bucket",
    "!?", "привет", "two dogs", "Real win .\nNeat finish .", "a",
]  # fmt: skip


@dataclass(frozen=True)
class Question:
    targets: tuple[str, ...]
    metadata: Mapping[str, Any] = field(default_factory=dict)


@pytest.fixture(scope="module")
def scorer() -> RougeScorer:
    return RougeScorer()


@pytest.mark.parametrize(
    "template",
    [
        "%s",
        r"\boxed{%s}",
        r"**Final Answer:** Therefore, the final answer is: $\boxed{%s}$. I hope it is correct.",
        "Some steps.\n\nFinal answer: %s",
        "Some steps.\n\n**Final Answer:** %s\n\nI hope this helps!",
        "Some steps.\n### Final Answer\n%s",
        "<think>Is it no? Final answer: no</think>\nFinal answer: **%s**",
        r"\boxed{\text{%s}}",
    ],
)
def test_a_perfect_answer_scores_1(scorer: RougeScorer, template: str) -> None:
    for gold in PERFECT:
        assert scorer.score(template.replace("%s", gold), Question((gold,))).value == 1, gold


def test_it_is_the_f_measure_of_the_longest_common_subsequence(scorer: RougeScorer) -> None:
    # "the cat sat": 3 of 4 words in order; precision 3/4, recall 3/5.
    score = scorer.score("the cat sat down", Question(("the cat has sat there",)))
    assert score.value == pytest.approx(2 * (3 / 4) * (3 / 5) / (3 / 4 + 3 / 5))


def test_the_best_reference_counts(scorer: RougeScorer) -> None:
    score = scorer.score("a dog", Question(("a cat", "a dog", "dogs")))
    assert (score.value, score.metadata["target"]) == (1, 1)


@pytest.mark.parametrize(
    ("output", "target"),
    [("", "yes"), ("<think>yes", "yes"), ("?!", "!?"), ("привет", "пока"), ("yes", "!?")],
)
def test_nothing_in_common_scores_0(scorer: RougeScorer, output: str, target: str) -> None:
    assert scorer.score(output, Question((target,))).value == 0


@pytest.mark.parametrize(
    ("output", "answer"),
    [
        ("The final answer is long to explain", "The final answer is long to explain"),
        ("Final answer: The answer is: Paris", "Paris"),
        ("Final Answer: Rome\nNo.\n\n**Final Answer**: Paris", "Paris"),
        ("> Final answer is Paris", "Paris"),
        (r"Final answer: Rome, or \boxed{Paris}", "Paris"),
        ("__Final answer__: Paris", "Paris"),
        ("- **Final answer: Paris**", "Paris"),
        ("**Final answer**: **Paris**", "Paris"),
        ("Final answers differ: Paris", "Final answers differ: Paris"),
        ("*Final Answer:* Paris **not** Rome", "Paris **not** Rome"),
        ("Final answer: **Paris** not **Rome**", "**Paris** not **Rome**"),
        ("Question: who?, Answer: Paris", "Question: who?, Answer: Paris"),
    ],
)
def test_the_answer_is_unwrapped(output: str, answer: str) -> None:
    assert read_answer(output) == answer


def test_a_question_without_targets_is_an_error(scorer: RougeScorer) -> None:
    with pytest.raises(ScorerError, match="without a target"):
        scorer.score("yes", Question(()))
