"""Define the methods of the paper, and register further methods with `method`.

A plain function takes a `MethodInput` and returns the prompt of one call. A coroutine also takes
the `Run`, makes its calls through it, and returns what the node adds to the state. A
`ModelCallError` that a method lets pass is an empty answer and a warning: docs/recipes/extend.md.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, Literal, TypeVar

from pb_graph.errors import InputError

PAPER = "Plan and Budget, arXiv:2505.16122"  # the source of the paper's own methods

_Function = TypeVar("_Function", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Method:
    """A way to answer a question.

    Attributes:
        name: Name in settings, reports and tables.
        description: Description in one sentence.
        source: Origin, such as ``arXiv:2505.16122``.
        function: Returns a prompt, or makes the calls. None: one call with plan and budget.
        plans: Whether the question is decomposed first.
        budgets: Whether it has a budget, also where the settings name none.
        splits: Whether the budget is split across the sub-questions, and steps may be calls.
        style: Used if ``Settings.style`` is None. None: one of its own, which no setting changes.
        thinking: ``off`` keeps a model from thinking; None leaves that to the budget.
        is_prompt: Whether the function returns a prompt, rather than making calls of its own.
        limit: ``limit(settings, query)``, the most completion tokens of a run; None: ``cutoff``.
    """

    name: str
    description: str
    _: KW_ONLY
    source: str
    function: Callable[..., Any] | None = None
    plans: bool = False
    budgets: bool = False
    splits: bool = False
    style: str | None = None
    thinking: Literal["off"] | None = None
    is_prompt: bool = True
    limit: Callable[[Any, Any], int] | None = None


def method(name: str, description: str, **options: Any) -> Callable[[_Function], _Function]:  # noqa: ANN401
    """Register a function as a method.

    Args:
        name: The method's name. A function that is defined again in a notebook replaces itself.
        description: Description of the method in one sentence.
        options: Fields of `Method`: ``source`` at least.

    Raises:
        InputError: If another method has that name.
    """

    def register(function: _Function) -> _Function:
        existing = METHODS.get(name)
        if existing and getattr(existing.function, "__qualname__", "") != function.__qualname__:
            msg = f"the method {name!r} is registered already"
            raise InputError(msg)
        is_prompt = not inspect.iscoroutinefunction(function)
        METHODS[name] = Method(name, description, function=function, is_prompt=is_prompt, **options)
        return function

    return register


_paper = partial(Method, source=PAPER, style="paper")
_planned = partial(_paper, plans=True, budgets=True)
_PAPER = (
    _paper("vanilla", "Asks the question, and no more."),
    _paper("global_budget", "Asks the question and says a budget.", budgets=True),
    _paper("planned_vanilla", "Asks the question with a plan.", plans=True),
    _planned("planned_global_budget", "Asks the question with a plan and says a budget."),
    _planned(
        "plan_and_budget",
        "Plans, splits the budget across the sub-questions, and solves each within its share.",
        style="auto",
        splits=True,
    ),
)
METHODS: dict[str, Method] = {known.name: known for known in _PAPER}
"""The methods that are registered so far, by name."""
