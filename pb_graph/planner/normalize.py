"""A planner's opinion made fit for use; every correction is noted, none is silent."""

from __future__ import annotations

from collections.abc import Sequence

from pb_graph.planner.parsing import Difficulty, GradedPlan, Plan, PlannedStep
from pb_graph.state import SubQuestion

EASIEST, MIDDLE, HARDEST = 1, 3, 5
ALL_CREDITS = 100.0
_ROUNDING = 0.5


def normalize_plan(plan: Plan, max_steps: int) -> tuple[list[SubQuestion], list[str]]:
    """Sub-questions without repeats, not too many, each depending on earlier ones only.

    A sub-question that says nothing of what it needs builds on the one before it.

    Returns:
        The sub-questions, not yet graded, and a note for each correction.
    """
    kept, notes = _kept(plan, max_steps)
    return _sub_questions(plan, kept, notes), notes


def normalize_graded(
    plan: GradedPlan, max_steps: int, known_level: int | None
) -> tuple[int, list[SubQuestion], list[str]]:
    """`normalize_plan` and `normalize_difficulty` for a plan that came with its grades."""
    kept, notes = _kept(plan, max_steps)
    steps = _sub_questions(plan, kept, notes)
    found = Difficulty(
        level=plan.level,
        levels=[plan.steps[old].level for old in kept],
        credits=[plan.steps[old].credit for old in kept],
    )
    level, graded, more = normalize_difficulty(found, steps, known_level)
    return level, graded, notes + more


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


def _kept(plan: Plan, max_steps: int) -> tuple[list[int], list[str]]:
    """Indices of the planned steps that are used: the first of each wording, up to the limit."""
    first: dict[str, int] = {}
    for index, step in enumerate(plan.steps):
        first.setdefault(_wording(step), index)
    kept, notes = list(first.values()), []
    if len(kept) < len(plan.steps):
        notes.append(f"the plan repeated {len(plan.steps) - len(kept)} sub-question(s): dropped")
    if len(kept) > max_steps:
        notes.append(f"the plan had {len(kept)} sub-questions: the first {max_steps} are kept")
    return kept[:max_steps], notes


def _sub_questions(plan: Plan, kept: list[int], notes: list[str]) -> list[SubQuestion]:
    by_wording = {_wording(plan.steps[old]): new for new, old in enumerate(kept)}
    # A step that was dropped as a repeat stands for the one it repeats.
    new_index = {old: by_wording.get(_wording(step), -1) for old, step in enumerate(plan.steps)}
    return [
        SubQuestion(
            index=new,
            question=plan.steps[old].question,
            hint=plan.steps[old].hint,
            depends_on=_depends_on(plan.steps[old], new, new_index, notes),
            level=None,
            credit=None,
        )
        for new, old in enumerate(kept)
    ]


def _wording(step: PlannedStep) -> str:
    return step.question.casefold()


def _depends_on(
    step: PlannedStep, index: int, new_index: dict[int, int], notes: list[str]
) -> list[int]:
    """Earlier indices only, which also rules out circles."""
    if step.depends_on is None:
        return [index - 1] if index else []
    wanted = {new_index.get(old, -1) for old in step.depends_on}
    earlier = sorted(needed for needed in wanted if 0 <= needed < index)
    if len(earlier) < len(wanted):
        notes.append(
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
