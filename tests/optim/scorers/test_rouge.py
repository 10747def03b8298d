from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rouge_score.rouge_scorer import RougeScorer as OfficialScorer

from optim.scorers.rouge import RougeScorer

if TYPE_CHECKING:
    from collections.abc import Mapping

PARAGRAPHS = "1. apples\n\n2. pears\n\n    def f(x):"
OFFICIAL = OfficialScorer(["rougeL"], use_stemmer=True)
WORDS = st.lists(
    st.sampled_from(["running", "runs", "The", "a2", "café", "it's", "Müller", "-", "3.5"])
)
PERFECT = [
    "Yes",
    "the cat and the man",
    "[['4', 'e'], ['2', '2']]",
    "6.0 sec",
    "!?",
    "привет",
    PARAGRAPHS,
]


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
        "Some steps.\n### Final Answer\n%s",
        "<think>Is it no? Final answer: no</think>\nFinal answer: **%s**",
        r"\boxed{\text{%s}}",
    ],
)
def test_a_perfect_answer_scores_1(scorer: RougeScorer, template: str) -> None:
    for gold in PERFECT:
        assert scorer.score(template.replace("%s", gold), Question((gold,))).value == 1, gold


def test_the_score_is_the_f_measure_of_the_longest_common_subsequence(scorer: RougeScorer) -> None:
    # "the cat sat": 3 of 4 words in order; precision 3/4, recall 3/5.
    score = scorer.score("the cat sat down", Question(("a dog", "the cat has sat there")))
    assert score.metadata["target"] == 1  # the best reference
    assert score.value == pytest.approx(2 * (3 / 4) * (3 / 5) / (3 / 4 + 3 / 5))


@pytest.mark.parametrize(
    ("output", "target"), [("", "yes"), ("<think>yes", "yes"), ("привет", "пока")]
)
def test_nothing_in_common_scores_0(scorer: RougeScorer, output: str, target: str) -> None:
    assert scorer.score(output, Question((target,))).value == 0


@given(WORDS, WORDS)
def test_the_figures_of_latin_text_are_those_of_the_official_package(
    said: list[str], meant: list[str]
) -> None:
    answer, target = " ".join(said), " ".join(meant)
    value = 1.0 if said == meant else OFFICIAL.score(target, answer)["rougeL"].fmeasure
    assert RougeScorer().score(answer, Question((target,))).value == value


@pytest.mark.parametrize(
    ("target", "output", "value"),
    [
        ("Привет, как дела?", "Привет как дела", 1),
        ("北京是中国的首都", "Final answer: 北京是中国的首都。", 1),
        ("东京是日本的首都", "北京是中国的首都", 5 / 8),
        ("สวัสดี", "สวัสดี!", 1),
        ("स्वागत है आपका", "स्वागत है", 4 / 5),
        ("running 北京", "runs 北京", 1),
    ],
)
def test_every_script_has_words(
    scorer: RougeScorer, target: str, output: str, value: float
) -> None:
    assert scorer.score(output, Question((target,))).value == pytest.approx(value)
