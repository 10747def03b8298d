"""The policy for Claude, by Anthropic's API."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from pb_graph.models.caps.policy import MIN_THINKING, effort_level, known_levels, policy

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from pb_graph.models.options import CallOptions

_NAME = re.compile(r"claude-([a-z]+)-(\d+)(?:-(\d{1,2})(?!\d))?")
# The least thinking of models that think unasked. Those from 5 on that are not here always think.
_LEAST_THINKING = {
    ("opus", 5, 0): "disabled",
    ("sonnet", 5, 0): "disabled",
    ("sonnet", 5, 5): "between_tools",
    ("haiku", 5, 5): "disabled",
}


def _own_thinking_first(model: Any) -> dict[str, Any]:  # noqa: ANN401 -- ChatAnthropic
    """Move the caller's thinking to where a call's own has precedence."""
    if model.thinking is None:
        return {}
    return {"thinking": None, "model_kwargs": model.model_kwargs | {"thinking": model.thinking}}


@policy(cls="langchain_anthropic.ChatAnthropic", overrides=_own_thinking_first)
def anthropic(model: BaseChatModel, options: CallOptions) -> dict[str, Any]:
    """Cap a call of Claude; the cap includes thinking.

    Before 5, models think only when asked to, with ``budget_tokens`` that have to stay below the
    cap: they are lowered, or thinking is switched off. From 5 on, models think unasked: where fewer
    than 1,024 tokens are left for thinking, it is set to the least that the model allows. Effort is
    lowered to what fits, where the model's profile knows of effort. The caller's settings stand,
    unless they cannot fit into the cap, or there is to be no thinking at all.

    Checked: the requests, with langchain-anthropic 1.7. Not checked against Anthropic's servers.
    Sources: Anthropic's pages on thinking and effort.
    """
    settings: Any = model
    bound: dict[str, Any] = {"max_tokens": options.cap}
    if settings.default_request_timeout is None:
        bound["timeout"] = options.timeout
    if thinking := _thinking(settings, options):
        bound["thinking"] = thinking
    levels, default = known_levels(model)
    # Not as 'reasoning_effort': with that, LangChain switches adaptive thinking on.
    if level := effort_level(levels, options, default=default, own=_own_effort(settings)):
        bound["output_config"] = {"effort": level}
    return bound


def _thinking(model: Any, options: CallOptions) -> dict[str, Any] | None:  # noqa: ANN401
    own = model.thinking or model.model_kwargs.get("thinking") or {}
    if own.get("type") == "enabled":
        most = options.cap - 1 if options.thinking == "free" else options.thinking_room
        if own["budget_tokens"] <= most:
            return None
        if options.thinking_room < MIN_THINKING:  # the least budget that the API takes
            return {"type": "disabled"}
        return own | {"budget_tokens": options.thinking_room}
    least = _least_thinking(model.model, own)
    is_untouched = not own and not _own_effort(model)
    is_tight = options.thinking == "bounded" and options.thinking_room < MIN_THINKING
    if least and (options.thinking == "off" or (is_untouched and is_tight)):
        return {"type": least}
    return None


def _least_thinking(name: str, own: dict[str, Any]) -> str | None:
    found = _NAME.search(name)
    if found is None:
        return None
    family, number, part = found[1], int(found[2]), int(found[3] or 0)
    if number < 5:  # noqa: PLR2004 -- these think only when asked to
        return "disabled" if own.get("type") == "adaptive" else None
    return _LEAST_THINKING.get((family, number, part))


def _own_effort(model: Any) -> str | None:  # noqa: ANN401
    own: str | None = model.reasoning_effort or (model.output_config or {}).get("effort")
    return own
