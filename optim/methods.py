"""Define the methods of an evaluation by name: the ten of the paper's tables, and others.

Each method of `optim.rivals` is included; `_ROWS` adds methods with other settings. Help texts and
errors list the names.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import optim.rivals  # noqa: F401 -- registers them
from pb_graph.budget.rules import PerLevel
from pb_graph.errors import InputError, did_you_mean
from pb_graph.methods import METHODS
from pb_graph.methods import PAPER as PAPER_SOURCE
from pb_graph.settings import PLANNED, Settings

PAPER = "paper"
"""The word for the ten rows of the paper's tables."""

PUBLISHED = "published"
"""The word for the methods that others have published to shorten answers."""

ESTIMATED = "default_estimated"
"""``default`` with the level estimated by the planner, and paid for."""


@dataclass(frozen=True, slots=True)
class Method:
    """A method with its settings.

    Attributes:
        name: Its name in tables and logs.
        settings: Settings of the graph.
        estimate_level: Whether the planner estimates a question's level, and is paid for it, also
            where the data set has a label.

    Raises:
        InputError: If the settings pause for a review.
    """

    name: str
    settings: Settings
    estimate_level: bool = False

    def __post_init__(self) -> None:
        reject_plan_review(self.settings)

    @property
    def is_default(self) -> bool:
        """Return whether it is the default, which takes a tuned program's prompts and settings."""
        return self.name.partition("@")[0] in {"default", ESTIMATED}


def reject_plan_review(settings: Settings) -> None:
    """Raise `InputError` if the settings pause for a review of the plan."""
    if settings.review_plan:
        msg = "review_plan pauses for a person, but an evaluation has no reviewer: set it to false"
        raise InputError(msg)


@dataclass(frozen=True, slots=True)
class _Row:
    """The settings behind a name.

    Attributes:
        fixed: Settings that the name promises: no override may replace them.
        defaults: Settings that an override may replace.
        estimate_level: As in `Method`.
    """

    fixed: Mapping[str, Any]
    defaults: Mapping[str, Any]
    estimate_level: bool = False


def _paper_row(method: str, **fixed: str) -> _Row:
    row = Settings.paper(method)
    defaults = {name: getattr(row, name) for name in row.model_fields_set - {"method"}}
    return _Row({"method": method} | fixed, defaults)


_PAPER_ROWS = {
    name: _paper_row(name)
    for name in ("vanilla", "global_budget", "planned_vanilla", "planned_global_budget")
} | {
    name: _paper_row(PLANNED, execution="single_pass", schedule=name)
    for name in ("uniform", "weighted", "linear", "polynomial", "exponential", "cosine")
}
_RIVAL_ROWS = {
    name: _paper_row(name) for name, known in METHODS.items() if known.source != PAPER_SOURCE
}
_ROWS = _PAPER_ROWS | {
    "default": _Row({}, {}),
    ESTIMATED: _Row({}, {}, estimate_level=True),
    PLANNED: _Row({"method": PLANNED}, {}),
    f"{PLANNED}_estimated": _Row({"method": PLANNED}, {}, estimate_level=True),
    "stepwise": _Row({"method": PLANNED, "execution": "stepwise"}, {}),
    **_RIVAL_ROWS,
}

NAMES = tuple(_ROWS)
"""Every name that `methods` knows, the ten of the paper first."""


def methods(
    names: str | Sequence[str], overrides: Mapping[str, Any] | None = None
) -> tuple[Method, ...]:
    """Return the methods with these names.

    The ten methods of the paper are: plan-and-budget in a single pass, budgets that are only
    stated (``enforcement="prompt"``), shares rounded down and none raised (its Eq. 7), and stated
    as words. docs/evaluation.md lists the remaining differences. ``default`` is the default of
    `Settings`, ``plan_and_budget`` the same by name, ``stepwise`` the same with a call for each
    sub-question. A method with ``_estimated`` gets no label. ``published`` are methods that others
    have published, with their settings.

    Args:
        names: Names of `NAMES`, as a sequence or separated by commas; ``paper`` for the ten,
            ``published`` for methods of other authors; or a JSON file with fields of `Settings`:
            ``mine.json`` is the method ``mine``. ``NAME@300`` caps each call of the method at
            300 tokens, whatever the overrides say.
        overrides: Settings that apply to all of them, such as ``{"cutoff": 1500}``.

    Raises:
        InputError: If a name is unknown, or an override is invalid or contradicts a name.
    """
    words = names.split(",") if isinstance(names, str) else names
    return tuple(
        _method(f"{name}{at}{cap}", overrides or {})
        for word, at, cap in (text.strip().partition("@") for text in words)
        for name in {PAPER: tuple(_PAPER_ROWS), PUBLISHED: tuple(_RIVAL_ROWS)}.get(word, (word,))
    )


def over_budgets(chosen: Sequence[Method], grid: str) -> tuple[Method, ...]:
    """Return each method with each budget rule B = initial + per_level * level, in tokens.

    Args:
        chosen: The methods. A method without a budget is unchanged.
        grid: Values of initial and of per_level, such as ``50,100+25,50``.

    Returns:
        Methods with names such as ``cosine[100+50L]``.

    Raises:
        InputError: If the grid is malformed, or no method has a budget.
    """
    try:
        sides = [[int(value) for value in side.split(",")] for side in grid.split("+")]
        rules = [PerLevel(initial=a, per_level=b) for a, b in product(*sides)]
    except ValueError as error:
        msg = f"a grid must be B_init+B_per_level, such as 50,100+25,50, not {grid!r}"
        raise InputError(msg) from error
    if not any(method.settings.has_budget for method in chosen):
        msg = "a grid needs a method with a budget, such as cosine or global_budget"
        raise InputError(msg)
    rows: list[Method] = []
    for method in chosen:
        if not method.settings.has_budget:
            rows.append(method)
            continue
        for rule in rules:
            name = f"{method.name}[{rule.initial}+{rule.per_level}L]"
            settings = method.settings.model_copy(update={"budget": rule})
            rows.append(replace(method, name=name, settings=settings))
    return tuple(rows)


def _method(name: str, overrides: Mapping[str, Any]) -> Method:
    base, at, cap = name.partition("@")
    if at and not (cap.isdecimal() and int(cap) > 0):
        msg = f"{name!r}: write the cap of a call in tokens after the @, such as @300"
        raise InputError(msg)
    if at:
        overrides = {**overrides, "cutoff": int(cap)}
    if base.endswith(".json"):
        settings = _valid({**_read_fields(base), **overrides}, base)
        return Method(f"{Path(base).stem}{at}{cap}", settings)
    row = _ROWS.get(base)
    if row is None:
        available = (PAPER, PUBLISHED, *NAMES)
        msg = f"no method named {base!r}; available: {', '.join(available)}"
        raise InputError(msg + did_you_mean(base, available))
    for field, value in row.fixed.items():
        if overrides.get(field, value) != value:
            msg = (
                f"{name!r} means {field}={value}, so {field}={overrides[field]} is refused. Write "
                "a settings file for such a method, or use 'default' or 'stepwise'."
            )
            raise InputError(msg)
    settings = _valid({**row.defaults, **overrides, **row.fixed}, f"method {name!r}")
    return Method(name, settings, row.estimate_level)


def _read_fields(file: str) -> dict[str, Any]:
    """Return the fields of `Settings` in a JSON file, unchecked."""
    try:
        fields: dict[str, Any] = dict(json.loads(Path(file).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        msg = f"cannot read the settings file {file}: {error}"
        raise InputError(msg) from error
    return fields


def _valid(fields: Mapping[str, Any], source: str) -> Settings:
    try:
        return Settings.read(fields)
    except InputError as error:
        msg = f"{source}: {error}"
        raise InputError(msg) from error
