"""The contract of cap policies, and the reasoning effort that leaves room for an answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar

from langchain_core.language_models import BaseChatModel

from pb_graph.models.options import CallOptions

CapPolicy = Callable[[BaseChatModel, CallOptions], dict[str, Any]]
"""Turns the options of a call into the keyword arguments that one call of a model understands."""

Continuation = Literal["rest", "whole"]
"""The reply of a server that continues a last AI message: the rest of it, or the whole message."""

CAP_NAMES = ("max_tokens", "max_completion_tokens", "max_output_tokens", "num_predict")
"""Names of a cap in LangChain's models and in the requests to their servers."""

# Google's own equation of levels and thinking tokens, for low, medium and high (Gemini API, OpenAI
# compatibility); Anthropic's least thinking budget, 1,024, agrees. The others are our extension.
THINKING_TOKENS = {
    "none": 0,
    "minimal": 512,
    "low": 1024,
    "medium": 8192,
    "high": 24576,
    "xhigh": 32768,
    "max": 65536,
}
MIN_THINKING = THINKING_TOKENS["low"]
"""Tokens below which thinking is rather switched off."""

BY_NAME: dict[str, CapPolicy] = {}
BY_CLASS: dict[str, CapPolicy] = {}
BY_DOMAIN: dict[str, CapPolicy] = {}
OVERRIDES: dict[CapPolicy, Callable[[Any], dict[str, Any]]] = {}
CONTINUATIONS: dict[CapPolicy, Continuation] = {}

_Policy = TypeVar("_Policy", bound=CapPolicy)


def policy(
    *,
    cls: str | None = None,
    domains: Sequence[str] = (),
    overrides: Callable[[Any], dict[str, Any]] | None = None,
    continues: Continuation | None = None,
) -> Callable[[_Policy], _Policy]:
    """Register a policy for the models that it fits.

    Args:
        cls: Class of the models and its package: ``langchain_ollama.ChatOllama``.
        domains: Domains of servers that speak OpenAI's protocol: ``deepseek.com``.
        overrides: Returns the fields to change in a copy of such a model. LangChain sends some of
            what a constructor was given beside, or instead of, what a call says.
        continues: How its servers continue a last AI message; None if they do not.
    """

    def register(made: _Policy) -> _Policy:
        BY_NAME[made.__name__] = made
        BY_CLASS.update({cls: made} if cls else {})
        BY_DOMAIN.update(dict.fromkeys(domains, made))
        OVERRIDES.update({made: overrides} if overrides else {})
        CONTINUATIONS.update({made: continues} if continues else {})
        return made

    return register


def known_levels(model: BaseChatModel) -> tuple[list[str], str | None]:
    """Return the effort levels of a model's LangChain profile, lowest first, and its default."""
    profile: Any = getattr(model, "profile", None) or {}
    named = profile.get("reasoning_effort_levels") if profile.get("reasoning_output") else None
    known = [level for level in THINKING_TOKENS if level in (named or ())]
    return known, profile.get("reasoning_effort_default")


def effort_level(
    levels: Sequence[str],
    options: CallOptions,
    *,
    default: str | None = None,
    own: str | None = None,
) -> str | None:
    """Return the effort level to ask for, or None to leave the effort alone.

    The level is the highest whose usual thinking tokens fit, else the lowest. It never exceeds
    what the model does unasked. The caller's own level stands unless thinking is off.

    Args:
        levels: Levels that the model takes, lowest first.
        options: Of the call.
        default: Level of the model unasked; None if it is not known.
        own: Level that the caller has set.
    """
    if not levels or options.thinking == "free":
        return None
    fitting = [level for level in levels if THINKING_TOKENS[level] <= options.thinking_room]
    level = fitting[-1] if fitting else levels[0]
    if own is not None:
        return level if options.thinking == "off" and own != level else None
    if default is not None:
        return level if THINKING_TOKENS[level] < THINKING_TOKENS.get(default, 0) else None
    # A model that can do without thinking may do so unasked; a level above would make it think.
    is_lower = level == levels[0] or ("none" not in levels and level != levels[-1])
    return level if is_lower else None
