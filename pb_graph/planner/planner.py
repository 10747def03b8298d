"""The planner as a DSPy module: what optimizers tune, and what is saved and loaded as JSON.

What the solver is told and shown (`Solve`) is kept beside it, in the same file.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Self

import dspy
from pydantic import TypeAdapter

from pb_graph.errors import PlannerProgramError
from pb_graph.planner.signatures import (
    Decompose,
    DecomposeAndEstimate,
    EstimateDifficulty,
    JudgeLevel,
    Solve,
)
from pb_graph.program import PlannerProgram
from pb_graph.prompts import Teaching

# Fingerprints once also told where a class stands: what 0.1 wrote for these same fields.
_SAME_AS = {"d5a2d5462caf5b40": "96a2ec520caddfbd"}
# Of a first program, and what has been added since: that is saved where it was tuned, so that
# other files stay as they were, in both directions.
_FIRST = ("decompose", "estimate", "fused")
_LATER = {"solve": Solve, "level": JudgeLevel}
_FORM = frozenset({"type", "properties", "items", "anyOf", "enum", "required"})


class Planner(dspy.Module):  # type: ignore[misc]  # dspy carries no types
    """Decomposes a question and estimates its difficulty.

    Attributes:
        decompose: Question to sub-questions.
        estimate: Question and sub-questions to levels and credits.
        fused: Both in one call, for ``planning="fused"``.
        solve: Never asked itself: its instruction and its examples are the solver's, for methods
            that show some.
        level: The level alone, in one token, where no grades are needed.
    """

    def __init__(self) -> None:
        super().__init__()
        self.decompose = dspy.Predict(Decompose)
        self.estimate = dspy.Predict(EstimateDifficulty)
        self.fused = dspy.Predict(DecomposeAndEstimate)
        self.solve = dspy.Predict(Solve)
        self.level = dspy.Predict(JudgeLevel)

    @property
    def teaching(self) -> Teaching | None:
        """What the solver is told and shown; None while that is the package's own."""
        if not self.solve.demos and self.solve.signature.equals(Solve):
            return None
        shown = [
            (demo["problem"], demo["solution"])
            for demo in self.solve.demos
            if demo.get("problem") and demo.get("solution")
        ]
        return Teaching(self.solve.signature.instructions, shown)

    def fingerprint(self, names: Iterable[str] | None = None) -> str:
        """Identify the predictors, their fields and the form of what they give.

        DSPy loads a state with changed fields by position and without a word; this tells apart
        what does not fit. Tuned text does not count, nor do names of classes and modules.

        Args:
            names: Of the predictors; None for those that are saved.
        """
        names = set(self._saved() if names is None else names)
        shape = {
            name: [list(part.signature.input_fields), _outputs(part.signature)]
            for name, part in self.named_predictors()
            if name in names
        }
        return hashlib.sha256(json.dumps(shape, sort_keys=True).encode()).hexdigest()[:16]

    def program(self) -> PlannerProgram:
        """Instructions and examples as they are saved; never a model's address."""
        state = self.dump_state()
        kept = {name: state[name] | {"lm": None} for name in self._saved()}
        return PlannerProgram(fingerprint=self.fingerprint(), state=kept)

    def _saved(self) -> list[str]:
        """Names of the predictors that a file holds: of later ones only those that are tuned."""
        return [
            name
            for name, part in self.named_predictors()
            if name not in _LATER or part.demos or not part.signature.equals(_LATER[name])
        ]

    def save(self, path: str | Path) -> None:
        """Write instructions and examples as JSON; never a pickle.

        Raises:
            PlannerProgramError: As `PlannerProgram.save`.
        """
        self.program().save(path)

    def load(self, path: str | Path) -> Self:
        """Read what `save` or ``pb-optim tune`` wrote.

        Raises:
            PlannerProgramError: The file is missing, no planner, or one of another version.
        """
        return self.adopt(PlannerProgram.load(path), f"{path}")

    def adopt(self, program: PlannerProgram, source: str = "The planner program") -> Self:
        """Take over the instructions and examples of a program.

        Raises:
            PlannerProgramError: It is damaged, or one of a planner with other fields.
        """
        saved = _SAME_AS.get(program.fingerprint, program.fingerprint)
        if saved != self.fingerprint({*_FIRST, *program.state}):
            msg = (
                f"{source} was saved by a planner with other fields than this version's. "
                "Tune again with this version, or install the version that saved it."
            )
            raise PlannerProgramError(msg)
        try:
            own = {name: dspy.Predict(told).dump_state() for name, told in _LATER.items()}
            self.load_state(own | program.state)
            for _, predictor in self.named_predictors():
                _check(predictor)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            msg = f"{source} is damaged: {error}. Save it again."
            raise PlannerProgramError(msg) from error
        return self


Program = Planner | PlannerProgram | str | Path
"""The planner's prompts in any form: a planner, a program read from a file, or the file's path."""


def load_planner(program: Program | None) -> Planner:
    """A planner as given, with a saved program, or with this package's own instructions."""
    if isinstance(program, Planner):
        return program
    if isinstance(program, PlannerProgram):
        return Planner().adopt(program)
    planner = Planner()
    if program is None:
        return planner
    if not isinstance(program, str | Path):
        msg = (
            f"a planner program is a file, a PlannerProgram, a Planner or a GraphProgram, not a "
            f"{type(program).__name__}"
        )
        raise PlannerProgramError(msg)
    return planner.load(program)


def _outputs(signature: Any) -> dict[str, object]:  # noqa: ANN401 -- untyped DSPy
    """The output fields with the form of their values."""
    forms = {}
    for name, field in signature.output_fields.items():
        schema = TypeAdapter(field.annotation).json_schema()
        forms[name] = _form(schema, schema.get("$defs", {}))
    return forms


def _form(schema: Any, named: Mapping[str, Any]) -> object:  # noqa: ANN401 -- any JSON
    """A JSON schema without what names and documents it; what it refers to stands in its place."""
    if isinstance(schema, list):
        return [_form(part, named) for part in schema]
    if not isinstance(schema, Mapping):
        return schema
    if "$ref" in schema:
        return _form(named[schema["$ref"].rpartition("/")[2]], named)
    form = {key: _form(value, named) for key, value in schema.items() if key in _FORM}
    if "properties" in schema:
        fields = schema["properties"]
        form["properties"] = {name: _form(value, named) for name, value in fields.items()}
    return form


def _check(predictor: dspy.Predict) -> None:
    """Whether DSPy, which loads anything, loaded text to ask with and examples to show."""
    if not isinstance(predictor.signature.instructions, str):
        msg = "its instructions are no text"
        raise TypeError(msg)
    ((name, field),) = predictor.signature.output_fields.items()
    for demo in predictor.demos:
        output = demo.get(name)
        if output is not None and not isinstance(output, str):
            field.annotation.model_validate(output)
