"""Tell small, large and thinking models apart; docs/models.md has the reasons for `CLASSES`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from langchain_core.language_models import BaseChatModel

from pb_graph.local.weights import CATALOG, LOCAL_PREFIX
from pb_graph.models.caps import CapPolicy, known_levels
from pb_graph.models.options import CallOptions, name_of
from pb_graph.settings import ClassName


class ModelClass(NamedTuple):
    """The defaults of a class of models."""

    settings: Mapping[str, Any]  # for the fields of `Settings` that were not set
    planner_cap: int  # of a call to a planner of this class, in tokens
    thinking: Mapping[int, int] | None = None  # tokens by level, beside the budget of the answer
    budgets: Mapping[str, int] = {}  # by domain, instead of its own


CLASSES: Mapping[ClassName, ModelClass] = {
    "small": ModelClass(
        {"plan_from": None, "execution": "single_pass", "reserve": 48},
        384,
        budgets={"mathematics": 750},  # of answers without a cap, few longer ones were right
    ),
    "large": ModelClass({"plan_from": 4, "execution": "stepwise", "reserve": 48}, 512),
    "thinking": ModelClass(
        # A call for the result of a cut reply may think once more, so that its reserve is larger.
        {"plan_from": 4, "execution": "single_pass", "reserve": 256, "style": "plain"},
        2048,
        {1: 2200, 2: 2750, 3: 3850, 4: 4950, 5: 6600},
    ),
}

_SMALL = 3.0  # billions of parameters, at most
_SIZE = re.compile(r"(?<![a-z0-9.])[ae]?(?:(\d+(?:\.\d+)?)b|(\d{2,3})m)(?![a-z0-9])")
_TINY = re.compile(r"(?:tinyllama|smollm2?|llama3\.2|phi-?2)(?::latest)?")  # without a size


def _words(pattern: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![a-z0-9])(?:{pattern})(?![a-z0-9])")


# Names as providers and hubs write them.
_NEVER = _words(r"(?:non|no)-?(?:think|reason)(?:ing)?")
_ALWAYS = _words(
    r"r1|qwq|qvq|o[134]|(?:ace|open)?(?:think|reason)(?:er|ing)?|seed-oss|hunyuan-(?:t1|a13b)"
    r"|gpt-5\S*-(?:pro|codex)\S*"
)
_INSTRUCT = _words(r"instruct|coder|chat|it|embedding")
_THINKING = _words(
    r"gpt-5(?!\.)|gpt-oss|qwen-?3(?:\.\d+)?(?!-max)|magistral|smollm3|deepscaler|exaone-deep|mimo"
    r"|deepseek-v[4-9]|gemini-(?:2\.5(?!-flash-lite)|[3-9]|(?:pro|flash)-latest)|deepcoder|step-?3"
    r"|grok-(?:3-mini|code|[4-9])|glm-(?:4\.[5-9]v?|z1|[5-9])|minimax-m[1-9]|skywork-or1|marco-o1"
    r"|kimi-k(?:2\.[5-9]|[3-9])|nemotron-(?:nano-\d+b-v2|[3-9])|ernie-x1|claude-(?:[a-z]+-)?[5-9]"
)
_PLAIN = _words(
    r"claude(?:-[^/]*)?|gemini-\S*|gpt-(?:3\.5|4)\S*|llama\S*|mistral\S*|mixtral\S*|ministral\S*"
    r"|codestral\S*|gemma\S*|phi\S*|command\S*|nova\S*|granite\S*|qwen-?2\S*|kimi-k2\S*|olmo\S*"
)
_BY_STRENGTH = (_NEVER, _ALWAYS, _INSTRUCT, _THINKING, _PLAIN)  # the first that fits tells


class FoundClass(NamedTuple):
    """The class of a model, and what told it."""

    name: ClassName
    source: Literal["given", "catalog", "model", "profile", "name", "reply", "default"]


def find_class(model: BaseChatModel | str) -> FoundClass:
    """Return the class of a model or name: large by ``default``, until a reply brings thinking."""
    name = model.removeprefix(LOCAL_PREFIX) if isinstance(model, str) else name_of(model)
    if name in CATALOG:
        return FoundClass("small", "catalog")
    short = name.lower().rpartition("/")[2]
    # Of a mixture of experts, a name says the size of all experts and of those in use.
    sizes = [float(billions or 0) or int(rest) / 1000 for billions, rest in _SIZE.findall(short)]
    is_small = _TINY.fullmatch(short) or 0 < max(sizes, default=0) <= _SMALL
    at_rest: ClassName = "small" if is_small else "large"
    fitting = next((names for names in _BY_STRENGTH if names.search(short)), None)
    by_name: ClassName | None = at_rest if fitting or is_small else None
    if fitting in {_ALWAYS, _THINKING}:
        by_name = "thinking"
    if (own := _own_thinking(model)) is not None:
        return FoundClass("thinking" if own else at_rest, "model")
    thinks = (getattr(model, "profile", None) or {}).get("reasoning_output")
    if thinks is not None:
        # A profile says that a model *can* think. Older Claude models think only when asked to, and
        # so do the models of OpenAI that have the effort "none".
        levels, default = known_levels(model)
        can_rest = fitting is not _ALWAYS and "none" in levels and default in {None, "none"}
        is_idle = not thinks or by_name == "large" or can_rest
        return FoundClass(at_rest if is_idle else "thinking", "profile")
    return FoundClass(by_name or "large", "name" if by_name else "default")


def takes_system_message(model: BaseChatModel) -> bool:
    """Return whether a model follows a system message: the makers of R1 advise against it."""
    return not _words("r1").search(name_of(model).lower())


def can_stop_thinking(model: BaseChatModel, policy: CapPolicy) -> bool:
    """Return whether a policy turns thinking off for a call, or nearly so."""
    sent = str(policy(model, CallOptions(1024, thinking="off")))
    return any(word in sent for word in ("'none'", "'minimal'", "'disabled'", "False"))


def _own_thinking(model: BaseChatModel | str) -> bool | None:
    """Return whether the caller has turned thinking on or off on the model; None if neither."""
    names = ("reasoning_effort", "reasoning", "thinking", "thinking_budget", "thinking_level")
    bodies = (getattr(model, name, None) or {} for name in ("model_kwargs", "extra_body"))
    body = {name: value for given in bodies for name, value in given.items()}
    values = [value for name in names for value in (getattr(model, name, None), body.get(name))]
    values.append((body.get("chat_template_kwargs") or {}).get("enable_thinking"))
    for value in values:
        own = (value.get("effort") or value.get("type")) if isinstance(value, Mapping) else value
        if own is not None:
            return own not in {"none", "disabled", 0}  # 0: also False
    return None
