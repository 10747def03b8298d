"""Chat clients that remember: every call made for a question, with its prompt and its charge."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, TypedDict

from pb_graph.budget.ledger import Charge
from pb_graph.models.client import ChatClient
from pb_graph.models.reply import Purpose, Reply

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

    from pb_graph.models.caps import Limits
    from pb_graph.models.streaming import OnText

__all__ = ["Call", "Said", "Witness", "listening", "said"]


class Said(TypedDict):
    """One message of a prompt."""

    role: str
    """``system``, ``human`` or ``ai``."""
    content: str


class Call(TypedDict):
    """One model call as plain JSON: who was asked what, the reply, and the charge."""

    model: str
    messages: list[Said]
    text: str
    charge: Charge


_calls: ContextVar[list[Call] | None] = ContextVar("calls", default=None)


@contextmanager
def listening() -> Iterator[list[Call]]:
    """Collect the calls that witnesses see within; also from tasks that start there."""
    calls: list[Call] = []
    token = _calls.set(calls)
    try:
        yield calls
    finally:
        _calls.reset(token)


def said(messages: Sequence[BaseMessage]) -> list[Said]:
    """Messages as plain JSON."""
    return [Said(role=message.type, content=str(message.text)) for message in messages]


class Witness(ChatClient):
    """Lets another client make the calls, and notes each attempt for whoever is `listening`.

    Args:
        client: Makes the calls.
        name: What its model is called in logs.
        paid: Told the completion tokens of every call.
    """

    def __init__(
        self, client: ChatClient, name: str, paid: Callable[[int], None] | None = None
    ) -> None:
        super().__init__(client.model)
        self._client = client
        self._name = name
        self._paid = paid

    def call(
        self,
        messages: Sequence[BaseMessage],
        limits: Limits,
        purpose: Purpose,
        hears: OnText | None = None,
    ) -> Reply:
        """Make one call."""
        return self._noted(messages, self._client.call(messages, limits, purpose, hears))

    async def acall(
        self,
        messages: Sequence[BaseMessage],
        limits: Limits,
        purpose: Purpose,
        hears: OnText | None = None,
    ) -> Reply:
        """`call` for an event loop."""
        reply = await self._client.acall(messages, limits, purpose, hears)
        return self._noted(messages, reply)

    def _noted(self, messages: Sequence[BaseMessage], reply: Reply) -> Reply:
        if self._paid:
            self._paid(reply.tokens)
        calls = _calls.get()
        if calls is not None:
            asked = said(messages)
            attempts = [*((charge, "") for charge in reply.lost), (reply.charge, reply.text)]
            for charge, text in attempts:
                calls.append(Call(model=self._name, messages=asked, text=text, charge=charge))
        return reply
