"""The planner as a DSPy module: what optimizers tune, and what is saved and loaded as JSON."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, Self

import dspy

from pb_graph.errors import PlannerProgramError
from pb_graph.planner.signatures import Decompose, DecomposeAndEstimate, EstimateDifficulty

FORMAT = "plan-and-budget planner"
MAX_FILE_BYTES = 2_000_000


class Planner(dspy.Module):  # type: ignore[misc]  # dspy carries no types
    """Decomposes a question and estimates its difficulty.

    Attributes:
        decompose: Question to sub-questions.
        estimate: Question and sub-questions to levels and credits.
        fused: Both in one call, for ``planning="fused"``.
    """

    def __init__(self) -> None:
        super().__init__()
        self.decompose = dspy.Predict(Decompose)
        self.estimate = dspy.Predict(EstimateDifficulty)
        self.fused = dspy.Predict(DecomposeAndEstimate)

    def fingerprint(self) -> str:
        """Identify the predictors and their fields, but not the tuned text.

        DSPy loads a state with changed fields by position and without a word; this tells apart
        what does not fit.
        """
        shape = {
            name: [
                [field, str(info.annotation)] for field, info in predictor.signature.fields.items()
            ]
            for name, predictor in self.named_predictors()
        }
        return hashlib.sha256(json.dumps(shape, sort_keys=True).encode()).hexdigest()[:16]

    def save(self, path: str | Path) -> None:
        """Write instructions and examples as JSON; never a pickle, and never a model's address."""
        state = {name: part | {"lm": None} for name, part in self.dump_state().items()}
        document = {"format": FORMAT, "fingerprint": self.fingerprint(), "state": state}
        Path(path).write_text(json.dumps(document, indent=2, ensure_ascii=False), encoding="utf-8")

    def load(self, path: str | Path) -> Self:
        """Read what `save` wrote.

        Raises:
            PlannerProgramError: The file is missing, no planner, or one of another version.
        """
        document = _read(Path(path))
        if document.get("fingerprint") != self.fingerprint():
            msg = (
                f"{path} was saved by a planner with other fields than this version's. "
                "Tune again with this version, or install the version that saved it."
            )
            raise PlannerProgramError(msg)
        try:
            self.load_state(document["state"])
            for _, predictor in self.named_predictors():
                _check(predictor)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            msg = f"{path} is damaged: {error}. Save it again."
            raise PlannerProgramError(msg) from error
        return self


def load_planner(program: Planner | str | Path | None) -> Planner:
    """A planner as given, loaded from a path, or with this package's own instructions."""
    if isinstance(program, Planner):
        return program
    planner = Planner()
    return planner if program is None else planner.load(program)


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


def _read(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            msg = f"{path} is too large for a planner program ({MAX_FILE_BYTES} bytes at most)."
            raise PlannerProgramError(msg)
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        msg = f"Cannot read the planner program {path}: {error.strerror}."
        raise PlannerProgramError(msg) from error
    except (ValueError, RecursionError) as error:
        msg = f"{path} is not JSON: {error}. Give a file that Planner.save wrote."
        raise PlannerProgramError(msg) from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        msg = f"{path} is no planner program. Give a file that Planner.save wrote."
        raise PlannerProgramError(msg)
    return document
