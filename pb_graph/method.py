"""What a method is, the decorator that registers one, and the names that there are."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, asdict, dataclass
from importlib import import_module
from typing import Any, Literal, TypeVar

from pb_graph.errors import did_you_mean

OURS = "ours"
PAPER = "Plan and Budget, arXiv:2505.16122"
"""Sources of what is no rival: methods of our own, and the paper's."""

_Function = TypeVar("_Function", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class _Description:
    """What there is to know of a method.

    Attributes:
        name: What settings, reports and tables call it.
        what: What it does, in one sentence.
        source: Where it comes from: ``arXiv:…``, or `OURS`.
        plans: Whether the question is decomposed first.
        budgets: Whether it has a total budget; ``given``: only where another than the usual one is.
        splits: Whether the budget is split over the sub-questions, and steps may be calls.
        samples: Whether it needs a model that samples, at a temperature above 0.
        continues: Whether it needs a server that continues an unfinished reply.
        tools: Whether the model may call the solver's tools; a report says where it may not.
        thinking: ``off`` keeps a model from thinking; None leaves that to the budget.
        uses: Settings that it goes by itself, beside those that what is said above takes.
        ceiling: The most completion tokens that all its calls for a query can cost where no budget
            bounds them; None for one call, which ``Settings.cutoff`` bounds.
    """

    name: str
    what: str
    _: KW_ONLY
    source: str
    plans: bool = False
    budgets: Literal[True, False, "given"] = False
    splits: bool = False
    samples: bool = False
    continues: bool = False
    tools: bool = True
    thinking: Literal["off"] | None = None
    uses: Sequence[str] = ()
    ceiling: Callable[[Any, Any], int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Method(_Description):
    """A way to answer a question.

    Attributes:
        function: The prompt or the coroutine; see the package's docstring.
    """

    function: Callable[..., Any]

    @property
    def is_prompt(self) -> bool:
        """Whether the function gives a prompt, rather than making calls of its own."""
        return not inspect.iscoroutinefunction(self.function)

    def most(self, settings: Any, query: Any) -> int:  # noqa: ANN401
        """Completion tokens that answering can cost where no budget bounds it."""
        return self.ceiling(settings, query) if self.ceiling else settings.cutoff


METHODS: dict[str, Method] = {}


def methods() -> dict[str, Method]:
    """All methods by name; the package's own are loaded when they are first looked for."""
    import_module("pb_graph.methods")
    return METHODS


class method(_Description):  # noqa: N801 -- a decorator
    """Register a function as a method. A name's last function counts."""

    __slots__ = ()

    def __call__(self, function: _Function) -> _Function:
        """Register it; it stays what it is."""
        METHODS[self.name] = Method(**asdict(self), function=function)
        return function


def known_method(name: str) -> str:
    """The name, if there is a method of it.

    Raises:
        ValueError: There is none; it says which there are.
    """
    if name not in methods():
        close = did_you_mean(name, METHODS)
        msg = f"there is no method {name!r}; there are: {', '.join(METHODS)}{close}"
        raise ValueError(msg)
    return name
