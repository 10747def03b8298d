"""Candidates: the planner's and the solver's instructions and examples, under settings."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

from optim.datasets.dataset import digest
from pb_graph.errors import InputError
from pb_graph.planner.planner import Planner
from pb_graph.planner.signatures import is_demo
from pb_graph.program import PlannerProgram
from pb_graph.settings import PLANNED, Settings

if TYPE_CHECKING:
    from pb_graph.planner.planner import Program

MAX_CHARACTERS = 8000  # of one instruction

DEFAULT_INSTRUCTIONS: Mapping[str, str] = MappingProxyType(
    {name: part.signature.instructions for name, part in Planner().named_predictors()}
)
"""The package's own instructions, by predictor."""

_BETWEEN = re.compile(r"^---+[ \t]*$", re.MULTILINE)


class SharedOnDeepcopy:
    """Base of objects that all copies of a program share: optimizers deep-copy programs."""

    def __deepcopy__(self, memo: object) -> Self:
        return self


@dataclass(frozen=True)
class Candidate(SharedOnDeepcopy):
    """Instructions and examples for the planner and the solver, under settings.

    Attributes:
        instructions: Text by predictor (`DEFAULT_INSTRUCTIONS` has their names). The package's own
            text is dropped, so that equal candidates have one identity.
        settings: Settings of the graph.
        examples: Examples by predictor, as plain JSON: inputs and output by name. Rows of training
            data are dropped. A predictor without examples shows the package's own.

    Raises:
        InputError: An instruction is empty or too long.
    """

    instructions: Mapping[str, str] = field(default_factory=dict)
    settings: Settings = field(default_factory=Settings)
    examples: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        texts = {name: text.strip() for name, text in sorted(self.instructions.items())}
        for name, text in texts.items():
            if not 0 < len(text) <= MAX_CHARACTERS:
                limits = f"1 to {MAX_CHARACTERS} characters, not {len(text)}"
                msg = f"an instruction for {name!r} has {limits}"
                raise InputError(msg)
        changed = {name: text for name, text in texts.items() if text != DEFAULT_INSTRUCTIONS[name]}
        examples = {name: _plain(name, given) for name, given in sorted(self.examples.items())}
        shown = {name: demos for name, demos in examples.items() if demos}
        object.__setattr__(self, "instructions", MappingProxyType(changed))
        object.__setattr__(self, "examples", MappingProxyType(shown))

    def __hash__(self) -> int:
        return hash(self.identity)

    @cached_property
    def identity(self) -> str:
        """A digest that tells candidates apart."""
        settings = self.settings.model_dump(mode="json", exclude={"timeout", "max_retries"})
        return digest([dict(self.instructions), settings, dict(self.examples)])

    def text(self, predictor: str) -> str:
        """Return the instruction of a predictor."""
        return self.instructions.get(predictor, DEFAULT_INSTRUCTIONS[predictor])

    def with_instruction(self, predictor: str, text: str) -> Candidate:
        """Return the candidate with another instruction for one predictor."""
        return replace(self, instructions={**self.instructions, predictor: text})

    def with_examples(self, predictor: str, shown: Sequence[Mapping[str, Any]]) -> Candidate:
        """Return the candidate with other examples for one predictor."""
        return replace(self, examples={**self.examples, predictor: shown})

    def prompts(self) -> Planner:
        """Return a new planner with these instructions and examples."""
        planner = Planner()
        for name, text in self.instructions.items():
            predictor = getattr(planner, name)
            predictor.signature = predictor.signature.with_instructions(text)
        for name, shown in self.examples.items():
            getattr(planner, name).demos = [dict(example) for example in shown]
        return planner


def _plain(name: str, shown: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return examples as they are saved, without what DSPy adds to them."""
    predictor = getattr(Planner(), name)
    predictor.demos = [
        {key: example[key] for key in predictor.signature.fields if example.get(key) is not None}
        for example in shown
        if is_demo(predictor.signature, example)
    ]
    demos: list[dict[str, Any]] = predictor.dump_state()["demos"]
    return demos


def candidate_of(
    program: Program | None, settings: Settings | Mapping[str, Any] | None
) -> Candidate:
    """Return the candidate that a tuning starts from.

    Args:
        program: A planner, or a saved program; None for the package's own instructions.
        settings: All of them, or a mapping that overrides the saved program's, else the defaults.

    Raises:
        InputError: An unknown setting.
        PlannerProgramError: The program does not fit.
    """
    saved = PlannerProgram.load(program) if isinstance(program, str | Path) else program
    planner: Any = saved or Planner()
    base: dict[str, Any] = {}
    if isinstance(planner, PlannerProgram):
        base = planner.settings.model_dump() if planner.settings else {}
        name = str(program) if isinstance(program, str | Path) else "The planner program"
        planner = Planner().adopt(planner, name)
    if not isinstance(settings, Settings):
        settings = Settings.read(base | dict(settings or {}))
    predictors = dict(planner.named_predictors())
    texts = {name: predictor.signature.instructions for name, predictor in predictors.items()}
    return Candidate(texts, settings, {name: one.demos for name, one in predictors.items()})


def active_predictors(settings: Settings) -> dict[str, str]:
    """Return the predictors whose prompts the settings send, by what ``--tune`` calls them."""
    fused = settings.method == PLANNED and settings.planning == "fused"
    is_planned = settings.has_plan and settings.plan_from is not None
    found = {"decompose": "fused" if fused else "decompose"} if is_planned else {}
    if settings.needs_credits and is_planned and not fused:
        found["estimate"] = "estimate"
    if settings.needs_level:
        found["level" if "estimate" in found else "estimate"] = "level"
    if settings.solver_style and not settings.has_plan:
        found["solve"] = "solve"
    return found


def predictors_of(settings: Settings, tuned: str) -> list[str]:
    """Return the predictors to tune; for ``all`` every one that the settings use.

    Raises:
        InputError: The settings use none.
    """
    active = active_predictors(settings)
    if tuned == "settings":
        return ["decompose"]
    if tuned == "all" and active:
        return list(active.values())
    if tuned in active:
        return [active[tuned]]
    msg = (
        f"with method={settings.method} and planning={settings.planning} there is no {tuned!r} "
        f"prompt to tune; there are: {', '.join(active) or 'none'}. Choose another --tune or other "
        "settings."
    )
    raise InputError(msg)


def read_instructions(given: Sequence[str] | str | Path | None, predictor: str) -> list[str]:
    """Return instructions to choose from.

    Args:
        given: The instructions, or the path of a text file with lines of --- between them; None
            for the package's list. None of that states the form of the reply, which the adapter
            adds, or asks for a result.
        predictor: What they are for.

    Raises:
        InputError: The file cannot be read, or holds no instruction; or the package has no list
            for this predictor.
    """
    if given is not None and not isinstance(given, str | Path):
        return list(given)
    if given is None and predictor != "decompose":
        msg = f"the package has no instructions for {predictor!r} to choose from: give --candidates"
        raise InputError(msg)
    path = Path(given or Path(__file__).with_name("instructions.txt"))
    try:
        content = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        msg = f"cannot read the candidates {path}: {error}"
        raise InputError(msg) from error
    usable = [text.strip() for text in _BETWEEN.split(content) if text.strip()]
    if not usable:
        msg = f"{path} holds no instruction; write some, with a line of --- between two"
        raise InputError(msg)
    return usable
