"""Tell small, large and thinking models apart, and decide what each class is asked and given.

`CLASSES` is the table, and `find_class` the one place where the class of a model is found. Planner,
solver and caps read the table; docs/models.md says why each value is what it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from langchain_core.language_models import BaseChatModel

from pb_graph.local.weights import CATALOG, LOCAL_PREFIX
from pb_graph.models.caps import CapPolicy, known_levels
from pb_graph.models.chat_models import name_of
from pb_graph.models.options import CallOptions
from pb_graph.types import ClassName, ClassSource


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelClass:
    """The defaults of a class of models.

    Attributes:
        name: Name of the class.
        settings: Values of the fields of `Settings` that were not set.
        planner_cap: Cap of a call to a planner of this class, in completion tokens.
        shows_examples: Whether the solver's prompt shows examples if no style was set.
        tells_total: Whether the solver is told the total of a question that is not split.
        told_part: The solver is told an enforced amount divided by this: the rest is for thinking.
        thinks: Whether a call may think before it answers, so that each call pays for thinking.
    """

    name: ClassName
    settings: Mapping[str, Any]
    planner_cap: int
    shows_examples: bool = False
    tells_total: bool = False
    told_part: int = 1
    thinks: bool = False


CLASSES: Mapping[ClassName, ModelClass] = {
    "small": ModelClass(
        name="small",
        settings={"plan_from": 4, "execution": "single_pass", "reserve": 48},
        planner_cap=384,
        shows_examples=True,
    ),
    "large": ModelClass(
        name="large",
        settings={"plan_from": 4, "execution": "stepwise", "reserve": 48},
        planner_cap=512,
    ),
    "thinking": ModelClass(
        name="thinking",
        # Each call would think anew, so a plan is solved in one call. A second call for the result
        # of a cut reply may have to think once more.
        settings={
            "plan_from": 4,
            "execution": "single_pass",
            "reserve": 256,
            "style": "plain",
        },
        planner_cap=2048,
        tells_total=True,
        # The totals of the paper are what its models are told; they think some 4 to 8 times as
        # much (its tables 1 and 2), and single questions twice that.
        told_part=12,
        thinks=True,
    ),
}
"""The classes by name."""

_SMALL = 3.0
"""Billions of parameters of the largest small model."""
_SIZE = re.compile(r"(?<![a-z0-9.])[ae]?(\d+(?:\.\d+)?)([bm])(?![a-z0-9])")
# Names as providers and hubs write them. A word of the first group is stronger than one of the
# second, and so on.
_NEVER_THINKING = re.compile(r"\b(?:non|no|without)-?(?:think|reason)")
_SAYS_THINKING = re.compile(
    r"(?<![a-z0-9])(?:r1|qwq|qvq|o[134]|(?:open)?thinker|think(?:ing)?|reason(?:er|ing))(?![a-z0-9])"
)
_NOT_THINKING = re.compile(r"(?<![a-z0-9])(?:instruct|coder|chat|it|embedding)(?![a-z0-9])")
_THINKING = re.compile(
    r"(?<![a-z0-9])(?:gpt-5(?!\.)|gpt-oss|qwen-?3(?:\.\d+)?(?!-max)|magistral|smollm3|deepscaler"
    r"|exaone-deep|deepseek-v[4-9]|gemini-(?:2\.5(?!-flash-lite)|[3-9])|grok-(?:3-mini|[4-9])"
    r"|glm-(?:4\.[5-9]|z1|[5-9])|minimax-m[1-9]|mimo|seed-oss|step-?3|skywork-or1|marco-o1"
    r"|hunyuan-(?:t1|a13b)|claude-(?:[a-z]+-)?[5-9])(?![a-z0-9])"
)
_PLAIN = re.compile(
    r"(?<![a-z0-9])(?:claude|gemini|gpt-(?:3\.5|4o?)|llama|mistral|mixtral|ministral|codestral|gemma"
    r"|phi|command|nova|granite|qwen-?2|deepseek-v[23](?!\.)|kimi-k2|falcon|olmo)(?![a-z])"
)
_WITHOUT_SYSTEM = re.compile(r"(?<![a-z0-9])r1(?![a-z0-9])")
_OFF = {"none", "minimal", "disabled", "False"}


class FoundClass(NamedTuple):
    """The class of a model, and what told it."""

    name: ClassName
    source: ClassSource


def find_class(model: BaseChatModel | str, given: ClassName | None = None) -> FoundClass:
    """Return the class of a model that has not replied yet.

    Args:
        model: The chat model, or the name of a model that is not made yet.
        given: The class that the user chose; None to find it.

    Returns:
        The class and its source: ``default`` where nothing tells the class. Such a model counts as
        large until a reply brings thinking.
    """
    if given is not None:
        return FoundClass(given, "given")
    name = model.removeprefix(LOCAL_PREFIX) if isinstance(model, str) else name_of(model)
    if name in CATALOG:
        return FoundClass("small", "catalog")
    short = name.lower().rpartition("/")[2]
    by_name, at_rest = _class_by_name(short), _class_by_size(short) or "large"
    if (own := _own_thinking(model)) is not None:
        return FoundClass("thinking" if own else at_rest, "model")
    profile: Mapping[str, Any] = getattr(model, "profile", None) or {}
    if (thinks := profile.get("reasoning_output")) is not None:
        # A profile says that a model *can* think. Older Claude models think only when asked to, and
        # so do the models of OpenAI that have the effort "none".
        levels, default = known_levels(model) if isinstance(model, BaseChatModel) else ([], None)
        is_asked = by_name == "large" or ("none" in levels and default in {None, "none"})
        return FoundClass("thinking" if thinks and not is_asked else at_rest, "profile")
    return FoundClass(by_name or "large", "name" if by_name else "default")


def takes_system_message(model: BaseChatModel) -> bool:
    """Return whether a model follows a system message: the makers of R1 advise against it."""
    return not _WITHOUT_SYSTEM.search(name_of(model).lower())


def can_stop_thinking(model: BaseChatModel, policy: CapPolicy) -> bool:
    """Return whether thinking can be turned off for a call, or nearly so.

    Args:
        model: The chat model.
        policy: The policy that turns options into arguments.
    """
    return any(
        f"{value}" in _OFF for value in _leaves(policy(model, CallOptions(1024, thinking="off")))
    )


def _class_by_name(name: str) -> ClassName | None:
    """Return the class that a name tells; None if the name tells nothing."""
    never = _NEVER_THINKING.search(name)
    if not never and _SAYS_THINKING.search(name):
        return "thinking"
    plain = never or _NOT_THINKING.search(name)
    if not plain and _THINKING.search(name):
        return "thinking"
    if by_size := _class_by_size(name):
        return by_size
    return "large" if plain or _PLAIN.search(name) else None


def _class_by_size(name: str) -> ClassName | None:
    """Return ``small`` where a name says that the model has at most 3 billion parameters."""
    # Of a mixture of experts, a name says the size of all experts and of those in use.
    sizes = [float(size) / (1 if unit == "b" else 1000) for size, unit in _SIZE.findall(name)]
    return "small" if sizes and max(sizes) <= _SMALL else None


def _own_thinking(model: BaseChatModel | str) -> bool | None:
    """Return whether the caller has turned thinking on or off on the model; None if neither."""
    names = ("reasoning_effort", "reasoning", "thinking", "thinking_budget", "thinking_level")
    values = [getattr(model, name, None) for name in names]
    body = getattr(model, "extra_body", None) or {}
    values += [body.get(name) for name in names]
    values.append((body.get("chat_template_kwargs") or {}).get("enable_thinking"))
    for value in values:
        if isinstance(value, Mapping):
            value = value.get("effort") or value.get("type")  # noqa: PLW2901
        if value is not None:
            return value not in {"none", "disabled", 0}  # 0: also False
    return None


def _leaves(arguments: object) -> Iterator[object]:
    """Yield the values of nested arguments."""
    if not isinstance(arguments, Mapping):
        yield arguments
        return
    for value in arguments.values():
        yield from _leaves(value)
