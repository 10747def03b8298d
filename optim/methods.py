"""The methods that are compared, by name: the ten rows of the paper's tables, and any other.

A method of `optim.rivals` is a row by itself; a row of `_ROWS` is all that other settings of a
method take. Help texts and errors list what is there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import optim.rivals  # noqa: F401 -- registers them
from pb_graph.budget.rules import PerLevel
from pb_graph.errors import InputError, did_you_mean
from pb_graph.methods import METHODS, PAPER
from pb_graph.settings import PLANNED, Settings, fields_of

ALL = "all"
"""The word that stands for the ten rows of the paper's tables."""

RIVALS = "rivals"
"""The word that stands for what others have published against long answers."""

ESTIMATED = "default_estimated"
"""``default`` where the planner estimates the level, and is paid for it."""


@dataclass(frozen=True, slots=True)
class Method:
    """One way to answer.

    Attributes:
        name: What tables and logs call it.
        settings: Of the graph.
        estimate_level: Whether the planner estimates a question's level, and is paid for it, also
            where the data set has a label.

    Raises:
        InputError: The settings wait for a person.
    """

    name: str
    settings: Settings
    estimate_level: bool = False

    def __post_init__(self) -> None:
        check_unattended(self.settings)


def check_unattended(settings: Settings) -> None:
    """Refuse settings that wait for a person, whom an evaluation has not got.

    Raises:
        InputError: They do.
    """
    if settings.review_plan:
        msg = "review_plan pauses for a person, and here none is asked: set it to false"
        raise InputError(msg)


@dataclass(frozen=True, slots=True)
class _Row:
    """What a name stands for.

    Attributes:
        says: Settings that the name promises: no override may take them away.
        usual: Settings that an override may replace.
        estimate_level: As in `Method`.
    """

    says: Mapping[str, Any]
    usual: Mapping[str, Any]
    estimate_level: bool = False


def _paper_row(method: str, **says: str) -> _Row:
    row = Settings.paper(method)
    usual = {name: getattr(row, name) for name in row.model_fields_set - {"method"}}
    return _Row({"method": method} | says, usual)


_PAPER = {
    name: _paper_row(name)
    for name in ("vanilla", "global_budget", "planned_vanilla", "planned_global_budget")
} | {
    name: _paper_row(PLANNED, execution="single_pass", schedule=name)
    for name in ("uniform", "weighted", "linear", "polynomial", "exponential", "cosine")
}
_RIVALS = {name: _paper_row(name) for name, known in METHODS.items() if known.source != PAPER}
_ROWS = _PAPER | {
    "default": _Row({}, {}),
    ESTIMATED: _Row({}, {}, estimate_level=True),
    PLANNED: _Row({"method": PLANNED}, {}),
    f"{PLANNED}_estimated": _Row({"method": PLANNED}, {}, estimate_level=True),
    "stepwise": _Row({"method": PLANNED, "execution": "stepwise"}, {}),
    **_RIVALS,
}

NAMES = tuple(_ROWS)
"""Every name that `methods` knows, the ten rows first."""


def methods(
    names: str | Sequence[str], overrides: Mapping[str, Any] | None = None
) -> tuple[Method, ...]:
    """Give the methods of these names.

    The ten rows are those of the paper: plan-and-budget in a single pass, budgets that are only
    said (``enforcement="prompt"``), shares rounded down and none raised (its Eq. 7), and told as
    words. What still differs from the paper is in the README. ``default`` is what `Settings`
    choose when nothing is said, ``plan_and_budget`` what they choose for planning, ``stepwise`` the
    same with a call for each sub-question; with ``_estimated`` behind it, a row has no help of a
    label. ``rivals`` are what others have published against long answers, as they published it.

    Args:
        names: Names of `NAMES`, as a sequence or with commas between; ``all`` for the ten rows,
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
        for name in {ALL: tuple(_PAPER), RIVALS: tuple(_RIVALS)}.get(word, (word,))
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
    fields = fields_of(file) | dict(overrides or {})
    return Method(file.stem, _valid(fields, str(file)))


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
        InputError: An empty or repeated list, or a rule that would give no token.
    """

    initial: Sequence[int]
    per_level: Sequence[int]

    def __post_init__(self) -> None:
        for values in (self.initial, self.per_level):
            if not values or len(set(values)) < len(values) or min(values) < 0:
                msg = "a grid needs values of at least 0, each once, for both initial and per level"
                raise InputError(msg)
        if 0 in self.initial and 0 in self.per_level:
            msg = "a grid cannot have 0 in both: a question of level 1 would get no token"
            raise InputError(msg)

    def over(self, methods: Sequence[Method]) -> tuple[Method, ...]:
        """Each method with each rule, as ``cosine[100+50L]``; those without a budget as they are.

        Raises:
            InputError: None of them has a budget.
        """
        if not any(method.settings.has_budget for method in methods):
            msg = "a grid of budgets needs a method that has one, such as cosine or global_budget"
            raise InputError(msg)
        return tuple(point for method in methods for point in self._points(method))

    def _points(self, method: Method) -> list[Method]:
        if not method.settings.has_budget:
            return [method]
        return [
            replace(
                method,
                name=f"{method.name}[{rule.initial}+{rule.per_level}L]",
                settings=method.settings.model_copy(update={"budget": rule}),
            )
            for initial in self.initial
            for rule in (PerLevel(initial=initial, per_level=each) for each in self.per_level)
        ]


def _method(name: str, overrides: Mapping[str, Any]) -> Method:
    plain, at, cap = name.partition("@")
    row = _ROWS.get(plain)
    if row is None:
        known = (ALL, RIVALS, *NAMES)
        msg = f"no method named {plain!r}; there are: {', '.join(known)}"
        raise InputError(msg + did_you_mean(plain, known))
    if at and not (cap.isdecimal() and int(cap) > 0):
        msg = f"{name!r}: behind the @ stands the cap of a call in tokens, such as @300"
        raise InputError(msg)
    if at:
        overrides = {**overrides, "cutoff": int(cap)}
    for field, value in row.says.items():
        if overrides.get(field, value) != value:
            msg = (
                f"{field}={overrides[field]} takes away what the method {name!r} says ({value}); "
                "write a settings file for such a method, or use 'default' or 'stepwise'"
            )
            raise InputError(msg)
    settings = _valid({**row.usual, **overrides, **row.says}, f"method {name!r}")
    return Method(name, settings, row.estimate_level)


def _valid(fields: Mapping[str, Any], source: str) -> Settings:
    try:
        return Settings.read(fields)
    except InputError as error:
        msg = f"{source}: {error}"
        raise InputError(msg) from error
