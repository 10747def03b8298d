"""What is being tuned: what the planner is told, and the settings it works under."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from optim.fingerprint import digest
from pb_graph.errors import InputError
from pb_graph.planner.planner import Planner
from pb_graph.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["OWN", "TUNABLE", "Candidate", "with_instructions"]

MAX_CHARACTERS = 8000  # of one instruction; a model that rambles on is not taken at its word

OWN: Mapping[str, str] = MappingProxyType(
    {name: part.signature.instructions for name, part in Planner().named_predictors()}
)
"""The package's own instructions, by predictor."""

TUNABLE = tuple(OWN)
"""The planner's predictors."""


@dataclass(frozen=True)
class Candidate:
    """Instructions for the planner, under settings.

    Attributes:
        instructions: Text by predictor (`TUNABLE`); what is not named keeps the package's own.
            Text that is the package's own is dropped, so that one candidate has one identity.
        settings: How the graph works.

    Raises:
        InputError: An unknown predictor, or an instruction that is empty or too long.
    """

    instructions: Mapping[str, str] = field(default_factory=dict)
    settings: Settings = field(default_factory=Settings)

    def __post_init__(self) -> None:
        checked = {name: _checked(name, text) for name, text in self.instructions.items()}
        other = {name: text for name, text in sorted(checked.items()) if text != OWN[name]}
        object.__setattr__(self, "instructions", MappingProxyType(other))

    @cached_property
    def identity(self) -> str:
        """A digest that tells candidates apart."""
        settings = self.settings.model_dump(mode="json", exclude={"timeout", "max_retries"})
        return digest([dict(self.instructions), settings])

    def text(self, predictor: str) -> str:
        """What the predictor is told."""
        return self.instructions.get(predictor, OWN[predictor])

    def told(self, predictor: str, text: str) -> Candidate:
        """The same with another instruction for one predictor."""
        return Candidate({**self.instructions, predictor: text}, self.settings)

    def planner(self) -> Planner | None:
        """A planner with these instructions; None for the package's own."""
        return with_instructions(self.instructions) if self.instructions else None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        return {
            "instructions": dict(self.instructions),
            "settings": self.settings.model_dump(mode="json"),
        }


def with_instructions(instructions: Mapping[str, str]) -> Planner:
    """A planner that is told this, and nothing else about it changed."""
    planner = Planner()
    for name, text in instructions.items():
        predictor = getattr(planner, name)
        predictor.signature = predictor.signature.with_instructions(text)
    return planner


def _checked(name: str, text: str) -> str:
    if name not in OWN:
        msg = f"the planner has no predictor {name!r}; there are: {', '.join(TUNABLE)}"
        raise InputError(msg)
    stripped = text.strip()
    if not stripped or len(stripped) > MAX_CHARACTERS:
        msg = (
            f"an instruction for {name!r} has 1 to {MAX_CHARACTERS} characters, not {len(stripped)}"
        )
        raise InputError(msg)
    return stripped


def distinct(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Each candidate once, in order of first appearance."""
    return list({candidate.identity: candidate for candidate in candidates}.values())
