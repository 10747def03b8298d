"""The planner program as one JSON file without a pickle, and without the address of a model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ValidationError

from pb_graph.errors import InputError, describe_errors
from pb_graph.settings import Settings


class PlannerProgram(BaseModel, frozen=True, extra="forbid", allow_inf_nan=False):
    """Prompts of a planner, with the settings they are for.

    Attributes:
        state: State of each predictor, as ``dspy.Module.dump_state`` returns it.
        settings: Settings of the measurement, for a graph that is built without settings.
        tuning: Record of ``pb-optim tune``, plain JSON; None for prompts written by hand.
    """

    format: Literal["plan-and-budget planner"] = "plan-and-budget planner"
    version: Literal[1] = 1
    state: dict[str, Any]
    settings: Settings | None = None
    tuning: dict[str, Any] | None = None

    def save(self, path: str | Path) -> None:
        """Write the file."""
        document = self.model_dump(mode="json", exclude_none=True)
        document["state"] = self.state  # DSPy needs fields that are None
        if self.settings:  # None is a value, and a default may depend on the domain
            document["settings"] = self.settings.set_fields(mode="json")
        Path(path).write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", "utf-8")

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a file that `save` wrote; raise InputError for a missing or any other file."""
        try:
            return cls.model_validate_json(Path(path).read_bytes())
        except OSError as error:
            msg = f"Cannot read the planner program {path}: {error.strerror}."
            raise InputError(msg) from error
        except ValidationError as error:
            msg = f"{path} is not a planner program, or is damaged: {describe_errors(error)}. "
            msg += "Give a file that `pb-optim tune` or Planner.save wrote."
            raise InputError(msg) from error
