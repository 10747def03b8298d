"""The planner program as one JSON file: tuned prompts, settings, and how they were come by.

`Planner.save` writes the prompts alone. ``pb-optim tune`` adds the settings they were measured with
and the record of the tuning: before and after, and what it cost. Both are the same format, read by
the same reader, and hold no pickle and no address of a model.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
)

from pb_graph.errors import PlannerProgramError
from pb_graph.settings import Settings

__all__ = [
    "FORMAT",
    "MAX_CANDIDATES",
    "MAX_FILE_BYTES",
    "Artefact",
    "Candidate",
    "Cost",
    "Data",
    "Figure",
    "Measured",
    "Models",
    "Paired",
    "Split",
    "Tuning",
]

FORMAT: Final = "plan-and-budget planner"
VERSION: Final = 1
MAX_FILE_BYTES = 2_000_000
MAX_CANDIDATES = 200
_MAX_TEXT = 20_000


def _writable(value: object) -> object:
    """Text without the lone surrogates that a model may write and no file can hold."""
    return value.encode("utf-8", "replace").decode("utf-8") if isinstance(value, str) else value


_Text = Annotated[str, BeforeValidator(_writable), Field(max_length=_MAX_TEXT)]
_Count = Annotated[int, Field(ge=0)]
_Amount = Annotated[float, Field(ge=0)]
_Percent = Annotated[float, Field(ge=0, le=100)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Figure(_Part):
    """A measured figure and the ends of its 95 % interval, None where there is none."""

    value: _Amount
    lower: _Amount | None = None
    upper: _Amount | None = None


class Measured(_Part):
    """What a program achieved on a set of questions.

    Attributes:
        questions: How many.
        accuracy: A, the mean score in percent.
        tokens: T, mean completion tokens per query, planning included.
        e3: E³ = A²/T.
    """

    questions: Annotated[int, Field(ge=1)]
    accuracy: Figure
    tokens: Figure
    e3: Figure


class Paired(_Part):
    """The tuned program against the original on the same questions, paired by question.

    Attributes:
        ratio: E³ of the tuned over that of the original; None when the latter is 0.
        lower: Lower end of the ratio's interval; None where the log scale does not apply.
        upper: Upper end, likewise.
        p_value: Two-sided, for equal E³.
        probability_better: Share of resampled question sets on which the tuned one is better.
        accuracy_difference: In percentage points.
        questions: How many are compared.
        confidence: Nominal coverage of the interval.
    """

    ratio: _Amount | None = None
    lower: _Amount | None = None
    upper: _Amount | None = None
    p_value: _Amount | None = None
    probability_better: _Amount | None = None
    accuracy_difference: float
    questions: _Count
    confidence: float


class Split(_Part):
    """Before and after on one split. Without another program to compare, ``after`` is ``before``.

    Attributes:
        before: The original.
        after: The one that the search chose, adopted or not.
        paired: After against before; None when they are the same.
    """

    before: Measured
    after: Measured
    paired: Paired | None = None


class Candidate(_Part):
    """One program that was measured on questions of the dev split.

    Attributes:
        name: Short, unique within the tuning.
        role: The original, one that is measured for reference only, the chosen one, or any other.
        instructions: Tuned texts by predictor; empty for the original's.
        settings: The fields that differ from the original's settings.
        questions: On how many it was measured; fewer than others when it was given up early.
        accuracy: Percent.
        tokens: Mean completion tokens per query.
        e3: A²/T.
    """

    name: _Text
    role: Literal["original", "reference", "chosen", "other"] = "other"
    instructions: dict[str, _Text] = Field(default_factory=dict)
    settings: dict[str, Any] = Field(default_factory=dict)
    questions: Annotated[int, Field(ge=1)]
    accuracy: _Percent
    tokens: _Amount
    e3: _Amount


class Models(_Part):
    """Names of the models; never their addresses or keys."""

    solver: _Text
    planner: _Text
    reflection: _Text | None = None


class Data(_Part):
    """Which questions were used: the data set, its fingerprint, and the sizes of the splits."""

    name: _Text
    fingerprint: _Text
    train: _Count
    dev: _Count
    held_out: _Count


class Cost(_Part):
    """What the tuning took.

    Attributes:
        metric_calls: Questions answered.
        tokens: Completion tokens of all models, reflection included.
        seconds: Wall time.
    """

    metric_calls: _Count
    tokens: _Count
    seconds: _Amount


class Tuning(_Part):
    """How the program was come by.

    Attributes:
        date: When, with its time zone; written in UTC.
        optimizer: Who searched.
        seed: Of the search.
        verdict: Whether the chosen program replaced the original.
        reason: Why, in a sentence.
        models: Who solved, planned and reflected.
        data: On what.
        versions: Package to version.
        settings_before: What the original was measured with.
        dev: Before and after where the choice was made.
        held_out: Before and after where it was judged.
        cost: What it took.
        candidates: What was measured, `MAX_CANDIDATES` at most.
        left_out: How many more there were.
    """

    date: AwareDatetime
    optimizer: _Text
    seed: int
    verdict: Literal["adopted", "kept"]
    reason: _Text
    models: Models
    data: Data
    versions: dict[str, _Text]
    settings_before: Settings
    dev: Split
    held_out: Split | None = None
    cost: Cost
    candidates: tuple[Candidate, ...] = Field(default=(), max_length=MAX_CANDIDATES)
    left_out: _Count = 0


class Artefact(_Part):
    """A planner program.

    Attributes:
        fingerprint: Of the predictors' fields, `Planner.fingerprint`.
        state: Instructions and examples of each predictor.
        settings: What they were measured with; a graph built without settings takes these.
        tuning: How they were come by; None for prompts written by hand.
    """

    format: Literal["plan-and-budget planner"] = FORMAT
    version: Literal[1] = VERSION
    fingerprint: _Text
    state: dict[str, Any]
    settings: Settings | None = None
    tuning: Tuning | None = None

    def save(self, path: str | Path) -> None:
        """Write the file, whole or not at all.

        Raises:
            PlannerProgramError: It would be too large to be read again, or cannot be written.
        """
        document = self.model_dump(mode="json", exclude_none=True)
        document["state"] = self.state  # DSPy means something by its None values
        text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
        content = text.encode("utf-8", "replace")
        if len(content) > MAX_FILE_BYTES:
            msg = (
                f"the planner program is too large ({len(content)} bytes, {MAX_FILE_BYTES} at "
                "most): keep fewer candidates or examples"
            )
            raise PlannerProgramError(msg)
        _write(Path(path), content)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what `save` wrote.

        Raises:
            PlannerProgramError: The file is missing, too large, no planner program, one of another
                version, or damaged.
        """
        file = Path(path)
        document = _read(file)
        if document.get("version") != VERSION:
            msg = (
                f"{file} has version {document.get('version')!r} of the format, not {VERSION}. "
                "Save it again with this version of the package, or install the one that saved it."
            )
            raise PlannerProgramError(msg)
        try:
            return cls.model_validate(document)
        except ValidationError as error:
            raise PlannerProgramError(_damaged(file, error)) from error


def _write(path: Path, content: bytes) -> None:
    draft = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        try:
            draft.write_bytes(content)
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)
    except OSError as error:
        msg = f"Cannot write the planner program {path}: {error.strerror}."
        raise PlannerProgramError(msg) from error


def _read(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        msg = f"Cannot read the planner program {path}: {error.strerror}."
        raise PlannerProgramError(msg) from error
    if len(content) > MAX_FILE_BYTES:
        msg = f"{path} is too large for a planner program ({MAX_FILE_BYTES} bytes at most)."
        raise PlannerProgramError(msg)
    wanted = "Give a file that `pb-optim tune` or Planner.save wrote."
    try:
        document = json.loads(content.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        msg = f"{path} is not JSON: {error}. {wanted}"
        raise PlannerProgramError(msg) from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        msg = f"{path} is no planner program. {wanted}"
        raise PlannerProgramError(msg)
    return document


def _damaged(path: Path, error: ValidationError) -> str:
    fault = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(map(str, fault["loc"]))
    return f"{path} is damaged: {place}: {fault['msg']}. Save it again."
