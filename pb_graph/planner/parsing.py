"""Read the replies of a planner model: JSON first, numbered lines as the fallback.

A reply is data: it is bounded in size, parsed as JSON or line by line, and never evaluated.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Self

from json_repair import repair_json
from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

MAX_TEXT = 20_000
MAX_REPAIRED = 2_000
"""Characters of broken JSON to repair: the time for it grows with the square of the length."""
MAX_ITEMS = 100
MAX_NUMBER = 1e9
MAX_QUESTION = 500
MAX_HINT = 200

# JSON begins a line, or is an object with a quoted key: "{1, 2}" in a question is mathematics.
_JSON_START = re.compile(r"^[ \t]*(?=[\[{])|(?=\{\s*[\"'])", re.MULTILINE)
# A LaTeX command that a model wrote into JSON without doubling its backslash.
_BARE_LATEX = re.compile(r"(?<!\\)\\(?=[A-Za-z]{2})(?!u[0-9a-fA-F]{4})")
# "1. …", "(1) …", "**Step 1:** …": at most one word stands before the number.
_NUMBERED = re.compile(
    r"^[ \t#>*_`(-]*(?:[A-Za-z]+(?:-[A-Za-z]+)?[ \t]+)?(\d{1,2})[ \t*_`]*[.):](?!\d)(.*)$"
)
_HINT_LINE = re.compile(r"^\W*hint\b\W*(.*)$", re.IGNORECASE)
_AFTER = re.compile(r"^\W*after\b(.*)$", re.IGNORECASE)
_BAR = re.compile(r"(?:^|\s)\|(?=\s|$)")  # |x - 3| and P(A|B) are mathematics
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_LEVEL = re.compile(r"(?<![\w.-])[Ll]?([1-5])(?!\w|\.\d)")
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


class PlannedStep(BaseModel):
    """One sub-question as a planner wrote it.

    Attributes:
        question: The question of the step.
        hint: A few words on how to go about it; may be empty.
        depends_on: Indices (from 0) of the steps that it needs; None if the planner named none.
        level: Difficulty from 1 to 5, unchecked.
        credit: Share of 100 credits, unchecked.
    """

    model_config = ConfigDict(frozen=True)

    question: str
    hint: str = ""
    depends_on: list[int] | None = None
    level: float | None = None
    credit: float | None = None

    def to_text(self) -> str:
        """Return the step as a planner is asked to write it: "question | hint | after 1, 2"."""
        after = ""
        if self.depends_on is not None:
            after = f"after {', '.join(str(index + 1) for index in self.depends_on) or 'nothing'}"
        return " | ".join(filter(None, [self.question, self.hint, after]))


class Plan(BaseModel):
    """A decomposition: the sub-questions in order."""

    model_config = ConfigDict(frozen=True)

    steps: list[PlannedStep]

    @classmethod
    def read(cls, text: str) -> Self:
        """Find the plan in a reply.

        Raises:
            ValueError: The reply holds no sub-question.
        """
        return cls(steps=_read_steps(_find_json(text), text))

    def to_text(self) -> str:
        """Return the plan as the JSON that a planner is asked for; `read` reads it back."""
        return json.dumps({"steps": [step.to_text() for step in self.steps]}, ensure_ascii=False)


class GradedPlan(Plan):
    """A decomposition with the level of the problem, and level and credit of each step."""

    level: float | None = None

    @classmethod
    def read(cls, text: str) -> Self:
        """Find the plan and its grades in a reply.

        Raises:
            ValueError: The reply holds no sub-question.
        """
        found = _find_json(text)
        return cls(steps=_read_steps(found, text), level=_Grade.of(found).level)

    def to_text(self) -> str:
        """Return the plan and its grades as the JSON that a planner is asked for."""
        steps = [
            {"question": step.to_text(), "level": step.level, "credit": step.credit}
            for step in self.steps
        ]
        return json.dumps({"level": self.level, "steps": steps}, ensure_ascii=False)


class Difficulty(BaseModel):
    """Levels and credits as a planner wrote them, unchecked; None for what could not be read.

    Attributes:
        level: Level of the whole problem.
        levels: Level of each sub-question, in order.
        credits: Credit of each sub-question, in order.
    """

    model_config = ConfigDict(frozen=True)

    level: float | None = None
    levels: list[float | None] = []
    credits: list[float | None] = []

    @classmethod
    def read(cls, text: str) -> Self:
        """Find the estimates in a reply.

        Raises:
            ValueError: The reply holds no level.
        """
        found = _find_json(text)
        whole = found.get("problem", found) if isinstance(found, Mapping) else found
        level = _Grade.of(whole).level
        if isinstance(found, Mapping) and (found.get("levels") or found.get("credits")):
            columns = (found.get("levels"), found.get("credits"))
            levels, credit = (column if isinstance(column, list) else [] for column in columns)
            return cls(level=level, levels=_to_numbers(levels), credits=_to_numbers(credit))
        rows = [_Grade.of(item) for item in _items(found) if isinstance(item, Mapping)]
        if level is None and not rows and (alone := _LEVEL.search(text[:MAX_QUESTION])):
            level = float(alone[1])  # "Level: 3"
        if level is None and not rows:
            msg = "no levels found: write them as numbers from 1 to 5"
            raise ValueError(msg)
        return cls(
            level=level, levels=[row.level for row in rows], credits=[row.credit for row in rows]
        )

    def to_text(self) -> str:
        """Return the estimates as the one line of JSON that a planner is asked for."""
        return self.model_dump_json(exclude_defaults=True)


class Level(BaseModel):
    """The level of a problem, asked for alone."""

    model_config = ConfigDict(frozen=True)

    level: float

    @classmethod
    def read(cls, text: str) -> Self:
        """Find the level in a reply: "L3", "3" or {"level": 3}.

        Raises:
            ValueError: The reply holds no digit from 1 to 5.
        """
        found = _LEVEL.search(text[:MAX_QUESTION])
        if found is None:
            msg = "no level found: write L1, L2, L3, L4 or L5"
            raise ValueError(msg)
        return cls(level=float(found[1]))

    def to_text(self) -> str:
        """Return the level as a planner is asked to write it, such as "L3"."""
        return f"L{self.level:.0f}"


def _to_number(value: object) -> float | None:
    """Return a finite number, also out of text such as "20 points"; None for anything else."""
    if isinstance(value, str):
        found = _NUMBER.search(value[:MAX_QUESTION])
        value = float(found.group()) if found else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if -MAX_NUMBER < value < MAX_NUMBER else None


def _to_numbers(values: Sequence[object]) -> list[float | None]:
    return [_to_number(value) for value in values[:MAX_ITEMS]]


def _to_line(text: object) -> str:
    """Return text on one line, without control characters and the Markdown around it."""
    if not isinstance(text, str):
        return ""
    line = " ".join(_UNPRINTABLE.sub(" ", text).split())
    return line.strip("*_` ").replace("**", "")


_Number = Annotated[float | None, BeforeValidator(_to_number)]


class _Grade(BaseModel):
    """A level and a credit, under the names that models give them."""

    level: _Number = Field(None, validation_alias=AliasChoices("level", "evaluated_level"))
    credit: _Number = Field(None, validation_alias=AliasChoices("credit", "credits", "points"))

    @classmethod
    def of(cls, found: object) -> Self:
        """Read what an object says of them; nothing out of anything else."""
        return cls.model_validate(found if isinstance(found, Mapping) else {})


class _WrittenStep(_Grade):
    """A step as an object, under the names that models give its fields."""

    question: str = Field(
        validation_alias=AliasChoices("question", "sub_question", "sub-question", "step", "text")
    )
    hint: object = ""
    after: object = Field(None, validation_alias=AliasChoices("after", "depends_on", "needs"))


def _read_steps(found: object, text: str) -> list[PlannedStep]:
    """Read the steps in the JSON of a reply, else those on its numbered lines."""
    steps = [step for item in _items(found) if (step := _read_step(item))]
    steps = steps or [step for item in _numbered_items(text) if (step := _read_step(item))]
    if not steps:
        msg = "no sub-question found: write each as an item of its own"
        raise ValueError(msg)
    return steps[:MAX_ITEMS]


def _read_step(item: object) -> PlannedStep | None:
    """Read one item of a plan: "question | hint | after 1, 2", or an object with such fields."""
    try:
        found = _WrittenStep.model_validate({"question": item} if isinstance(item, str) else item)
    except ValidationError:
        return None
    question, *rest = [_to_line(part) for part in _BAR.split(found.question)]
    if label := _NUMBERED.match(question):
        question = _to_line(label[2])
    if not any(character.isalnum() for character in question):
        return None
    after, hints = found.after, [_to_line(found.hint)]
    for part in rest:
        if needs := _AFTER.match(part):
            after = needs[1]
        elif part != "-":
            hints.append(part)
    if after is not None:
        after = after if isinstance(after, list) else _NUMBER.findall(str(after))
        after = [int(number) - 1 for number in _to_numbers(after) if number is not None]
    return PlannedStep(
        question=question[:MAX_QUESTION],
        hint=" ".join(filter(None, hints))[:MAX_HINT],
        depends_on=after,
        level=found.level,
        credit=found.credit,
    )


def _items(found: object) -> list[object]:
    """Return the items of a plan, by whatever name the model called their list."""
    if isinstance(found, Mapping):
        lists = (found.get(name) for name in ("steps", "plan", "sub_questions", "questions"))
        numbered = [value for name, value in found.items() if str(name).strip().isdigit()]
        found = next((named for named in lists if isinstance(named, list)), numbered)
    return found[:MAX_ITEMS] if isinstance(found, list) else []


def _numbered_items(text: str) -> Iterator[str]:
    """Yield numbered lines; a line "Hint: …" below one becomes part of it."""
    item = ""
    for line in text[:MAX_TEXT].splitlines():
        if numbered := _NUMBERED.match(line):
            yield item
            item = numbered[2]
        elif item and (hint := _HINT_LINE.match(line)):
            item += f" | {hint[1]}"
    yield item


def _find_json(text: str) -> object:
    """Return the JSON value in a reply, repaired if it was cut off or misspelt, else None."""
    text = text[:MAX_TEXT]
    start = _JSON_START.search(text)
    if start is None:
        return None
    body = _BARE_LATEX.sub(r"\\\\", text[start.end() :])
    try:
        return json.JSONDecoder(strict=False).raw_decode(body)[0]
    except (ValueError, RecursionError):
        pass
    try:
        return repair_json(body[:MAX_REPAIRED], return_objects=True)
    except (ValueError, RecursionError):  # nested deeper than the parsers go
        return None
