"""A workshop: rates, and division with a remainder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from optim.datasets.stories.story import Number, Story

if TYPE_CHECKING:
    from optim.datasets.stories.dice import Dice

__all__ = ["workshop"]

_PRODUCTS = ("bolts", "candles", "bricks", "buttons", "springs", "tiles", "bottles")


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
