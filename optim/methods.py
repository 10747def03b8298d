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
from typing import TYPE_CHECKING, Any

import optim.rivals  # noqa: F401 -- registers them
from optim.datasets.dataset import digest
from pb_graph.budget.allocation import PerLevel
from pb_graph.errors import InputError, did_you_mean
from pb_graph.methods import METHODS
from pb_graph.methods import PAPER as PAPER_SOURCE
from pb_graph.program import PlannerProgram
from pb_graph.settings import PLANNED, Settings

if TYPE_CHECKING:
    from pb_graph.planner.planner import Planner

PAPER = "paper"
"""The word for the ten rows of the paper's tables."""

PUBLISHED = "published"
"""The word for the methods that others have published to shorten answers."""

ESTIMATED = "default_estimated"
"""``default`` with the level estimated by the planner, and paid for."""

RETRY_SETTINGS = {"timeout", "max_retries"}
"""Settings that decide whether a call succeeds, not what it says."""

_TUNED = {"default", ESTIMATED}  # which a program may be given to


@dataclass(frozen=True, slots=True)
class Method:
    """A method: its name, its settings, and the tuned program whose prompts it sends.

    ::

        Method("gepa", program="runs/gepa/program.json")

    Attributes:
        name: Its name in tables and logs.
        settings: Settings of the graph. None for those of the program, else the defaults.
        program: A tuned planner or `GraphProgram`, or a saved one or its path. None for the
            package's own prompts.
        estimate_level: Whether the planner estimates a question's level, and is paid for it, also
            where the data set has a label.

    Raises:
        InputError: If the settings pause for a review, or the program cannot be read or fitted.
    """

    name: str
    settings: Settings = None  # type: ignore[assignment]  # `__post_init__` fills it in
    program: Planner | PlannerProgram | None = None
    estimate_level: bool = False

    def __post_init__(self) -> None:
        program: Any = self.program
        if isinstance(program, str | Path):
            program = PlannerProgram.load(program)
        elif hasattr(program, "graph"):  # a `GraphProgram`, whose models belong to the run
            program = program.program()
        settings = self.settings or getattr(program, "settings", None) or Settings()
        if settings.review_plan:
            msg = "review_plan pauses for a person, but an evaluation has no reviewer: set it to "
            raise InputError(msg + "false")
        object.__setattr__(self, "program", program)
        object.__setattr__(self, "settings", settings)

    @property
    def program_digest(self) -> str | None:
        """A digest of the program's prompts and examples; None without a program."""
        program: Any = self.program
        if program is None:
            return None
        return digest(
            program.state if isinstance(program, PlannerProgram) else program.dump_state()
        )


_Row = tuple[Settings, tuple[str, ...]]  # settings, and which of them the name stands for

_SCHEDULE = ("method", "execution", "schedule")
_PAPER_ROWS: dict[str, _Row] = {
    name: (Settings.paper(name), ("method",))
    for name in ("vanilla", "global_budget", "planned_vanilla", "planned_global_budget")
} | {
    name: (Settings.paper(schedule=name), _SCHEDULE)
    for name in ("uniform", "weighted", "linear", "polynomial", "exponential", "cosine")
}
_RIVAL_ROWS: dict[str, _Row] = {
    name: (Settings.paper(name), ("method",))
    for name, known in METHODS.items()
    if known.source != PAPER_SOURCE
}
_ROWS = _PAPER_ROWS | {
    "default": (Settings(), ()),
    ESTIMATED: (Settings(), ()),
    PLANNED: (Settings(method=PLANNED), ("method",)),
    f"{PLANNED}_estimated": (Settings(method=PLANNED), ("method",)),
    "stepwise": (Settings(method=PLANNED, execution="stepwise"), ("method", "execution")),
    **_RIVAL_ROWS,
}

NAMES = tuple(_ROWS)
"""Every name that `methods` knows, the ten of the paper first."""


def methods(
    names: str | Sequence[str | Method],
    overrides: Mapping[str, Any] | None = None,
    program: Planner | PlannerProgram | str | Path | None = None,
) -> tuple[Method, ...]:
    """Return the methods with these names.

    The ten methods of the paper are: plan-and-budget in a single pass, budgets that are only
    stated (``enforcement="prompt"``), shares rounded down and none raised (its Eq. 7), and stated
    as words. docs/evaluation.md lists the remaining differences. ``default`` is the default of
    `Settings`, ``plan_and_budget`` the same by name, ``stepwise`` the same with a call for each
    sub-question. A method with ``_estimated`` gets no label. ``published`` are methods that others
    have published, with their settings.

    Args:
        names: Names of `NAMES`, as a sequence or separated by commas, or methods of your own;
            ``paper`` for the ten, ``published`` for methods of other authors. ``NAME=FILE`` names
            a method by its file: a program that ``pb-optim tune`` wrote, or a JSON file with
            fields of `Settings`. Without a name, ``mine.json`` is the method ``mine`` and
            ``gepa/program.json`` the method ``gepa``. ``NAME@300`` caps each call of the method
            at 300 tokens, whatever the overrides say.
        overrides: Settings that apply to all of them, such as ``{"cutoff": 1500}``. They replace
            those of a program.
        program: The program of ``default``, as ``default=FILE`` gives one.

    Raises:
        InputError: If a name is unknown, a file cannot be read, a program is damaged, an override
            is invalid or contradicts a name, or a program is given and no method is the default.
    """
    rows: list[Method] = []
    for entry in names.split(",") if isinstance(names, str) else names:
        if isinstance(entry, Method):
            merged = entry.settings.merged_with(Settings.read(overrides or {}))
            rows.append(replace(entry, settings=merged))
            continue
        for word in entry.split(","):
            name, at, cap = word.strip().partition("@")
            listed = {PAPER: tuple(_PAPER_ROWS), PUBLISHED: tuple(_RIVAL_ROWS)}.get(name, (name,))
            rows += (_method(f"{each}{at}{cap}", overrides or {}, program) for each in listed)
    if program is not None and all(row.program is None for row in rows):
        msg = "a program is for the method 'default': add 'default' to the methods"
        raise InputError(msg)
    return tuple(rows)


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


def _method(word: str, overrides: Mapping[str, Any], program: Any) -> Method:  # noqa: ANN401
    """Return the method of a word: ``NAME``, ``FILE`` or ``NAME=FILE``, and ``@CAP`` after it."""
    base, at, cap = word.rpartition("@") if "@" in word else (word, "", "")
    if at and not (cap.isdecimal() and int(cap) > 0):
        msg = f"{word!r}: write the cap of a call in tokens after the @, such as @300"
        raise InputError(msg)
    overrides = {**overrides, "cutoff": int(cap)} if at else overrides
    base, is_named, file = base.partition("=")
    if base.endswith(".json") and not is_named:
        file, path = base, Path(base)
        base = path.resolve().parent.name if path.stem == "program" else path.stem
    if file and base in _ROWS.keys() - _TUNED:
        msg = f"{base!r} is a method of its own: choose another name for {file}"
        raise InputError(msg)
    fixed: tuple[str, ...] = ()
    if file:
        fields, program = _read_file(file)
    elif base not in _ROWS:
        available = (PAPER, PUBLISHED, *NAMES)
        msg = f"no method named {base!r}; available: {', '.join(available)}"
        raise InputError(msg + did_you_mean(base, available))
    else:
        row, fixed = _ROWS[base]
        fields = row.set_fields()
        program = Method(base, program=program).program if base in _TUNED and program else None
        if saved := getattr(program, "settings", None):
            fields = saved.set_fields()
    for field in fixed:
        value = fields[field]
        if overrides.get(field, value) != value:
            msg = (
                f"{word!r} means {field}={value}, so {field}={overrides[field]} is refused. Write "
                "a settings file for such a method, or use 'default' or 'stepwise'."
            )
            raise InputError(msg)
    try:
        settings = Settings.read({**fields, **overrides})
    except InputError as error:
        msg = f"{file or f'method {word!r}'}: {error}"
        raise InputError(msg) from error
    is_estimated = base in _ROWS and base.endswith("_estimated")
    return Method(f"{base}{at}{cap}", settings, program, is_estimated)


def _read_file(file: str) -> tuple[dict[str, Any], PlannerProgram | None]:
    """Return the unchecked settings of a JSON file, and its program if the file is one."""
    try:
        fields: dict[str, Any] = dict(json.loads(Path(file).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        msg = f"cannot read the settings file {file}: {error}"
        raise InputError(msg) from error
    if fields.keys().isdisjoint({"state", "format"}):
        return fields, None
    program = PlannerProgram.load(file)
    return program.settings.set_fields() if program.settings else {}, program
