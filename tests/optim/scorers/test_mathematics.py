from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
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


GOLDS = [
    "42", r"\left( 3, \frac{\pi}{2} \right)", r"\text{(C)}", r"(-\infty, 0] \cup (3, \infty)",
    r"\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}", r"10\%", r"\$32,348", "1,-2", "y = 2x + 3",
    r"4210_{5}", r"6 \text{ cm}^2",
]  # fmt: skip


@pytest.mark.parametrize("gold", GOLDS)
def test_a_reference_equals_itself_in_a_box(scorer: MathScorer, gold: str) -> None:
    assert scorer.score(rf"Hence $\boxed{{{gold}}}$.", Question((gold,))).value == 1


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
        ("1234", "$1,234"),
        ("1234", "She earns $1,234 per week."),
        ("70000", r"\boxed{\$70,000.00}"),
        ("18", "9 * 2 = 18\n#### 18"),
        ("9", "15 girls answered green, so 9 answered yellow.\n#### 9"),
        ("42", "x" * 1_000_000 + r" \boxed{42}"),
        ("18", r"\boxed{18 dollars}"),
        ("18", r"\boxed{18 cm^2}"),
        ("18", r"\boxed{€18}"),
        ("3.5", r"\boxed{3 1/2 cups}"),
        ("3.5", "So it takes 3 1/2."),
        ("1800", r"\boxed{1\,800}"),
        (r"2\sqrt{13}", r"\boxed{2√13}"),
        (r"(-\infty,3]", "\\boxed{(\N{MINUS SIGN}∞, 3]}"),
        ("-5", "The answer is \N{MINUS SIGN}5."),
        ("90", r"\boxed{90°}"),
        ("(1,2)", r"\boxed{(1,2)} $\boxed{(1,2)}$"),
        ("-$5", r"\boxed{-5}"),
        ("3 1/2", r"\boxed{\frac72}"),
        ("1200000", r"\boxed{\$1.2\text{ million}}"),
        ("1200000", "It costs $1.2 million."),
        ("1.2 million", r"\boxed{1,200,000}"),
        ("5 apples", r"\boxed{5 oranges}"),  # units do not count
        ("4210_5", r"\boxed{4210}"),
        ("3a_{2}", r"\boxed{3a_2}"),  # a letter with an index, and no number with a base
        ("5n_0", r"\boxed{5n_{0}}"),
        # The final line, and words around a number.
        ("Paris", "Two and three, 2 + 3.\nFinal answer: Paris"),
        (r"\text{east}", "2 + 3 = 5\nFinal answer: east."),
        (r"\text{east}", r"\boxed{\text{The answer is east}}"),
        (r"\frac14", "2 + 3 = 5\nFinal answer: 1/4"),
        (r"137 \frac{1}{2}", "Final answer: 5\nFinal answer: 137 \\frac{1}{2}"),
        ("-2 + 7i", "**Final answer:** -2 + 7i"),
        ("x^5 - x + 1", "Final Answer\n\nx^5 - x + 1"),
        ("(-1,6)", "Final answer: $(-1,6)$\nNot (1, 6)."),
        ("1,2", "Final answer: $1$ and $2$"),
        (r"\$36", r"Final answer: $\$36$"),
        ("18", "Final answer: 18 dollars per week for 3 people"),
        ("3", "Final answer: The remainder is 3."),
        ("8", "first Final answer: 7\nFinal answer: 8\nThat is 8, not 9."),
        ("360", r"\boxed{\text{360 apples}}"),
        ("1,200", r"\boxed{\text{1,200 miles and more}}"),
        ("512", r"\boxed{2^{3^2}}"),
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
        ("1.2", r"\boxed{1.2 million}"),
        ("4210_5", r"\boxed{4210_6}"),
        ("4210_{5}", "The answer is $4210_6$."),
        ("4210_5", "Final answer: $4210_3$"),  # which has no digit 4
        ("20 June", r"\boxed{20 July}"),
        ("10000", r"\boxed{10001}"),
        ("(1,2)", r"\boxed{[1,2]}"),
        ("2", r"\boxed{answer}"),
        ("7", "<think>it is 7"),
        ("7", r"\boxed{7}, and no, \boxed{8}"),
        ("2", r"\boxed{}"),
        ("2", ""),
        ("2", "I do not know."),
        ("5", "5\nFinal answer: Lyon"),
        ("2", "{" * 20_000),
        ("2", r"\boxed{" + r"\frac{1}{" * 3_000 + "}" * 3_001),
    ],
)
def test_other_answers_score_0(scorer: MathScorer, gold: str, output: str) -> None:
    assert scorer.score(output, Question((gold,))).value == 0


def test_the_score_says_what_was_read(scorer: MathScorer) -> None:
    score = scorer.score("The answer is 41.", Question(("42",)))
    assert (score.answer, score.explanation) == ("41", "41 differs from 42")
    assert scorer.score("Hm.", Question(("42",))).answer is None


def test_any_of_several_targets_will_do(scorer: MathScorer) -> None:
    assert scorer.score(r"\boxed{3}", Question(("2", "3"))).value == 1


def test_a_reference_that_cannot_be_read_equals_itself(scorer: MathScorer) -> None:
    gold = r"\\ \\"
    assert scorer.score(rf"\boxed{{{gold}}}", Question((gold,))).value == 1
    assert scorer.score(r"\boxed{5}", Question((gold,))).value == 0


def test_a_question_without_targets_is_an_error(scorer: MathScorer) -> None:
    with pytest.raises(ScorerError, match="without a target"):
        scorer.score("42", Question(()))


def test_threads_share_one_scorer(scorer: MathScorer) -> None:
    def score(number: int) -> float:
        return scorer.score(rf"\boxed{{{number}}}", Question((str(number - number % 2),))).value

    with ThreadPoolExecutor(6) as pool:
        values = list(pool.map(score, range(60)))
    assert values == [1 - number % 2 for number in range(60)]


# --- the worker process

UNGUARDED = """
print("ran")
from optim.datasets import Question
from optim.scorers import as_scorer
print(as_scorer("math").score("\\\\boxed{\\\\frac12}", Question("a", "b", targets=("0.5",))).value)
"""


def pid(scorer: MathScorer) -> int:
    """Return the number of the worker, which has compared something."""
    assert scorer.score(r"\boxed{\frac12}", Question(("0.5",))).value == 1
    assert mathematics._WORKER._pool is not None
    return next(iter(mathematics._WORKER._pool._processes))


@pytest.mark.parametrize("bomb", ["9^{9^{9^{9}}}", "x + (10^{9})!"])
def test_a_number_too_large_to_compute_is_wrong_and_ends_no_run(
    scorer: MathScorer, bomb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mathematics, "_TIME_LIMIT", 0.5)
    assert scorer.score(rf"\boxed{{{bomb}}}", Question(("1",))).value == 0
    assert scorer.score(rf"\boxed{{{bomb}}}", Question((bomb,))).value == 1
    assert pid(scorer)


def test_a_busy_machine_changes_no_score(
    scorer: MathScorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mathematics, "_TIME_LIMIT", 0.5)
    number = pid(scorer)
    # As if others had the processor: the worker waits for three times its limit.
    os.kill(number, signal.SIGSTOP)
    threading.Timer(1.5, os.kill, (number, signal.SIGCONT)).start()
    assert pid(scorer) == number


def test_an_answer_whose_worker_dies_is_unscored_and_the_next_is_scored(scorer: MathScorer) -> None:
    number = pid(scorer)
    os.kill(number, signal.SIGSTOP)
    threading.Timer(0.5, os.kill, (number, signal.SIGKILL)).start()
    with pytest.raises(ScorerError, match="the process that compares answers ended"):
        pid(scorer)
    assert pid(scorer) != number


def test_a_script_without_a_main_guard_is_not_run_again(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(UNGUARDED)
    done = subprocess.run(  # noqa: S603 -- our own code
        [sys.executable, "-W", "error", str(script)],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert done.stdout.split() == ["ran", "1.0"]
    assert done.stderr == ""
