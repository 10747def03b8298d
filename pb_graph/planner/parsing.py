"""Read the replies of planner models: JSON first, numbered lines as the fallback.

A reply is data: it is parsed as JSON or line by line, and never evaluated.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated, Any, Self

from json_repair import repair_json
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

MAX_REPAIRED = 2_000
"""Characters of broken JSON to repair: the time for it grows with the square of the length."""
MAX_QUESTION = 500
MAX_HINT = 200

# JSON begins a line, or is an object with a quoted key: "{1, 2}" in a question is mathematics.
_JSON_START = re.compile(r"^[ \t]*(?=[\[{])|(?=\{\s*[\"'])", re.MULTILINE)
# A LaTeX command that a model wrote into JSON without doubling its backslash.
_BARE_LATEX = re.compile(r"(?<!\\)\\(?=[A-Za-z]{2})(?!u[0-9a-fA-F]{4})")
# "1. …", "(1) …", "**Step 1:** …"; but "Case 1: …" is part of a question.
_NUMBERED = re.compile(
    r"^[ \t#>*_`(-]*(?:(?:step|(?:sub-?)?question)[ \t]+)?\d{1,2}[ \t*_`]*[.):](?!\d)(.*)$",
    re.IGNORECASE | re.MULTILINE,
)
_BAR = re.compile(r"(?:^|\s)\|(?=\s|$)")  # |x - 3| and P(A|B) are mathematics
_NUMBER = re.compile(r"-?\d{1,9}(?:\.\d+)?")
_LEVEL = re.compile(r"(?<![\w.-])[Ll]?([1-5])(?!\w|\.\d)")


def _to_number(value: object) -> float | None:
    """Return the number in a value such as 4, "4" or "level 4"; None if there is none."""
    found = _NUMBER.search(str(value))
    return float(found.group()) if found else None


def _to_numbers(values: object) -> list[float | None]:
    return [_to_number(value) for value in values] if isinstance(values, list) else []


def _to_step_numbers(value: object) -> list[int] | None:
    """Return the step numbers in a value such as [1, 3] or "1 and 3"."""
    text = str(value)
    return None if value is None else [int(number) for number in re.findall(r"\d{1,3}", text)]


def _to_line(text: str) -> str:
    """Return text on one line, without the Markdown around it."""
    return " ".join(text.split()).replace("**", "").strip("*_` ")


_Number = Annotated[float | None, BeforeValidator(_to_number)]
_Numbers = Annotated[list[float | None], BeforeValidator(_to_numbers)]
_StepNumbers = Annotated[list[int] | None, BeforeValidator(_to_step_numbers)]


class PlannedStep(BaseModel):
    """One sub-question as a planner wrote it: "question | hint | after 1, 2", or an object.

    Attributes:
        question: The question of the step.
        hint: A few words on how to go about it; may be empty.
        after: Numbers (from 1) of the steps that it needs; None if the planner named none.
        level: Difficulty from 1 to 5, unchecked.
        credit: Share of 100 credits, unchecked.
    """

    model_config = ConfigDict(frozen=True)

    question: str
    hint: str = ""
    after: _StepNumbers = None
    level: _Number = None
    credit: _Number = None

    @model_validator(mode="before")
    @classmethod
    def _split(cls, item: object) -> dict[str, Any]:
        """Take the parts of a text with bars apart."""
        fields = dict(item) if isinstance(item, Mapping) else {"question": item}
        text = fields.get("question")
        question, *rest = map(_to_line, _BAR.split(text) if isinstance(text, str) else [""])
        if label := _NUMBERED.match(question):
            question = _to_line(label[1])
        if not any(character.isalnum() for character in question):
            msg = "a sub-question is missing"
            raise ValueError(msg)
        hints = [_to_line(str(fields.get("hint") or ""))]
        for part in rest:
            if part.casefold().startswith("after "):
                fields["after"] = part
            elif part != "-":
                hints.append(part)
        hint = " ".join(filter(None, hints))[:MAX_HINT]
        return fields | {"question": question[:MAX_QUESTION], "hint": hint}

    def to_text(self) -> str:
        """Return the step as a planner is asked to write it."""
        after = ""
        if self.after is not None:
            after = f"after {', '.join(map(str, self.after)) or 'nothing'}"
        return " | ".join(filter(None, [self.question, self.hint, after]))


class Plan(BaseModel):
    """A decomposition: the sub-questions in order."""

    model_config = ConfigDict(frozen=True)

    steps: list[PlannedStep] = Field(min_length=1)

    @classmethod
    def read(cls, text: str) -> Self:
        """Find the plan in a reply.

        Raises:
            ValueError: The reply holds no sub-question.
        """
        numbered = _NUMBERED.findall(text)
        for items in (_items(_find_json(text)), numbered):
            steps = []
            for item in items:
                with suppress(ValidationError):  # no text, or nothing in it
                    steps.append(PlannedStep.model_validate(item))
            if steps:
                return cls(steps=steps)
        msg = "no sub-question found: write each as an item of its own"
        raise ValueError(msg)

    def to_text(self) -> str:
        """Return the plan as the JSON that a planner is asked for; `read` reads it back."""
        return json.dumps({"steps": [step.to_text() for step in self.steps]}, ensure_ascii=False)


class GradedPlan(Plan):
    """A decomposition with level and credit of each step."""

    def to_text(self) -> str:
        """Return the plan and its grades as the JSON that a planner is asked for."""
        steps = [
            {"question": step.to_text(), "level": step.level, "credit": step.credit}
            for step in self.steps
        ]
        return json.dumps({"steps": steps}, ensure_ascii=False)


class Difficulty(BaseModel):
    """Levels and credits as a planner wrote them, unchecked; None for what could not be read.

    Attributes:
        level: Level of the whole problem.
        levels: Level of each sub-question, in order.
        credits: Credit of each sub-question, in order.
    """

    model_config = ConfigDict(frozen=True)

    level: _Number = None
    levels: _Numbers = []
    credits: _Numbers = []

    @classmethod
    def read(cls, text: str) -> Self:
        """Find the estimates in a reply.

        Raises:
            ValueError: The reply holds no level.
        """
        found = _find_json(text)
        estimates = cls.model_validate(found) if isinstance(found, Mapping) else cls()
        if estimates == cls():
            msg = "no levels found: write them as numbers from 1 to 5"
            raise ValueError(msg)
        return estimates

    def to_text(self) -> str:
        """Return the estimates as the one line of JSON that a planner is asked for."""
        return self.model_dump_json(exclude_defaults=True)


class Level(BaseModel):
    """The level of a problem, asked for alone."""

    model_config = ConfigDict(frozen=True)

    level: int

    @classmethod
    def read(cls, text: str) -> Self:
        """Find the level in a reply: "L3", "3" or {"level": 3}.

        Raises:
            ValueError: The reply holds no digit from 1 to 5.
        """
        found = _LEVEL.search(text)
        if found is None:
            msg = "no level found: write L1, L2, L3, L4 or L5"
            raise ValueError(msg)
        return cls(level=int(found[1]))

    def to_text(self) -> str:
        """Return the level as a planner is asked to write it, such as "L3"."""
        return f"L{self.level}"


def _items(found: object) -> list[Any]:
    """Return the items of a plan: a list, or the first list of an object."""
    values = found.values() if isinstance(found, Mapping) else (found,)
    return next((value for value in values if isinstance(value, list)), [])


def _find_json(text: str) -> object:
    """Return the JSON value in a reply, repaired if it was cut off or misspelt, else None."""
    start = _JSON_START.search(text)
    if start is None:
        return None
    body = _BARE_LATEX.sub(r"\\\\", text[start.end() :])
    with suppress(ValueError, RecursionError):
        return json.JSONDecoder(strict=False).raw_decode(body)[0]
    with suppress(ValueError, RecursionError):
        return repair_json(body[:MAX_REPAIRED], return_objects=True)
    return None
