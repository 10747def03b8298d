"""A planner's opinion made fit for use; every correction is noted, none is silent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from pb_graph.planner.parsing import Difficulty, GradedPlan, Plan, PlannedStep
from pb_graph.planner.wording import asking_part, key_of, names_a_value, numbers_in
from pb_graph.types import SubQuestion

EASIEST, MIDDLE, HARDEST = 1, 3, 5
ALL_CREDITS = 100.0
_ROUNDING = 0.5
_NOTES = {
    "repeated": "the plan repeated {} sub-question(s): dropped",
    "empty": "the plan had {} sub-question(s) without a question: dropped",
    "stated": "the plan stated {} result(s) where it should ask: dropped",
    "cut": "the plan stated results beside {} sub-question(s): only what they ask is kept",
    "valued": "the plan had {} hint(s) with values: dropped",
}


def normalize_plan(
    plan: Plan, max_steps: int, given: str = ""
) -> tuple[list[SubQuestion], list[str]]:
    """Sub-questions that ask, without repeats, not too many, each depending on earlier ones only.

    What a sub-question states instead of asking is left out, and so are hints with values: a wrong
    one would be obeyed. A sub-question that says nothing of what it needs builds on the one before
    it.

    Returns:
        The sub-questions, not yet graded, none where none asks anything; and a note for each
        correction.
    """
    kept = _kept(plan, max_steps, numbers_in(given))
    return _sub_questions(kept), kept.notes


def normalize_graded(
    plan: GradedPlan, max_steps: int, known_level: int | None, given: str = ""
) -> tuple[int, list[SubQuestion], list[str]]:
    """`normalize_plan` and `normalize_difficulty` for a plan that came with its grades."""
    kept = _kept(plan, max_steps, numbers_in(given))
    steps = _sub_questions(kept)
    found = Difficulty(
        level=plan.level,
        levels=[plan.steps[old].level for old in kept.steps],
        credits=[plan.steps[old].credit for old in kept.steps],
    )
    level, graded, more = normalize_difficulty(found, steps, known_level)
    return level, graded, kept.notes + more


def normalize_difficulty(
    found: Difficulty, steps: Sequence[SubQuestion], known_level: int | None
) -> tuple[int, list[SubQuestion], list[str]]:
    """Levels from 1 to 5 and credits that sum to 100, with a note for each correction.

    Returns:
        The question's level (the known one, if it is known), the graded sub-questions, the notes.
    """
    notes: list[str] = []
    level = known_level or _level(found.level, MIDDLE, "the question", notes)
    if not steps:
        return level, [], notes
    levels = _fitted(found.levels, len(steps), "levels", notes)
    credit = _credits(_fitted(found.credits, len(steps), "credits", notes), notes)
    graded = [
        step
        | SubQuestion(  # type: ignore[typeddict-item]  # the rest comes from the step
            level=_level(levels[j], level, f"sub-question {j + 1}", notes), credit=credit[j]
        )
        for j, step in enumerate(steps)
    ]
    return level, graded, notes


class _Kept(NamedTuple):
    """The planned steps that are used, by their index, as they are used."""

    steps: dict[int, PlannedStep]
    stands: dict[int, set[int]]
    """For each planned step the used ones to wait for in its place: itself, the one that it
    repeats, or what it needed, where it asked for nothing."""
    notes: list[str]


def _kept(plan: Plan, max_steps: int, known: AbstractSet[str]) -> _Kept:
    """The first of each wording, as far as they ask, up to the limit."""
    first: dict[str, int] = {}
    kept = _Kept({}, {}, [])
    count = Counter[str]()
    for index, step in enumerate(plan.steps):
        asked = asking_part(step.question, known)
        key = key_of(asked)
        if not key:
            count["stated" if key_of(step.question) else "empty"] += 1
            earlier = [old for old in _needs(step, index) if old in kept.stands]
            kept.stands[index] = set().union(*(kept.stands[old] for old in earlier))
            continue
        kept.stands[index] = {first.setdefault(key, index)}
        if first[key] != index:
            count["repeated"] += 1
            continue
        valued = names_a_value(step.hint, known | numbers_in(asked))
        count["cut"] += asked != step.question
        count["valued"] += valued
        hint = "" if valued else step.hint
        kept.steps[index] = step.model_copy(update={"question": asked, "hint": hint})
    corrected = (words.format(count[what]) for what, words in _NOTES.items() if count[what])
    kept.notes.extend(corrected)
    if len(kept.steps) > max_steps:
        many = f"the plan had {len(kept.steps)} sub-questions"
        kept.notes.append(f"{many}: the first {max_steps} are kept")
    return kept._replace(steps=dict(list(kept.steps.items())[:max_steps]))


def _sub_questions(kept: _Kept) -> list[SubQuestion]:
    places = {old: new for new, old in enumerate(kept.steps)}
    return [
        SubQuestion(
            index=places[old],
            question=step.question,
            hint=step.hint,
            depends_on=_depends_on(step, places[old], places, kept),
            level=None,
            credit=None,
        )
        for old, step in kept.steps.items()
    ]


def _needs(step: PlannedStep, index: int) -> list[int]:
    """What it says that it needs; the one before it, where it says nothing."""
    return list(range(index)[-1:]) if step.depends_on is None else step.depends_on


def _depends_on(step: PlannedStep, index: int, places: Mapping[int, int], kept: _Kept) -> list[int]:
    """Earlier indices only, which also rules out circles."""
    if step.depends_on is None:
        return _needs(step, index)
    stands = [kept.stands.get(old, {-1}) for old in step.depends_on]
    wanted = {places.get(old, -1) for found in stands for old in found}
    earlier = sorted(needed for needed in wanted if 0 <= needed < index)
    if len(earlier) < len(wanted):
        kept.notes.append(
            f"sub-question {index + 1} was said to depend on others than earlier ones: corrected"
        )
    return earlier


def _fitted(
    values: Sequence[float | None], count: int, what: str, notes: list[str]
) -> list[float | None]:
    """As many values as sub-questions; a wrong number of them cannot be matched up."""
    if len(values) == count:
        return list(values)
    notes.append(f"{len(values)} {what} were given for {count} sub-questions: not used")
    return [None] * count


def _level(value: float | None, default: int, whose: str, notes: list[str]) -> int:
    if value is None:
        notes.append(f"the level of {whose} could not be read: {default} is assumed")
        return default
    level = min(max(round(value), EASIEST), HARDEST)
    if level != value:
        notes.append(f"the level of {whose} was {value:g}: {level} is used")
    return level


def _credits(values: list[float | None], notes: list[str]) -> list[float]:
    """Credits that sum to 100; one that cannot be used counts as the mean of those that can."""
    usable = [value for value in values if value is not None and value >= 0]
    if not sum(usable):
        notes.append("no usable credits: all sub-questions count the same")
        return [ALL_CREDITS / len(values)] * len(values)
    mean = sum(usable) / len(usable)
    if len(usable) < len(values):
        bad = len(values) - len(usable)
        notes.append(f"{bad} credit(s) were no positive numbers: the mean of the others is used")
    full = [value if value is not None and value >= 0 else mean for value in values]
    if abs(sum(full) - ALL_CREDITS) > _ROUNDING * len(full):
        notes.append(f"the credits summed to {sum(full):g}: re-scaled to 100")
    return [round(value / sum(full) * ALL_CREDITS, 2) for value in full]
