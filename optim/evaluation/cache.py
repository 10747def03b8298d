"""The client in front of every model of a run: it asks for each reply once, and pays for it once.

Answers, plans and reflections go through it. A reply is identified by its request: the model, the
messages as they are sent, the cap, the schema, and the number of the sample. So a killed run
continues within a question, methods with the same request share the reply, and a change of this
package costs only the requests that it changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypedDict

from optim.datasets.dataset import digest
from pb_graph.budget.context import accounts_in_scope
from pb_graph.budget.ledger import spending
from pb_graph.errors import ModelCallError, PlanAndBudgetError
from pb_graph.models.client import ModelClient, WrapperClient
from pb_graph.models.io import IO, BlockingIO
from pb_graph.models.reply import Reply
from pb_graph.types import Charge

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from langchain_core.messages import BaseMessage

    from optim.evaluation.store import ReplyCache
    from pb_graph.models.options import CallOptions


class CacheMissError(PlanAndBudgetError):
    """A replay came to a request that has no reply yet."""


class Message(TypedDict):
    """One message of a prompt; its role is ``system``, ``human`` or ``ai``."""

    role: str
    content: str


class Call(TypedDict):
    """One model call as plain JSON: the model, its prompt, the reply, and the charge."""

    model: str
    messages: list[Message]
    text: str
    charge: Charge


@dataclass(slots=True)
class Recording:
    """The calls of one answer.

    Attributes:
        sample: Number of the sample of sampled replies, from 1: an evaluation's epoch.
        replay_only: Whether no model may be asked.
        calls: Every attempt in order; those of a shared reply stand in each answer that used it.
        request_counts: Count of identical requests so far. The n-th one gets the n-th reply.
    """

    sample: int = 1
    replay_only: bool = False
    calls: list[Call] = field(default_factory=list)
    request_counts: Counter[str] = field(default_factory=Counter)


_recording: ContextVar[Recording | None] = ContextVar("recording", default=None)


@contextmanager
def recording(record: Recording) -> Iterator[Recording]:
    """Record the calls that are made in this context, also by tasks that start in it."""
    token = _recording.set(record)
    try:
        yield record
    finally:
        _recording.reset(token)


class CachedClient(WrapperClient):
    """Asks a model for each reply once, and records every call in the current `recording`.

    A known reply has its original tokens and seconds, lost attempts included, as if it had been
    made anew: each method is charged the plan that it shares with others.

    Args:
        client: Asks the model.
        name: The name of the model in logs.
        identity: Identifies the model with everything besides the request that bears on its words.
        cache: Keeps the replies.
        one_sample: Whether every epoch gets the same replies.
        before: Called before the model is really asked. An error that it raises prevents the call.
    """

    def __init__(  # noqa: PLR0913 -- all but four by name
        self,
        client: ModelClient,
        name: str,
        identity: str,
        cache: ReplyCache,
        *,
        one_sample: bool = False,
        before: Callable[[], None] | None = None,
    ) -> None:
        super().__init__(client)
        self._cache = cache
        self._name, self._identity = name, identity
        self._one_sample, self._before = one_sample, before

    async def call(self, messages: Sequence[BaseMessage], options: CallOptions, io: IO) -> Reply:
        """Make one call, or return the reply that it once had; identical requests wait for it."""
        record = _recording.get() or Recording()
        asked = [Message(role=told.type, content=str(told.text)) for told in messages]
        sample = 1 if self._one_sample and not options.sampling else record.sample
        request: list[object] = [options.cap, options.schema, options.thinking, sample]
        request += [how for how in ("sampling", "continue_last") if getattr(options, how)]
        key = digest([self._identity, asked, *request])
        record.request_counts[key] += 1
        key = f"{key}-{record.request_counts[key]}"
        async with self._cache.exclusive(key, blocking=isinstance(io, BlockingIO)):
            reply = self._cache.get(key, options.purpose)
            if reply is None:
                if record.replay_only:
                    raise CacheMissError(key)
                if self._cache.failure is not None:
                    raise self._cache.failure
                if self._before is not None:
                    self._before()
                try:
                    reply = await self.wrapped.call(messages, options, io)
                except ModelCallError as error:
                    self._cache.put_lost(key, error.lost)
                    raise
                self._cache.put(key, reply)
            else:  # the budgets of the question are charged as if the model had been asked
                for account in accounts_in_scope():
                    account.charge(spending(reply.charges))
        for charge, text in [*((lost, "") for lost in reply.lost), (reply.charge, reply.text)]:
            record.calls.append(Call(model=self._name, messages=asked, text=text, charge=charge))
        return reply
