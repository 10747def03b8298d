"""Word problems built from exact steps: every number in the text is one that a step uses.

A story is told and calculated at once. `Story.step` does the integer arithmetic and keeps the
step, the sentence around it names the same numbers; so the answer is right by construction.
What is drawn, and in which order, is part of what a seed means.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from operator import add, floordiv, mod, mul, sub
from typing import TypeVar

_Item = TypeVar("_Item")
_LARGE = 400  # quantities above it are no longer multiplied, so that numbers stay readable
_OPERATIONS = {"+": add, "-": sub, "*": mul, "/": floordiv, "//": floordiv, "%": mod}
_NAMES = (
    "Ada", "Bo", "Cleo", "Dan", "Edith", "Femi", "Gita", "Hugo", "Ines", "Jun", "Kofi", "Lena",
    "Milo", "Nora", "Omar", "Pia", "Quinn", "Rosa", "Sven", "Tariq", "Uma", "Vera",
)  # fmt: skip
_STOCKS = (
    ("bakery", "rolls"), ("library", "books"), ("nursery", "seedlings"), ("farm shop", "eggs"),
    ("hardware store", "hinges"), ("museum shop", "postcards"), ("pharmacy", "bandages"),
)  # fmt: skip
_PARTS = {2: "half", 3: "third", 4: "quarter", 5: "fifth"}
_TIMES = {2: "doubles", 3: "triples"}
_PERCENTAGES = (10, 20, 25, 50, 75)
_THINGS = ("marbles", "stamps", "shells", "stickers", "coins", "cards", "beads", "badges")
_GOODS = ("notebooks", "lamps", "cushions", "mugs", "brushes", "kites", "puzzles", "scarves")
_FEES = ("delivery", "gift wrapping", "insurance", "an express surcharge")
_PRODUCTS = ("bolts", "candles", "bricks", "buttons", "springs", "tiles", "bottles")


class DeterministicRandom:
    """Chance that falls the same in every Python and on every machine, for the same key."""

    def __init__(self, key: str) -> None:
        self._key = key
        self._draws = 0

    def between(self, low: int, high: int) -> int:
        """Give a whole number from low to high, both included."""
        self._draws += 1
        digest = hashlib.sha256(f"{self._key}#{self._draws}".encode()).digest()
        return low + int.from_bytes(digest, "big") % (high - low + 1)

    def pick(self, items: Sequence[_Item]) -> _Item:
        """Give one of the items."""
        return items[self.between(0, len(items) - 1)]

    def shuffled(self, items: Sequence[_Item]) -> list[_Item]:
        """Give the items in drawn order."""
        left = list(items)
        return [left.pop(self.between(0, len(left) - 1)) for _ in items]

    def number(self, low: int, high: int) -> Number:
        """Give a quantity that the text will state, from low to high."""
        return Number(self.between(low, high))


@dataclass(frozen=True, slots=True)
class Number:
    """A quantity of a story, and the index of the step that yields it; None when it is stated."""

    value: int
    source: int | None = None

    def __str__(self) -> str:
        return str(self.value)

    @property
    def name(self) -> int | str:
        """How a step refers to it: the number itself, or "#2" for the result of step 2."""
        return self.value if self.source is None else f"#{self.source}"


@dataclass(frozen=True, slots=True)
class Step:
    """One calculation; left and right are numbers or earlier results, see `Number.name`."""

    operation: str
    left: int | str
    right: int | str
    value: int


@dataclass(slots=True)
class Story:
    """A word problem under construction: sentences, and the steps behind them."""

    sentences: list[str] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    question: str = ""

    def say(self, sentence: str) -> None:
        """Add a sentence, with a capital."""
        self.sentences.append(sentence[0].upper() + sentence[1:])

    def step(self, operation: str, left: Number, right: Number) -> Number:
        """Calculate exactly and keep the step.

        Raises:
            ValueError: A division ("/") that leaves a remainder.
        """
        if operation == "/" and left.value % right.value:
            msg = f"{left} / {right} is no whole number"
            raise ValueError(msg)
        value = _OPERATIONS[operation](left.value, right.value)
        self.steps.append(Step(operation, left.name, right.name, value))
        return Number(value, len(self.steps) - 1)


# --- A stock that changes: one running quantity.


def stock(chance: DeterministicRandom, steps: int) -> Story:
    """Tell of a shop's stock through as many changes as take that number of steps."""
    story = Story()
    place, items = chance.pick(_STOCKS)
    now = chance.number(24, 36 + 12 * steps)
    story.say(f"a {place} has {now} {items} in the morning.")
    while len(story.steps) < steps:
        left = steps - len(story.steps)
        possible = [change for cost, change in _changes(now.value, steps) if cost <= left]
        now = _changed(story, chance, now, items, chance.pick(possible))
    story.question = f"How many {items} does the {place} have in the end?"
    return story


def _changes(value: int, steps: int) -> list[tuple[int, str]]:
    """Give the changes that a stock of that size allows, each with its number of steps."""
    harder = steps > 3  # noqa: PLR2004 - parts and percentages start with level 3
    possible = [
        (True, 1, "arrive"),
        (value > 10, 1, "leave"),  # noqa: PLR2004 - leaves something behind
        (value <= _LARGE, 1, "multiply"),
        (True, 2, "crates"),
        (value > 60, 2, "customers"),  # noqa: PLR2004 - at most 9 customers with 6 each
        (harder and bool(_divisors(value)) and value > 40, 2, "part"),  # noqa: PLR2004 - likewise
        (harder and bool(_percentages(value)), 3, "percent"),
        (harder and bool(_divisors(value)) and value > 80, 1, "shelves"),  # noqa: PLR2004 - likewise
    ]
    return [(cost, change) for allowed, cost, change in possible if allowed]


def _changed(
    story: Story, chance: DeterministicRandom, now: Number, items: str, change: str
) -> Number:
    """Tell of a change, and give what there is after it."""
    match change:
        case "arrive":
            more = chance.number(6, 60)
            wordings = (f"{more} more {items} arrive.", f"a supplier brings {more} more {items}.")
            told, now = chance.pick(wordings), story.step("+", now, more)
        case "leave":
            gone = chance.number(3, now.value // 2)
            wordings = (f"{gone} of the {items} are sold.", f"{gone} {items} are given away.")
            told, now = chance.pick(wordings), story.step("-", now, gone)
        case "multiply":
            factor = Number(chance.pick(tuple(_TIMES)))
            told = f"a large delivery then {_TIMES[factor.value]} the number of {items} there."
            now = story.step("*", now, factor)
        case "crates":
            crates, each = chance.number(2, 9), chance.number(4, 24)
            told = f"a van unloads {crates} crates with {each} {items} in each crate."
            now = story.step("+", now, story.step("*", crates, each))
        case "customers":
            customers, each = chance.number(2, 9), chance.number(2, 6)
            told = f"{customers} customers take {each} {items} each."
            now = story.step("-", now, story.step("*", customers, each))
        case "part":
            parts = Number(chance.pick(_divisors(now.value)))
            part = _PARTS[parts.value]
            told = f"one {part} of the {items} on hand is damaged and thrown away."
            now = story.step("-", now, story.step("/", now, parts))
        case "percent":
            percent = Number(chance.pick(_percentages(now.value)))
            told = f"then {percent} percent of all the {items} still there are sold."
            hundredths = story.step("*", now, percent)
            now = story.step("-", now, story.step("/", hundredths, Number(100)))
        case _:
            branches = Number(chance.pick(_divisors(now.value)))
            told = f"the {items} are then shared equally among {branches} branches, this one "
            told += "included, so that it keeps a single share."
            now = story.step("/", now, branches)
    story.say(told)
    return now


def _divisors(value: int) -> list[int]:
    return [part for part in _PARTS if value % part == 0]


def _percentages(value: int) -> list[int]:
    return [percent for percent in _PERCENTAGES if value * percent % 100 == 0]


# --- Who has how many: quantities defined by one another.


def people(chance: DeterministicRandom, steps: int) -> Story:
    """Tell of people who each have so many things compared with those before them."""
    story = Story()
    names, things = chance.shuffled(_NAMES)[:steps], chance.pick(_THINGS)
    owned = [chance.number(6, 30)]
    story.say(f"{names[0]} has {owned[0]} {things}.")
    for before, name in pairwise(names):
        last = owned[-1]
        match chance.pick(_relations(owned)):
            case "more":
                operation, other = "+", chance.number(2, 25)
                told = f"{other} more {things} than {before}"
            case "fewer":
                operation, other = "-", chance.number(2, last.value - 2)
                told = f"{other} fewer {things} than {before}"
            case "times":
                operation, other = "*", chance.number(2, 4)
                told = f"{other} times as many {things} as {before}"
            case "half":
                operation, other = "/", Number(2)
                told = f"half as many {things} as {before}"
            case _:
                place = chance.between(0, len(owned) - 2)
                operation, last, other = "+", owned[place], last
                told = f"as many {things} as {names[place]} and {before} together"
        story.say(f"{name} has {told}.")
        owned.append(story.step(operation, last, other))
    _ask_people(story, chance, owned, (names, things))
    if steps > 5:  # noqa: PLR2004 - from level 4 on, the reader has to find the order
        story.sentences = chance.shuffled(story.sentences)
    return story


def _relations(owned: list[Number]) -> list[str]:
    last = owned[-1].value
    possible = {
        "more": True,
        "fewer": last > 5,  # noqa: PLR2004 - leaves something
        "times": last <= _LARGE // 4,
        "half": last % 2 == 0 and last > 7,  # noqa: PLR2004 - likewise
        "together": len(owned) > 1 and last <= _LARGE,
    }
    return [relation for relation, allowed in possible.items() if allowed]


def _ask_people(
    story: Story, chance: DeterministicRandom, owned: list[Number], cast: tuple[list[str], str]
) -> None:
    (*others, last), things = cast
    other = chance.between(0, len(others) - 1)
    low, high = sorted((owned[other], owned[-1]), key=lambda number: number.value)
    if low.value == high.value or chance.between(0, 1):
        story.question = f"How many {things} do {others[other]} and {last} have together?"
        story.step("+", owned[other], owned[-1])
    else:
        story.question = (
            f"By how many do the {things} of {others[other]} and those of {last} differ?"
        )
        story.step("-", high, low)


# --- A bill: products and sums.


def shopping(chance: DeterministicRandom, steps: int) -> Story:
    """Tell of a purchase: goods, then additions and deductions, then change or a shared bill."""
    story = Story()
    name = chance.pick(_NAMES)
    lines = chance.between(max(1, steps // 3), steps // 2)
    goods = chance.shuffled(_GOODS)[:lines]
    total = _buy(story, chance, name, goods[0])
    for good in goods[1:]:
        total = story.step("+", total, _buy(story, chance, name, good))
    fees = chance.shuffled(_FEES)
    while len(story.steps) < steps - 1:
        if chance.between(0, 1):
            fee = chance.number(3, 19)
            story.say(f"{fees.pop()} adds {fee} dollars to the bill.")
            total = story.step("+", total, fee)
        else:
            # Never more than a part of the bill, however many deductions there are.
            off = chance.number(1, max(1, min(20, total.value // 4)))
            story.say(f"a voucher takes {off} dollars off the bill.")
            total = story.step("-", total, off)
    _ask_bill(story, chance, total, name)
    return story


def _buy(story: Story, chance: DeterministicRandom, name: str, good: str) -> Number:
    count, price = chance.number(2, 12), chance.number(3, 25)
    story.say(f"{name} buys {count} {good} at {price} dollars apiece.")
    return story.step("*", count, price)


def _ask_bill(story: Story, chance: DeterministicRandom, total: Number, name: str) -> None:
    friends = [count for count in range(2, 10) if total.value % count == 0]
    if friends and chance.between(0, 1):
        sharing = Number(chance.pick(friends))
        story.say(f"the bill is then split equally among {sharing} friends.")
        story.question = "How many dollars does each of them pay?"
        story.step("/", total, sharing)
    else:
        paid = Number((total.value // 50 + chance.between(1, 3)) * 50)
        story.say(f"{name} hands over {paid} dollars.")
        story.question = f"How many dollars of change does {name} get?"
        story.step("-", paid, total)


# --- A workshop: rates, and division with a remainder.


def workshop(chance: DeterministicRandom, steps: int) -> Story:
    """Tell of machines that make things, which are counted or packed at the end."""
    story = Story()
    things = chance.pick(_PRODUCTS)
    made = _run(story, chance, things)
    extras = [_faulty, _yesterday, _yesterday]
    while len(story.steps) < steps - 1:
        left = steps - 1 - len(story.steps)
        if left > 1 and chance.between(0, 2):
            made = story.step("+", made, _run(story, chance, things))
        else:
            made = chance.pick(extras)(story, chance, made, things)
            extras = [_faulty]  # there is only one day before
    size = chance.number(6, 16)
    story.say(f"all these {things} are packed into boxes that hold {size} each.")
    if chance.between(0, 1):
        story.question = "How many boxes are completely full?"
        story.step("//", made, size)
    else:
        story.question = f"How many {things} are left over for a box that is not full?"
        story.step("%", made, size)
    return story


def _run(story: Story, chance: DeterministicRandom, things: str) -> Number:
    rate, hours = chance.number(8, 45), chance.number(2, 9)
    which = "another" if story.steps else "a"
    story.say(f"{which} machine makes {rate} {things} an hour and runs for {hours} hours.")
    return story.step("*", rate, hours)


def _faulty(story: Story, chance: DeterministicRandom, made: Number, things: str) -> Number:
    gone = chance.number(2, max(2, made.value // 8))
    story.say(f"an inspector finds {gone} faulty {things} and scraps them.")
    return story.step("-", made, gone)


def _yesterday(story: Story, chance: DeterministicRandom, made: Number, things: str) -> Number:
    extra = chance.number(5, 90)
    story.say(f"the day before has left {extra} good {things}, which count too.")
    return story.step("+", made, extra)


FAMILIES = (stock, people, shopping, workshop)
"""One function for each kind of story."""
