"""Word problems built from exact steps: every number in the text is one that a step uses.

A story is told and calculated at once. `Story.step` does the integer arithmetic and keeps the
step, the sentence around it names the same numbers; so the answer is right by construction.
"""

from __future__ import annotations

from optim.datasets.stories.dice import Dice
from optim.datasets.stories.people import people
from optim.datasets.stories.shopping import shopping
from optim.datasets.stories.stock import stock
from optim.datasets.stories.story import Number, Step, Story
from optim.datasets.stories.workshop import workshop

__all__ = ["FAMILIES", "Dice", "Number", "Step", "Story"]

FAMILIES = (stock, people, shopping, workshop)
"""One function for each kind of story; their order is part of what a seed means."""
