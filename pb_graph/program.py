"""The planner program as one JSON file: tuned prompts, settings, and how they were come by.

`Planner.save` writes the prompts alone. ``pb-optim tune`` adds the settings they were measured with
and the record of the tuning, which is carried along unread: `optim.tuning.artefact` knows its form.
Both are the same format, and hold no pickle and no address of a model.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Protocol, Self, runtime_checkable

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from pb_graph.errors import PlannerProgramError
from pb_graph.settings import Settings

FORMAT: Final = "plan-and-budget planner"
VERSION: Final = 1
MAX_FILE_BYTES = 2_000_000
_MAX_TEXT = 20_000


def _writable(value: object) -> object:
    """Text without the lone surrogates that a model may write and no file can hold."""
    return value.encode("utf-8", "replace").decode("utf-8") if isinstance(value, str) else value


Text = Annotated[str, BeforeValidator(_writable), Field(max_length=_MAX_TEXT)]
"""Text of a bounded length that a file can hold."""


class PlannerProgram(BaseModel):
    """A planner program.

    Attributes:
        fingerprint: Of the predictors' fields, `Planner.fingerprint`.
        state: Instructions and examples of each predictor.
        settings: What they were measured with; a graph built without settings takes these.
        tuning: How they were come by, as plain JSON; None for prompts written by hand.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    format: Literal["plan-and-budget planner"] = FORMAT
    version: Literal[1] = VERSION
    fingerprint: Text
    state: dict[str, Any]
    settings: Settings | None = None
    tuning: dict[str, Any] | None = None

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
            raise PlannerProgramError(damaged(file, error)) from error


Artefact = PlannerProgram
"""The former name of the class."""


@runtime_checkable
class HasPlanner(Protocol):
    """Whatever brings a planner and the settings it works under: `optim.tuning.GraphProgram`."""

    @property
    def prompts(self) -> object:
        """The planner, with the prompts as they are now."""

    @property
    def settings(self) -> Settings:
        """How the graph works."""


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


def damaged(path: Path | str, error: ValidationError, within: str = "") -> str:
    """What is wrong with a file, and where in it."""
    fault = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(map(str, (*filter(None, [within]), *fault["loc"])))
    return f"{path} is damaged: {place}: {fault['msg']}. Save it again."
