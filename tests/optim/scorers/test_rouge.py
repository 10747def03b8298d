from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from optim.scorers import ScorerError
from optim.scorers.rouge import PaperRougeScorer, RougeScorer, normalize, read_answer
from optim.scorers.rouge import released_answer as release_reads

if TYPE_CHECKING:
    from collections.abc import Mapping

PERFECT = [
    "Yes",
    "the cat and the man sat by the door",
    "[13, -16, 59]",
    "[['4', 'e'], ['2', '2']]",
    "SELECT a FROM b WHERE c > 3",
    "Who kicked the longest field goal?",
    "6.0 sec",
    "red_bucket",
    "!?",
    "привет",
    "two dogs",
    "Real win .\nNeat finish .",
    "a",
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


def test_words_are_stemmed(scorer: RougeScorer) -> None:
    assert scorer.score("dogs running", Question(("dog runs",))).value == 1


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


@pytest.mark.parametrize(
    "hostile",
    ["word " * 200_000, "\n" * 1_000_000, "Final answer:" * 80_000, "boxed" + "1" * 1_000_000],
)
def test_a_megabyte_is_scored_soon(scorer: RougeScorer, hostile: str) -> None:
    for made in (scorer, PaperRougeScorer()):
        assert 0 <= made.score(hostile, Question(("a word",))).value <= 1


def test_threads_share_one_scorer(scorer: RougeScorer) -> None:
    with ThreadPoolExecutor(4) as pool:
        values = list(
            pool.map(lambda n: scorer.score(f"word{n}", Question(("word3",))).value, range(20))
        )
    assert values.index(1) == 3
    assert sum(values) == 1


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("the cat sat", "thecatsat"),  # no spaces
        ("salt and pepper", "saltpepper"),
        ("sandy", "sy"),  # "and" goes inside words, too
        ("the man", "the"),
        ("man", "man"),  # never to nothing
        ("5 minutes", "5"),
        ("$5", "5"),
        ("50%", "50"),
        ("two dogs", "2"),
        ("two hundred and five thousand", "205000"),
        ("information", r"\inftyormation"),
        ("jar", "iar"),
        ("6.0", "6"),
        (".5", "0.5"),
        ("k=5", "5"),
        ("3/4", r"\frac{3}{4}"),
        (r"\frac12", r"\frac{1}{2}"),
        (r"\sqrt2", r"\sqrt{2}"),
        (r"7\text{ cm}", "7"),
        (r"\text{no}", "no"),
        ("[1, 2, 3]", "[1,2,3]"),
        ("Done.", "Done"),
        ("", ""),
    ],
)
def test_the_release_normalizes_prose_as_mathematics(text: str, normal: str) -> None:
    assert normalize(text) == normal


@pytest.mark.parametrize(
    ("output", "answer"),
    [
        ("final answer is $7$. I hope. The final answer is $8$. I hope", "7"),
        (r"\boxed{1} and \boxed{2}", "2"),
        (r"so \boxed{f(x)={3}}", "f(x)={3}"),
        (r"\boxed{never closed", "neverclosed"),
        ("boxed 5$ more", "5"),
        ("I think the answer is: Paris.", "Paris"),
        ("it took 12 hours and 1,250 steps", "1250"),
        ("no idea", ""),
    ],
)
def test_the_release_looks_for_answers_in_its_own_order(output: str, answer: str) -> None:
    assert release_reads(output) == answer


def test_the_release_destroys_most_perfect_answers_of_several_words() -> None:
    made = PaperRougeScorer()

    def perfect(gold: str) -> float:
        return made.score(rf"\boxed{{{gold}}}", Question((gold, "another"))).value

    assert perfect("Yes") == perfect("gloves") == 1
    assert perfect("hung from the gallows") == perfect("the man and the dog") == 0
    assert 0 < perfect("[13, -16, 59]") <= 1


def test_the_release_knows_one_reference() -> None:
    question = Question(("cat", "dog"))
    assert PaperRougeScorer().score(r"\boxed{dog}", question).value == 0
    assert RougeScorer().score(r"\boxed{dog}", question).value == 1
