from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from multiprocessing import active_children

import pytest

from optim.datasets import Question
from optim.scorers import ScorerError, worker
from optim.scorers.mathematics import MathScorer


def question(*targets: str) -> Question:
    return Question("q", "?", targets=targets)


@pytest.fixture(scope="module")
def scorer() -> MathScorer:
    return MathScorer()


EQUAL = [
    ("0.5", r"\boxed{\frac12}"), ("2x+2", r"\boxed{2(x+1)}"),
    ("1,2", r"$\boxed{1}$ and $\boxed{2}$"), ("42", "The answer is 42."),
    ("42", r"**Final Answer:** Therefore, the final answer is: $\boxed{{42}}$. I hope so."),
    ("1234", "She earns $1,234 per week."), ("70000", r"\boxed{\$70,000.00}"),
    ("18", "9 * 2 = 18\n#### 18"), ("18", r"\boxed{18 dollars}"), ("18", r"\boxed{€18}"),
    ("3.5", r"\boxed{3 1/2 cups}"), ("1800", r"\boxed{1\,800}"), (r"2\sqrt{13}", r"\boxed{2√13}"),
    (r"(-\infty,3]", "\\boxed{(\N{MINUS SIGN}∞, 3]}"), ("90", r"\boxed{90°}"),
    ("-$5", r"\boxed{-5}"), ("3 1/2", r"\boxed{\frac72}"),
    ("5 apples", r"\boxed{5 oranges}"),  # units do not count
    # The final line, and words around a number.
    ("Paris", "Two and three, 2 + 3.\nFinal answer: Paris"),
    (r"\text{east}", "2 + 3 = 5\nFinal answer: east."),
    (r"\frac14", "2 + 3 = 5\nFinal answer: 1/4"),
    (r"137 \frac{1}{2}", "Final answer: 5\nFinal answer: 137 \\frac{1}{2}"),
    ("-2 + 7i", "**Final answer:** -2 + 7i"), ("(-1,6)", "Final answer: $(-1,6)$\nNot (1, 6)."),
    (r"\$36", r"Final answer: $\$36$"), ("18", "Final answer: 18 dollars per week for 3 people"),
    ("3", "Final answer: The remainder is 3."), ("360", r"\boxed{\text{360 apples}}"),
    ("3a_{2}", r"\boxed{3a_2}"),  # a subscript is no base
    ("5n_{0}", r"\boxed{5n_0}"),
    # Number words multiply, and units stand in the words around them.
    ("1500000", r"\boxed{1.5 \text{ million}}"), ("36", "Final answer: 3 dozen eggs"),
    (r"\frac23", r"\boxed{2 thirds}"), ("50000", r"\boxed{5万}"),
    ("7000000", "It has about 7 million inhabitants."),
    ("2 hours 30 minutes", r"\boxed{2 \text{ h } 30 \text{ min}}"),
    ("5", r"\boxed{5 times as many}"), (r"\frac34", r"\boxed{\frac{3}{4}\text{ cups of flour}}"),
    ("25", "\\boxed{25\N{DEGREE CELSIUS}}"), ("3:15 PM", r"\boxed{15:15}"),
    ("3:15 PM", "The train leaves at 3:15 p.m."),
    # Notations of other places, calculators and typesetters.
    ("1234567", "\\boxed{1\N{THIN SPACE}234\N{THIN SPACE}567}"), ("1234567", r"\boxed{12,34,567}"),
    ("1234.5", "Final answer: 1.234,5"), ("(1.5,2.5)", r"\boxed{(1,5; 2,5)}"),
    ("3,5", r"\boxed{5,3}"),  # still a list
    ("42", "Antwort: ٤٢"), ("42", "最终答案\N{FULLWIDTH COLON}**42**。"),
    ("42", "答\N{FULLWIDTH COLON}5天后一共有42个。"),
    ("42", '{"answer": "42", "unit": "eggs", "steps": 3}'),
    ("42", "<answer>42</answer>\nThis took 3 steps."), ("2e^2", r"\boxed{2\mathrm{e}^2}"),
    ("6", r"\boxed{N = \mathbf{6}}"), ("-3", "\\boxed{\N{EN DASH}3}"),
    ("1.6 \\times 10^{-19}", "\\boxed{1.6 \N{MULTIPLICATION SIGN} 10\N{SUPERSCRIPT MINUS}¹⁹}"),
    (r"\frac72", "\\boxed{3½}"), (r"\frac{\pi}{2}", r"\boxed{pi/2}"), ("14-i", r"\boxed{14 - 1i}"),
    (r"(-\infty,3]", r"\boxed{x \le 3}"), ("-7", "Final answer: minus 7"),
    ("3,-3", "The answer is \N{PLUS-MINUS SIGN}3."), ("1234.56", "1.234,56"),
    (r"\text{(B)}", r"\boxed{B}"), ("#### 42", r"\boxed{42}"),
]  # fmt: skip


@pytest.mark.parametrize(("gold", "output"), EQUAL)
def test_equal_answers_score_1(scorer: MathScorer, gold: str, output: str) -> None:
    assert scorer.score(output, question(gold)).value == 1


OTHER = [
    ("50", r"\boxed{5000}"),
    ("2", r"\boxed{3 1/2}"),  # which Math-Verify takes for 2, and the next for 801
    ("801", r"\boxed{1\,800}"), ("18", r"\boxed{18 dollars and 50 cents}"),
    ("20 June", r"\boxed{20 July}"),
    ("204_5", r"\boxed{204_9}"),  # Math-Verify ignores the base
    ("(1,2)", r"\boxed{[1,2]}"), ("7", "<think>it is 7"), ("7", r"\boxed{7}, and no, \boxed{8}"),
    ("2", r"\boxed{}"), ("2", ""), ("2", "{" * 20_000),
    # A word or a second quantity makes another number.
    ("100", r"\boxed{100 \text{ million}}"), ("7", "It has about 7 million inhabitants."),
    ("4", r"\boxed{4 миллиона}"), ("5", r"\boxed{5 squared}"), ("5", r"\boxed{5 more than x}"),
    ("5", "Final answer: 5 and a half"), ("7", "The answer is 7 out of ten."),
    ("4", "Final answer: more than 4"), ("4", r"\boxed{> 4}"), ("2", r"\boxed{2t}"),
    ("2", r"\boxed{2 \text{ h } 30 \text{ min}}"), ("30", "It takes 2 hours and 30 minutes."),
    ("3:15 PM", r"\boxed{3:15 \text{ AM}}"), ("12:30 PM", r"\boxed{0:30}"),
    ("2:30", r"\boxed{1:15}"),  # as ratios they are equal
    ("1:2:3", r"\boxed{1:3:2}"), ("25", r"\boxed{2,5}"),
    ("-2", "\\boxed{3\N{EN DASH}5}"),  # a range
    (r"\text{east}", r"\boxed{seat}"),
    # A date is no difference, a list no number, and a bound no number either.
    ("2024-04-03", r"\boxed{2024-03-04}"), ("3 1/2", r"\boxed{31/2}"), ("17", r"\boxed{1 7}"),
    ("6", r"\boxed{5 & 6}"), ("3", r"\boxed{3 or more}"), ("5", "Final answer: January 5"),
    ("7", "Final answer: half of 7"), ("5", "Final answer: 5 percent more"),
    ("AB", "Final answer: BA"),
    ("5", "The answer is 5 \N{PLUS-MINUS SIGN} 2."),  # a closing sentence is read as a whole
    ("3", "x > 3"), ("2:3:4", "So in the end we get $2:4:3$."),
    # Tiny numbers, which Math-Verify rounds to zero.
    (r"\frac{1}{2^{99}}", r"\boxed{\frac{1}{2^{98}}}"),
    (r"6.6 \times 10^{-34}", r"\boxed{9.1 \times 10^{-31}}"),
    ("(0.0000001, 2)", r"\boxed{(0.0000002, 2)}"), ("10^{-9}x", r"\boxed{10^{-8}x}"),
]  # fmt: skip


@pytest.mark.parametrize(("gold", "output"), OTHER)
def test_other_answers_score_0(scorer: MathScorer, gold: str, output: str) -> None:
    assert scorer.score(output, question(gold)).value == 0


ANSWERS = [
    r"\left( 3, \frac{\pi}{2} \right)", r"\frac{14}{3}", r"\text{Evelyn}", "p - q", "6 - 5i",
    r"x \in [-2,7]", r"\begin{pmatrix} -1/3 \\ 2/3 \end{pmatrix}", r"1,-2", r"\pm \sqrt{5}",
    r"50^\circ", "4210_{5}", r"11\sqrt{2}\text{ cm}", r"(-\infty,2)\cup(3,\infty)", "2k+2",
    r"\$32{,}348", r"10\%", r"\text{(E)}", "y = 2x + 3", "8 \\text{ p.m.}", r"\frac{3}{56}",
]  # fmt: skip


@pytest.mark.parametrize("place", range(len(ANSWERS)))
def test_an_answer_equals_itself_and_no_neighbour(scorer: MathScorer, place: int) -> None:
    values = [scorer.score(rf"\boxed{{{it}}}", question(ANSWERS[place])).value for it in ANSWERS]
    assert values == [float(other == place) for other in range(len(ANSWERS))]


def test_the_score_says_what_was_read(scorer: MathScorer) -> None:
    score = scorer.score("The answer is 41.", question("42"))
    assert (score.answer, score.explanation) == ("41", "41 differs from 42")
    assert scorer.score("Hm.", question("42")).answer is None


def test_a_question_without_targets_is_an_error(scorer: MathScorer) -> None:
    with pytest.raises(ScorerError, match="without a target"):
        scorer.score("42", question())


def test_threads_share_one_worker_process(scorer: MathScorer) -> None:
    before = set(active_children())
    with ThreadPoolExecutor() as threads:
        scores = threads.map(scorer.score, [r"\boxed{\frac12}"] * 3, [question("0.5")] * 3)
        assert [score.value for score in scores] == [1, 1, 1]
    assert len(set(active_children()) - before) <= 1


@pytest.mark.parametrize("bomb", ["9^{9^{9^{9}}}", "x + (10^{9})!"])
def test_a_number_too_large_to_compute_is_wrong_and_ends_no_run(
    scorer: MathScorer, bomb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "_TIME_LIMIT", 0.5)
    assert scorer.score(rf"\boxed{{{bomb}}}", question("1")).value == 0
    assert scorer.score(rf"\boxed{{{bomb}}}", question(bomb)).value == 1
    assert scorer.score(r"\boxed{\frac12}", question("0.5")).value == 1
