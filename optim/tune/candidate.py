"""What is being tuned: what the planner is told, and the settings it works under."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from optim.digest import digest
from optim.tune.optimizer import Uncopied
from pb_graph.errors import InputError
from pb_graph.planner.planner import Planner
from pb_graph.program import PlannerProgram
from pb_graph.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pb_graph.planner.planner import Program

MAX_CHARACTERS = 8000  # of one instruction; a model that rambles on is not taken at its word

OWN: Mapping[str, str] = MappingProxyType(
    {name: part.signature.instructions for name, part in Planner().named_predictors()}
)
"""The package's own instructions, by predictor."""

TUNABLE = tuple(OWN)
"""The planner's predictors."""


@dataclass(frozen=True)
class Candidate(Uncopied):
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

    def __hash__(self) -> int:
        return hash(self.identity)

    @cached_property
    def identity(self) -> str:
        """A digest that tells candidates apart."""
        settings = self.settings.model_dump(mode="json", exclude={"timeout", "max_retries"})
        return digest([dict(self.instructions), settings])

    def text(self, predictor: str) -> str:
        """What the predictor is told."""
        return self.instructions.get(predictor, OWN[predictor])

    def with_instruction(self, predictor: str, text: str) -> Candidate:
        """The same with another instruction for one predictor."""
        return Candidate({**self.instructions, predictor: text}, self.settings)

    def planner(self) -> Planner | None:
        """A planner with these instructions; None for the package's own."""
        return with_instructions(self.instructions) if self.instructions else None


def with_instructions(instructions: Mapping[str, str]) -> Planner:
    """A planner that is told this, and nothing else about it changed."""
    planner = Planner()
    for name, text in instructions.items():
        predictor = getattr(planner, name)
        predictor.signature = predictor.signature.with_instructions(text)
    return planner


def candidate_of(
    program: Program | None, settings: Settings | Mapping[str, Any] | None
) -> Candidate:
    """What tuning begins with: the package's own words, or those of a saved program.

    Args:
        program: A planner, or what was saved of one; None for the package's own.
        settings: All of them, or by a mapping those that differ from the saved program's; where
            that has none, from the defaults.

    Raises:
        InputError: An unknown setting, or a program with examples in its prompts.
        PlannerProgramError: The program does not fit.
    """
    saved = PlannerProgram.load(program) if isinstance(program, str | Path) else program
    planner = saved or Planner()
    if isinstance(planner, PlannerProgram):
        planner = Planner().adopt(planner, _called(program))
    predictors = planner.named_predictors()
    if any(predictor.demos for _, predictor in predictors):
        msg = f"{_called(program)} has examples in its prompts; only instructions can be tuned"
        raise InputError(msg)
    told = {name: predictor.signature.instructions for name, predictor in predictors}
    if not isinstance(settings, Settings):
        brought = saved.settings if isinstance(saved, PlannerProgram) else None
        settings = Settings.read((brought.model_dump() if brought else {}) | dict(settings or {}))
    return Candidate(told, settings)


def _called(program: object) -> str:
    return str(program) if isinstance(program, str | Path) else "The planner program"


def decomposer(settings: Settings) -> str:
    """The predictor that decomposes under these settings; ``decompose`` where none does."""
    fused = settings.method == "plan_and_budget" and settings.planning == "fused"
    return "fused" if fused else "decompose"


def predictor_of(settings: Settings, tuned: str) -> str:
    """The planner's predictor that the settings make use of for this.

    Args:
        settings: How the graph works.
        tuned: ``decompose``, ``estimate`` or ``settings``; for the last it does not matter.

    Raises:
        InputError: They never ask it.
    """
    if tuned == "settings":
        return "decompose"
    if tuned == "decompose" and settings.plans:
        return decomposer(settings)
    if (tuned, settings.method, settings.planning) == ("estimate", "plan_and_budget", "two_call"):
        return "estimate"
    msg = (
        f"with method={settings.method} and planning={settings.planning} there is no {tuned!r} "
        "prompt to tune: the choices are decompose, for methods that plan, and estimate, for "
        "plan_and_budget with planning=two_call"
    )
    raise InputError(msg)


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
