"""Cap policies: which of them fits a model, and how their arguments are merged with a call's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeVar

from langchain_core.language_models import BaseChatModel

from pb_graph.models.options import CallOptions

CAP_NAMES = ("max_tokens", "max_completion_tokens", "max_output_tokens", "num_predict")
"""What LangChain's models and their servers call a cap."""


def capped_arguments(given: Mapping[str, Any], by_policy: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call, and over them a policy's; of Ollama's options only the cap."""
    arguments = {**given, **by_policy}
    if (own := given.get("options")) and (options := by_policy.get("options")):
        caps = {name: options[name] for name in CAP_NAMES if name in options}
        arguments["options"] = {**own, **caps}
    return arguments


CapPolicy = Callable[[BaseChatModel, CallOptions], dict[str, Any]]
"""Turns options into the keyword arguments that one call of a model understands."""

_Policy = TypeVar("_Policy", bound=CapPolicy)
Change = Callable[[Any], dict[str, Any]]
"""Fields to change in a copy of a model, so that its policy's arguments have the last word."""
Continuation = Literal["adds", "repeats"]

BY_NAME: dict[str, CapPolicy] = {}
BY_CLASS: dict[str, CapPolicy] = {}
BY_DOMAIN: dict[str, CapPolicy] = {}
CHANGES: list[tuple[CapPolicy, Change]] = []
CONTINUING: list[tuple[CapPolicy, Continuation]] = []


def policy(
    *,
    cls: str | None = None,
    domains: Sequence[str] = (),
    change: Change | None = None,
    continues: Continuation | None = None,
) -> Callable[[_Policy], _Policy]:
    """Register a policy for the models that it fits.

    Args:
        cls: Their class and its package: ``langchain_ollama.ChatOllama``.
        domains: Of servers that speak OpenAI's protocol: ``deepseek.com``.
        change: What else has to change in such a model. LangChain sends some of what a constructor
            was given beside, or instead of, what a call says.
        continues: What comes of an unfinished reply that ends the messages: their servers add to
            it, or repeat it and add to it. None where they do neither.
    """

    def register(made: _Policy) -> _Policy:
        BY_NAME[made.__name__] = made
        BY_CLASS.update({cls: made} if cls else {})
        BY_DOMAIN.update(dict.fromkeys(domains, made))
        CHANGES.extend([(made, change)] if change else [])
        CONTINUING.extend([(made, continues)] if continues else [])
        return made

    return register
