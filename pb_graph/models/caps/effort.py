"""From tokens to levels: the reasoning effort that leaves room for an answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from pb_graph.models.options import CallOptions

# Google's own equation of levels and thinking tokens, for low, medium and high (Gemini API, OpenAI
# compatibility); Anthropic's least thinking budget, 1,024, agrees. The others are our extension.
ALLOWANCES = {
    "none": 0,
    "minimal": 512,
    "low": 1024,
    "medium": 8192,
    "high": 24576,
    "xhigh": 32768,
    "max": 65536,
}
MIN_THINKING = ALLOWANCES["low"]
"""Tokens below which thinking is rather switched off."""


def known_levels(model: BaseChatModel) -> tuple[list[str], str | None]:
    """Levels that LangChain's profile of a model names and we know, lowest first; its default."""
    profile: Any = getattr(model, "profile", None) or {}
    named = profile.get("reasoning_effort_levels") if profile.get("reasoning_output") else None
    known = [level for level in ALLOWANCES if level in (named or ())]
    return known, profile.get("reasoning_effort_default")


def effort(
    levels: Sequence[str],
    limits: CallOptions,
    *,
    default: str | None = None,
    own: str | None = None,
) -> str | None:
    """The level to ask for, or None to ask for none.

    It is the highest whose usual allowance fits into the room for thinking, else the lowest there
    is. It never exceeds what the model does unasked. What the caller has set stands, unless there
    is to be no thinking at all.

    Args:
        levels: What the model takes, lowest first.
        limits: Of the call.
        default: The level of the model unasked; None when that is not known.
        own: The level that the caller has set.
    """
    if not levels or limits.thinking == "free":
        return None
    fitting = [level for level in levels if ALLOWANCES[level] <= limits.thinking_room]
    level = fitting[-1] if fitting else levels[0]
    if own is not None:
        return level if limits.thinking == "off" and own != level else None
    return level if _lowers(level, levels, default) else None


def _lowers(level: str, levels: Sequence[str], default: str | None) -> bool:
    if default is not None:
        return ALLOWANCES[level] < ALLOWANCES.get(default, 0)
    # Those that can do without thinking may do so unasked, and a level above would make them think.
    return level == levels[0] or ("none" not in levels and level != levels[-1])
