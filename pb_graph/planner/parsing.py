"""What a planner model writes, read tolerantly: JSON, numbered lines, or prose around them.

The text is data. It is bounded in size, parsed by pattern or as JSON, and never evaluated.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Self

from json_repair import repair_json
from pydantic import BaseModel, ConfigDict

MAX_TEXT = 20_000
MAX_MENDED = 3_000  # mending broken JSON takes time that grows with the square of its length
MAX_NUMBER = 1e9
MAX_ITEMS = 100
MAX_QUESTION = 500
MAX_HINT = 200

# Patterns meet text that a model may have been talked into: each must stay linear, so nothing
# repeated may match what its neighbour matches.
_NUMBERED = re.compile(
    r"^[ \t#>*_`(-]*(?:(?:sub-?question|step|question)[ \t]*)?(\d{1,2})[ \t*_`]*[.):][ \t]*(\S.*)$",
    re.IGNORECASE | re.MULTILINE,
)
_BULLET = re.compile(r"^\s*[-*•]\s+(\S.*)$")
_HINT = re.compile(r"^\W*hints?\b[\s*_`:.)-]*(\S.*)$", re.IGNORECASE)
_NEEDS = re.compile(
    r"^\W*(?:(?:needs|after|depends on|uses)\W*)?(?:(?:sub-?questions?|steps?)\W*)?"
    r"(\d{1,2}(?:(?:[\s,&#]|and|sub-?questions?|steps?)+\d{1,2})*)\W*$",
    re.IGNORECASE,
)
_NEEDS_NOTHING = re.compile(
    r"^\W*(?:needs|after|depends on|uses)\W+(?:nothing|none)\W*$", re.IGNORECASE
)
_LABEL = re.compile(r"^\W*(?:sub-?question|step)\s*\d*\W*:\s*", re.IGNORECASE)
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_LEVEL_DIGIT = re.compile(r"(?<![\w.-])[Ll]?([1-5])(?!\w|\.\d)")
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_BRACKET = re.compile(r"[\[{]")
_BAR = re.compile(r"(?:^|\s)\|(?=\s|$)")
_FENCED = re.compile(r"```(?:json)?\s*(.*?)(?:```|\Z)", re.DOTALL)

# A LaTeX command that a model wrote into JSON without doubling its backslash.
_BARE_LATEX = re.compile(r"(?<!\\)\\(?=[A-Za-z]{2})(?!u[0-9a-fA-F]{4})")

_QUESTION_KEYS = ("question", "sub_question", "subquestion", "sub-question", "text", "step", "q")
_NEEDS_KEYS = ("depends_on", "needs", "after", "dependencies")
_LEVEL_KEYS = ("level", "evaluated_level", "difficulty")
_CREDIT_KEYS = ("credit", "credits", "points", "weight")
_LIST_KEYS = ("steps", "plan", "sub_questions", "subquestions", "questions")


class PlannedStep(BaseModel):
    """One sub-question as planned. ``depends_on`` counts from 0; None when nothing was said."""

    model_config = ConfigDict(frozen=True)

    question: str
    hint: str = ""
    depends_on: list[int] | None = None
    level: float | None = None
    credit: float | None = None


class Plan(BaseModel):
    """A decomposition, in order."""

    model_config = ConfigDict(frozen=True)

    steps: list[PlannedStep]

    @classmethod
    def read(cls, text: str) -> Self:
        """Find the plan in ``text``.

        Raises:
            ValueError: There is no sub-question in it.
        """
        return cls(steps=_steps(_json_in(text), text))

    def written(self) -> str:
        """The plan as the JSON that a planner is asked for; `read` reads it back."""
        return json.dumps({"steps": [_piped(step) for step in self.steps]}, ensure_ascii=False)


class GradedPlan(Plan):
    """A decomposition whose sub-questions carry level and credit, with the level of the whole."""

    level: float | None = None

    @classmethod
    def read(cls, text: str) -> Self:
        """As `Plan.read`; the level of the whole question is optional."""
        found = _json_in(text)
        level = _first_number(found, _LEVEL_KEYS) if isinstance(found, Mapping) else None
        return cls(steps=_steps(found, text), level=level)

    def written(self) -> str:
        """As `Plan.written`, with the grades."""
        steps = [
            {"question": _piped(step), "level": step.level, "credit": step.credit}
            for step in self.steps
        ]
        return json.dumps({"level": self.level, "steps": steps}, ensure_ascii=False)


class Difficulty(BaseModel):
    """Levels and credits as estimated, unchecked; None where nothing usable was written."""

    model_config = ConfigDict(frozen=True)

    level: float | None = None
    levels: list[float | None] = []
    credits: list[float | None] = []

    @classmethod
    def read(cls, text: str) -> Self:
        """Find the estimates in ``text``.

        Raises:
            ValueError: There is no number in it.
        """
        found = cls._from_json(_json_in(text)) or cls._from_lines(text[:MAX_TEXT])
        if found is None:
            msg = "no levels found: write them as numbers from 1 to 5"
            raise ValueError(msg)
        return found

    def written(self) -> str:
        """The estimates as the one line of JSON that `read` reads back."""
        return self.model_dump_json(exclude_defaults=True)

    @classmethod
    def _from_json(cls, found: object) -> Self | None:
        if not isinstance(found, Mapping):
            return None
        whole = found.get("problem")
        level = _first_number(whole if isinstance(whole, Mapping) else found, _LEVEL_KEYS)
        if isinstance(found.get("levels"), list) or isinstance(found.get("credits"), list):
            levels = _numbers(found.get("levels"))
            return cls(level=level, levels=levels, credits=_numbers(found.get("credits")))
        rows = [row for row in _rows(found) if isinstance(row, Mapping)][:MAX_ITEMS]
        if level is None and not rows:
            return None
        return cls(
            level=level,
            levels=[_first_number(row, _LEVEL_KEYS) for row in rows],
            credits=[_first_number(row, _CREDIT_KEYS) for row in rows],
        )

    @classmethod
    def _from_lines(cls, text: str) -> Self | None:
        rows = [match.group(2) for line in text.splitlines() if (match := _NUMBERED.match(line))]
        pairs = [[_number(number) for number in _NUMBER.findall(row)] for row in rows[:MAX_ITEMS]]
        head = re.search(r"level\D{0,20}(\d)", text, re.IGNORECASE) or re.match(r"\s*(\d)\b", text)
        level = float(head.group(1)) if head else None
        if not any(pairs):
            return None if level is None else cls(level=level)
        return cls(
            level=level,
            levels=[pair[0] if pair else None for pair in pairs],
            credits=[pair[-1] if len(pair) > 1 else None for pair in pairs],
        )


class Level(BaseModel):
    """The level of a question, alone."""

    model_config = ConfigDict(frozen=True)

    level: float

    @classmethod
    def read(cls, text: str) -> Self:
        """Find the level in a reply of a token or two.

        Raises:
            ValueError: There is no digit from 1 to 5 in it.
        """
        found = _LEVEL_DIGIT.search(text[:MAX_QUESTION])
        if found is None:
            msg = "no level found: write L1, L2, L3, L4 or L5"
            raise ValueError(msg)
        return cls(level=float(found[1]))

    def written(self) -> str:
        """As it is asked for."""
        return f"L{self.level:.0f}"


def _json_in(text: str) -> object:
    """The JSON value in ``text``, mended when it was cut off; None when there is none."""
    text = text[:MAX_TEXT].strip()
    fenced = _FENCED.search(text)
    body = fenced.group(1).strip() if fenced else text
    start = min((at for at in (body.find("{"), body.find("[")) if at >= 0), default=-1)
    if start < 0 or (_NUMBERED.search(body) and body[:start].rpartition("\n")[2].strip()):
        return None  # a bracket within a line of a numbered list is part of what it says
    body = _BARE_LATEX.sub(r"\\\\", body[start:])
    try:
        return json.loads(body, strict=False)
    except (ValueError, RecursionError):
        return _mended(body[:MAX_MENDED])


def _mended(body: str) -> object:
    if len(_BRACKET.findall(body)) > 2 * MAX_ITEMS:
        return None  # mending takes time that grows with the square of the nesting
    try:
        return repair_json(body, return_objects=True)
    except (ValueError, RecursionError):  # nested deeper than the parsers go
        return None


def _steps(found: object, text: str) -> list[PlannedStep]:
    """The plan in the JSON that was found, else in the lines of the text."""
    steps = [step for row in _rows(found) if (step := _json_step(row))]
    from_0 = isinstance(found, Mapping) and "0" in found
    if not steps:
        steps = list(_numbered_steps(text[:MAX_TEXT]))
        first = _NUMBERED.search(text[:MAX_TEXT])
        from_0 = first is not None and int(first[1]) == 0
    if not steps:
        msg = "no sub-question found: write each as an item of its own"
        raise ValueError(msg)
    return _counted_from_1(steps[:MAX_ITEMS], from_0=from_0)


def _counted_from_1(steps: list[PlannedStep], *, from_0: bool) -> list[PlannedStep]:
    """Steps whose needs were read as numbers from 1, set right where the model counted from 0.

    It did if it numbers its steps so, or speaks of a number 0, and all that is needed is earlier
    then. Who counts from 1, as asked, and says 0 for nothing, says so of the first step, too.
    """
    said = [(place, old + 1) for place, step in enumerate(steps) for old in step.depends_on or ()]
    from_0 = from_0 or any(number == 0 for _, number in said)
    if not from_0 or any(not 0 <= number < place for place, number in said):
        return steps
    return [
        step.model_copy(update={"depends_on": [old + 1 for old in step.depends_on]})
        if step.depends_on
        else step
        for step in steps
    ]


def _rows(found: object) -> Iterable[object]:
    """The items of a plan, whatever the model called the list that holds them."""
    if isinstance(found, Mapping):
        named = next((found[key] for key in _LIST_KEYS if isinstance(found.get(key), list)), None)
        if named is not None:
            return list(named)
        return [value for key, value in found.items() if str(key).strip().isdigit()]
    return found if isinstance(found, list) else []


def _json_step(row: object) -> PlannedStep | None:
    if isinstance(row, str):
        return _piped_step(row)
    if not isinstance(row, Mapping):
        return None
    question = next((row[key] for key in _QUESTION_KEYS if isinstance(row.get(key), str)), "")
    step = _piped_step(question)
    if step is None:
        return None
    needs = next((row[key] for key in _NEEDS_KEYS if key in row), None)
    hint = row.get("hint")
    return PlannedStep(
        question=step.question,
        hint=_tidy(hint)[:MAX_HINT] if isinstance(hint, str) else step.hint,
        depends_on=_needs(needs) if needs is not None else step.depends_on,
        level=_first_number(row, _LEVEL_KEYS),
        credit=_first_number(row, _CREDIT_KEYS),
    )


def _numbered_steps(text: str) -> Iterator[PlannedStep]:
    """Numbered lines, or else bullets; a line 'Hint: …' belongs to the one before."""
    lines = text.splitlines()
    marked = [match.group(2) if (match := _NUMBERED.match(line)) else None for line in lines]
    if not any(marked):
        marked = [match.group(1) if (match := _BULLET.match(line)) else None for line in lines]
    current: PlannedStep | None = None
    for line, item in zip(lines, marked, strict=True):
        hint = _HINT.match(line.strip())
        if hint and current and not current.hint:
            current = current.model_copy(update={"hint": _tidy(hint.group(1))[:MAX_HINT]})
        elif item:
            if current:
                yield current
            current = _piped_step(item)
    if current:
        yield current


def _piped_step(text: str) -> PlannedStep | None:
    """Read 'sub-question | hint | numbers it needs', of which only the first is required."""
    question, *rest = [_tidy(part) for part in _parts(text)]
    question = _LABEL.sub("", question)[:MAX_QUESTION]
    if not any(character.isalnum() for character in question):
        return None
    needs = [part for part in rest if _NEEDS.match(part) or _NEEDS_NOTHING.match(part)]
    hints = [part for part in rest if part not in (*needs, "", "-")]
    return PlannedStep(
        question=question,
        hint=" ".join(hints)[:MAX_HINT],
        depends_on=_needs(needs[0]) if needs else None,
    )


def _parts(text: str) -> list[str]:
    """What bars separate: those with blanks around them, or a single one, outside of brackets.

    Others are mathematics: |x - 3|, P(A|B), {x | x > 0}.
    """
    single = text.count("|") == 1
    parts: list[str] = []
    depth = 0
    for piece in text.split("|") if single else _BAR.split(text):
        if depth > 0:
            parts[-1] += f"|{piece}" if single else f" |{piece}"
        else:
            parts.append(piece)
        opened = sum(map(piece.count, "([{")) - sum(map(piece.count, ")]}"))
        depth = max(depth, 0) + opened
    return parts


def _piped(step: PlannedStep) -> str:
    """The opposite of `_piped_step`."""
    needs = ""
    if step.depends_on is not None:
        needs = f"after {', '.join(str(index + 1) for index in step.depends_on) or 'nothing'}"
    return " | ".join(filter(None, [step.question, step.hint, needs]))


def _needs(found: object) -> list[int]:
    """Sub-question numbers as a model writes them (from 1), as indices (from 0)."""
    numbers = found if isinstance(found, list) else _NUMBER.findall(str(found))
    values = [_number(number) for number in numbers[:MAX_ITEMS]]
    return [int(value) - 1 for value in values if value is not None]


def _numbers(found: object) -> list[float | None]:
    return [_number(value) for value in found[:MAX_ITEMS]] if isinstance(found, list) else []


def _first_number(row: Mapping[Any, Any], keys: Iterable[str]) -> float | None:
    return next((_number(row[key]) for key in keys if key in row), None)


def _number(value: object) -> float | None:
    """A number of sane size, also out of text like '20 points'; None for anything else."""
    if isinstance(value, str):
        match = _NUMBER.search(value[:MAX_QUESTION])
        value = float(match.group()) if match else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if -MAX_NUMBER < value < MAX_NUMBER else None


def _tidy(text: str) -> str:
    """Plain text on one line: no Markdown emphasis around it, no control codes, no half letters."""
    text = " ".join(_UNPRINTABLE.sub(" ", text).split())
    return text.strip("*_` ").replace("**", "")
