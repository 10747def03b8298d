"""Random search over a list of instructions: the baseline that an optimizer has to beat."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optim.tune.candidate import Candidate
    from optim.tune.proposer import Task

__all__ = ["RandomSearch"]


@dataclass(frozen=True, slots=True)
class RandomSearch:
    """Draws instructions without replacement, until the list or the budget is at its end.

    Attributes:
        texts: Where to draw from.
        name: What the optimizer is called.
    """

    texts: Sequence[str]
    name: str = "random"
    reflects: ClassVar[bool] = False
    once: ClassVar[bool] = True

    def propose(self, task: Task) -> Sequence[Candidate]:
        """Give them in drawn order; the loop measures until the budget is spent."""
        order = random.Random(task.seed)  # noqa: S311 -- a draw, not a secret
        return task.candidates(order.sample(list(self.texts), len(self.texts)))
