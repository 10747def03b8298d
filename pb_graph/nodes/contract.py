"""The contract between a node and whoever runs it: what it knows, and what it may ask for."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from langgraph.config import get_stream_writer

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

    from pb_graph.events import Event
    from pb_graph.models.caps import Thinking
    from pb_graph.models.reply import Purpose
    from pb_graph.planner.consultation import Consultation
    from pb_graph.settings import Context, Settings


@dataclass(frozen=True, slots=True)
class Say:
    """Ask the solver one thing, within a cap. The reply is a `Reply`."""

    messages: list[BaseMessage]
    cap: int
    purpose: Purpose
    thinking: Thinking = "bounded"
    follows: str | None = None
    """What of the final answer comes before the reply; None when it is no part of the answer."""


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask the planner one thing. The reply is an `Opinion`."""

    consultation: Consultation


@dataclass(frozen=True, slots=True)
class Run:
    """What a node may know besides the state: the settings and the context of this run."""

    settings: Settings
    context: Context

    def tell(self, event: Event) -> None:
        """Send a progress event to whoever streams in ``custom`` mode."""
        get_stream_writer()(event)


Update = dict[str, Any]
Steps = Generator[Say | Ask, Any, Update]
"""A node at work: yields what it asks for, is sent the reply, returns its state update."""

NodeFunction = Callable[[Any, Run], Steps]
