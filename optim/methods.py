"""The methods that are compared, by name: the ten rows of the paper's tables, and any other.

A method of `optim.rivals` is a row by itself; a row of `_ROWS` is all that other settings of a
method take. Help texts and errors list what is there.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
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

RIVALS = "rivals"
"""The word for what others have published against long answers."""

ESTIMATED = "default_estimated"
"""``default`` with the level estimated by the planner, and paid for."""


@dataclass(frozen=True, slots=True)
class Method:
    """One way to answer.

    Attributes:
        name: Its name in tables and logs.
        settings: Settings of the graph.
        estimate_level: Whether the planner estimates a question's level, and is paid for it, also
            where the data set has a label.

    Raises:
        InputError: The settings wait for a person.
    """

    name: str
    settings: Settings
    estimate_level: bool = False

    def __post_init__(self) -> None:
        reject_plan_review(self.settings)


def reject_plan_review(settings: Settings) -> None:
    """Refuse settings that wait for a person.

    Raises:
        InputError: The settings pause for a review of the plan.
    """
    if settings.review_plan:
        msg = "review_plan pauses for a person, and an evaluation asks none: set it to false"
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
"""Every name that `methods` knows, the ten rows first."""


def methods(
    names: str | Sequence[str], overrides: Mapping[str, Any] | None = None
) -> tuple[Method, ...]:
    """Return the methods with these names.

    The ten rows are those of the paper: plan-and-budget in a single pass, budgets that are only
    stated (``enforcement="prompt"``), shares rounded down and none raised (its Eq. 7), and stated
    as words. docs/evaluation.md lists the remaining differences. ``default`` is the default of
    `Settings`, ``plan_and_budget`` the same by name, ``stepwise`` the same with a call for each
    sub-question. A row with ``_estimated`` gets no label. ``rivals`` are methods that others have
    published, with their settings.

    Args:
        names: Names of `NAMES`, as a sequence or with commas between; ``paper`` for the ten rows,
            ``rivals`` for those. With ``@300`` behind, no call of it may write more than 300
            tokens, whatever the overrides say.
        overrides: Settings that apply to all of them, such as ``{"cutoff": 1500}``.

    Raises:
        InputError: An unknown or repeated name, or an override that is invalid or takes away what
            a name says.
    """
    wanted = names.split(",") if isinstance(names, str) else names
    chosen = tuple(
        _method(f"{name}{at}{cap}", overrides or {})
        for word, at, cap in (text.strip().partition("@") for text in wanted)
        for name in {PAPER: tuple(_PAPER_ROWS), RIVALS: tuple(_RIVAL_ROWS)}.get(word, (word,))
    )
    check_distinct(chosen)
    return chosen


def method_from_file(path: str | Path, overrides: Mapping[str, Any] | None = None) -> Method:
    """Read a method of your own from a JSON file with fields of `Settings`.

    The method is called like the file, without its ending.

    Raises:
        InputError: The file cannot be read, or is no `Settings`.
    """
    file = Path(path)
    try:
        fields = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        msg = f"cannot read the settings file {file}: {error}"
        raise InputError(msg) from error
    if not isinstance(fields, dict):
        msg = f"{file} is no settings file: it holds no JSON object"
        raise InputError(msg)
    return Method(file.stem, _valid(fields | dict(overrides or {}), str(file)))


def check_distinct(chosen: Iterable[Method]) -> None:
    """Refuse two methods of the same name, which would be one row."""
    seen: set[str] = set()
    for method in chosen:
        if method.name in seen:
            msg = f"the method {method.name!r} is named twice"
            raise InputError(msg)
        seen.add(method.name)


@dataclass(frozen=True, slots=True)
class Grid:
    """Budget rules B = initial + per_level * level, in tokens.

    Attributes:
        initial: Values of B_init, each at least 0.
        per_level: Values of B_per_level, each at least 0.

    Raises:
        InputError: An empty list, or a rule that would give no token.
    """

    initial: Sequence[int]
    per_level: Sequence[int]

    def __post_init__(self) -> None:
        both, values = (self.initial, self.per_level), (*self.initial, *self.per_level)
        if not all(both) or min(values) < 0 or all(0 in side for side in both):
            msg = "a grid needs values of at least 0 for B_init and B_per_level, and not 0 in both"
            raise InputError(msg)

    def over(self, methods: Sequence[Method]) -> tuple[Method, ...]:
        """Each method with each rule, as ``cosine[100+50L]``; those without a budget as they are.

        Raises:
            InputError: None of them has a budget.
        """
        if not any(method.settings.has_budget for method in methods):
            msg = "a grid of budgets needs a method that has one, such as cosine or global_budget"
            raise InputError(msg)
        rules = [PerLevel(initial=a, per_level=b) for a in self.initial for b in self.per_level]
        return tuple(
            point
            for method in methods
            for point in (
                [_with_budget(method, rule) for rule in rules]
                if method.settings.has_budget
                else [method]
            )
        )


def _with_budget(method: Method, rule: PerLevel) -> Method:
    name = f"{method.name}[{rule.initial}+{rule.per_level}L]"
    return replace(method, name=name, settings=method.settings.model_copy(update={"budget": rule}))


def _method(name: str, overrides: Mapping[str, Any]) -> Method:
    plain, at, cap = name.partition("@")
    row = _ROWS.get(plain)
    if row is None:
        known = (PAPER, RIVALS, *NAMES)
        msg = f"no method named {plain!r}; there are: {', '.join(known)}"
        raise InputError(msg + did_you_mean(plain, known))
    if at and not (cap.isdecimal() and int(cap) > 0):
        msg = f"{name!r}: after the @ comes the cap of a call in tokens, such as @300"
        raise InputError(msg)
    if at:
        overrides = {**overrides, "cutoff": int(cap)}
    for field, value in row.fixed.items():
        if overrides.get(field, value) != value:
            msg = (
                f"{name!r} means {field}={value}, so {field}={overrides[field]} is refused. Write "
                "a settings file for such a method, or use 'default' or 'stepwise'."
            )
            raise InputError(msg)
    settings = _valid({**row.defaults, **overrides, **row.fixed}, f"method {name!r}")
    return Method(name, settings, row.estimate_level)


def _valid(fields: Mapping[str, Any], source: str) -> Settings:
    try:
        return Settings.read(fields)
    except InputError as error:
        msg = f"{source}: {error}"
        raise InputError(msg) from error
