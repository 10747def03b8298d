"""Clean a plan by three rules, and fit levels and credits to it. Each correction is a warning.

1. Empty sub-questions, and those equal to an earlier one, are dropped.
2. A hint with a value is dropped: a number that neither the question nor an earlier step has.
3. A sub-question that ends in an equation with its result asks for the result instead.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from pb_graph.planner.parsing import Difficulty, GradedPlan, Plan, PlannedStep
from pb_graph.types import Query, ReportWarning, SubQuestion

EASIEST, MIDDLE, HARDEST = 1, 3, 5
ALL_CREDITS = 100.0

_CONSTANT = 10
"""Numbers up to this one are part of a method ("mod 8", "k ≥ 3"), unless they follow an "="."""

_TOKEN = re.compile(r"[^\W_]+|[^\w\s.,;:?!\"'`]")
_NUMBER = re.compile(r"\d+(?:,\d{3}(?!\d))*(?:\.\d+)?")
# No exponent, no coefficient, and no part of a longer number.
_VALUE = re.compile(rf"(?<![\w^.])(?<!\d,)(?>{_NUMBER.pattern})(?![\w^])")
_EQUALS = re.compile(r"(?<![<>!:=])\s*[=≈](?!=)\s*")
_MATHS = (
    r"(?:\\[a-z]+|(?<![^\W\d_])[^\W\d_](?![^\W\d_])|[\d\s.,'()\[\]{}|$%!^_*/\u00d7÷·√+\u2212-])"
)
_LEFT_SIDE = re.compile(rf"{_MATHS}*$", re.IGNORECASE)
_RIGHT_SIDE = re.compile(rf"({_MATHS}+?)(?:[^\W\d_]+)?\W*", re.IGNORECASE)  # and a unit
_NAME = re.compile(r"(?:[^\W\d_](?:_\w+|\([^()]*\))?)?'*")
_PLAIN = re.compile(r"[-\s$]*[\d.,]+\W*")
_NOT_COMPARED = re.compile(r"[\s$\\{}]|left|right")
_LATEX = re.compile(r"\\[a-z]+", re.IGNORECASE)
_LETTER = re.compile(r"[^\W\d_]")


def clean_plan(
    plan: Plan, query: Query, max_steps: int
) -> tuple[list[SubQuestion], list[ReportWarning]]:
    """Turn a plan into sub-questions that ask, are all different, and need only earlier ones.

    A sub-question that names no others depends on the one before it.

    Args:
        plan: The plan as the planner wrote it.
        query: The question; its reference and conversation count as known, too.
        max_steps: The most sub-questions to keep.

    Returns:
        The sub-questions, graded if the plan is a `GradedPlan`; and a warning for each kind of
        correction.
    """
    kept, warnings = _keep_steps(plan, query, max_steps)
    steps = [step for _, step in kept]
    if isinstance(plan, GradedPlan):
        found = Difficulty(
            levels=[written.level for written, _ in kept],
            credits=[written.credit for written, _ in kept],
        )
        _, steps, more = grade_steps(found, steps, query["level"] or MIDDLE)
        warnings += more
    return steps, warnings


def grade_steps(
    found: Difficulty, steps: Sequence[SubQuestion], known_level: int | None
) -> tuple[int, list[SubQuestion], list[ReportWarning]]:
    """Fit levels to 1 to 5, and credits to a sum of 100.

    Args:
        found: The estimates as the planner wrote them.
        steps: The sub-questions that they are for; may be none.
        known_level: The level of the question, if it is known.

    Returns:
        The level of the question, the graded sub-questions, and a warning for each correction.
    """
    level = known_level or _fit_level(found.level, MIDDLE)
    notes = []
    if level not in (known_level, found.level):
        notes.append(f"the level of the question was {found.level}: {level} is used")
    if not steps:
        return level, [], _corrections(notes)
    levels = found.levels if len(found.levels) == len(steps) else [None] * len(steps)
    fitted = [_fit_level(value, level) for value in levels]
    if fitted != found.levels:
        notes.append(f"the levels {found.levels} of the sub-questions became {fitted}")
    credit = _fit_credits(found.credits, len(steps))
    if [round(given or 0) for given in found.credits] != [round(used) for used in credit]:
        notes.append(f"the credits {found.credits} of the sub-questions became {credit}")
    graded = [
        step | SubQuestion(level=fitted[place], credit=credit[place])  # type: ignore[typeddict-item]
        for place, step in enumerate(steps)
    ]
    return level, graded, _corrections(notes)


def ask_for_result(question: str, known: str) -> str:
    """Replace the result that a sub-question ends in by "?": "7 * 3 = 21" becomes "7 * 3 = ?".

    An equation that is to be solved ("2x + 9 = 15"), a definition ("A = l w"), and a right side
    that is known already stay as they are.

    Args:
        question: The sub-question.
        known: The question and the sub-questions before this one.
    """
    for equals in _EQUALS.finditer(question):
        sides = [_RIGHT_SIDE.fullmatch(side) for side in _EQUALS.split(question[equals.end() :])]
        if not sides[0] or not all(sides):
            continue  # words follow
        right = sides[0][1].strip()
        left = _LEFT_SIDE.findall(question[: equals.start()])[0].strip(" .,'([{|$")
        is_known = (
            _numbers(right) <= _numbers(known)
            if _PLAIN.fullmatch(right)
            else _squeeze(right) in _squeeze(known)
        )
        has_unknown = _has_letter(left) and not _NAME.fullmatch(left)
        if _has_letter(right) == has_unknown and not is_known:
            asked = f"{question[: equals.start()]} = ?"
            return asked + "$" * (asked.count("$") % 2)
    return question


def gives_value(hint: str, known: str) -> bool:
    """Return whether a hint has a number that is not known, and is no constant of a method.

    Args:
        hint: The hint of a sub-question.
        known: The question and the sub-questions up to this one.
    """
    method, *results = _EQUALS.split(hint)
    values = _numbers(" ".join(results), _VALUE)
    values |= {number for number in _numbers(method, _VALUE) if float(number) > _CONSTANT}
    return not values <= _numbers(known)


def _keep_steps(
    plan: Plan, query: Query, max_steps: int
) -> tuple[list[tuple[PlannedStep, SubQuestion]], list[ReportWarning]]:
    """Return the steps that are kept, as written and as cleaned, and the warnings."""
    about = (query["question"], query["reference"], query.get("conversation"))
    known = "\n".join(filter(None, about))
    kept: list[tuple[PlannedStep, SubQuestion]] = []
    places: dict[int, int] = {}  # from a number in the plan to an index in what is kept
    first: dict[str, int] = {}
    counts = Counter[str]()
    for number, step in enumerate(plan.steps, 1):
        question = ask_for_result(step.question, known)
        counts["stated results replaced by '?'"] += question != step.question
        key = _key(question)
        place = places[number] = first.setdefault(key, len(kept))
        if key in _EMPTY or place < len(kept):
            counts["empty or repeated sub-questions dropped"] += 1
            continue
        known += f"\n{question}"
        has_value = gives_value(step.hint, known)
        counts["hints with a value dropped"] += has_value
        needs = _depends_on(step, places, place)
        counts["needs of sub-questions that are not earlier dropped"] += place in needs
        asked = SubQuestion(
            index=place,
            question=question,
            hint="" if has_value else step.hint,
            depends_on=sorted(needs - {place}),
            level=None,
            credit=None,
        )
        kept.append((step, asked))
    counts[f"sub-questions beyond the first {max_steps} dropped"] = len(kept) - max_steps
    warnings = [
        ReportWarning(code="plan_corrected", message=f"{what}: {count}")
        for what, count in counts.items()
        if count > 0
    ]
    return kept[:max_steps], warnings


def _depends_on(step: PlannedStep, places: Mapping[int, int], place: int) -> set[int]:
    """Return what a step needs: earlier places, and its own for a need that is no earlier step."""
    if step.after is None:
        return {place - 1} if place else set()
    return {places.get(number, place) for number in step.after}


def _key(question: str) -> str:
    """Return what equal sub-questions have in common: letters, figures and operators."""
    return " ".join(_TOKEN.findall(question.casefold()))


_EMPTY = {"", _key("sub-question")}
"""Keys of sub-questions that ask nothing; some models repeat the form of the reply."""


def _numbers(text: str, pattern: re.Pattern[str] = _NUMBER) -> set[str]:
    """Return the numbers in a text in one spelling: 1000 for 1,000.0."""
    plain = (number.replace(",", "") for number in pattern.findall(text))
    return {number.rstrip("0").rstrip(".") if "." in number else number for number in plain}


def _has_letter(text: str) -> bool:
    return bool(_LETTER.search(_LATEX.sub("", text)))


def _squeeze(text: str) -> str:
    return _NOT_COMPARED.sub("", text.casefold())


def _corrections(notes: Sequence[str]) -> list[ReportWarning]:
    return [ReportWarning(code="grades_corrected", message=note) for note in notes]


def _fit_level(value: float | None, default: int) -> int:
    return default if value is None else min(max(round(value), EASIEST), HARDEST)


def _fit_credits(values: Sequence[float | None], count: int) -> list[float]:
    """Return credits that sum to 100: the given ones, or equal ones if not all can be used."""
    usable = [value for value in values if value is not None and value >= 0]
    if not len(usable) == len(values) == count or not sum(usable):
        usable = [1.0] * count
    return [round(value / sum(usable) * ALL_CREDITS, 2) for value in usable]
