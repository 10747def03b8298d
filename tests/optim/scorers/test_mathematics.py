from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from optim.scorers import math_worker
from optim.scorers.mathematics import MathScorer
from optim.scorers.score import ScorerError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path


@dataclass(frozen=True)
class Question:
    targets: tuple[str, ...]
    metadata: Mapping[str, Any] = field(default_factory=dict)


@pytest.fixture(scope="module")
def scorer() -> Iterator[MathScorer]:
    made = MathScorer()
    yield made
    made.close()


@pytest.mark.parametrize(
    "gold",
    [
        "42",
        "-3",
        r"\frac{14}{3}",
        r"\left( 3, \frac{\pi}{2} \right)",
        r"\text{Evelyn}",
        r"\text{(C)}",
        "2k+2",
        r"6 - 5i",
        r"[-2,7]",
        r"(-\infty, 0] \cup (3, \infty)",
        r"\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}",
        r"11\sqrt2",
        r"10\%",
        r"90^\circ",
        r"\$32,348",
        "1,-2",
        "x=5",
        "y = 2x + 3",
        r"4210_{5}",
        "10,000",
        r"6 \text{ cm}^2",
    ],
)
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
        ("42", r"\boxed{42\text{ apples}}"),
        ("42", "x" * 1_000_000 + r" \boxed{42}"),
    ],
)
def test_equal_answers_score_1(scorer: MathScorer, gold: str, output: str) -> None:
    assert scorer.score(output, Question((gold,))).value == 1


@pytest.mark.parametrize(
    ("gold", "output"),
    [
        ("50", r"\boxed{5000}"),
        ("50", "The answer is 5000."),
        ("10000", r"\boxed{10001}"),
        ("(1,2)", r"\boxed{[1,2]}"),
        ("2", r"\boxed{answer}"),
        ("7", "<think>it is 7"),
        ("7", r"\boxed{7}, and no, \boxed{8}"),
        ("2", r"\boxed{}"),
        ("2", ""),
        ("2", "I do not know."),
        ("2", r"\boxed{__import__('os').system('touch /tmp/owned')}"),
        ("2", "{" * 20_000),
        ("2", r"\boxed{" + r"\frac{1}{" * 3_000 + "}" * 3_001),
        ("2", "<script>alert(2)</script>"),
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


def test_a_monstrous_power_is_killed_not_waited_for() -> None:
    scorer = MathScorer(time_limit=2)
    score = scorer.score(r"\boxed{9999999^{9999999^{99}}}", Question(("1",)))
    assert score.value == 0
    assert score.metadata["timed_out"] or score.metadata["error"]
    assert scorer.score(r"\boxed{1}", Question(("1",))).value == 1
    scorer.close()


def test_a_slow_comparison_times_out(tmp_path: Path) -> None:
    slow = tmp_path / "slow.py"
    slow.write_text(
        """import sys, time
print('{"ready": true}', flush=True)
for line in sys.stdin:
    time.sleep(60)"""
    )
    scorer = MathScorer(time_limit=0.5, worker=slow)
    score = scorer.score(r"\boxed{1}", Question(("1",)))
    assert (score.value, score.answer, score.metadata) == (0, "1", {"timed_out": True})
    assert "0.5 s" in score.explanation


def test_a_worker_that_cannot_work_is_an_error_not_a_0(tmp_path: Path) -> None:
    with pytest.raises(ScorerError):
        MathScorer(worker=tmp_path / "missing.py").score(r"\boxed{1}", Question(("1",)))


def test_threads_share_one_scorer(scorer: MathScorer) -> None:
    def score(number: int) -> float:
        return scorer.score(rf"\boxed{{{number}}}", Question((str(number - number % 2),))).value

    with ThreadPoolExecutor(6) as pool:
        values = list(pool.map(score, range(60)))
    assert values == [1 - number % 2 for number in range(60)]


async def test_it_can_be_called_from_an_event_loop(scorer: MathScorer) -> None:
    questions = [Question((str(number),)) for number in range(10)]
    scores = await asyncio.gather(
        *(asyncio.to_thread(scorer.score, r"\boxed{3}", question) for question in questions)
    )
    assert sum(score.value for score in scores) == 1


def test_the_worker_reports_what_it_cannot_compare() -> None:
    reply = math_worker.answer("no json")
    assert (reply["correct"], reply["answer"]) == (False, None)
    assert "JSONDecodeError" in reply["error"]


def test_the_worker_runs_nothing_it_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    scorer = MathScorer()
    for code in ("__import__('os').mkdir('owned')", "os.mkdir('owned')", r"\input{|mkdir owned}"):
        scorer.score(rf"\boxed{{{code}}}", Question(("1",)))
        scorer.score(f"The answer is {code}", Question(("1",)))
    scorer.close()
    assert list(tmp_path.iterdir()) == []
