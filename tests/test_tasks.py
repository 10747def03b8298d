"""What a question asks for is read off its words, in several languages."""

from __future__ import annotations

import pytest

from pb_graph.tasks import asked_length, ends_of, is_composed, needed_tokens
from pb_graph.types import Query


def query(question: str, **fields: str) -> Query:
    plain: Query = {
        "question": question,
        "reference": None,
        "instruction": None,
        "answer_format": None,
        "domain": "general problem solving",
        "level": None,
    }
    return plain | fields  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("question", "tokens"),
    [
        ("Write an essay of about 800 words on the war.", 1_600),
        ("Write a 1,200-word article.", 2_400),
        ("I need an essay, 500-800 words.", 1_600),
        ("Summarize it in three sentences.", 135),
        ("Please draft a speech of two pages.", 2_000),
        ("Explain tides in 2 paragraphs.", 400),
        ("Schreibe einen Leserbrief von 200 Wörtern.", 400),
        ("Verfasse einen Aufsatz über Wale, zwei Seiten.", 2_000),
        ("Écrivez une lettre de 150 mots.", 300),
        ("Escribe un ensayo de 300 palabras.", 600),
        ("Напиши сочинение, 250 слов.", 500),
        ("写一篇800字的文章。", 1_600),
        ("400文字の作文を書いてください。", 800),
        ("Plan a trip of 3 days from A to B.", 900),
        ("Give me a 7-day itinerary for Rome.", 2_100),
        ("Plan a week in Japan: a tour of gardens.", 2_100),
        ("Plane eine Reise von vier Tagen.", 1_200),
        ("规划一次5天的旅行。", 1_500),
        ("Write an essay of 90000 words.", 20_000),
        ("12 hens lay 3 eggs a day. How many in 5 days?", None),
        ("The book has 50,000 words. How many pages are that at 250 words a page?", None),
        ("What is the longest of these 3 words?", None),
        ("Write a function that adds two numbers.", None),
    ],
)
def test_a_length_counts_where_something_is_to_be_written_or_travelled(
    question: str, tokens: int | None
) -> None:
    assert asked_length(query(question)) == tokens


def test_the_length_may_stand_in_the_form_or_behind_a_long_text_but_not_in_mathematics() -> None:
    long = f"{'The war began. ' * 2_000}Write a summary of 300 words."
    assert asked_length(query(long)) == 600
    assert asked_length(query("Describe it.", answer_format="One page.")) == 1_000
    assert asked_length(query("Write 30 words.", domain="mathematics")) is None
    assert asked_length(query("From A to B, March 1 to 7.", domain="Travel planning")) == 2_100


@pytest.mark.parametrize(
    ("question", "composed"),
    [
        ("Write a Python function merge_sort(a).", True),
        ("Can you please summarize the text?", True),
        ("Übersetze den Satz ins Englische.", True),
        ("请写一封信。", True),
        ("How many rolls are left?", False),
        ("What is 15 % of 60?", False),
        ("Who wrote Faust?", False),
    ],
)
def test_a_text_or_a_program_is_the_whole_reply(question: str, composed: bool) -> None:
    assert is_composed(query(question)) is composed
    assert needed_tokens(query(question)) == (1_000 if composed else None)
    assert not is_composed(query(question, domain="arithmetic"))
    assert not is_composed(query(question, answer_format=r"Put it into \boxed{}."))


def test_the_ends_of_a_text_say_how_much_is_left_out() -> None:
    assert ends_of("short", 3, 3) == "short"
    assert ends_of("a" * 10 + "b" * 10, 4, 2) == "aaaa\n[… 14 characters …]\nbb"
