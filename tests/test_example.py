"""The example of the algorithm runs as it stands."""

from __future__ import annotations

from pathlib import Path
from runpy import run_path

from pb_graph.budget import schedule_weights, split

FILE = Path(__file__).parent.parent / "examples" / "algorithm.py"


def test_the_five_functions_answer_a_question_and_split_as_the_package_does() -> None:
    prompts: list[str] = []
    replies = ['["How many groups?", "How many pens?"]', '{"level": 2, "credits": [60, 40]}']
    replies += ["14 / 2 = 7", "7 * 3 = 21", "21 pens"]

    def ask(prompt: str) -> str:
        prompts.append(prompt)
        return replies[len(prompts) - 1]

    example = run_path(str(FILE))
    assert example["answer"](ask, "How many pens does $14 buy at 3 for $2?") == "21 pens"
    shares = [60 * 1.0, 40 * schedule_weights("exponential", 2)[1]]
    expected = split(shares, example["BUDGETS"][2], remainder="floor")
    assert example["allocate"](2, [60, 40]) == expected
    assert all(
        f"at most {n} tokens" in said for n, said in zip(expected, prompts[2:4], strict=True)
    )
    assert "14 / 2 = 7" in prompts[3]
    assert len(FILE.read_text("utf-8").splitlines()) <= 80
