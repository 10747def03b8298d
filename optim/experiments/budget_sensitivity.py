"""Budget sensitivity: a grid of B_init and B_per_level against the tokens really used."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from optim.methods import Method
from pb_graph.budget.rules import PerLevel
from pb_graph.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence


__all__ = ["Grid"]


@dataclass(frozen=True, slots=True)
class Grid:
    """Budget rules B = initial + per_level * level, in tokens.

    Attributes:
        initial: Values of B_init, each at least 0.
        per_level: Values of B_per_level, each at least 0.

    Raises:
        InputError: An empty or repeated list, or a rule that would give no token.
    """

    initial: Sequence[int]
    per_level: Sequence[int]

    def __post_init__(self) -> None:
        for values in (self.initial, self.per_level):
            if not values or len(set(values)) < len(values) or min(values) < 0:
                msg = "a grid needs values of at least 0, each once, for both initial and per level"
                raise InputError(msg)
        if 0 in self.initial and 0 in self.per_level:
            msg = "a grid cannot have 0 in both: a question of level 1 would get no token"
            raise InputError(msg)

    def over(self, methods: Sequence[Method]) -> tuple[Method, ...]:
        """Each method with each rule, as ``cosine[100+50L]``; those without a budget as they are.

        Raises:
            InputError: None of them has a budget.
        """
        if not any(method.settings.budgets for method in methods):
            msg = "a grid of budgets needs a method that has one, such as cosine or global_budget"
            raise InputError(msg)
        return tuple(point for method in methods for point in self._points(method))

    def _points(self, method: Method) -> list[Method]:
        if not method.settings.budgets:
            return [method]
        return [
            Method(
                f"{method.name}[{initial}+{per_level}L]",
                method.settings.model_copy(
                    update={"budget": PerLevel(initial=initial, per_level=per_level)}
                ),
            )
            for initial in self.initial
            for per_level in self.per_level
        ]
