"""Manage the folder of a run: its lock, and an SQLite file with every paid reply.

`ReplyCache.put` returns once the reply is on disk, so a killed process leaves only complete rows.
The process that holds the lock of the folder is the only one that writes to the file.

`CachedClient` wraps every model of a run, in evaluations and in tuning, and requests each reply
once. A reply is identified by its request: the model, the messages as they are sent, the
cap, the schema, and the number of the sample. So a killed run continues within a question, methods
with the same request share the reply, and a change of this package costs only the requests that it
changes.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, cast
from weakref import WeakValueDictionary

from filelock import AcquireReturnProxy, FileLock, Timeout
from langchain_core.messages import BaseMessage

from optim.datasets.dataset import digest
from pb_graph.budget.account import ACCOUNTS, Budget
from pb_graph.budget.bill import spending, spent
from pb_graph.errors import InputError, ModelCallError, PlanAndBudgetError
from pb_graph.models.client import ModelClient
from pb_graph.models.options import CallOptions
from pb_graph.models.reply import IO, Reply
from pb_graph.types import Charge, Purpose

LOCK, REPLIES = ".pb-optim.lock", "replies.sqlite"
"""Names of the files in a run folder."""

_TABLES = """
CREATE TABLE IF NOT EXISTS replies (key TEXT PRIMARY KEY, reply TEXT NOT NULL, tokens INTEGER);
CREATE TABLE IF NOT EXISTS lost (key TEXT NOT NULL, charges TEXT NOT NULL, tokens INTEGER);
"""
_REFUSALS, _FEW = frozenset({401, 403, 404}), 3  # statuses, and calls until the run stops
_PAID = "SELECT reply, NULL FROM replies UNION ALL SELECT NULL, charges FROM lost"


class RunStoppedError(PlanAndBudgetError):
    """Nothing more can be answered, so the run stops."""


class StorageError(RunStoppedError):
    """A path of the run folder cannot be written."""

    def __init__(self, path: Path, error: Exception) -> None:
        super().__init__(
            f"cannot write {path}: {getattr(error, 'strerror', None) or error}. Free some space or "
            "mend the folder, and rerun the same command: nothing is paid for twice."
        )


class RefusedError(RunStoppedError):
    """The server refuses the key or does not know the model or the address."""


class CacheMissError(PlanAndBudgetError):
    """A replay needs a reply that is not stored."""


def lock_run_dir(folder: Path) -> AcquireReturnProxy:
    """Make the folder if it does not exist, and lock it for this process until the context ends."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return FileLock(folder / LOCK, timeout=0).acquire()
    except Timeout:
        msg = f"another process is using the folder {folder}; wait, or use another folder"
        raise InputError(msg) from None
    except OSError as error:
        msg = f"cannot write to {folder}: {error.strerror}"
        raise InputError(msg) from error


class ReplyCache:
    """Replies of models by their request, with the cost of failed attempts.

    The cost of a failed call is stored, too, so `spent` covers everything that the models wrote.
    The call itself is repeated.

    Args:
        path: The file. It is created if it does not exist.
        limit: The account of the run, charged with every reply, those of earlier runs included.

    Attributes:
        spent: Completion tokens that the models wrote, in this run and in earlier ones.
        failure: The reason why the run stops. From then on no model is asked.

    Raises:
        StorageError: If the file cannot be opened or written, or is no database.
    """

    def __init__(self, path: Path, limit: Budget | None = None) -> None:
        self._path, self.spent, self.limit = path, 0, limit
        self._pending: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self.failure: RunStoppedError | None = None
        try:
            # Autocommit: every statement is on disk when it returns.
            self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=NORMAL")
            self._db.executescript(_TABLES)
            for reply, lost in self._db.execute(_PAID):
                charges = Reply.from_json(json.loads(reply)).charges if reply else json.loads(lost)
                self._charge(charges)
        except sqlite3.Error as error:
            raise StorageError(path, error) from error
        except (LookupError, TypeError, ValueError) as error:
            msg = f"{path} is damaged or of another version ({error!r}): use another folder"
            raise InputError(msg) from error

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def pending(self, key: str) -> asyncio.Lock:
        """Return the lock of a request: identical requests wait for the reply of the first."""
        return self._pending.setdefault(key, asyncio.Lock())

    def get(self, key: str, purpose: Purpose) -> Reply | None:
        """Return the stored reply to a request, or None."""
        row = self._execute("SELECT reply FROM replies WHERE key = ?", key).fetchone()
        if row is None:
            return None
        reply = Reply.from_json(json.loads(row[0]))
        charged: Any = {"node": purpose.node, "step": purpose.step}
        lost = tuple(cast("Charge", charge | charged) for charge in reply.lost)
        return replace(reply, charge=cast("Charge", reply.charge | charged), lost=lost)

    def put(self, key: str, reply: Reply) -> None:
        """Store a reply, unless the reply is empty and was free."""
        if not reply.text and not reply.tokens:
            return
        text = json.dumps(reply.to_json())
        self._write("INSERT OR REPLACE INTO replies VALUES (?, ?, ?)", key, text, reply.tokens)
        self._charge(reply.charges)

    def put_lost(self, key: str, charges: Sequence[Charge]) -> None:
        """Store the cost of a call whose retries failed, too."""
        if charges:
            text, tokens = json.dumps(charges), spent(charges)
            self._write("INSERT INTO lost VALUES (?, ?, ?)", key, text, tokens)
            self._charge(charges)

    def _charge(self, charges: Sequence[Charge]) -> None:
        self.spent += spent(charges)
        if self.limit is not None:
            self.limit.charge(spending(charges))

    def _execute(self, statement: str, *values: object) -> sqlite3.Cursor:
        return self._db.execute(statement, values)

    def _write(self, statement: str, *values: object) -> None:
        """Execute one statement that writes, or raise `StorageError` and keep it in `failure`."""
        try:
            self._execute(statement, *values)
        except sqlite3.Error as error:
            self.failure = StorageError(self._path, error)
            raise self.failure from error


class Call(NamedTuple):
    """One model call: the model, its prompt, the reply, and the charge."""

    model: str
    messages: Sequence[BaseMessage]
    text: str
    charge: Charge


@dataclass(slots=True)
class Recording:
    """The calls of one answer.

    Attributes:
        sample: Number of the sample of sampled replies, from 1: an evaluation's epoch.
        replay_only: Whether model calls are forbidden.
        calls: Every attempt in order; calls with a shared reply are in each answer that used it.
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


class CachedClient(ModelClient):
    """A client that requests each reply once, and records every call in the current `recording`.

    A stored reply has its original tokens and seconds, lost attempts included, so each method is
    charged for the plan that it shares.

    Args:
        client: Asks the model.
        name: The name of the model in logs.
        identity: Identifies the model and all options that change its replies, besides the request.
        cache: Keeps the replies.
        one_sample: Whether every epoch gets the same replies.
        before: Called before each request. An error that it raises prevents the request.
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
        super().__init__(client.model)
        self.wrapped = client
        self._name, self._identity, self._cache = name, identity, cache
        self._one_sample, self._before = one_sample, before
        self._refusals = 0  # in a row

    async def call(self, messages: Sequence[BaseMessage], options: CallOptions, io: IO) -> Reply:
        """Make one call as `ModelClient.call`, or return the stored reply of an identical one."""
        record = _recording.get() or Recording()
        key = self._key(messages, options, record)
        async with self._cache.pending(key):
            reply = self._cache.get(key, options.purpose)
            if reply is not None:  # the question's budgets pay as if the model had been asked
                for account in ACCOUNTS.get():
                    account.charge(spending(reply.charges))
            elif record.replay_only:
                raise CacheMissError(key)
            elif self._cache.failure is not None:
                raise self._cache.failure
            else:
                reply = await self._ask(key, messages, options, io)
        for charge, text in [*((lost, "") for lost in reply.lost), (reply.charge, reply.text)]:
            record.calls.append(Call(self._name, messages, text, charge))
        return reply

    def _key(self, messages: Sequence[BaseMessage], options: CallOptions, record: Recording) -> str:
        contents = [{"role": message.type, "content": str(message.text)} for message in messages]
        sample = 1 if self._one_sample and not options.sampling else record.sample
        request: list[object] = [options.cap, options.schema, options.thinking, sample]
        request += [how for how in ("sampling", "continue_last") if getattr(options, how)]
        key = digest([self._identity, contents, *request])
        record.request_counts[key] += 1
        return f"{key}-{record.request_counts[key]}"

    async def _ask(
        self, key: str, messages: Sequence[BaseMessage], options: CallOptions, io: IO
    ) -> Reply:
        if self._before is not None:
            self._before()
        try:
            reply = await self.wrapped.call(messages, options, io)
        except ModelCallError as error:
            self._cache.put_lost(key, error.lost)
            self._refusals = self._refusals + 1 if error.status in _REFUSALS else 0
            if self._refusals >= _FEW:
                self._cache.failure = RefusedError(
                    f"{self._name} refused {self._refusals} calls in a row: {error}. Mend the key, "
                    "the model's name or the address, and rerun the same command."
                )
                raise self._cache.failure from error
            raise
        self._refusals = 0
        self._cache.put(key, reply)
        return reply
