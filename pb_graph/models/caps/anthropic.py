"""The policy for Claude, by Anthropic's API."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from pb_graph.models.caps.effort import MIN_THINKING, effort, known_levels
from pb_graph.models.caps.limits import policy

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from pb_graph.models.options import CallOptions

_LEAST_BUDGET = 1024  # of manual thinking
_LEAST_TASK = 20_000  # of a task budget

_NAME = re.compile(r"claude-([a-z]+)-(\d+)(?:-(\d{1,2})(?!\d))?")


class _Version(NamedTuple):
    family: str
    number: tuple[int, int]


_HAIKU = _Version("haiku", (5, 5))
_HAIKU_LEVELS = ("low", "medium", "high", "xhigh", "max")  # which LangChain's profile lacks
# What these, which think unasked, take to think least; Fable, Mythos and Opus 5.5 always think.
_LEAST_OF = {
    _Version("opus", (5, 0)): "disabled",
    _Version("sonnet", (5, 0)): "disabled",
    _Version("sonnet", (5, 5)): "between_tools",
    _HAIKU: "disabled",
}


def _own_thinking_first(model: Any) -> dict[str, Any]:  # noqa: ANN401 -- ChatAnthropic
    """The caller's thinking goes where a call's own has precedence."""
    if model.thinking is None:
        return {}
    return {"thinking": None, "model_kwargs": model.model_kwargs | {"thinking": model.thinking}}


@policy(cls="langchain_anthropic.ChatAnthropic", change=_own_thinking_first)
def anthropic(model: BaseChatModel, limits: CallOptions) -> dict[str, Any]:
    """Claude: the cap, which includes thinking, and what its generation has to hold thinking back.

    Before 5, models think only when asked to. ``budget_tokens`` of the caller's (up to 4.6) are
    lowered to leave room for an answer; below 1,024, the least there is, thinking is switched off.
    From 5 on, models think unasked and take no such budget: where fewer than 1,024 tokens are left
    for it, thinking is set to the least that the model allows. Effort is lowered to what fits,
    where the model knows of effort. Where it knows task budgets and the cap is at least their
    minimum, 20,000 tokens, it is told the cap, so that it can pace itself. What the caller has set
    stands, unless it cannot fit into the cap, or there is to be no thinking at all.

    Checked: the requests, with langchain-anthropic 1.7, which knows some of these rules itself and
    refuses what breaks them. Not checked against Anthropic's servers. Sources: Anthropic's pages
    on thinking, effort and task budgets.
    """
    settings: Any = model
    bound: dict[str, Any] = {"max_tokens": limits.cap}
    if settings.default_request_timeout is None:
        bound["timeout"] = limits.timeout
    if thinking := _thinking(settings, limits):
        bound["thinking"] = thinking
    # Not as 'reasoning_effort': with that, LangChain switches adaptive thinking on.
    if output := _effort(settings, limits) | _task_budget(settings, limits):
        bound["output_config"] = output
    return bound


def _thinking(model: Any, limits: CallOptions) -> dict[str, Any] | None:  # noqa: ANN401 -- ChatAnthropic
    own = model.thinking or model.model_kwargs.get("thinking") or {}
    if own.get("type") == "enabled":
        return _lowered(own, limits)
    least = _least(model, own)
    if least is None or limits.thinking == "free":
        return None
    untouched = not own and not _own_effort(model)
    if limits.thinking == "off" or (untouched and limits.thinking_room < MIN_THINKING):
        return {"type": least}
    return None


def _least(model: Any, own: dict[str, Any]) -> str | None:  # noqa: ANN401
    """The least thinking that a model can do, by its type, if it thinks and can do less."""
    version = _version(model)
    if version is None:
        return None
    if version.number < (5, 0):  # these think only when asked to
        return "disabled" if own.get("type") == "adaptive" else None
    return _LEAST_OF.get(version)


def _lowered(own: dict[str, Any], limits: CallOptions) -> dict[str, Any] | None:
    """The caller's thinking budget if it is too large; the API refuses one as large as the cap."""
    most = limits.cap - 1 if limits.thinking == "free" else limits.thinking_room
    if own["budget_tokens"] <= most:
        return None
    if limits.thinking_room < _LEAST_BUDGET:
        return {"type": "disabled"}
    return own | {"budget_tokens": limits.thinking_room}


def _effort(model: Any, limits: CallOptions) -> dict[str, Any]:  # noqa: ANN401
    levels, default = known_levels(model)
    if not levels and _version(model) == _HAIKU:
        levels, default = list(_HAIKU_LEVELS), "medium"
    level = effort(levels, limits, default=default, own=_own_effort(model))
    return {"effort": level} if level else {}


def _own_effort(model: Any) -> str | None:  # noqa: ANN401
    own: str | None = model.reasoning_effort or (model.output_config or {}).get("effort")
    return own


def _task_budget(model: Any, limits: CallOptions) -> dict[str, Any]:  # noqa: ANN401
    own = (model.output_config or {}).get("task_budget")
    told = limits.thinking == "bounded" and limits.cap >= _LEAST_TASK
    if own or not told or not _paces_itself(model):
        return {}
    return {"task_budget": {"type": "tokens", "total": limits.cap}}


def _paces_itself(model: Any) -> bool:  # noqa: ANN401
    """Whether the model is one of those that Anthropic's page on task budgets lists."""
    version = _version(model)
    if version is None:
        return False
    first = {"opus": (4, 7), "sonnet": (5, 5), "haiku": (5, 5), "fable": (5, 0), "mythos": (5, 0)}
    return version.family in first and version.number >= first[version.family]


def _version(model: Any) -> _Version | None:  # noqa: ANN401
    found = _NAME.search(model.model)
    return _Version(found[1], (int(found[2]), int(found[3] or 0))) if found else None
