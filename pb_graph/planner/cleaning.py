"""Clean a plan by three rules, and fit levels and credits to it. Each correction is a warning.

1. Empty sub-questions, and those equal to an earlier one, are dropped.
2. A hint with a value is dropped: a number that neither the question nor an earlier step has.
3. A sub-question that ends in an equation with its result asks for the result instead.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from pb_graph.planner.parsing import Difficulty, GradedPlan, Plan, PlannedStep
from pb_graph.types import Query, ReportWarning, SubQuestion

EASIEST, MIDDLE, HARDEST = 1, 3, 5
ALL_CREDITS = 100.0

_CONSTANT = 10
"""Numbers up to this one are part of a method ("mod 8", "k ≥ 3"), unless they follow an "="."""

_PUNCTUATION = re.compile(r"[\s.,;:?!\"'`]+")
_EMPTY = {"", "sub-question"}
"""Sub-questions that ask nothing; some models repeat the form of the reply."""

_NUMBER = re.compile(r"\d+(?:,\d{3}(?!\d))*(?:\.\d+)?")
_EQUALS = re.compile(r"(?<![<>!:=])\s*[=≈](?!=)\s*")
# Mathematics: LaTeX commands, single letters, figures and signs, but no words.
_MATHS = r"(?:\\[a-z]+|(?<![^\W\d_])[^\W\d_](?![^\W\d_])|[^\w:;?!<>]|[\d_])"
_LEFT_SIDE = re.compile(rf"{_MATHS}*$", re.IGNORECASE)
_RIGHT_SIDE = re.compile(rf"({_MATHS}++)(?:[^\W\d_]++)?+\W*+", re.IGNORECASE)  # and a unit
_NAME = re.compile(r"(?:[^\W\d_](?:_\w+|\([^()]*\))?)?")
_LETTER = re.compile(r"(?<![\\A-Za-z])[^\W\d_]")  # of no LaTeX command
_NOT_COMPARED = re.compile(r"[\s$\\{},]|left|right|\.$")


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
    kept, corrections = _keep_steps(plan, query)
    if len(kept) > max_steps:
        corrections[f"sub-questions beyond the first {max_steps} dropped"] = len(kept) - max_steps
        kept = kept[:max_steps]
    warnings = [
        ReportWarning(code="plan_corrected", message=f"{what}: {count}")
        for what, count in corrections.items()
    ]
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

    def fit(value: float | None, default: int) -> int:
        return default if value is None else min(max(round(value), EASIEST), HARDEST)

    level, count = known_level or fit(found.level, MIDDLE), len(steps)
    usable = [value for value in found.levels if len(found.levels) == count]
    levels = [fit(value, level) for value in usable or [None] * count]
    shares = [value for value in found.credits if value is not None and value >= 0]
    if not len(shares) == len(found.credits) == count or not sum(shares):
        shares = [1.0] * count
    credit = [round(value / sum(shares) * ALL_CREDITS, 2) for value in shares]
    graded = list(steps)
    for place, step in enumerate(steps):
        graded[place] = {**step, "level": levels[place], "credit": credit[place]}
    grades: list[tuple[str, object, object]] = [
        ("level", known_level or found.level, level),
        ("levels", found.levels, levels),
        ("credits", [round(value or 0) for value in found.credits], [*map(round, credit)]),
    ]
    warnings = [
        ReportWarning(code="grades_corrected", message=f"{name} {written} became {used}")
        for name, written, used in grades
        if written != used
    ]
    return level, graded, warnings


def _keep_steps(
    plan: Plan, query: Query
) -> tuple[list[tuple[PlannedStep, SubQuestion]], Counter[str]]:
    """Return the steps that are kept, as written and as cleaned, and the number of corrections."""
    about = (query["question"], query["reference"], query.get("conversation"))
    known = "\n".join(filter(None, about))
    kept: list[tuple[PlannedStep, SubQuestion]] = []
    places: dict[int, int] = {}  # from a number in the plan to an index in what is kept
    first: dict[str, int] = {}
    corrections = Counter[str]()
    for number, step in enumerate(plan.steps, 1):
        question, hint = _ask_for_result(step.question, known), step.hint
        if question != step.question:
            corrections["stated results replaced by '?'"] += 1
        key = _PUNCTUATION.sub(" ", question.casefold()).strip()
        place = places[number] = first.setdefault(key, len(kept))
        if key in _EMPTY or place < len(kept):
            corrections["empty or repeated sub-questions dropped"] += 1
            continue
        known += f"\n{question}"
        if _gives_value(hint, known):
            corrections["hints with a value dropped"] += 1
            hint = ""
        needs = {place - 1}
        if step.after is not None:
            needs = {places.get(number, place) for number in step.after}
        asked = SubQuestion(
            index=place,
            question=question,
            hint=hint,
            depends_on=sorted(need for need in needs if 0 <= need < place),
            level=None,
            credit=None,
        )
        kept.append((step, asked))
    return kept, corrections


def _ask_for_result(question: str, known: str) -> str:
    """Replace the result that a sub-question ends in by "?": "7 * 3 = 21" becomes "7 * 3 = ?".

    An equation that is to be solved ("2x + 9 = 15"), a definition ("A = l w"), and a right side
    that is known already stay as they are.
    """
    for equals in _EQUALS.finditer(question):
        right = _RIGHT_SIDE.fullmatch(question, equals.end())
        if right is None:
            continue  # words follow
        left = _LEFT_SIDE.findall(question[: equals.start()])[0].strip(" .,'([{|$")
        has_unknown = bool(_LETTER.search(left)) and not _NAME.fullmatch(left)
        value, told = (_NOT_COMPARED.sub("", text.casefold()) for text in (right[1], known))
        is_known = re.search(rf"(?<!\d){re.escape(value)}(?!\d)", told)
        if bool(_LETTER.search(right[1])) == has_unknown and not is_known:
            asked = f"{question[: equals.start()]} = ?"
            return asked + "$" * (asked.count("$") % 2)
    return question


def _gives_value(hint: str, known: str) -> bool:
    """Return whether a hint has a number that is not known, and is no constant of a method."""
    method, *results = _EQUALS.split(hint)
    values = {number for number in _numbers(method) if number > _CONSTANT}
    return not values | _numbers(" ".join(results)) <= _numbers(known)


def _numbers(text: str) -> set[float]:
    return {float(number.replace(",", "")) for number in _NUMBER.findall(text)}
