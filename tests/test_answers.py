# ruff: noqa: RUF001 -- marks of other scripts

from __future__ import annotations

import pytest

from pb_graph.answers import (
    boxed_answer,
    final_answer,
    last_answer,
    stated_answer,
    without_thinking,
)


@pytest.mark.parametrize(
    ("output", "said"),
    [
        ("<think>hm</think>42", "42"),
        ("<think>x</think> <think>y</think> c", "c"),
        (
            "Write <think> before it, </think> after it.",
            "Write <think> before it, </think> after it.",
        ),
        ("<think>only this", ""),
        ("thought without its opening tag</think>42", "42"),
        ("no tags", "no tags"),
    ],
)
def test_thinking_is_cut_away(output: str, said: str) -> None:
    assert without_thinking(output) == said


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"\boxed{42}", "42"),
        (r"first \boxed{3}, no wait, \boxed{5}.", "5"),
        (r"\boxed{\frac{1}{2^{3}}}", r"\frac{1}{2^{3}}"),
        (r"\boxed{\{1,2\}}", r"\{1,2\}"),
        (r"\boxed{\left\{x : x > 1\right\}}", r"\left\{x : x > 1\right\}"),
        (r"\boxed{\boxed{7}}", "7"),
        (r"$\boxed{1}$ and $\boxed{2}$", "1, 2"),
        ("\\boxed{Paris}\n\n\\boxed{Paris}", "Paris"),
        (r"\boxed{1}, \boxed{2}, \text{ or } \boxed{3}", "1, 2, 3"),
        (r"\boxed{1} makes \boxed{2} and \boxed{3}", "2, 3"),
        (r"an earlier \boxed{1}, then \boxed{\frac{1}{2", "1"),
        (r"} stray { braces \boxed{5} {", "5"),
        (r"\boxed{}", ""),
        (r"\boxed{5", None),
        ("nothing", None),
    ],
)
def test_the_last_closed_box_is_the_answer(text: str, answer: str | None) -> None:
    assert boxed_answer(text) == answer


@pytest.mark.parametrize(
    ("hostile", "answer"),
    [
        ("<think>" * 150_000, None),
        (r"\boxed{" * 150_000, None),
        ("".join(rf"\boxed{{{n}}}" for n in range(100_000)), ", ".join(map(str, range(100_000)))),
        (r"\boxed{1}" + " " * 1_000_000 + r"x\boxed{2}", "2"),
    ],
)
def test_a_megabyte_is_read(hostile: str, answer: str | None) -> None:
    assert boxed_answer(without_thinking(hostile)) == answer  # in quadratic time it takes hours


@pytest.mark.parametrize(
    ("output", "answer"),
    [
        ("So 3.\nFinal answer: 7", "7"),
        (r"Final answer: 7, that is \boxed{8}", "8"),
        (r"<think>\boxed{1}</think>It is \boxed{2}", "2"),
        ("It is 7.", None),
        ("", None),
    ],
)
def test_the_answer_that_is_stated(output: str, answer: str | None) -> None:
    assert stated_answer(output) == answer


@pytest.mark.parametrize(
    "text",
    [
        *("Answer: `42`", "**Answer:** 42", "***Answer***: ***42***", '✅ Final Answer: "42"'),
        *(
            "最终答案：**42**",
            "最終答案：42",
            "Antwort: 42",
            "Respuesta final: 42",
            "**Ответ**: 42",
        ),
        "So it is 42.\n\n## Answer\n42",
    ],
)
def test_an_answer_is_found_in_other_languages_and_marks(text: str) -> None:
    assert final_answer(text) == "42"


@pytest.mark.parametrize(
    "text", ["The answer: see below.", "Question: Why?\nAnswer: So.", "Answer: 1\nAnswer: 2"]
)
def test_questions_with_their_answers_are_no_result(text: str) -> None:
    assert final_answer(text) is None


def test_a_final_answer_of_several_paragraphs_is_read_to_its_end() -> None:
    poem = "Roses are red.\n\nViolets are blue."
    assert final_answer(f"Hm.\nFinal answer: {poem}", is_whole=True) == poem
    assert final_answer(f"Hm.\nFinal answer: {poem}") == "Roses are red."


def test_only_marks_around_all_of_an_answer_are_taken_away() -> None:
    assert final_answer("Final answer: **a** and **b**") == "**a** and **b**"
    assert final_answer("答案是：“7”。") == "7"
    assert last_answer("Answer: 6?\nNo.\nAnswer: `7`") == "7"
