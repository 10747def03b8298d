"""The policy for OpenAI's own API."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from pb_graph.models.caps.compatible import (
    response_format,
    text_format,
    timeout_argument,
    with_body,
    without_cap,
)
from pb_graph.models.caps.effort import effort, known_levels
from pb_graph.models.caps.limits import policy

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from pb_graph.models.options import CallOptions

# Of models without levels in LangChain's profiles: dated versions, and those before GPT-5.
_LEVELS = (
    (re.compile(r"^gpt-5(-mini|-nano)?-\d{4}-"), ["minimal", "low", "medium", "high"]),
    (re.compile(r"^gpt-5\.\d+(-mini|-nano)?-\d{4}-"), ["none", "low", "medium", "high"]),
    (re.compile(r"^o(1|3|3-mini|4-mini)(-\d{4}-.*)?$"), ["low", "medium", "high"]),
)
# They are made to think long; the first of them takes no level but 'high'.
_THINKS_LONG = re.compile(r"-pro(-\d|$)|deep-research")


@policy(domains=("api.openai.com", "openai.azure.com"), change=without_cap)
def openai(model: BaseChatModel, limits: CallOptions) -> dict[str, Any]:
    """OpenAI's models, by chat completions or by the Responses API, also on Azure.

    Both caps, ``max_completion_tokens`` and ``max_output_tokens``, include reasoning, for which
    there is no cap of its own. So the effort is lowered to what leaves room for an answer, unless
    the caller has set it. The API in use never changes: an effort goes out as ``reasoning_effort``
    in chat completions and within ``reasoning`` in responses.

    Checked: the requests, with langchain-openai 1.7. Not checked against OpenAI's servers: that
    each model takes all the levels its profile names, and how many tokens a level costs.
    """
    settings: Any = model
    bound = {"max_tokens": limits.cap, **timeout_argument(model, limits), **_effort(model, limits)}
    if settings.use_responses_api:
        return bound | text_format(model, limits)
    return bound | with_body(model, response_format(limits))


def _effort(model: BaseChatModel, limits: CallOptions) -> dict[str, Any]:
    settings: Any = model
    reasoning = settings.reasoning or {}
    own = settings.reasoning_effort or reasoning.get("effort")
    if {"reasoning_effort", "reasoning"} & {*settings.model_kwargs, *(settings.extra_body or ())}:
        return {}
    levels, default = _levels(model)
    level = effort(levels, limits, default=default, own=own)
    if level is None:
        return {}
    if reasoning:  # beside one of the caller's, LangChain would send a second word for the same
        return {"reasoning": {**reasoning, "effort": level}}
    return {"reasoning_effort": level}


def _levels(model: BaseChatModel) -> tuple[list[str], str | None]:
    settings: Any = model
    name = settings.model_name or ""
    if _THINKS_LONG.search(name):
        return [], None
    levels, default = known_levels(model)
    by_name = (levels for pattern, levels in _LEVELS if pattern.match(name))
    return levels or next(by_name, []), default
