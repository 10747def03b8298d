"""Word problems built from exact steps: every number in the text is one that a step uses.

A story is told and calculated at once. `Story.step` does the integer arithmetic and keeps the
step, the sentence around it names the same numbers; so the answer is right by construction.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["FAMILIES", "Dice", "Number", "Step", "Story"]

_Item = TypeVar("_Item")
_LARGE = 400  # quantities above it are no longer multiplied, so that numbers stay readable
_PARTS = {2: "half", 3: "third", 4: "quarter", 5: "fifth"}
_TIMES = {2: "doubles", 3: "triples"}
_PERCENTAGES = (10, 20, 25, 50, 75)
_NAMES = (
    "Ada", "Bo", "Cleo", "Dan", "Edith", "Femi", "Gita", "Hugo", "Ines", "Jun", "Kofi", "Lena",
    "Milo", "Nora", "Omar", "Pia", "Quinn", "Rosa", "Sven", "Tariq", "Uma", "Vera",
)  # fmt: skip
_STOCKS = (
    ("bakery", "rolls"), ("library", "books"), ("nursery", "seedlings"), ("farm shop", "eggs"),
    ("hardware store", "hinges"), ("museum shop", "postcards"), ("pharmacy", "bandages"),
)  # fmt: skip
_THINGS = ("marbles", "stamps", "shells", "stickers", "coins", "cards", "beads", "badges")
_GOODS = ("notebooks", "lamps", "cushions", "mugs", "brushes", "kites", "puzzles", "scarves")
_FEES = ("delivery", "gift wrapping", "insurance", "an express surcharge")
_PRODUCTS = ("bolts", "candles", "bricks", "buttons", "springs", "tiles", "bottles")


class Dice:
    """Deterministic chance: the same key gives the same throws in every Python, everywhere."""

    def __init__(self, key: str) -> None:
        self._key = key
        self._throws = 0

    def between(self, low: int, high: int) -> int:
        """Give a whole number from low to high, both included."""
        self._throws += 1
        digest = hashlib.sha256(f"{self._key}#{self._throws}".encode()).digest()
        return low + int.from_bytes(digest, "big") % (high - low + 1)

    def pick(self, items: Sequence[_Item]) -> _Item:
        """Give one of the items."""
        return items[self.between(0, len(items) - 1)]

    def shuffled(self, items: Sequence[_Item]) -> list[_Item]:
        """Give the items in drawn order."""
        left = list(items)
        return [left.pop(self.between(0, len(left) - 1)) for _ in items]


@dataclass(frozen=True, slots=True)
class Number:
    """A quantity of a story.

    Attributes:
        value: What it amounts to.
        source: Index of the step that yields it; None when the text states it.
    """

    value: int
    source: int | None = None

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
            ValueError: A division ("/") that leaves a remainder, or an unknown operation.
        """
        value = _calculated(operation, left.value, right.value)
        self.steps.append(Step(operation, left.name, right.name, value))
        return Number(value, len(self.steps) - 1)


def _calculated(operation: str, left: int, right: int) -> int:
    match operation:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "//":
            return left // right
        case "%":
            return left % right
        case "/" if left % right == 0:
            return left // right
    msg = f"{left} {operation} {right} is no whole number"
    raise ValueError(msg)


# --- A stock that changes: one running quantity -------------------------------------------------

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
        (value <= _LARGE, (1, _multiply)),
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


# --- Who has how many: quantities defined by one another ----------------------------------------


def people(dice: Dice, steps: int) -> Story:
    """Tell of people who each have so many things compared with those before them."""
    story = Story()
    names, things = dice.shuffled(_NAMES)[:steps], dice.pick(_THINGS)
    owned = [Number(dice.between(6, 30))]
    story.say(f"{names[0]} has {owned[0].value} {things}.")
    for position in range(1, steps):
        relation = dice.pick(_relations(owned))
        owned.append(relation(story, dice, owned, (names[: position + 1], things)))
    _ask_people(story, dice, owned, (names, things))
    if steps > 5:  # noqa: PLR2004 - from level 4 on, the reader has to find the order
        story.sentences = dice.shuffled(story.sentences)
    return story


_Cast = tuple["list[str]", str]  # names up to the one that is introduced, and the things owned


def _relations(owned: list[Number]) -> list[Callable[[Story, Dice, list[Number], _Cast], Number]]:
    last = owned[-1].value
    possible = [
        (True, _more),
        (last > 5, _fewer),  # noqa: PLR2004 - leaves something
        (last <= _LARGE // 4, _times_as_many),
        (last % 2 == 0 and last > 7, _half_as_many),  # noqa: PLR2004 - likewise
        (len(owned) > 1 and last <= _LARGE, _together),
    ]
    return [relation for allowed, relation in possible if allowed]


def _more(story: Story, dice: Dice, owned: list[Number], cast: _Cast) -> Number:
    (*_, before, name), things = cast
    more = Number(dice.between(2, 25))
    story.say(f"{name} has {more.value} more {things} than {before}.")
    return story.step("+", owned[-1], more)


def _fewer(story: Story, dice: Dice, owned: list[Number], cast: _Cast) -> Number:
    (*_, before, name), things = cast
    fewer = Number(dice.between(2, owned[-1].value - 2))
    story.say(f"{name} has {fewer.value} fewer {things} than {before}.")
    return story.step("-", owned[-1], fewer)


def _times_as_many(story: Story, dice: Dice, owned: list[Number], cast: _Cast) -> Number:
    (*_, before, name), things = cast
    factor = Number(dice.between(2, 4))
    story.say(f"{name} has {factor.value} times as many {things} as {before}.")
    return story.step("*", owned[-1], factor)


def _half_as_many(story: Story, _dice: Dice, owned: list[Number], cast: _Cast) -> Number:
    (*_, before, name), things = cast
    story.say(f"{name} has half as many {things} as {before}.")
    return story.step("/", owned[-1], Number(2))


def _together(story: Story, dice: Dice, owned: list[Number], cast: _Cast) -> Number:
    (*others, before, name), things = cast
    other = dice.between(0, len(others) - 1)
    story.say(f"{name} has as many {things} as {others[other]} and {before} together.")
    return story.step("+", owned[other], owned[-1])


def _ask_people(story: Story, dice: Dice, owned: list[Number], cast: _Cast) -> None:
    (*others, last), things = cast
    other = dice.between(0, len(others) - 1)
    low, high = sorted((owned[other], owned[-1]), key=lambda number: number.value)
    if low.value == high.value or dice.between(0, 1):
        story.question = f"How many {things} do {others[other]} and {last} have together?"
        story.step("+", owned[other], owned[-1])
    else:
        story.question = (
            f"By how many do the {things} of {others[other]} and those of {last} differ?"
        )
        story.step("-", high, low)


# --- A bill: products and sums ------------------------------------------------------------------


def shopping(dice: Dice, steps: int) -> Story:
    """Tell of a purchase: goods, then additions and deductions, then change or a shared bill."""
    story = Story()
    name = dice.pick(_NAMES)
    lines = dice.between(max(1, steps // 3), steps // 2)
    goods = dice.shuffled(_GOODS)[:lines]
    total = _buy(story, dice, name, goods[0])
    for good in goods[1:]:
        total = story.step("+", total, _buy(story, dice, name, good))
    fees = dice.shuffled(_FEES)
    while len(story.steps) < steps - 1:
        if dice.between(0, 1):
            total = _fee(story, dice, total, fees.pop())
        else:
            total = _voucher(story, dice, total)
    _ask_bill(story, dice, total, name)
    return story


def _buy(story: Story, dice: Dice, name: str, good: str) -> Number:
    count, price = Number(dice.between(2, 12)), Number(dice.between(3, 25))
    story.say(f"{name} buys {count.value} {good} at {price.value} dollars apiece.")
    return story.step("*", count, price)


def _fee(story: Story, dice: Dice, total: Number, what: str) -> Number:
    fee = Number(dice.between(3, 19))
    story.say(f"{what} adds {fee.value} dollars to the bill.")
    return story.step("+", total, fee)


def _voucher(story: Story, dice: Dice, total: Number) -> Number:
    # Never more than a part of the bill, however many deductions there are.
    off = Number(dice.between(1, max(1, min(20, total.value // 4))))
    story.say(f"a voucher takes {off.value} dollars off the bill.")
    return story.step("-", total, off)


def _ask_bill(story: Story, dice: Dice, total: Number, name: str) -> None:
    friends = [count for count in range(2, 10) if total.value % count == 0]
    if friends and dice.between(0, 1):
        sharing = Number(dice.pick(friends))
        story.say(f"the bill is then split equally among {sharing.value} friends.")
        story.question = "How many dollars does each of them pay?"
        story.step("/", total, sharing)
    else:
        paid = Number((total.value // 50 + dice.between(1, 3)) * 50)
        story.say(f"{name} hands over {paid.value} dollars.")
        story.question = f"How many dollars of change does {name} get?"
        story.step("-", paid, total)


# --- A workshop: rates, and division with a remainder -------------------------------------------


def workshop(dice: Dice, steps: int) -> Story:
    """Tell of machines that make things, which are counted or packed at the end."""
    story = Story()
    things = dice.pick(_PRODUCTS)
    made = _run(story, dice, things)
    extras = [_faulty, _yesterday, _yesterday]
    while len(story.steps) < steps - 1:
        left = steps - 1 - len(story.steps)
        if left > 1 and dice.between(0, 2):
            made = story.step("+", made, _run(story, dice, things))
        else:
            made = dice.pick(extras)(story, dice, made, things)
            extras = [_faulty]  # there is only one day before
    _ask_packing(story, dice, made, things)
    return story


def _run(story: Story, dice: Dice, things: str) -> Number:
    rate, hours = Number(dice.between(8, 45)), Number(dice.between(2, 9))
    which = "a" if not story.steps else "another"
    story.say(
        f"{which} machine makes {rate.value} {things} an hour and runs for {hours.value} hours."
    )
    return story.step("*", rate, hours)


def _faulty(story: Story, dice: Dice, made: Number, things: str) -> Number:
    gone = Number(dice.between(2, max(2, made.value // 8)))
    story.say(f"an inspector finds {gone.value} faulty {things} and scraps them.")
    return story.step("-", made, gone)


def _yesterday(story: Story, dice: Dice, made: Number, things: str) -> Number:
    extra = Number(dice.between(5, 90))
    story.say(f"the day before has left {extra.value} good {things}, which count too.")
    return story.step("+", made, extra)


def _ask_packing(story: Story, dice: Dice, made: Number, things: str) -> None:
    size = Number(dice.between(6, 16))
    story.say(f"all these {things} are packed into boxes that hold {size.value} each.")
    if dice.between(0, 1):
        story.question = "How many boxes are completely full?"
        story.step("//", made, size)
    else:
        story.question = f"How many {things} are left over for a box that is not full?"
        story.step("%", made, size)


FAMILIES = (stock, people, shopping, workshop)
