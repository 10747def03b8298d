"""The tasks that a planner is shown, with their plans. They are part of no data set."""

from __future__ import annotations

from collections.abc import Mapping

from pb_graph.settings import Settings
from pb_graph.tasks import MATHEMATICS, asked_length, is_composed, kind_of
from pb_graph.types import Query


class Task:
    """A task with its plan: parts with a level and a credit each. The hardest gives its level."""

    def __init__(self, problem: str, *parts: tuple[str, int, int], delivers: str = "last") -> None:
        self.problem, self.parts, self.delivers = problem, parts, delivers
        self.steps, self.levels, self.credits = zip(*parts, strict=True)
        self.level = max(self.levels)

    def inputs(self, of: Mapping[str, str]) -> dict[str, str]:
        """Return the task as input fields, with its level if the inputs of a question have one."""
        return {"problem": self.problem, "level": f"level {self.level} of 5" if of["level"] else ""}


TANK = Task(
    "A tank holds 240 litres. A pump brings 8 litres a minute, and a leak loses 3. How many hours "
    "does it take to fill the tank?",
    ("How many litres a minute are gained? | take the leak from the pump", 1, 20),
    ("How many minutes does the tank take? | divide by what is gained a minute", 2, 50),
    ("How many hours is that? | minutes of an hour", 1, 30),
)
LETTER = Task(
    "Write a letter to a hotel about a noisy room, and ask for the price of one night back.",
    ("Choose the facts to tell | what happened, when, who was told", 2, 20),
    ("Decide what to ask for, and why | what was promised and not kept", 2, 25),
    ("Write the letter | three short paragraphs, polite and firm", 3, 55),
)
_ESSAY = Task(
    "Write an essay of 500 words on whether schools should begin later in the morning.",
    ("Write the opening, which asks the question | whom it concerns, why now", 2, 20),
    ("Write the reasons for and against | sleep and marks, buses and parents", 3, 50),
    ("Write the closing, which answers the question | weigh both sides", 3, 30),
    delivers="all",
)
_FUNCTION = Task(
    "Write a Python function that returns the second largest number of a list, and a test for it.",
    ("Decide what short lists and equal numbers give | list the cases", 2, 20),
    ("Choose the algorithm | one pass, keep the two largest so far", 2, 25),
    ("Write all that is asked for: the function and its test | every case, clear names", 3, 55),
)
_TRIP = Task(
    "Plan two days in Rome for a couple who walk slowly, for 300 euros.",
    ("Choose the sights of each day | few, and close to each other", 2, 25),
    ("Choose where to eat and sleep within the money | prices of each, and their sum", 3, 30),
    ("Write the whole plan, day by day | times, ways, meals and costs", 3, 45),
)
_DAYS = Task(  # shown where ``synthesis="join"`` is set: each part is one of the answer
    "Plan three days in Rome for a couple who walk slowly, for 500 euros.",
    ("Write day 1: arrival, and the old town | way there, hotel, dinner", 3, 35),
    ("Write day 2: the Vatican, and a park | tickets, lunch between both, dinner", 3, 40),
    ("Write day 3: a market, and the way home | time left, sum of all costs", 2, 25),
    delivers="all",
)
_MILL = Task(
    "The mill burned in 1834, as the miller had left a lamp alight. A new one opened two years "
    "later, of stone. How long was the town without a mill, and why?",
    ("Find when the mill burned, and when the new one opened | dates of the text", 1, 30),
    ("How long was the town without a mill? | from the one date to the other", 2, 25),
    ("Answer the whole question: how long, and why | the reason stands in the text", 2, 45),
)
_PRODUCT = Task(
    "What are the last two digits of 3 * 33 * 333 * ..., a product of 50 such factors?",
    ("What is the product modulo 4? | reduce each factor, as 100 is a multiple of 4", 3, 25),
    ("What is the product modulo 25? | reduce each factor, and write equal ones as a power", 3, 45),
    (
        "Which number below 100 fits both? | join the results by the Chinese remainder theorem",
        3,
        30,
    ),
)


def has_text(query: Query) -> bool:
    """Return whether a question comes with a text, which it is about."""
    return bool(query["reference"]) or "\n\n" in query["question"].strip()


def similar_tasks(query: Query, settings: Settings) -> tuple[Task, ...]:
    """Return tasks with their plans: the paper's kind, two of mathematics, or of two fields.

    The nearest task stands last, where a model copies its form most.

    Args:
        query: The question.
        settings: Settings of the run.
    """
    if settings.style == "paper":
        return (_PRODUCT,)
    if query["domain"].casefold() in MATHEMATICS:
        return TANK, _PRODUCT
    if not is_composed(query):
        return TANK, _MILL if has_text(query) else LETTER
    if (kind := kind_of(query)) == "program":
        return TANK, _FUNCTION
    joins, is_auto = settings.synthesis == "join", settings.synthesis == "auto"
    if kind == "trip":
        return (_ESSAY, _DAYS) if joins else (TANK, _TRIP)
    return (LETTER, _ESSAY) if joins or (is_auto and asked_length(query)) else (TANK, LETTER)
