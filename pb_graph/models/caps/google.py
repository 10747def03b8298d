"""The policy for Gemini, by Google's API."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from pb_graph.models.caps.policy import effort_level, known_levels, policy

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from pb_graph.models.options import CallOptions

_BUDGETED = re.compile(r"gemini-2\.5-(pro|flash-lite|flash)(-\d{3}|-preview-\d\d-\d\d(\d\d)?)?$")
_LEVELLED = re.compile(r"gemini-[3-9][\d.]*-(pro|flash|flash-lite)(-preview|-latest)?$")
# Least and most thinking tokens, by Google's page on thinking.
_RANGES = {"pro": (128, 32768), "flash": (0, 24576), "flash-lite": (512, 24576)}


@policy(cls="langchain_google_genai.ChatGoogleGenerativeAI")
def gemini(model: BaseChatModel, options: CallOptions) -> dict[str, Any]:
    """Cap a call of Gemini, thinking included, with a thinking budget (2.5) or level (3 and later).

    A thinking budget is the room that the cap leaves for thinking, within the model's range: 2.5
    Pro cannot do without, and 2.5 Flash-Lite does not think unasked. A budget of the caller's is
    lowered where it is too large, a level stands unless there is to be no thinking at all. Never
    both: the API refuses that. Google calls the budget soft.

    Checked: the requests, with langchain-google-genai 4.4. Not checked against Google's servers:
    the ranges, and that models newer than their profiles take the levels 'low' and 'high'.
    """
    settings: Any = model
    bound: dict[str, Any] = {"max_output_tokens": options.cap}
    if settings.timeout is None:
        bound["timeout"] = options.timeout
    if options.thinking == "free":
        return bound
    config = settings.thinking_config or {}
    level = settings.reasoning_effort or config.get("thinking_level")
    budget = settings.thinking_budget
    budget = config.get("thinking_budget") if budget is None else budget
    name = settings.model.removeprefix("models/")
    if found := _BUDGETED.fullmatch(name):
        return bound | ({} if level else _thinking_budget(found[1], budget, options))
    levels, default = known_levels(model)
    if not levels and _LEVELLED.fullmatch(name):
        levels = ["low", "high"]
    asked = effort_level(levels, options, default=default, own=level) if budget is None else None
    return bound | ({"thinking_level": asked} if asked else {})


def _thinking_budget(family: str, own: int | None, options: CallOptions) -> dict[str, Any]:
    if own is None and family == "flash-lite":
        return {}
    least, most = _RANGES[family]
    budget = min(options.thinking_room, most)
    if budget < least:
        budget = least if family == "pro" else 0
    is_fitting = own is not None and 0 <= own <= budget  # -1 leaves it to the model
    return {} if is_fitting else {"thinking_budget": budget}
