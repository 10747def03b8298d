"""A word problem while it is told: sentences, and the exact steps behind them."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["LARGE", "NAMES", "Number", "Step", "Story"]

LARGE = 400
"""Quantities above it are no longer multiplied, so that numbers stay readable."""

NAMES = (
    "Ada", "Bo", "Cleo", "Dan", "Edith", "Femi", "Gita", "Hugo", "Ines", "Jun", "Kofi", "Lena",
    "Milo", "Nora", "Omar", "Pia", "Quinn", "Rosa", "Sven", "Tariq", "Uma", "Vera",
)  # fmt: skip
"""Who the stories are about."""


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
