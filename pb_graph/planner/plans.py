"""Define what a planner replies with, and clean it; `reading` finds it in the reply.

A plan is cleaned by three rules, and each correction is a warning:

1. Empty sub-questions, and those equal to an earlier one, are dropped.
2. A hint with a value is dropped: a number that neither the question nor an earlier step has.
3. Of too many sub-questions the first ones and the last one are kept.
"""

# ruff: noqa: RUF001 -- marks and digits of other scripts

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, Field, ValidationError, model_validator

from pb_graph.planner.reading import find_grades, find_level, find_plan, without_mark
from pb_graph.tasks import is_composed
from pb_graph.types import Query, ReportWarning, SubQuestion

_BAR = re.compile(r"(?:^|\s)\|(?=\s|$)|｜|(?<=\?)\|")  # |x - 3| and P(A|B) are mathematics
_HINT = re.compile(
    r"[\s*_`(\[—–-]*(?<!\w)(?:hint|tip|hinweis|tipp|indice|提示)[*_`]*[:：][\s*_`]*", re.IGNORECASE
)
_AFTER = re.compile(r"(?:after|depends on|needs|requires)\b", re.IGNORECASE)
_NOTHING = re.compile(r"\b(?:nothing|none|no)\b|^\W+$|^$", re.IGNORECASE)
_NUMBER = re.compile(r"-?\d{1,9}(?:[.,]\d+)?")

EASIEST, MIDDLE, HARDEST = 1, 3, 5
ALL_CREDITS = 100.0

_CONSTANT = 10
"""Numbers up to this one are part of a method ("mod 8", "k ≥ 3"), unless they follow an "="."""

_PUNCTUATION = re.compile(r"[\s.,;:?!\"'`]+")
_EMPTY = {"", "sub-question"}
"""Sub-questions that ask nothing; some models repeat the form of the reply."""

_FEWEST_WORDS = {True: 6, False: 10}
"""Fewer words of a plan or of a question say nothing, by whether a text is asked for."""
_WORD = re.compile(r"[^\W_ᄀ-￿]{4,}|\d+|[ᄀ-￿]")
_FIGURE = re.compile(r"\d+(?:,\d{3}(?!\d))*(?:\.\d+)?")
_EQUALS = re.compile(r"(?<![<>!:=])[=≈](?!=)")


def _to_number(value: object) -> float | None:
    """Return the number in a value such as 4, "4" or "level 4"; None if there is none."""
    match = _NUMBER.search(str(value))
    return float(match.group().replace(",", ".")) if match else None


def _to_step_numbers(value: object) -> list[int] | None:
    """Return the step numbers in a value such as [1, 3] or "1 and 3"; None if it names no step."""
    numbers = [int(number) for number in re.findall(r"\d{1,3}", str(value))]
    is_empty = value is not None and (value == [] or _NOTHING.search(str(value)))
    return numbers if numbers or is_empty else None


def _to_line(text: str) -> str:
    """Return text on one line, without the Markdown around it."""
    line = " ".join(text.split()).replace("**", "").strip("*_` ;")
    return line[1:-1] if len(line) > 1 and line[0] == line[-1] == '"' else line


_Number = Annotated[float | None, BeforeValidator(_to_number)]
_Numbers = Annotated[
    list[_Number], BeforeValidator(lambda value: value if isinstance(value, list) else [])
]
_StepNumbers = Annotated[list[int] | None, BeforeValidator(_to_step_numbers)]


class PlannedStep(BaseModel, frozen=True):
    """One sub-question as a planner wrote it: "question | hint | after 1, 2", or an object.

    Attributes:
        question: The question of the step.
        hint: A few words about the method; may be empty.
        after: Numbers (from 1) of the steps that it needs; None if the planner named none.
        level: Difficulty from 1 to 5, unchecked.
        credit: Share of 100 credits, unchecked.
    """

    question: str
    hint: str = ""
    after: _StepNumbers = None
    level: _Number = None
    credit: _Number = None

    @model_validator(mode="before")
    @classmethod
    def _split(cls, item: object) -> dict[str, Any]:
        """Split a text at its bars."""
        fields = dict(item) if isinstance(item, Mapping) else {"question": item}
        text = fields.get("question")
        question, *rest = map(_to_line, _BAR.split(text) if isinstance(text, str) else [""])
        question, *inline = _HINT.split(_to_line(without_mark(question)), maxsplit=1)
        if not any(character.isalnum() for character in question):
            msg = "a sub-question is missing"
            raise ValueError(msg)
        hints = [_to_line(str(fields.get("hint") or "")), *(hint.strip(")]") for hint in inline)]
        for part in rest:
            if _AFTER.match(part):
                fields["after"] = part
            elif part != "-":
                hints.append(_HINT.sub("", part))
        return fields | {"question": question, "hint": " ".join(filter(None, hints))}

    def to_text(self) -> str | dict[str, Any]:
        """Return the step in the format that the planner is asked for, with its grades."""
        after = ""
        if self.after is not None:
            after = f"after {', '.join(map(str, self.after)) or 'nothing'}"
        text = " | ".join(filter(None, [self.question, self.hint, after]))
        if self.level is None and self.credit is None:
            return text
        return {"question": text, "level": self.level, "credit": self.credit}


class Plan(BaseModel, frozen=True):
    """A decomposition: the parts in order, with or without level and credit.

    Attributes:
        steps: The parts.
        delivers: ``all`` where the parts are the answer, one behind the other; ``last`` where they
            lead to it, and the last one gives it; None where the planner does not say.
        level: Level of the whole problem, unchecked; None where it was not asked for.
    """

    steps: list[PlannedStep] = Field(min_length=1)
    delivers: Literal["last", "all"] | None = None
    level: _Number = None

    @classmethod
    def read(cls, text: str) -> Self:
        """Find the plan in a reply.

        Raises:
            ValueError: If the reply holds no sub-question.
        """
        found, steps = find_plan(text), []
        for fields in found.steps:
            with suppress(ValidationError):  # an item without text
                steps.append(PlannedStep.model_validate(fields))
        if steps:
            said = re.search(r"\b(all|last)\b", str(found.about.get("delivers")).casefold())
            delivers = said and said[1]
            return cls.model_validate(
                {"steps": steps, "delivers": delivers, "level": found.about.get("level")}
            )
        msg = "no sub-question found: write each as an item of its own"
        raise ValueError(msg)

    def to_text(self) -> str:
        """Return the plan as the JSON that a planner is asked for; `read` reads it back."""
        about = {name: value for name, value in self if name != "steps" and value is not None}
        steps = [step.to_text() for step in self.steps]
        return json.dumps({**about, "steps": steps}, ensure_ascii=False)


class Difficulty(BaseModel, frozen=True):
    """Levels and credits as a planner wrote them, unchecked; None for unreadable values.

    Attributes:
        level: Level of the whole problem.
        levels: Level of each sub-question, in order.
        credits: Credit of each sub-question, in order.
    """

    level: _Number = None
    levels: _Numbers = []
    credits: _Numbers = []

    @classmethod
    def read(cls, text: str) -> Self:
        """Find the estimates in a reply.

        Raises:
            ValueError: If the reply holds no level.
        """
        estimates = cls.model_validate(find_grades(text))
        if estimates == cls():
            msg = "no levels found: write them as numbers from 1 to 5"
            raise ValueError(msg)
        return estimates

    def to_text(self) -> str:
        """Return the estimates as one line of JSON, in the form that a planner is asked for."""
        return self.model_dump_json(exclude_defaults=True)


class Level(BaseModel, frozen=True):
    """The level of a problem, asked for alone."""

    level: int

    @classmethod
    def read(cls, text: str) -> Self:
        """Find the level in a reply: "L3", {"level": 3}, or a sentence that calls it so.

        Raises:
            ValueError: If the reply names no level from 1 to 5, or several.
        """
        level = find_level(text)
        if level is None:
            msg = "no level found: write L1, L2, L3, L4 or L5"
            raise ValueError(msg)
        return cls(level=level)

    def to_text(self) -> str:
        """Return the level as a planner is asked to write it, such as "L3"."""
        return f"L{self.level}"


def clean_plan(
    plan: Plan, query: Query, max_steps: int
) -> tuple[list[SubQuestion], list[ReportWarning]]:
    """Turn a plan into distinct sub-questions that depend on earlier sub-questions only.

    A sub-question that names no others depends on the one before it.

    Args:
        plan: The plan as the planner wrote it.
        query: The question; its reference and conversation count as known, too.
        max_steps: The most sub-questions to keep.

    Returns:
        The sub-questions, graded if the plan is; and a warning for each kind of correction.
    """
    pairs, corrections = _keep_steps(plan, query)
    if len(pairs) > max_steps:
        dropped = range(max_steps - 1, len(pairs) - 1)  # the last one delivers the answer
        corrections[f"sub-questions of more than {max_steps} dropped"] = len(dropped)
        source, last = pairs[-1]
        needs = [need for need in last["depends_on"] if need not in dropped] or [max_steps - 2]
        last = {**last, "index": max_steps - 1, "depends_on": [need for need in needs if need >= 0]}
        pairs = [*pairs[: max_steps - 1], (source, last)]
    warnings = [
        ReportWarning(code="plan_corrected", message=f"{correction}: {count}")
        for correction, count in corrections.items()
    ]
    steps = [step for _, step in pairs]
    if any(source.credit is not None for source, _ in pairs):
        difficulty = Difficulty(
            levels=[source.level for source, _ in pairs],
            credits=[source.credit for source, _ in pairs],
        )
        _, steps, more = grade_steps(difficulty, steps, query["level"] or MIDDLE)
        warnings += more
    return steps, warnings


def is_beside_task(steps: Sequence[SubQuestion], query: Query) -> bool:
    """Return whether sub-questions only repeat a question, or have not a word in common with it.

    Args:
        steps: The sub-questions.
        query: The question; its reference and conversation belong to it.
    """
    about = (query["question"], query["reference"] or "", query.get("conversation") or "")
    texts = [f"{step['question']} {step['hint']}" for step in steps]
    # Beginnings of words, and single signs, as in Chinese.
    asked, known, words, *parts = (
        {word[:4] for word in _WORD.findall(text.casefold())}
        for text in (about[0], " ".join(about), " ".join(texts), *texts)
    )
    if all(part and part <= asked and 10 * len(part) >= 9 * len(asked) for part in parts):
        return True
    fewest = min(sum(map(str.isalpha, each)) for each in (words, known))
    return fewest >= _FEWEST_WORDS[is_composed(query)] and not words & known


def grade_steps(
    estimates: Difficulty, steps: Sequence[SubQuestion], known_level: int | None
) -> tuple[int, list[SubQuestion], list[ReportWarning]]:
    """Fit levels to 1 to 5, and credits to a sum of 100.

    Args:
        estimates: The estimates as the planner wrote them.
        steps: The sub-questions that they are for; may be none.
        known_level: The level of the question, if it is known.

    Returns:
        The level of the question, the graded sub-questions, and a warning for each correction.
    """

    def fit(value: float | None, default: int) -> int:
        return default if value is None else min(max(round(value), EASIEST), HARDEST)

    level, count = known_level or fit(estimates.level, MIDDLE), len(steps)
    usable = [value for value in estimates.levels if len(estimates.levels) == count]
    levels = [fit(value, level) for value in usable or [None] * count]
    shares = [value for value in estimates.credits if value is not None and value >= 0]
    if not len(shares) == len(estimates.credits) == count or not sum(shares):
        shares = [1.0] * count
    credit = [round(value / sum(shares) * ALL_CREDITS, 2) for value in shares]
    graded = list(steps)
    for place, step in enumerate(steps):
        graded[place] = {**step, "level": levels[place], "credit": credit[place]}
    grades: list[tuple[str, object, object]] = [
        ("level", known_level or estimates.level, level),
        ("levels", estimates.levels, levels),
        ("credits", [round(value or 0) for value in estimates.credits], [*map(round, credit)]),
    ]
    warnings = [
        ReportWarning(
            code="grades_corrected",
            message=f"{name} {old} became {new}" if old else f"no {name}: {new} assumed",
        )
        for name, old, new in grades
        if old != new
    ]
    return level, graded, warnings


def _keep_steps(
    plan: Plan, query: Query
) -> tuple[list[tuple[PlannedStep, SubQuestion]], Counter[str]]:
    """Return the remaining steps, as written and as cleaned, and the number of corrections."""
    about = (query["question"], query["reference"], query.get("conversation"))
    known = "\n".join(filter(None, about))
    pairs: list[tuple[PlannedStep, SubQuestion]] = []
    places: dict[int, int] = {}  # index in `pairs` by number in the plan
    first: dict[str, int] = {}
    corrections = Counter[str]()
    for number, step in enumerate(plan.steps, 1):
        question, hint = step.question, step.hint
        key = _PUNCTUATION.sub(" ", question.casefold()).strip()
        place = places[number] = first.setdefault(key, len(pairs))
        if key in _EMPTY or place < len(pairs):
            corrections["empty or repeated sub-questions dropped"] += 1
            continue
        known += f"\n{question}"
        if _gives_value(hint, known):
            corrections["hints with a value dropped"] += 1
            hint = ""
        needs = {place - 1}
        if step.after is not None:
            needs = {places.get(number, place) for number in step.after}
        sub_question = SubQuestion(
            index=place,
            question=question,
            hint=hint,
            depends_on=sorted(need for need in needs if 0 <= need < place),
            level=None,
            credit=None,
        )
        pairs.append((step, sub_question))
    return pairs, corrections


def _gives_value(hint: str, known: str) -> bool:
    """Return whether a hint states a number that is neither given nor a part of a formula."""
    method, *results = _EQUALS.split(hint)
    values = {number for number in _numbers(method) if number > _CONSTANT}
    return not values | _numbers(" ".join(results)) <= _numbers(known)


def _numbers(text: str) -> set[float]:
    return {float(number.replace(",", "")) for number in _FIGURE.findall(text)}
