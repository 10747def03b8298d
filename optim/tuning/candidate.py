"""What is being tuned: what planner and solver are told and shown, and the settings."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

from pydantic import StrictStr, TypeAdapter, ValidationError

from optim.datasets.dataset import digest
from pb_graph.errors import InputError
from pb_graph.method import METHODS
from pb_graph.planner.planner import Planner
from pb_graph.planner.signatures import is_demo
from pb_graph.program import PlannerProgram
from pb_graph.settings import PLANNED, Settings

if TYPE_CHECKING:
    from pb_graph.planner.planner import Program

MAX_CHARACTERS = 8000  # of one instruction; a model that rambles on is not taken at its word

OWN: Mapping[str, str] = MappingProxyType(
    {name: part.signature.instructions for name, part in Planner().named_predictors()}
)
"""The package's own instructions, by predictor."""

TUNABLE = tuple(OWN)
"""The predictors: the planner's, and what the solver is told."""

Texts = Sequence[str] | str | Path
"""Instructions, or the path of a file of them."""

MAX_BYTES = 1_000_000
_BETWEEN = re.compile(r"^---+[ \t]*$", re.MULTILINE)


class SharedOnDeepcopy:
    """Base of objects that all copies of a program share: optimizers deep-copy programs."""

    def __deepcopy__(self, memo: object) -> Self:
        return self


@dataclass(frozen=True)
class Candidate(SharedOnDeepcopy):
    """Instructions and examples for planner and solver, under settings.

    Attributes:
        instructions: Text by predictor (`TUNABLE`); what is not named keeps the package's own.
            Text that is the package's own is dropped, so that one candidate has one identity.
        settings: How the graph works.
        examples: Worked examples by predictor, as plain JSON: its inputs and its output by name.
            What is none, such as a row of training data, is dropped. Without any the package's own
            are shown.

    Raises:
        InputError: An unknown predictor, or an instruction that is empty or too long.
    """

    instructions: Mapping[str, str] = field(default_factory=dict)
    settings: Settings = field(default_factory=Settings)
    examples: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        unknown = [name for name in (*self.instructions, *self.examples) if name not in OWN]
        if unknown:
            known = ", ".join(TUNABLE)
            msg = f"the planner has no predictor {unknown[0]!r}; there are: {known}"
            raise InputError(msg)
        checked = {name: _checked(name, text) for name, text in self.instructions.items()}
        other = {name: text for name, text in sorted(checked.items()) if text != OWN[name]}
        shown = {name: _plain(name, given) for name, given in sorted(self.examples.items())}
        object.__setattr__(self, "instructions", MappingProxyType(other))
        kept = MappingProxyType({name: demos for name, demos in shown.items() if demos})
        object.__setattr__(self, "examples", kept)

    def __hash__(self) -> int:
        return hash(self.identity)

    @cached_property
    def identity(self) -> str:
        """A digest that tells candidates apart."""
        settings = self.settings.model_dump(mode="json", exclude={"timeout", "max_retries"})
        shown = [dict(self.examples)] if self.examples else []
        return digest([dict(self.instructions), settings, *shown])

    def text(self, predictor: str) -> str:
        """What the predictor is told."""
        return self.instructions.get(predictor, OWN[predictor])

    def with_instruction(self, predictor: str, text: str) -> Candidate:
        """The same with another instruction for one predictor."""
        return replace(self, instructions={**self.instructions, predictor: text})

    def with_examples(self, predictor: str, shown: Sequence[Mapping[str, Any]]) -> Candidate:
        """The same with other examples for one predictor."""
        return replace(self, examples={**self.examples, predictor: shown})

    def prompts(self) -> Planner:
        """A new planner with these prompts."""
        planner = Planner()
        for name, text in self.instructions.items():
            predictor = getattr(planner, name)
            predictor.signature = predictor.signature.with_instructions(text)
        for name, shown in self.examples.items():
            getattr(planner, name).demos = [dict(example) for example in shown]
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
        InputError: An unknown setting.
        PlannerProgramError: The program does not fit.
    """
    saved = PlannerProgram.load(program) if isinstance(program, str | Path) else program
    planner = saved or Planner()
    if isinstance(planner, PlannerProgram):
        name = str(program) if isinstance(program, str | Path) else "The planner program"
        planner = Planner().adopt(planner, name)
    predictors = planner.named_predictors()
    told = {name: predictor.signature.instructions for name, predictor in predictors}
    shown = {name: predictor.demos for name, predictor in predictors}
    if not isinstance(settings, Settings):
        brought = saved.settings if isinstance(saved, PlannerProgram) else None
        base = brought.model_dump() if brought else {}
        settings = Settings.read(base | dict(settings or {}))
    return Candidate(told, settings, shown)


def used_by(settings: Settings) -> dict[str, str]:
    """The predictors that the settings make use of, by what ``--tune`` calls them.

    ``decompose`` is ``fused`` where that decomposes.
    """
    fused = settings.method == PLANNED and settings.planning == "fused"
    found = {"decompose": "fused" if fused else "decompose"} if settings.has_plan else {}
    if settings.needs_credits and not fused:
        found["estimate"] = "estimate"
    elif settings.has_budget and settings.budget_rule.needs_level and not fused:
        found["estimate"] = "level"
    if METHODS[settings.method].styled and not settings.has_plan:
        found["solve"] = "solve"
    return found


def predictors_of(settings: Settings, tuned: str) -> list[str]:
    """The predictors that the settings make use of for this; for ``all`` every one of them.

    Raises:
        InputError: They make use of none for it.
    """
    used = used_by(settings)
    if tuned == "settings":
        return ["decompose"]
    if tuned == "all" and used:
        return list(used.values())
    if tuned in used:
        return [used[tuned]]
    msg = (
        f"with method={settings.method} and planning={settings.planning} there is no {tuned!r} "
        "prompt to tune: the choices are decompose, for methods that plan, estimate, for "
        "methods with a budget by level or a split by credits, and planning=two_call, and solve, "
        "for vanilla and global_budget"
    )
    raise InputError(msg)


def _plain(name: str, shown: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Examples as they are saved, without what DSPy keeps beside them."""
    predictor = getattr(Planner(), name)
    predictor.demos = [
        {key: example[key] for key in predictor.signature.fields if example.get(key) is not None}
        for example in shown
        if is_demo(predictor.signature, example)
    ]
    demos: list[dict[str, Any]] = predictor.dump_state()["demos"]
    return demos


def _checked(name: str, text: str) -> str:
    stripped = text.strip()
    if not stripped or len(stripped) > MAX_CHARACTERS:
        msg = (
            f"an instruction for {name!r} has 1 to {MAX_CHARACTERS} characters, not {len(stripped)}"
        )
        raise InputError(msg)
    return stripped


def own_texts(predictor: str) -> list[str]:
    """The package's list: other styles of planning than its own prompt.

    The form of the reply is not theirs: the adapter adds it. None of them may ask for a result, or
    a planner would solve instead of planning.

    Raises:
        InputError: There is none for this predictor.
    """
    if predictor != "decompose":
        msg = f"the package has no instructions for {predictor!r} to choose from: give --candidates"
        raise InputError(msg)
    return read_texts(Path(__file__).with_name("instructions.txt"))


def read_texts(given: Texts) -> list[str]:
    """Instructions as they are, or from a file: a JSON list, or text with lines of --- between.

    Raises:
        InputError: The file cannot be read, or holds no instruction.
    """
    if not isinstance(given, str | Path):
        return list(given)
    path = Path(given)
    try:
        if path.stat().st_size > MAX_BYTES:
            msg = f"{path} is too large for a list of instructions ({MAX_BYTES} bytes at most)"
            raise InputError(msg)
        content = path.read_text(encoding="utf-8")
    except OSError as error:
        msg = f"cannot read the candidates {path}: {error.strerror}"
        raise InputError(msg) from error
    except UnicodeDecodeError as error:
        msg = f"{path} is no text in UTF-8"
        raise InputError(msg) from error
    texts: list[str] = _BETWEEN.split(content)
    if content.lstrip().startswith("["):
        try:
            texts = TypeAdapter(list[StrictStr]).validate_json(content)
        except ValidationError as error:
            fault = error.errors(include_url=False)[0]["msg"]
            msg = f"{path} begins like a JSON list, but is no list of texts: {fault}"
            raise InputError(msg) from error
    usable = [text.strip() for text in texts if text.strip()]
    if not usable:
        msg = f"{path} holds no instruction; write some, with a line of --- between two"
        raise InputError(msg)
    return usable
