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
from pb_graph.types import Query, SubQuestion

EASIEST, MIDDLE, HARDEST = 1, 3, 5
ALL_CREDITS = 100.0
_ROUNDING = 0.5
"""Credits per sub-question that a sum may be off by."""

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


def clean_plan(plan: Plan, query: Query, max_steps: int) -> tuple[list[SubQuestion], list[str]]:
    """Turn a plan into sub-questions that ask, are all different, and need only earlier ones.

    A sub-question that names no others depends on the one before it.

    Args:
        plan: The plan as the planner wrote it.
        query: The question; its reference and conversation count as known, too.
        max_steps: The most sub-questions to keep.

    Returns:
        The sub-questions, not graded; and a warning for each kind of correction.
    """
    kept, warnings = _keep_steps(plan, query, max_steps)
    return [*kept.values()], warnings


def clean_graded_plan(
    plan: GradedPlan, query: Query, max_steps: int
) -> tuple[list[SubQuestion], list[str]]:
    """Clean a plan that came with its grades, as `clean_plan` and `grade_steps` do.

    Args:
        plan: The plan as the planner wrote it.
        query: The question.
        max_steps: The most sub-questions to keep.

    Returns:
        The graded sub-questions, and the warnings.
    """
    kept, warnings = _keep_steps(plan, query, max_steps)
    planned = [plan.steps[old] for old in kept]
    found = Difficulty(
        levels=[step.level for step in planned], credits=[step.credit for step in planned]
    )
    _, steps, more = grade_steps(found, [*kept.values()], query["level"] or MIDDLE)
    return steps, warnings + more


def grade_steps(
    found: Difficulty, steps: Sequence[SubQuestion], known_level: int | None
) -> tuple[int, list[SubQuestion], list[str]]:
    """Fit levels to 1 to 5, and credits to a sum of 100.

    Args:
        found: The estimates as the planner wrote them.
        steps: The sub-questions that they are for; may be none.
        known_level: The level of the question, if it is known.

    Returns:
        The level of the question, the graded sub-questions, and a warning for each correction.
    """
    level = known_level or _fit_level(found.level, MIDDLE)
    warnings = []
    if level not in (known_level, found.level):
        warnings.append(f"the level of the question was {found.level}: {level} is used")
    if not steps:
        return level, [], warnings
    levels = [_fit_level(value, level) for value in _fit_length(found.levels, len(steps))]
    if levels != found.levels:
        warnings.append(f"the levels {found.levels} of the sub-questions became {levels}")
    credit = _fit_credits(_fit_length(found.credits, len(steps)))
    given = [-1 if value is None else value for value in found.credits]
    if len(given) != len(steps) or min(given) < 0:
        warnings.append(f"the credits {found.credits} of the sub-questions became {credit}")
    elif abs(sum(given) - ALL_CREDITS) > _ROUNDING * len(steps):
        warnings.append(f"the credits summed to {sum(given):g}: re-scaled to 100")
    graded = [
        step | SubQuestion(level=levels[place], credit=credit[place])  # type: ignore[typeddict-item]
        for place, step in enumerate(steps)
    ]
    return level, graded, warnings


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
) -> tuple[dict[int, SubQuestion], list[str]]:
    """Return the sub-questions that are kept by their index in the plan, and the warnings."""
    about = (query["question"], query["reference"], query.get("conversation"))
    known = "\n".join(filter(None, about))
    kept: dict[int, SubQuestion] = {}
    places: dict[int, int] = {}  # from an index in the plan to one in what is kept
    first: dict[str, int] = {}
    counts = Counter[str]()
    for old, step in enumerate(plan.steps):
        question = ask_for_result(step.question, known)
        counts["result(s) stated in the plan: replaced by '?'"] += question != step.question
        key = _key(question)
        if key in _EMPTY:
            counts["empty sub-question(s): dropped"] += 1
            continue
        places[old] = first.setdefault(key, len(kept))
        if places[old] < len(kept):
            counts["repeated sub-question(s): dropped"] += 1
            continue
        known += f"\n{question}"
        has_value = gives_value(step.hint, known)
        counts["hint(s) with a value: dropped"] += has_value
        kept[old] = SubQuestion(
            index=places[old],
            question=question,
            hint="" if has_value else step.hint,
            depends_on=_depends_on(step, places, places[old], counts),
            level=None,
            credit=None,
        )
    counts[f"sub-question(s) beyond the first {max_steps}: dropped"] = len(kept) - max_steps
    warnings = [f"plan: {count} {what}" for what, count in counts.items() if count > 0]
    return dict(list(kept.items())[:max_steps]), warnings


def _depends_on(
    step: PlannedStep, places: Mapping[int, int], place: int, counts: Counter[str]
) -> list[int]:
    """Return the earlier sub-questions that a step needs, which also rules out circles."""
    if step.after is None:
        return list(range(place)[-1:])
    needed = {places.get(number - 1, place) for number in step.after}
    counts["sub-question(s) said to need others than earlier ones: corrected"] += place in needed
    return sorted(needed - {place})


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


def _fit_length(values: Sequence[float | None], count: int) -> Sequence[float | None]:
    """Return the values, or none where their number is wrong: they cannot be matched up."""
    return values if len(values) == count else [None] * count


def _fit_level(value: float | None, default: int) -> int:
    return default if value is None else min(max(round(value), EASIEST), HARDEST)


def _fit_credits(values: Sequence[float | None]) -> list[float]:
    """Return credits that sum to 100; the mean stands in for one that cannot be used."""
    usable = [value for value in values if value is not None and value >= 0]
    if not sum(usable):
        return [ALL_CREDITS / len(values)] * len(values)
    mean = sum(usable) / len(usable)
    full = [value if value is not None and value >= 0 else mean for value in values]
    return [round(value / sum(full) * ALL_CREDITS, 2) for value in full]
