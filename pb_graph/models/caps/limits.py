"""What one call may use, how much of that is for thinking, and the policies that say so."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from langchain_core.language_models import BaseChatModel
from langchain_core.tools import BaseTool

Thinking = Literal["free", "bounded", "off"]
"""How much a model may think before it answers, where its provider lets one say.

``free``: as much as it does by itself; the cap is a safety net, not a budget. ``bounded``: so much
that an answer still fits into the cap. ``off``: not at all, or as little as the provider allows,
because thinking has used up its budget already and only the answer is missing.
"""

LEAST_ANSWER, MOST_ANSWER = 64, 1024

CAP_NAMES = ("max_tokens", "max_completion_tokens", "max_output_tokens", "num_predict")
"""What LangChain's models and their servers call a cap."""


def capped_arguments(given: Mapping[str, Any], by_policy: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call, and over them a policy's; of Ollama's options only the cap."""
    arguments = {**given, **by_policy}
    if (own := given.get("options")) and (options := by_policy.get("options")):
        caps = {name: options[name] for name in CAP_NAMES if name in options}
        arguments["options"] = {**own, **caps}
    return arguments


@dataclass(frozen=True, slots=True)
class Limits:
    """What one call may use.

    Attributes:
        cap: Completion tokens, reasoning included.
        timeout: Seconds.
        schema: JSON schema that the reply should follow, where the server can see to it.
        thinking: Whether the cap is a budget that thinking has to fit into.
        tools: What the model may call.
        strict: Whether an attempt whose bill is unknown uses up the cap, as it may have.
        sampled: Whether the reply is one of several that are to differ.
        continues: Whether the reply is a piece of a text, which a last turn of the model's begins.
        repeats: Whether the server says that beginning again, in front of the piece.
    """

    cap: int
    timeout: float
    schema: dict[str, Any] | None = None
    thinking: Thinking = "bounded"
    tools: tuple[BaseTool, ...] = ()
    strict: bool = False
    sampled: bool = False
    continues: bool = False
    repeats: bool = False

    @property
    def thinking_room(self) -> int:
        """Tokens for thinking: the cap without the headroom for the answer.

        The headroom is a quarter of the cap, at least 64 and at most 1,024 tokens; a cap of 64 or
        less is all for the answer.
        """
        if self.thinking == "off":
            return 0
        return max(0, self.cap - min(max(LEAST_ANSWER, self.cap // 4), MOST_ANSWER))


CapPolicy = Callable[[BaseChatModel, Limits], dict[str, Any]]
"""Turns limits into the keyword arguments that one call of a model understands."""

_Policy = TypeVar("_Policy", bound=CapPolicy)
Change = Callable[[Any], dict[str, Any]]
"""Fields to change in a copy of a model, so that its policy's arguments have the last word."""
Continuation = Literal["adds", "repeats"]

BY_NAME: dict[str, CapPolicy] = {}
BY_CLASS: dict[str, CapPolicy] = {}
BY_DOMAIN: dict[str, CapPolicy] = {}
CHANGES: list[tuple[CapPolicy, Change]] = []
CONTINUING: list[tuple[CapPolicy, Continuation]] = []


def policy(
    *,
    cls: str | None = None,
    domains: Sequence[str] = (),
    change: Change | None = None,
    continues: Continuation | None = None,
) -> Callable[[_Policy], _Policy]:
    """Register a policy for the models that it fits.

    Args:
        cls: Their class and its package: ``langchain_ollama.ChatOllama``.
        domains: Of servers that speak OpenAI's protocol: ``deepseek.com``.
        change: What else has to change in such a model. LangChain sends some of what a constructor
            was given beside, or instead of, what a call says.
        continues: What comes of an unfinished reply that ends the messages: their servers add to
            it, or repeat it and add to it. None where they do neither.
    """

    def register(made: _Policy) -> _Policy:
        BY_NAME[made.__name__] = made
        BY_CLASS.update({cls: made} if cls else {})
        BY_DOMAIN.update(dict.fromkeys(domains, made))
        CHANGES.extend([(made, change)] if change else [])
        CONTINUING.extend([(made, continues)] if continues else [])
        return made

    return register
