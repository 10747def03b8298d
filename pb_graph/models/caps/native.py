"""Policies for the APIs of Anthropic (Claude), Google (Gemini) and Ollama."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from pb_graph.models.caps.policy import MIN_THINKING, effort_level, known_levels, policy

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from pb_graph.models.options import CallOptions

_CLAUDE = re.compile(r"claude-([a-z]+)-(\d+)(?:-(\d{1,2})(?!\d))?")
# The least thinking of models that think unasked. Those from 5 on that are not here always think.
_LEAST_THINKING = {
    ("opus", 5, 0): "disabled",
    ("sonnet", 5, 0): "disabled",
    ("sonnet", 5, 5): "between_tools",
    ("haiku", 5, 5): "disabled",
}
_GEMINI_2 = re.compile(r"gemini-2\.5-(pro|flash-lite|flash)(-\d{3}|-preview-\d\d-\d\d(\d\d)?)?$")
_GEMINI_3 = re.compile(r"gemini-[3-9][\d.]*-(pro|flash|flash-lite)(-preview|-latest)?$")
# Least and most thinking tokens, by Google's page on thinking.
_GEMINI_RANGES = {"pro": (128, 32768), "flash": (0, 24576), "flash-lite": (512, 24576)}
# Ollama's options that its chat model has fields for.
OLLAMA_OPTIONS = (
    *("mirostat", "mirostat_eta", "mirostat_tau", "num_ctx", "num_gpu", "num_thread"),
    *("repeat_last_n", "repeat_penalty", "temperature", "seed", "stop", "tfs_z", "top_k", "top_p"),
)


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
    if thinking := _claude_thinking(settings, options):
        bound["thinking"] = thinking
    levels, default = known_levels(model)
    # Not as 'reasoning_effort': with that, LangChain switches adaptive thinking on.
    if level := effort_level(levels, options, default=default, own=_own_effort(settings)):
        bound["output_config"] = {"effort": level}
    return bound


def _claude_thinking(model: Any, options: CallOptions) -> dict[str, Any] | None:  # noqa: ANN401
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
    found = _CLAUDE.search(name)
    if found is None:
        return None
    family, number, part = found[1], int(found[2]), int(found[3] or 0)
    if number < 5:  # noqa: PLR2004 -- these think only when asked to
        return "disabled" if own.get("type") == "adaptive" else None
    return _LEAST_THINKING.get((family, number, part))


def _own_effort(model: Any) -> str | None:  # noqa: ANN401
    own: str | None = model.reasoning_effort or (model.output_config or {}).get("effort")
    return own


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
    if found := _GEMINI_2.fullmatch(name):
        return bound | ({} if level else _gemini_budget(found[1], budget, options))
    levels, default = known_levels(model)
    if not levels and _GEMINI_3.fullmatch(name):
        levels = ["low", "high"]
    asked = effort_level(levels, options, default=default, own=level) if budget is None else None
    return bound | ({"thinking_level": asked} if asked else {})


def _gemini_budget(family: str, own: int | None, options: CallOptions) -> dict[str, Any]:
    if own is None and family == "flash-lite":
        return {}
    least, most = _GEMINI_RANGES[family]
    budget = min(options.thinking_room, most)
    if budget < least:
        budget = least if family == "pro" else 0
    is_fitting = own is not None and 0 <= own <= budget  # -1 leaves it to the model
    return {} if is_fitting else {"thinking_budget": budget}


@policy(cls="langchain_ollama.ChatOllama")
def ollama(model: BaseChatModel, options: CallOptions) -> dict[str, Any]:
    """Cap a call of Ollama by ``num_predict``, which includes thinking.

    It has no thinking budget. Where fewer than 1,024 tokens are left for thinking, that is switched
    off, unless the caller has set it; gpt-oss cannot do without and is asked for a low level.
    Models that do not think take 'off' without complaint.

    Checked: the requests, with langchain-ollama 1.1. Not checked against a running Ollama.
    """
    settings: Any = model
    # The cap alone would be refused, and options that are given replace all of the caller's.
    given = {name: getattr(settings, name, None) for name in OLLAMA_OPTIONS}
    own = {name: value for name, value in given.items() if value is not None}
    bound: dict[str, Any] = {"options": {**own, "num_predict": options.cap}}
    is_tight = options.thinking == "bounded" and options.thinking_room < MIN_THINKING
    if options.thinking == "off" or (is_tight and settings.reasoning is None):
        bound["reasoning"] = "low" if "gpt-oss" in settings.model else False
    return bound
