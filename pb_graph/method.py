"""Define `Method`, the decorator that registers a method, and the table of all methods."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from importlib import import_module
from typing import Any, Literal, TypeVar

from pb_graph.errors import did_you_mean

PAPER = "Plan and Budget, arXiv:2505.16122"
"""The source of the paper's own methods."""

_Function = TypeVar("_Function", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Method:
    """A way to answer a question.

    Attributes:
        name: What settings, reports and tables call it.
        description: What it does, in one sentence.
        function: Returns the prompt, or as a coroutine makes the calls; see `pb_graph.methods`.
        source: Where it comes from, such as ``arXiv:2505.16122``.
        plans: Whether the question is decomposed first.
        budgets: Whether it has a total budget, also where the settings name none.
        splits: Whether the budget is split over the sub-questions, and steps may be calls.
        style: The style it is written in where ``Settings.style`` names none. None for a method
            with a style of its own, which no setting changes.
        samples: Whether it needs a model that samples, at a temperature above 0.
        tools: Whether the model may call the solver's tools.
        thinking: ``off`` keeps a model from thinking; None leaves that to the budget.
        is_prompt: Whether the function returns a prompt, rather than making calls of its own.
        ceiling: Returns the most completion tokens that all calls for a question can cost where no
            budget bounds them, from the settings and the question. None for one call.
    """

    name: str
    description: str
    _: KW_ONLY
    function: Callable[..., Any]
    source: str
    plans: bool = False
    budgets: bool = False
    splits: bool = False
    style: str | None = None
    samples: bool = False
    tools: bool = True
    thinking: Literal["off"] | None = None
    is_prompt: bool = True
    ceiling: Callable[[Any, Any], int] | None = None


METHODS: dict[str, Method] = {}
"""The methods that are registered so far, by name."""


def methods() -> dict[str, Method]:
    """Return all methods by name; the package's own are loaded when they are first looked for."""
    import_module("pb_graph.methods")
    return METHODS


def method(name: str, description: str, **options: Any) -> Callable[[_Function], _Function]:  # noqa: ANN401
    """Register a function as a method.

    Args:
        name: The method's name. Each name can be registered once; a function that is defined again
            in a notebook replaces itself.
        description: What the method does, in one sentence.
        options: Fields of `Method`: ``source`` at least.

    Raises:
        ValueError: Another method has that name.
    """

    def register(function: _Function) -> _Function:
        known = METHODS.get(name)
        if known and _place(known.function) != _place(function):
            msg = f"the method {name!r} is registered already, by {_place(known.function)}"
            raise ValueError(msg)
        is_prompt = not inspect.iscoroutinefunction(function)
        METHODS[name] = Method(name, description, function=function, is_prompt=is_prompt, **options)
        return function

    return register


def known_method(name: str) -> str:
    """Return the name, if there is a method of that name.

    Raises:
        ValueError: There is no such method; the message lists the names.
    """
    if name not in methods():
        close = did_you_mean(name, METHODS)
        msg = f"there is no method {name!r}; there are: {', '.join(METHODS)}{close}"
        raise ValueError(msg)
    return name


def _place(function: Callable[..., Any]) -> str:
    return f"{function.__module__}.{function.__qualname__}"
