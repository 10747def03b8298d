"""What a reviewer may make of a plan: drop, reorder, change and add sub-questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, cast

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, field_validator

from pb_graph.budget.rules import Level
from pb_graph.planner.cleaning import ALL_CREDITS
from pb_graph.types import SubQuestion

_Text = Annotated[str, StringConstraints(strip_whitespace=True, max_length=2000)]
_Index = Annotated[int, Field(ge=0, strict=True)]


class EditedStep(BaseModel):
    """One sub-question as a reviewer sends it; what is left out stays as it was."""

    model_config = ConfigDict(extra="forbid")

    index: _Index | None = None
    question: Annotated[_Text, Field(min_length=1)] | None = None
    hint: _Text | None = None
    depends_on: list[_Index] | None = None
    level: Level | None = None
    credit: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None


class PlanEdit(BaseModel):
    """A reviewer's plan, a new total, or both."""

    model_config = ConfigDict(extra="forbid")

    plan: Annotated[list[EditedStep], Field(min_length=1)] | None = None
    budget: Annotated[int, Field(ge=1, strict=True)] | None = None

    @field_validator("plan", mode="before")
    @classmethod
    def _in_full(cls, plan: object) -> object:
        """A bare index keeps a sub-question, a bare text is a new one."""
        if not isinstance(plan, list):
            return plan
        return [
            {"question": item}
            if isinstance(item, str)
            else {"index": item}
            if isinstance(item, int)
            else item
            for item in plan
        ]


def apply_edits(edits: Sequence[EditedStep], plan: Sequence[SubQuestion]) -> list[SubQuestion]:
    """The plan as edited, numbered anew.

    A sub-question named by its index, or repeated word for word, keeps what the edit does not
    change, its grades included. A new one has the mean credit of the others, and no level of its
    own. Credits sum to 100 again.

    Dependencies that were there before are adapted: one on a dropped sub-question becomes one on
    what that depended on, and one on a sub-question that now comes later falls away. A new
    sub-question that says nothing of what it needs builds on the one before it.

    Raises:
        ValueError: which edit cannot be applied, and why.
    """
    before = _matched(edits, plan)
    places = {old["index"]: place for place, old in enumerate(before) if old}
    by_index = any(edit.index is not None for edit in edits)
    names = _names(edits, places) if by_index else {place: place for place in range(len(edits))}
    steps = []
    for place, (edit, old) in enumerate(zip(edits, before, strict=True)):
        inherited = None
        if old and (edit.depends_on is None or (by_index and edit.depends_on == old["depends_on"])):
            inherited = _inherited(old, places, plan)
        steps.append(_edited(place, edit, old, _needed(place, edit, names, inherited)))
    return _credited(steps)


def _matched(edits: Sequence[EditedStep], plan: Sequence[SubQuestion]) -> list[SubQuestion | None]:
    """For each edit, the sub-question that it is about; None for a new one."""
    by_wording = {step["question"]: step for step in plan}
    matched: list[SubQuestion | None] = []
    for edit in edits:
        if edit.index is None:
            old = by_wording.get(edit.question or "")
        else:
            old = plan[edit.index] if edit.index < len(plan) else None
        if old is None and edit.question is None:
            which = "" if edit.index is None else f"there is no sub-question {edit.index}; "
            msg = f"{which}a new one needs a 'question'"
            raise ValueError(msg)
        if old and old in matched:
            msg = f"sub-question {old['index']} is there twice"
            raise ValueError(msg)
        matched.append(old)
    return matched


def _names(edits: Sequence[EditedStep], places: Mapping[int, int]) -> dict[int, int]:
    """What ``depends_on`` may say where steps have indices, and the place that it means."""
    own = {edit.index: place for place, edit in enumerate(edits) if edit.index is not None}
    if len(own) < sum(edit.index is not None for edit in edits):
        msg = "two sub-questions have the same index"
        raise ValueError(msg)
    return {**places, **own}


def _needed(
    place: int, edit: EditedStep, names: Mapping[int, int], inherited: set[int] | None
) -> list[int]:
    """Places of the sub-questions that this one builds on."""
    if inherited is not None:
        return sorted(needed for needed in inherited if needed < place)
    if edit.depends_on is None:
        return [place - 1] if place else []
    needed = {names.get(name, place) for name in edit.depends_on}
    if needed and max(needed) >= place:
        msg = (
            f"sub-question {place + 1} of the list depends on {edit.depends_on}, "
            "but only earlier ones can be needed"
        )
        raise ValueError(msg)
    return sorted(needed)


def _inherited(
    old: SubQuestion, places: Mapping[int, int], plan: Sequence[SubQuestion]
) -> set[int]:
    """Places of what it depended on; for one that was dropped, of what that depended on."""
    found: set[int] = set()
    for needed in old["depends_on"]:
        found |= {places[needed]} if needed in places else _inherited(plan[needed], places, plan)
    return found


def _edited(
    place: int, edit: EditedStep, old: SubQuestion | None, depends_on: list[int]
) -> SubQuestion:
    given: dict[str, Any] = edit.model_dump(exclude_none=True)
    before = old or {"hint": "", "level": None, "credit": None}
    fixed = {"index": place, "depends_on": depends_on}
    return cast("SubQuestion", dict(before) | given | fixed)


def _credited(steps: list[SubQuestion]) -> list[SubQuestion]:
    """Credits that sum to 100; without any, all sub-questions go on counting the same."""
    known = [step["credit"] for step in steps if step["credit"] is not None]
    if not any(known):
        return [{**step, "credit": None} for step in steps]
    mean = sum(known) / len(known)
    worth = [mean if step["credit"] is None else step["credit"] for step in steps]
    return [
        {**step, "credit": round(credit / sum(worth) * ALL_CREDITS, 2)}
        for step, credit in zip(steps, worth, strict=True)
    ]
