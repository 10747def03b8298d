"""Who has how many: quantities defined by one another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from optim.datasets.stories.story import LARGE, NAMES, Number, Story

if TYPE_CHECKING:
    from collections.abc import Callable

    from optim.datasets.stories.dice import Dice

__all__ = ["people"]

_THINGS = ("marbles", "stamps", "shells", "stickers", "coins", "cards", "beads", "badges")


def people(dice: Dice, steps: int) -> Story:
    """Tell of people who each have so many things compared with those before them."""
    story = Story()
    names, things = dice.shuffled(NAMES)[:steps], dice.pick(_THINGS)
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
        (last <= LARGE // 4, _times_as_many),
        (last % 2 == 0 and last > 7, _half_as_many),  # noqa: PLR2004 - likewise
        (len(owned) > 1 and last <= LARGE, _together),
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
