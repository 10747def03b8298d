"""Define what a planner replies with, and clean it; `reading` finds it in the reply."""
# ruff: noqa: RUF001 -- marks and digits of other scripts

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal, Self, cast
from unicodedata import decimal, normalize

from pydantic import BaseModel, Field

from pb_graph.answers import without_thinking
from pb_graph.planner.reading import find_grades, find_plan
from pb_graph.tasks import is_composed
from pb_graph.types import Query, ReportWarning, SubQuestion

EASIEST, MIDDLE, HARDEST = 1, 3, 5
_MAX_LENGTH = 40_000  # characters read of a reply
_CONSTANT = 10  # numbers up to it are a part of a method ("mod 8", "k ≥ 3") before an "="
_FORM = {"", "sub-question"}  # ask nothing; some models repeat the form of the reply
_WORD = re.compile(r"[^\W_\u1100-\uffff]{4,}|\d+|[\u1100-\uffff]")
_NO_SIGNS = str.maketrans(dict.fromkeys(".,;:?!\"'`", " "))
_FIGURE = re.compile(r"\d+(?:,\d{3}(?!\d))*(?:\.\d+)?")
_RESULTS = re.compile(r"(?s)(?<![<>!:=])[=≈](?!=).*")
_SCALE = re.compile(  # names of a scale, or of a level that is denied
    r"(?i)(?:\b(?:on|from|of|between|scale)\s+)*\b(?:L?[01]|one)\s*(?:\([^)]*\)\s*)?"
    r"(?:to|through|and|[-–—~]|\.\.|bis|à|至|到)\s*(?:L?5|five)\b(?:\s*\([^)]*\))?"
    r"|(?:out\s+of|of|/)\s*(?:5|five)\b(?:\s+levels?)?|\b(?:5|five)[ -](?:levels?|points?)\b"
    r"|\b[1-5]\s*(?:=|means|is)\s*(?:the\s+)?(?:very\s+)?(?:easy|easiest|hard|hardest)\b"
    r"|\b(?:not|than|below|above|under|over)\W+(?:an?\W+|the\W+)?(?:level\W+)?L?[1-5]\b"
)
_LEVEL = re.compile(
    r"(?i)(?:(?P<called>(?:level|lvl|difficulty|stufe|niveau|nivel|уровень|难度|難度|等级|レベル|난이도)"
    r"(?:[\W_]*\b(?:is|it|of|as|be|would|should|rated|an?|at|about|around|probably|solid|ist|est|es)\b)*"
    r"[\W_为是は]*(?:L[ -]?)?|\bL[ -]?)|(?<![\w./-])\#?)(?:(?P<digits>[1-5](?:[.,]\d\d?)?)"
    r"(?=L[1-5]|[一-鿿぀-ヿ]|\W|$)(?![.,]\d|\s?%|\s*(?:/|out of)\s*\d)"
    r"|(?P<word>one|two|three|four|five|I{1,3}V?|IV|V|[一二三四五])(?=级|級|\W|$))"
)
_CLAUSE_END = re.compile(
    r"\W*$|[^\w\s]|[级級]|\s+[-–—→(=|]|L|\s+(?:because|since|as|for|on|stars)\b", re.IGNORECASE
)
_NUMERALS = ("one i 一", "two ii 二", "three iii 三", "four iv 四", "five v 五")
_LEVEL_OF = {word: level for level, words in enumerate(_NUMERALS, 1) for word in words.split()}
_AROUND = " \n级級*_#\"'`({[!.$~≈\\"


class _Reply(BaseModel, frozen=True):
    """A reply of a planner, as the output field of a signature."""

    finder: ClassVar[Callable[[str], dict[str, Any]]]
    missing: ClassVar[str]

    @classmethod
    def read(cls, text: str) -> Self:
        """Find the value in a reply, with its thinking; raise ValueError if it holds none."""
        if fields := cls.finder(without_thinking(text)[:_MAX_LENGTH]):
            return cls.model_validate(fields)
        raise ValueError(cls.missing)

    def to_text(self) -> str:
        """Return the value as JSON, in the form that a planner is asked for; `read` reads it."""
        return self.model_dump_json(exclude_defaults=True)


class PlannedStep(BaseModel, frozen=True):
    """One sub-question as a planner wrote it."""

    question: str
    hint: str = ""  # a few words about the method
    after: list[int] | None = None  # numbers (from 1) of the steps it needs; None: it names none
    level: float | None = None  # from 1 to 5, unchecked
    credit: float | None = None  # share of 100 credits, unchecked


class Plan(_Reply, frozen=True):
    """A decomposition: the parts in order, with or without level and credit."""

    finder = find_plan
    missing = "no sub-question found: write each as an item of its own"

    steps: list[PlannedStep] = Field(min_length=1)
    delivers: Literal["last", "all"] | None = None  # the parts that are the answer
    level: float | None = None  # of the whole problem, unchecked

    def to_text(self) -> str:
        """Return the plan as the JSON that a planner is asked for; `read` reads it back."""
        about = {name: value for name, value in self if name != "steps" and value is not None}
        steps = list[object]()
        for step in self.steps:
            needs = ", ".join(map(str, step.after or ())) or "nothing"
            after = "" if step.after is None else f"after {needs}"
            text = " | ".join(filter(None, [step.question, step.hint, after]))
            grades = {"level": step.level, "credit": step.credit}
            steps.append(text if {*grades.values()} == {None} else {"question": text, **grades})
        return json.dumps({**about, "steps": steps}, ensure_ascii=False)


class Difficulty(_Reply, frozen=True):
    """Levels and credits as a planner wrote them, unchecked; None for unreadable values."""

    finder = find_grades
    missing = "no levels found: write them as numbers from 1 to 5"

    level: float | None = None  # of the whole problem
    levels: list[float | None] = []  # of the sub-questions, in order
    credits: list[float | None] = []


def find_level(text: str) -> dict[str, Any]:
    """Return the ``level`` from 1 to 5 that a reply names; none where it names none, or several."""
    text = text.translate({0xBC: ".25", 0xBD: ".5", 0xBE: ".75"})
    plain = "".join(f"{decimal(sign, sign)}" for sign in normalize("NFKC", text))
    plain, scales = _SCALE.subn(" ", plain)
    found = sorted(_LEVEL.finditer(plain), key=lambda match: match["digits"] is None)
    found = [match for match in found if plain[match.end() :][:1] != "?"] or found
    if not found:
        return {}
    called = [match for match in found if match["called"]]  # surer than a number of another thing
    first = (called or found)[0]
    before, rest = plain[: first.start()].strip(_AROUND), plain[first.end() :]
    ends = _CLAUSE_END.match(rest)
    opens = ends and not before
    is_only = ends and len(set(re.findall(r"\d+", plain))) == 1
    is_alone = opens and not rest.strip(_AROUND)
    if not (called or (opens or is_only if first["digits"] else scales or is_alone)):
        return {}
    match = called[-1] if called and not opens else first
    number = (match["digits"] or "").replace(",", ".") or _LEVEL_OF[match["word"].casefold()]
    return {"level": min(int(float(number) + 0.5), HARDEST)}


class Level(Difficulty, frozen=True):
    """The level of a problem, asked for alone."""

    finder = find_level
    missing = "no level found: write L1, L2, L3, L4 or L5"

    level: int

    def to_text(self) -> str:
        """Return the level as a planner is asked to write it, such as "L3"."""
        return f"L{self.level}"


def single_step(query: Query) -> SubQuestion:
    """Return the plan of one step: the question itself."""
    text, level = query["question"], query["level"]
    return SubQuestion(index=0, question=text, hint="", depends_on=[], level=level, credit=100.0)


def clean_plan(
    plan: Plan, query: Query, max_steps: int
) -> tuple[list[SubQuestion], list[ReportWarning]]:
    """Turn a plan into distinct sub-questions that depend on earlier ones only.

    Args:
        plan: The plan as the planner wrote it.
        query: The question; its reference and conversation count as known, too.
        max_steps: The most sub-questions to keep.

    Returns:
        The sub-questions, graded if the plan is; and a warning for each kind of correction.
    """
    first: dict[str, int] = {}  # number (from 1) by what is asked
    keys = [" ".join(s.question.casefold().translate(_NO_SIGNS).split()) for s in plan.steps]
    same = [first.setdefault(key, number) for number, key in enumerate(keys, 1)]
    places = [number for key, number in first.items() if key not in _FORM]
    repeated, dropped, leaks = len(same) - len(places), len(places[max_steps - 1 : -1]), 0
    del places[max_steps - 1 : -1]  # the last one delivers the answer
    known, steps = _numbers(_about(query)), list[SubQuestion]()
    kept = [plan.steps[number - 1] for number in places]
    for place, step in enumerate(kept):
        known |= _numbers(step.question)
        unknown, results = _numbers(step.hint) - known, _RESULTS.search(step.hint)
        stated = _numbers(results[0]) if unknown and results else ()
        leaks += (leak := any(value > _CONSTANT or value in stated for value in unknown))
        asked = {same[need - 1] for need in step.after or () if 0 < need <= len(same)}
        needs = [earlier for earlier, number in enumerate(places[:place]) if number in asked]
        if place and not needs and (step.after is None or any(step.after)):
            needs = [place - 1]  # it says nothing of others, or names later ones only
        hint = "" if leak else step.hint
        about = {"index": place, "question": step.question, "hint": hint, "depends_on": needs}
        steps.append(cast("SubQuestion", about | {"level": None, "credit": None}))
    corrections = {
        "empty or repeated sub-questions dropped": repeated,
        "hints with a value dropped": leaks,
        f"sub-questions of more than {max_steps} dropped": dropped,
    }
    notes = [f"{correction}: {count}" for correction, count in corrections.items() if count]
    warnings = [ReportWarning(code="plan_corrected", message=note) for note in notes]
    if all(step.credit is None for step in kept):
        return steps, warnings
    graded = Difficulty(levels=[s.level for s in kept], credits=[s.credit for s in kept])
    _, steps, more = grade_steps(graded, steps, query["level"] or MIDDLE)
    return steps, warnings + more


def is_beside_task(steps: Sequence[SubQuestion], query: Query) -> bool:
    """Return whether sub-questions only repeat a question, or have not a word in common with it.

    Args:
        steps: The sub-questions.
        query: The question; its reference and conversation belong to it.
    """
    texts = [query["question"], _about(query), *(f"{s['question']} {s['hint']}" for s in steps)]
    # Beginnings of words, and single signs, as in Chinese.
    asked, known, *parts = ({word[:4] for word in _WORD.findall(s.casefold())} for s in texts)
    if all(part and part <= asked and 10 * len(part) >= 9 * len(asked) for part in parts):
        return True
    words = set[str]().union(*parts)
    fewest = 6 if is_composed(query) else 10  # fewer say nothing
    return not words & known and all(sum(map(str.isalpha, s)) >= fewest for s in (words, known))


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
    usable = estimates.levels if len(estimates.levels) == count else [None] * count
    levels = [fit(value, level) for value in usable]
    shares = [value for value in estimates.credits if value is not None and value >= 0]
    if not len(shares) == len(estimates.credits) == count or not sum(shares):
        shares = [1.0] * count
    credit = [round(value / sum(shares) * 100, 2) for value in shares]
    rows = zip(steps, levels, credit, strict=True)
    graded: list[SubQuestion] = [{**step, "level": own, "credit": part} for step, own, part in rows]
    notes = [
        f"{name} {old} became {new}" if old else f"no {name}: {new} assumed"
        for name, old, new in (
            ("level", known_level or estimates.level, level),
            ("levels", estimates.levels, levels),
            ("credits", [round(value or 0) for value in estimates.credits], [*map(round, credit)]),
        )
        if old != new
    ]
    return level, graded, [ReportWarning(code="grades_corrected", message=note) for note in notes]


def _about(query: Query) -> str:
    parts = (query["question"], query["reference"], query.get("conversation"))
    return "\n".join(filter(None, parts))


def _numbers(text: str) -> set[float]:
    return {float(number.replace(",", "")) for number in _FIGURE.findall(text)}
