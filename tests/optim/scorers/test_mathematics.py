from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import active_children
from typing import TYPE_CHECKING, Any

import pytest

from optim.scorers import ScorerError, mathematics
from optim.scorers.mathematics import MathScorer

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class Question:
    targets: tuple[str, ...]
    metadata: Mapping[str, Any] = field(default_factory=dict)


@pytest.fixture(scope="module")
def scorer() -> MathScorer:
    return MathScorer()


@pytest.mark.parametrize(
    ("gold", "output"),
    [
        ("0.5", r"\boxed{\frac12}"),
        ("2x+2", r"\boxed{2(x+1)}"),
        ("1,2", r"$\boxed{1}$ and $\boxed{2}$"),
        ("5", r"first \boxed{3}, no wait, \boxed{5}"),
        ("7", r"<think>\boxed{9}</think> \boxed{7}"),
        ("42", "The answer is 42."),
        ("42", r"**Final Answer:** Therefore, the final answer is: $\boxed{{42}}$. I hope so."),
        ("1234", "She earns $1,234 per week."),
        ("70000", r"\boxed{\$70,000.00}"),
        ("18", "9 * 2 = 18\n#### 18"),
        ("18", r"\boxed{18 dollars}"),
        ("18", r"\boxed{€18}"),
        ("3.5", r"\boxed{3 1/2 cups}"),
        ("1800", r"\boxed{1\,800}"),
        (r"2\sqrt{13}", r"\boxed{2√13}"),
        (r"(-\infty,3]", "\\boxed{(\N{MINUS SIGN}∞, 3]}"),
        ("90", r"\boxed{90°}"),
        ("-$5", r"\boxed{-5}"),
        ("3 1/2", r"\boxed{\frac72}"),
        ("5 apples", r"\boxed{5 oranges}"),  # units do not count
        # The final line, and words around a number.
        ("Paris", "Two and three, 2 + 3.\nFinal answer: Paris"),
        (r"\text{east}", "2 + 3 = 5\nFinal answer: east."),
        (r"\frac14", "2 + 3 = 5\nFinal answer: 1/4"),
        (r"137 \frac{1}{2}", "Final answer: 5\nFinal answer: 137 \\frac{1}{2}"),
        ("-2 + 7i", "**Final answer:** -2 + 7i"),
        ("(-1,6)", "Final answer: $(-1,6)$\nNot (1, 6)."),
        (r"\$36", r"Final answer: $\$36$"),
        ("18", "Final answer: 18 dollars per week for 3 people"),
        ("3", "Final answer: The remainder is 3."),
        ("360", r"\boxed{\text{360 apples}}"),
        ("3a_{2}", r"\boxed{3a_2}"),  # a subscript is no base
        ("5n_{0}", r"\boxed{5n_0}"),
    ],
)
def test_equal_answers_score_1(scorer: MathScorer, gold: str, output: str) -> None:
    assert scorer.score(output, Question((gold,))).value == 1


@pytest.mark.parametrize(
    ("gold", "output"),
    [
        ("50", r"\boxed{5000}"),
        ("2", r"\boxed{3 1/2}"),  # which Math-Verify takes for 2, and the next for 801
        ("801", r"\boxed{1\,800}"),
        ("18", r"\boxed{18 dollars and 50 cents}"),
        ("20 June", r"\boxed{20 July}"),
        ("204_5", r"\boxed{204_9}"),  # Math-Verify ignores the base
        ("(1,2)", r"\boxed{[1,2]}"),
        ("7", "<think>it is 7"),
        ("7", r"\boxed{7}, and no, \boxed{8}"),
        ("2", r"\boxed{}"),
        ("2", ""),
        ("2", "{" * 20_000),
    ],
)
def test_other_answers_score_0(scorer: MathScorer, gold: str, output: str) -> None:
    assert scorer.score(output, Question((gold,))).value == 0


def test_the_score_says_what_was_read(scorer: MathScorer) -> None:
    score = scorer.score("The answer is 41.", Question(("42",)))
    assert (score.answer, score.explanation) == ("41", "41 differs from 42")
    assert scorer.score("Hm.", Question(("42",))).answer is None


def test_a_question_without_targets_is_an_error(scorer: MathScorer) -> None:
    with pytest.raises(ScorerError, match="without a target"):
        scorer.score("42", Question(()))


def test_threads_share_one_worker_process(scorer: MathScorer) -> None:
    before = set(active_children())
    with ThreadPoolExecutor() as threads:
        scores = threads.map(scorer.score, [r"\boxed{\frac12}"] * 3, [Question(("0.5",))] * 3)
        assert [score.value for score in scores] == [1, 1, 1]
    assert len(set(active_children()) - before) <= 1


@pytest.mark.parametrize("bomb", ["9^{9^{9^{9}}}", "x + (10^{9})!"])
def test_a_number_too_large_to_compute_is_wrong_and_ends_no_run(
    scorer: MathScorer, bomb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mathematics, "_TIME_LIMIT", 0.5)
    assert scorer.score(rf"\boxed{{{bomb}}}", Question(("1",))).value == 0
    assert scorer.score(rf"\boxed{{{bomb}}}", Question((bomb,))).value == 1
    assert scorer.score(r"\boxed{\frac12}", Question(("0.5",))).value == 1
