"""Describe one model call: options made in one place and handed through unread."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from pb_graph.types import Purpose

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool

Thinking = Literal["free", "low", "bounded", "off"]
"""The limit on thinking before an answer, for providers that let callers set one.

``free``: the model's own choice; the cap is a safety net, not a budget. ``low``: the same, at the
low effort where OpenAI's models take one, as in the paper. ``bounded``: an answer must
still fit into the cap. ``off``: not at all, or as little as the provider allows, because only the
answer is missing.
"""

TIMEOUT = 120.0
"""Default time limit of an attempt, in seconds."""
MIN_ANSWER, MAX_ANSWER = 64, 1024
_ANSWER = Purpose("answer")


@dataclass(frozen=True, slots=True)
class CallOptions:
    """The options of one call.

    Attributes:
        cap: Completion tokens, reasoning included, of all attempts together.
        timeout: Seconds of one attempt, unless the model object has a time limit of its own.
        schema: JSON schema that the reply should follow, where the server can enforce one.
        thinking: How much the model may think before it answers.
        tools: Tools that the model may call.
        purpose: The purpose that the call is charged to.
        sampling: Whether to sample, so that several replies to one prompt differ.
        continue_last: Whether the server continues the last message, which the model began.
        stream: Whether a host that streams may hear the reply: it is part of the final answer.
    """

    cap: int
    timeout: float = TIMEOUT
    schema: dict[str, Any] | None = None
    thinking: Thinking = "bounded"
    tools: tuple[BaseTool, ...] = ()
    purpose: Purpose = _ANSWER
    sampling: bool = False
    continue_last: bool = False
    stream: bool = False

    @property
    def is_free(self) -> bool:
        """Return whether the cap is no reason to think less."""
        return self.thinking in {"free", "low"}

    @property
    def thinking_room(self) -> int:
        """Return the tokens for thinking: the cap without the headroom for the answer.

        The headroom is a quarter of the cap, at least 64 and at most 1,024 tokens; a cap of 64 or
        less is all for the answer.
        """
        if self.thinking == "off":
            return 0
        return max(0, self.cap - min(max(MIN_ANSWER, self.cap // 4), MAX_ANSWER))
