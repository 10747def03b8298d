"""One cache of replies in front of every model: what was paid for is asked and paid once.

Answers, plans and reflections go through it. A reply is known by the request itself: the model,
the messages as they are sent, the cap, the schema, and which sample of it is wanted. So a killed
run goes on within a question, methods that ask the same share the reply, and a change of this
package costs only the requests that it changes.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from contextlib import asynccontextmanager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypedDict, cast
from weakref import WeakValueDictionary

from optim.datasets.dataset import digest
from optim.evaluation.journal import Journal, StorageError
from pb_graph.errors import ModelCallError, PlanAndBudgetError
from pb_graph.models.client import ModelClient, WrapperClient
from pb_graph.models.io import IO, BlockingIO
from pb_graph.models.reply import Reply
from pb_graph.types import Charge, Purpose

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from langchain_core.messages import BaseMessage

    from pb_graph.models.options import CallOptions

REPLIES = "replies.jsonl"


class UnknownReplyError(PlanAndBudgetError):
    """A recall came to a request that was never answered."""


class Message(TypedDict):
    """One message of a prompt."""

    role: str
    """``system``, ``human`` or ``ai``."""
    content: str


class Call(TypedDict):
    """One model call as plain JSON: who was asked what, the reply, and the charge."""

    model: str
    messages: list[Message]
    text: str
    charge: Charge


@dataclass(slots=True)
class Recording:
    """The calls of one answer.

    Attributes:
        sample: Which sample of sampled replies it is made of, from 1: an evaluation's epoch.
        recalls: Whether it may only use replies that are known already.
        calls: Every attempt in order; those of a shared reply stand in each answer that used it.
        asked: How often it has asked each thing. The n-th time it gets the n-th reply to that.
    """

    sample: int = 1
    recalls: bool = False
    calls: list[Call] = field(default_factory=list)
    asked: Counter[str] = field(default_factory=Counter)


_recording: ContextVar[Recording | None] = ContextVar("recording", default=None)


@contextmanager
def recording(record: Recording) -> Iterator[Recording]:
    """Record the calls that are made within; also from tasks that start there."""
    token = _recording.set(record)
    try:
        yield record
    finally:
        _recording.reset(token)


class ReplyCache:
    """Every reply that was paid for, on disk, under its request.

    What failed calls are known to have cost is written down, too, so that `spent` is what the
    models wrote; but a failed call is asked again.

    Args:
        path: The file; made with the first reply.

    Attributes:
        spent: Completion tokens that all of it has cost, this run and earlier ones together.
        failure: Why nothing more can be written; from then on nothing is asked.

    Raises:
        InputError: A line within the file is damaged.
    """

    def __init__(self, path: Path) -> None:
        self._journal = Journal(path)
        self.spent = sum(map(_tokens, self._journal.entries()))
        self.failure: StorageError | None = None
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._lock = threading.Lock()

    @asynccontextmanager
    async def held(self, key: str, *, blocking: bool) -> AsyncIterator[None]:
        """While a reply is asked for: who wants the same waits; blocking calls take turns."""
        same = nullcontext() if blocking else self._locks.setdefault(key, asyncio.Lock())
        with self._lock if blocking else nullcontext():
            async with same:
                yield

    def get(self, key: str, purpose: Purpose) -> Reply | None:
        """The reply under a key, charged to this purpose as if it had just been made."""
        entry = self._journal.get(key)
        if entry is None or "text" not in entry:
            return None
        charged = {"node": purpose.node, "step": purpose.step}
        lost = tuple(cast("Charge", charge | charged) for charge in entry["lost"])
        return Reply(entry["text"], entry["finish"], entry["charge"] | charged, lost)

    def keep(self, key: str, reply: Reply) -> None:
        """Write a reply down, unless it is empty and was free: then it is worth another try."""
        if reply.text or reply.tokens:
            entry = {"text": reply.text, "finish": reply.finish, "charge": dict(reply.charge)}
            self._append(key, entry | {"lost": list(map(dict, reply.lost))})

    def keep_lost(self, key: str, lost: Iterable[Charge]) -> None:
        """Write down what a call has cost that failed in the end."""
        charges = [dict(charge) for charge in lost]
        if charges:
            self._append(key, {"lost": charges})

    def _append(self, key: str, entry: dict[str, Any]) -> None:
        self.spent += _tokens(entry)
        try:
            self._journal.append(key, entry)
        except StorageError as error:
            self.failure = error
            raise


class CachedClient(WrapperClient):
    """Asks a model each thing once, ever, and notes every call in the `recording` at hand.

    A known reply comes at its original tokens and seconds, lost attempts included, as if it had
    been asked for anew: each method is charged the plan that it shares with others.

    Args:
        client: Asks the model.
        name: What the model is called in logs.
        identity: Of the model, with everything beside the request that bears on what it says.
        cache: Keeps the replies.
        one_sample: Give every epoch the same replies: where nothing is sampled, and for plans
            that epochs share.
        before: Called before the model is really asked; what it raises keeps it from that.
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
        """Make one call, or give the reply it once had; who asks what is being asked waits for it.

        Raises:
            ModelCallError: The call failed for good.
            StorageError: Its reply cannot be kept, or an earlier one could not.
            UnknownReplyError: This is a recall, and there is no such reply.
        """
        record = _recording.get() or Recording()
        asked = [Message(role=told.type, content=str(told.text)) for told in messages]
        sample = 1 if self._one_sample and not options.sampling else record.sample
        request: list[object] = [options.cap, options.schema, options.thinking, sample]
        request += [how for how in ("sampling", "continue_last") if getattr(options, how)]
        key = digest([self._identity, asked, *request])
        record.asked[key] += 1
        key = f"{key}-{record.asked[key]}"
        async with self._cache.held(key, blocking=isinstance(io, BlockingIO)):
            reply = self._known(key, options.purpose, record)
            if reply is None:
                try:
                    reply = await self.wrapped.call(messages, options, io)
                except ModelCallError as error:
                    self._cache.keep_lost(key, error.lost)
                    raise
                self._cache.keep(key, reply)
        for charge, text in [*((lost, "") for lost in reply.lost), (reply.charge, reply.text)]:
            record.calls.append(Call(model=self._name, messages=asked, text=text, charge=charge))
        return reply

    def _known(self, key: str, purpose: Purpose, record: Recording) -> Reply | None:
        """The reply that there is; where there is none, see that one may be asked for."""
        reply = self._cache.get(key, purpose)
        if reply is None and record.recalls:
            raise UnknownReplyError(key)
        if reply is None and self._cache.failure is not None:
            raise self._cache.failure
        if reply is None and self._before is not None:
            self._before()
        return reply


def _tokens(entry: Mapping[str, Any]) -> int:
    """Completion tokens of an entry, those of lost attempts included."""
    charges = [*entry["lost"], *([entry["charge"]] if "charge" in entry else [])]
    return sum(int(charge["output_tokens"]) for charge in charges)
