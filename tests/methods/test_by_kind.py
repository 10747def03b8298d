"""By kind: how a question is written decides how it is asked."""

from __future__ import annotations

from typing import Any

import pytest

from pb_graph import build_graph
from pb_graph.methods.by_kind import kind_of
from pb_graph.settings import Settings
from tests.support.chat_model import ScriptedChat
from tests.support.graphs import run

WORDS = "A pen is $2, a book is $8. How many pens does a book buy?"
FORMULAS = "What is $2^5 + 1$?"
NEITHER = "Who wrote Hamlet?"
STEPS = "numbered_steps"


@pytest.mark.parametrize(
    ("question", "domain", "kind"),
    [
        ("Solve $x^2 = 4$.", "general", "formulas"),
        ("Let $n$ be even. Is it prime?", "general", "formulas"),
        (r"Compute \frac{1}{2} of 6.", "general", "formulas"),
        ("Tim pays $5 for 2 pens and $8 for a book. How much is it?", "general", "words"),
        ("How much change is left of $20 (a pen is $5/$6)?", "general", "words"),
        ("Six hens lay an egg each. How many eggs?", "general", None),
        ("Six hens lay an egg each. How many eggs?", " Arithmetic", "words"),
        (r"Is \(a + b\)^2 even for \(a = b\)?", "general", "formulas"),
        ("Why is (1 + x)^2 at least 1 + 2x?", "general", "formulas"),
        (r"What does print('a\nb') write in C:\Users?", "general", None),
        ("What does export PATH=$PATH:$HOME do, and a ^ b?", "general", None),
        ("In 2019 sales rose by 40 %. Summarise.", "general", None),
        (f"Ask how many of the 2 or 3 there are. {'The text. ' * 40}", "general", None),
        pytest.param(r"\(" * 50_000, "general", None, id="long, and nothing is closed"),
        (NEITHER, "general", None),
    ],
)
def test_how_a_question_is_written(question: str, domain: str, kind: str | None) -> None:
    query: Any = {"question": question, "domain": domain, "answer_format": None}
    assert kind_of(query) == kind


@pytest.mark.parametrize(
    ("question", "kind"),
    [
        (NEITHER, "task"),
        ("Sort the list: [3, 1, 2]", "task"),
        ("A train goes 60 km in 2 hours. What is its speed?", None),
        ("A train goes 60 km in 2 hours. Find its speed.", None),
        ("Six hens lay an egg each. How many eggs?", None),
        ("Tim has three pens, twice as many as Ann. What do they have together?", None),
        (WORDS, "words"),
        (FORMULAS, "formulas"),
    ],
)
def test_what_may_have_to_be_computed_is_no_task(question: str, kind: str | None) -> None:
    query: Any = {"question": question, "domain": "general", "answer_format": "The answer alone."}
    assert kind_of(query) == kind


@pytest.mark.parametrize(
    ("question", "row"),
    [
        ({"question": WORDS}, "calculation"),
        ({"question": "Of 4 eggs and 2 cups for 8, how many eggs and how much milk for 4?"}, STEPS),
        (
            {"question": "It takes 90 minutes from 9:40. When is it over? How many hours?"},
            STEPS,
        ),
        ({"question": FORMULAS, "answer_format": "In a box."}, STEPS),
        ({"question": NEITHER, "answer_format": "Give the name alone."}, "direct"),
        ({"question": NEITHER}, "vanilla"),
    ],
)
@pytest.mark.parametrize("method", ["by_kind", "auto"])
def test_each_kind_is_asked_as_its_row_does(
    question: dict[str, str], row: str, method: str
) -> None:
    asked = []
    for name in (method, row):
        chat = ScriptedChat()
        run(build_graph(chat, settings=Settings(method=name)), question)
        asked.append([message.content for message in chat.calls[0].messages])
    assert asked[0] == asked[1]
