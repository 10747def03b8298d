"""Define the choices of one run, and check its limit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from pb_graph.budget.account import Budget
from pb_graph.errors import InputError
from pb_graph.settings import Settings


@dataclass(kw_only=True)
class Context:
    """Choices of one run: ``graph.invoke(..., context=Context(...))``, or an assistant's config.

    A host graph with its own context has a `Context`, or a mapping of its fields, in the field
    ``plan_and_budget``.

    Attributes:
        settings: Settings of the run. The fields that are set here replace those of the graph.
        model: A chat model, or ``provider:model``, that solves.
        planner: A chat model, or ``provider:model``, that plans.
        planner_program: A `Planner`, a `GraphProgram`, or a saved file of either. Settings of the
            program replace those of the graph.
        limit: The most that the run may cost, planning included: completion tokens, or a `Budget`.
    """

    settings: Settings | None = None
    model: str | Any = None
    planner: str | Any = None
    planner_program: Any = None
    limit: Any = None

    @classmethod
    def resolve(cls, value: object) -> Self:
        """Return the checked context of a run.

        Args:
            value: A `Context`, or the context of a host graph: a mapping or an object.

        Raises:
            InputError: If the settings or the limit are wrong, or the context has another type.
        """
        if not isinstance(value, cls | Settings):
            fields = value if isinstance(value, Mapping) else getattr(value, "__dict__", {})
            value = fields.get("plan_and_budget")
        if value is None or isinstance(value, Mapping):
            value = cls(**value or {})
        if not isinstance(value, cls):
            msg = f"The context of a run must be a Context, not {value!r:.100}. "
            msg += "Give settings as context=Context(settings=...)."
            raise InputError(msg)
        require_limit("a context's limit", value.limit)
        if value.settings is None:
            return value
        return replace(value, settings=Settings.read(value.settings))  # settings may be JSON


def require_limit(name: str, value: object) -> int | Budget | None:
    """Return the limit that an argument gives; raise InputError for every other value."""
    if value is None or isinstance(value, Budget) or (type(value) is int and value >= 1):
        return value
    msg = f"{name} must be completion tokens, such as 4000, or a Budget, such as "
    msg += f"Budget(usd=0.50), not {value!r:.100}"
    raise InputError(msg)
