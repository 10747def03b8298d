"""One plan for all methods of a question: asked once, charged to each method that uses it."""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from optim.fingerprint import digest
from optim.witness import said
from pb_graph.budget.ledger import Charge
from pb_graph.models.client import ChatClient
from pb_graph.models.reply import Purpose, Reply

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

    from optim.journal import Journal
    from pb_graph.models.caps import Limits
    from pb_graph.models.streaming import OnText

__all__ = ["SharedPlans"]


class SharedPlans(ChatClient):
    """Asks the planner a given thing once, ever; later it gives the same reply at the same charge.

    So the plan of a question is the same for every method and every epoch, as in the paper, and
    each of them is charged its original tokens and seconds, as if it had planned for itself. What
    tells two requests apart is the planner, the messages, the cap and the schema. Failed calls are
    not remembered.

    Args:
        client: Asks the planner.
        journal: Keeps the replies, so that another run need not pay for them again.
        identity: Of the planner, with everything that bears on what it says.
        paid: Told the completion tokens of every call that was really made.
    """

    def __init__(
        self,
        client: ChatClient,
        journal: Journal,
        identity: str,
        paid: Callable[[int], None] | None = None,
    ) -> None:
        super().__init__(client.model)
        self._client = client
        self._journal = journal
        self._identity = identity
        self._paid = paid
        self._locks: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._thread_lock = threading.Lock()

    def call(
        self,
        messages: Sequence[BaseMessage],
        limits: Limits,
        purpose: Purpose,
        hears: OnText | None = None,
    ) -> Reply:
        """Make one call, or give the reply it once had; one request at a time."""
        key = self._key(messages, limits)
        with self._thread_lock:
            known = self._recalled(key, purpose)
            return known or self._kept(key, self._client.call(messages, limits, purpose, hears))

    async def acall(
        self,
        messages: Sequence[BaseMessage],
        limits: Limits,
        purpose: Purpose,
        hears: OnText | None = None,
    ) -> Reply:
        """`call` for an event loop; who asks what is being asked waits for that reply."""
        key = self._key(messages, limits)
        async with self._locks[key]:
            known = self._recalled(key, purpose)
            return known or self._kept(
                key, await self._client.acall(messages, limits, purpose, hears)
            )

    def _key(self, messages: Sequence[BaseMessage], limits: Limits) -> str:
        return digest([self._identity, said(messages), limits.cap, limits.schema])

    def _recalled(self, key: str, purpose: Purpose) -> Reply | None:
        entry = self._journal.get(key)
        if entry is None:
            return None
        charge: dict[str, Any] = entry["charge"] | {"node": purpose.node, "step": purpose.step}
        return Reply(entry["text"], entry["finish"], cast("Charge", charge))

    def _kept(self, key: str, reply: Reply) -> Reply:
        if self._paid:
            self._paid(reply.tokens)
        entry = {"text": reply.text, "finish": reply.finish, "charge": dict(reply.charge)}
        self._journal.append(key, entry)
        return reply
