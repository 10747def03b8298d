"""A stock that changes: one running quantity."""

from __future__ import annotations

from typing import TYPE_CHECKING

from optim.datasets.stories.story import LARGE, Number, Story

if TYPE_CHECKING:
    from collections.abc import Callable

    from optim.datasets.stories.dice import Dice

__all__ = ["stock"]

_PARTS = {2: "half", 3: "third", 4: "quarter", 5: "fifth"}
_TIMES = {2: "doubles", 3: "triples"}
_PERCENTAGES = (10, 20, 25, 50, 75)
_STOCKS = (
    ("bakery", "rolls"), ("library", "books"), ("nursery", "seedlings"), ("farm shop", "eggs"),
    ("hardware store", "hinges"), ("museum shop", "postcards"), ("pharmacy", "bandages"),
)  # fmt: skip

_Event = tuple[int, "Callable[[Story, Dice, Number, str], Number]"]


def stock(dice: Dice, steps: int) -> Story:
    """Tell of a shop's stock through as many changes as take that number of steps."""
    story = Story()
    place, items = dice.pick(_STOCKS)
    now = Number(dice.between(24, 36 + 12 * steps))
    story.say(f"a {place} has {now.value} {items} in the morning.")
    while len(story.steps) < steps:
        left = steps - len(story.steps)
        events = [event for cost, event in _events(now.value, steps) if cost <= left]
        now = dice.pick(events)(story, dice, now, items)
    story.question = f"How many {items} does the {place} have in the end?"
    return story


def _events(value: int, steps: int) -> list[_Event]:
    """Give the changes that a stock of that size allows, each with its number of steps."""
    harder = steps > 3  # noqa: PLR2004 - parts and percentages start with level 3
    possible: list[tuple[bool, _Event]] = [
        (True, (1, _arrive)),
        (value > 10, (1, _leave)),  # noqa: PLR2004 - leaves something behind
        (value <= LARGE, (1, _multiply)),
        (True, (2, _crates)),
        (value > 60, (2, _customers)),  # noqa: PLR2004 - at most 9 customers with 6 each
        (harder and bool(_divisors(value)) and value > 40, (2, _part)),  # noqa: PLR2004 - likewise
        (harder and bool(_percentages(value)), (3, _percent)),
        (harder and bool(_divisors(value)) and value > 80, (1, _shelves)),  # noqa: PLR2004 - likewise
    ]
    return [event for allowed, event in possible if allowed]


def _arrive(story: Story, dice: Dice, now: Number, items: str) -> Number:
    more = Number(dice.between(6, 60))
    wordings = (
        f"{more.value} more {items} arrive.",
        f"a supplier brings {more.value} more {items}.",
    )
    story.say(dice.pick(wordings))
    return story.step("+", now, more)


def _leave(story: Story, dice: Dice, now: Number, items: str) -> Number:
    gone = Number(dice.between(3, now.value // 2))
    wordings = (f"{gone.value} of the {items} are sold.", f"{gone.value} {items} are given away.")
    story.say(dice.pick(wordings))
    return story.step("-", now, gone)


def _multiply(story: Story, dice: Dice, now: Number, items: str) -> Number:
    factor = Number(dice.pick(tuple(_TIMES)))
    story.say(f"a large delivery then {_TIMES[factor.value]} the number of {items} there.")
    return story.step("*", now, factor)


def _crates(story: Story, dice: Dice, now: Number, items: str) -> Number:
    crates, each = Number(dice.between(2, 9)), Number(dice.between(4, 24))
    story.say(f"a van unloads {crates.value} crates with {each.value} {items} in each crate.")
    return story.step("+", now, story.step("*", crates, each))


def _customers(story: Story, dice: Dice, now: Number, items: str) -> Number:
    customers, each = Number(dice.between(2, 9)), Number(dice.between(2, 6))
    story.say(f"{customers.value} customers take {each.value} {items} each.")
    return story.step("-", now, story.step("*", customers, each))


def _part(story: Story, dice: Dice, now: Number, items: str) -> Number:
    parts = Number(dice.pick(_divisors(now.value)))
    story.say(f"one {_PARTS[parts.value]} of the {items} on hand is damaged and thrown away.")
    return story.step("-", now, story.step("/", now, parts))


def _percent(story: Story, dice: Dice, now: Number, items: str) -> Number:
    percent = Number(dice.pick(_percentages(now.value)))
    story.say(f"then {percent.value} percent of all the {items} still there are sold.")
    hundredths = story.step("*", now, percent)
    return story.step("-", now, story.step("/", hundredths, Number(100)))


def _shelves(story: Story, dice: Dice, now: Number, items: str) -> Number:
    branches = Number(dice.pick(_divisors(now.value)))
    story.say(
        f"the {items} are then shared equally among {branches.value} branches, this one included, "
        "so that it keeps a single share."
    )
    return story.step("/", now, branches)


def _divisors(value: int) -> tuple[int, ...]:
    return tuple(part for part in _PARTS if value % part == 0)


def _percentages(value: int) -> tuple[int, ...]:
    return tuple(percent for percent in _PERCENTAGES if value * percent % 100 == 0)
