"""The policy for DeepSeek's own API."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from pb_graph.models.caps.compatible import capped_body, without_cap
from pb_graph.models.caps.effort import MIN_THINKING, effort
from pb_graph.models.caps.limits import policy

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from pb_graph.models.options import CallOptions

# The older 'deepseek-chat' and 'deepseek-reasoner' say by their names whether they think.
_HYBRIDS = re.compile(r"^deepseek-(v[4-9]|flash|pro)")


@policy(domains=("deepseek.com",), change=without_cap)
def deepseek(model: BaseChatModel, limits: CallOptions) -> dict[str, Any]:
    """DeepSeek's models, which think unless told otherwise, with effort 'high'.

    The cap includes thinking. Thinking is switched off where fewer than 1,024 tokens are left for
    it, and done with low effort where there are more; what the caller has set stands, unless there
    is to be none at all. No schema is sent: the API takes ``json_object`` only.

    Checked: the requests, with langchain-deepseek 1.1. Not checked against DeepSeek's servers.
    Source: DeepSeek's guide to thinking mode.
    """
    settings: Any = model
    body = settings.extra_body or {}
    if not _HYBRIDS.match(settings.model_name or "") or limits.thinking == "free":
        return capped_body(model, limits, {})
    own = settings.reasoning_effort or body.get("reasoning_effort")
    untouched = own is None and "thinking" not in body
    if limits.thinking == "off" or (untouched and limits.thinking_room < MIN_THINKING):
        return capped_body(model, limits, {"thinking": {"type": "disabled"}})
    level = effort(["low", "high", "max"], limits, default="high") if untouched else None
    bound = capped_body(model, limits, {})
    return bound | ({"reasoning_effort": level} if level else {})
