"""What is read off words: what a question asks for, and what an answer states."""
# ruff: noqa: RUF001 -- marks of other scripts

from __future__ import annotations

from functools import partial

import pytest

from pb_graph.answers import boxed_answer, final_answer, stated_answer, without_thinking
from pb_graph.tasks import asked_length, ends_of, is_composed, needed_tokens
from tests.support.graphs import query as any_query

query = partial(any_query, domain="general problem solving")


LENGTHS = [
    ("Write an essay of about 800 words on the war.", 1_600),
    ("Write a 1,200-word article.", 2_400), ("I need an essay, 500-800 words.", 1_600),
    ("Summarize it in three sentences.", 135), ("Please draft a speech of two pages.", 2_000),
    ("Explain tides in 2 paragraphs.", 400), ("Schreibe einen Leserbrief von 200 Wörtern.", 400),
    ("Verfasse einen Aufsatz über Wale, zwei Seiten.", 2_000),
    ("Écrivez une lettre de 150 mots.", 300), ("Escribe un ensayo de 300 palabras.", 600),
    ("Напиши сочинение, 250 слов.", 500), ("写一篇800字的文章。", 1_600),
    ("400文字の作文を書いてください。", 800), ("Plan a trip of 3 days from A to B.", 900),
    ("Give me a 7-day itinerary for Rome.", 2_100),
    ("Plan a week in Japan: a tour of gardens.", 2_100),
    ("Plane eine Reise von vier Tagen.", 1_200), ("规划一次5天的旅行。", 1_500),
    ("Write an essay of 90000 words.", 20_000), ("Write a 5-minute speech for a wedding.", 1_500),
    ("Write a two-thousand-word essay on bees.", 4_000), ("List 50 blog post ideas.", 3_000),
    ("Write a poem of 120 lines.", 2_400), ("Plan a trip to Japan for two weeks.", 4_200),
    ("Create a weekly meal plan.", 2_100), ("Verfasse einen dreiseitigen Bericht.", 3_000),
    ("Pianifica un viaggio di dieci giorni in Sicilia.", 3_000),
    ("Escreva uma carta de duas páginas.", 2_000), ("Напиши письмо на две страницы.", 2_000),
    ("写一篇一千五百字的作文。", 3_000), ("2000字のレポートを書いてください。", 4_000),
    ("1500자 에세이를 써 주세요.", 3_000),
    (f"Translate into German: {'The harbour was quiet. ' * 400}", 4_611),
    (f"Translate it in 50 words: {'The harbour was quiet. ' * 400}", 100),
    ("Tom has to write 20 pages, 3 an hour. How long does it take him?", None),
    ("A trip of 5 days costs $20 a day. How much is that?", None),
    ("Write a script that reads 3 lines of 80 characters.", None),
    ("12 hens lay 3 eggs a day. How many in 5 days?", None),
    ("The book has 50,000 words. How many pages are that at 250 words a page?", None),
    ("What is the longest of these 3 words?", None),
    ("Write a function that adds two numbers.", None),
]  # fmt: skip


@pytest.mark.parametrize(("question", "tokens"), LENGTHS)
def test_a_length_counts_where_something_is_to_be_written_or_travelled(
    question: str, tokens: int | None
) -> None:
    assert asked_length(query(question)) == tokens


def test_the_length_may_stand_in_the_form_or_behind_a_long_text_but_not_in_mathematics() -> None:
    long = f"{'The war began. ' * 2_000}Write a summary of 300 words."
    assert asked_length(query(long)) == 600
    assert asked_length(query("Describe it.", answer_format="One page.")) == 1_000
    assert asked_length(query("Write 30 words.", domain="mathematics")) is None
    words = query("Write a Python function for the first 3 words.")
    assert (needed_tokens(words), needed_tokens(words, notes=True)) == (1_000, 1_500)
    said = f"<turn role='assistant'>{'The harbour was quiet. ' * 400}</turn>"
    assert asked_length({**query("Now translate it into French."), "conversation": said}) == 4_626
    assert needed_tokens(query("Write an essay of 800 words."), notes=True) == 1_600
    assert asked_length(query("From A to B, March 1 to 7.", domain="Travel planning")) == 2_100


COMPOSED = [
    ("Write a Python function merge_sort(a).", True), ("Can you please summarize the text?", True),
    ("Übersetze den Satz ins Englische.", True), ("请写一封信。", True),
    ("Give me a recipe for lasagna for six people.", True),
    ("I need a JavaScript function debounce(fn, ms).", True),
    ("Kannst du mir eine E-Mail an meinen Chef schreiben?", True),
    ("¿Puedes escribir un correo a mi jefe?", True), ("用Python实现二分查找。", True),
    ("Extract the names as JSON.", True),
    ("What are the pros and cons of working from home?", True),
    ("Donne-moi une recette de quiche.", True), ("How many users are in this JSON?", False),
    ("Plants need 3 litres a day. How many litres are that a week?", False),
    ("How many rolls are left?", False), ("What is 15 % of 60?", False),
    ("Who wrote Faust?", False),
]  # fmt: skip


@pytest.mark.parametrize(("question", "composed"), COMPOSED)
def test_a_text_or_a_program_is_the_whole_reply(question: str, composed: bool) -> None:
    assert is_composed(query(question)) is composed
    assert needed_tokens(query(question)) == (1_000 if composed else None)
    assert not is_composed(query(question, domain="arithmetic"))
    assert not is_composed(query(question, answer_format=r"Put it into \boxed{}."))


def test_the_ends_of_a_text_say_how_much_is_left_out() -> None:
    assert ends_of("short", 3, 3) == "short"
    assert ends_of("a" * 10 + "b" * 10, 4, 2) == "aaaa\n[… 14 characters …]\nbb"


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
        (f"{'a ' * 300}<|eot_id|></s>\n", f"{'a ' * 300}".strip()),
        ("Write <s>7</s>", "Write <s>7</s>"),
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
        ("So the final answer is 7", "7"),
        ("It is odd. The final answer is: 7", "7"),
        ("Step 3: Final answer: 7", "7"),
        ("<reasoning>3 + 4</reasoning>\n<answer>\n7\n</answer>\nIt took 2 steps.", "7"),
        ("It is <|begin_of_box|>7<|end_of_box|>, as 3 + 4 is.", "7"),
        ('{"answer": "7", "steps": 2}', "7"),
        (r"Final answer: \(7\)<|im_end|>", "7"),
        (r"{\"answer\": \"\\boxed{7}\"}", "7"),
    ],
)
def test_the_answer_that_is_stated(output: str, answer: str | None) -> None:
    assert stated_answer(output) == answer


@pytest.mark.parametrize(
    "text",
    [
        *("Answer: `42`", "**Answer:** 42", "***Answer***: ***42***", '✅ Final Answer: "42"'),
        *("最终答案：**42**", "最終答案：42", "Antwort: 42"),
        *("Respuesta final: 42", "**Ответ**: 42"),
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
    assert final_answer("Answer: 6?\nNo.\nAnswer: `7`", is_lenient=True) == "7"
