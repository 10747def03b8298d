"""A bill: products and sums."""

from __future__ import annotations

from typing import TYPE_CHECKING

from optim.datasets.stories.story import NAMES, Number, Story

if TYPE_CHECKING:
    from optim.datasets.stories.dice import Dice

__all__ = ["shopping"]

_GOODS = ("notebooks", "lamps", "cushions", "mugs", "brushes", "kites", "puzzles", "scarves")
_FEES = ("delivery", "gift wrapping", "insurance", "an express surcharge")


def shopping(dice: Dice, steps: int) -> Story:
    """Tell of a purchase: goods, then additions and deductions, then change or a shared bill."""
    story = Story()
    name = dice.pick(NAMES)
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
