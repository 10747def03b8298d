"""The rows of a curve of budgets: one long answer cut at each, and runs to check that against."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final, NamedTuple

from optim.methods import Ending, Method, Truncation
from pb_graph.budget.rules import Fixed
from pb_graph.errors import InputError
from pb_graph.methods import METHODS

CURVE: Final = "curve"
"""Cut from the one long answer."""
SEPARATE: Final = "separate"
"""The same request with a cap that is real."""
TOLD: Final = "told"
"""A method that is told the budget beforehand, and held to it."""

_NAME = re.compile(rf"({CURVE}|{SEPARATE}|{TOLD})_(.+)\[(\d+)\+0L\]")
_TOLD = {"vanilla": "global_budget", "planned_vanilla": "planned_global_budget"}


class CurveName(NamedTuple):
    """What the name of such a row says."""

    kind: str
    method: str
    budget: int


def curve_name(method: str) -> CurveName | None:
    """Read the name of a row; None where it is of no curve."""
    found = _NAME.fullmatch(method)
    return CurveName(found[1], found[2], int(found[3])) if found else None


def curve_methods(
    method: Method,
    budgets: Iterable[int],
    checked: Iterable[int] = (),
    *,
    ending: Ending | None = None,
) -> tuple[Method, ...]:
    """Give the rows of a curve, such as ``curve_vanilla[100+0L]``.

    A budget of the method's own is still said to the model, but no longer enforced.

    Args:
        method: Answers in one call.
        budgets: Completion tokens of solving.
        checked: Those of them that are also run by themselves: as ``separate_vanilla[100+0L]``, and
            as ``told_vanilla[100+0L]`` where there is a method that says its budget.
        ending: As in `Truncation`.

    Raises:
        InputError: No budget, one below 2, one to check that is not on the curve, or a
            method that solves in several calls.
    """
    settings = method.settings
    registered = METHODS[settings.method]
    if not registered.is_prompt or (registered.splits and settings.execution == "stepwise"):
        msg = (
            f"{method.name!r} solves in several calls, so there is no one answer to cut; take one "
            "that asks once, such as vanilla, planned_vanilla, or a schedule in a single pass"
        )
        raise InputError(msg)
    curve, checks = sorted(set(budgets)), sorted(set(checked))
    if not curve:
        msg = "no budget to cut the answers at"
        raise InputError(msg)
    if strange := [budget for budget in checks if budget not in curve]:
        msg = f"--check {strange[0]}: there is no such budget on the curve, only {curve}"
        raise InputError(msg)
    method = replace(method, settings=settings.model_copy(update={"enforcement": "prompt"}))
    return (
        *(_row(method, CURVE, Truncation(b, curve[-1], ending=ending)) for b in curve),
        *(row for budget in checks for row in _checks(method, budget, ending)),
    )


def _row(method: Method, kind: str, truncation: Truncation) -> Method:
    name = f"{kind}_{method.name}[{truncation.budget}+0L]"
    return replace(method, name=name, truncation=truncation)


def _checks(method: Method, budget: int, ending: Ending | None) -> Iterator[Method]:
    apart = _row(method, SEPARATE, Truncation(budget, budget, ending=ending))
    yield apart
    told = _TOLD.get(method.settings.method)
    if told is not None:
        rule = {"method": told, "budget": Fixed(tokens=budget), "enforcement": "force"}
        reserve = {"reserve": Truncation(budget, budget).reserve}
        settings = method.settings.model_copy(update=rule | reserve)
        yield replace(method, name=apart.name.replace(SEPARATE, TOLD, 1), settings=settings)
