"""The methods that are compared, by name: the ten rows of the paper's tables, and any other."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pb_graph.budget.rules import LevelTable
from pb_graph.errors import InputError
from pb_graph.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = ["ALL", "NAMES", "PAPER_DEFAULTS", "Method", "method_from_file", "methods"]

ALL = "all"
"""The word that stands for the ten rows of the paper's tables."""

PAPER_DEFAULTS: Mapping[str, Any] = MappingProxyType(
    {
        "enforcement": "prompt",
        "budget": LevelTable().model_dump(),
        "min_step": 0,
        "remainder": "floor",
    }
)
"""What the ten rows have in common: the totals of the paper's code, only said; Eq. 7 as it is."""

_SAID_BY_STEP: Mapping[str, Any] = MappingProxyType({"prompt_unit": "words_as_tokens"})
"""The paper's prompt tells each sub-question its share of the tokens as so many words."""

_SCHEDULES = ("uniform", "weighted", "linear", "polynomial", "exponential", "cosine")
_BASELINES = ("vanilla", "global_budget", "planned_vanilla", "planned_global_budget")
_SINGLE_PASS = {"method": "plan_and_budget", "execution": "single_pass"}
_ROWS: Mapping[str, Mapping[str, Any]] = {name: {"method": name} for name in _BASELINES} | {
    name: {**_SINGLE_PASS, "schedule": name} for name in _SCHEDULES
}
_OURS: Mapping[str, Mapping[str, Any]] = {
    "default": {},
    "stepwise": {"method": "plan_and_budget", "execution": "stepwise"},
}

NAMES = (*_ROWS, *_OURS)
"""Every name that `methods` knows, the ten rows first."""


@dataclass(frozen=True, slots=True)
class Method:
    """One way to answer.

    Attributes:
        name: In tables and logs.
        settings: How the graph works.
        estimate_level: Whether the planner estimates a question's level, and is paid for it, also
            where the data set has a label.
    """

    name: str
    settings: Settings
    estimate_level: bool = False


def methods(
    names: str | Sequence[str], overrides: Mapping[str, Any] | None = None
) -> tuple[Method, ...]:
    """Give the methods of these names.

    The ten rows are those of the paper: plan-and-budget in a single pass, budgets that are only
    said (``enforcement="prompt"``), shares rounded down and none raised (its Eq. 7), and told as
    words. What still differs from the paper is in the README. ``default`` is what `Settings`
    choose when nothing is said, and ``stepwise`` the same with a call for each sub-question.

    Args:
        names: Names of `NAMES`, as a sequence or with commas between; ``all`` for the ten rows.
        overrides: Settings that apply to all of them, such as ``{"cutoff": 1500}``.

    Raises:
        InputError: An unknown or repeated name, or an override that is invalid or takes away what
            a name says.
    """
    asked = names.split(",") if isinstance(names, str) else list(names)
    chosen = [name for ask in asked for name in _expanded(ask.strip())]
    found = tuple(Method(name, _settings(name, overrides or {})) for name in chosen)
    check_distinct(found)
    return found


def method_from_file(path: str | Path, overrides: Mapping[str, Any] | None = None) -> Method:
    """Read a `Settings` from a JSON file; the method is called like the file, without its ending.

    Raises:
        InputError: The file cannot be read, or is no `Settings`.
    """
    file = Path(path)
    try:
        fields = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        msg = f"cannot read the settings file {file}: {error.strerror}"
        raise InputError(msg) from error
    except ValueError as error:
        msg = f"{file} is not JSON: {error}"
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


def _expanded(name: str) -> Iterable[str]:
    if name == ALL:
        return tuple(_ROWS)
    if name not in NAMES:
        msg = f"no method named {name!r}; there are: {ALL}, {', '.join(NAMES)}"
        raise InputError(msg)
    return (name,)


def _settings(name: str, overrides: Mapping[str, Any]) -> Settings:
    fixed = _ROWS.get(name) or _OURS[name]
    defaults: dict[str, Any] = dict(PAPER_DEFAULTS) if name in _ROWS else {}
    if name in _SCHEDULES:
        defaults |= _SAID_BY_STEP
    for field, value in fixed.items():
        if overrides.get(field, value) != value:
            msg = (
                f"{field}={overrides[field]} takes away what the method {name!r} says ({value}); "
                "write a settings file for such a method, or use 'default' or 'stepwise'"
            )
            raise InputError(msg)
    return _valid({**defaults, **overrides, **fixed}, f"method {name!r}")


def _valid(fields: Mapping[str, Any], source: str) -> Settings:
    try:
        return Settings.read(fields)
    except InputError as error:
        msg = f"{source}: {error}"
        raise InputError(msg) from error
