"""The folder of a run: its lock, its conditions, and one SQLite file of everything paid for.

A reply is on disk when `ReplyCache.put` returns, and a killed process leaves whole rows only. One
process writes the file: it holds the folder's lock.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import threading
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakValueDictionary

from filelock import FileLock, Timeout

from pb_graph.errors import InputError, PlanAndBudgetError
from pb_graph.models.reply import Reply
from pb_graph.types import Charge, Purpose

if TYPE_CHECKING:
    from filelock import AcquireReturnProxy

LOCK, RUN, REPLIES = ".pb-optim.lock", "run.json", "replies.sqlite"
"""Names of the files in a run folder."""

_TABLES = """
CREATE TABLE IF NOT EXISTS replies (key TEXT PRIMARY KEY, reply TEXT NOT NULL, tokens INTEGER);
CREATE TABLE IF NOT EXISTS lost (key TEXT NOT NULL, charges TEXT NOT NULL, tokens INTEGER);
CREATE TABLE IF NOT EXISTS results (key TEXT PRIMARY KEY, entry TEXT NOT NULL);
"""
_SPENT = "SELECT (SELECT TOTAL(tokens) FROM replies) + (SELECT TOTAL(tokens) FROM lost)"


class StorageError(PlanAndBudgetError):
    """The run folder cannot be written, so nothing more is paid for."""


def _storage_error(path: str | Path, error: Exception) -> StorageError:
    reason = getattr(error, "strerror", None) or error
    return StorageError(
        f"cannot write {path}: {reason}. Free some space or mend the folder, and rerun the same "
        "command: what was written before is not paid for again."
    )


def lock_run_dir(folder: Path) -> AcquireReturnProxy:
    """Make the folder if it does not exist, and lock it for this process until the context ends.

    Raises:
        InputError: Another process uses the folder, or it cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return FileLock(folder / LOCK, timeout=0).acquire()
    except Timeout:
        msg = f"another process is using the folder {folder}; wait, or use another one"
        raise InputError(msg) from None
    except (OSError, ValueError) as error:
        msg = f"cannot write to {folder}: {getattr(error, 'strerror', None) or error}"
        raise InputError(msg) from error


def check_run_conditions(folder: Path, conditions: Mapping[str, Any]) -> None:
    """Write down the conditions of the folder's run, as JSON, or check that they are these.

    Raises:
        InputError: The folder belongs to a run under other conditions; the error names them.
    """
    path, ours = folder / RUN, json.loads(json.dumps(dict(conditions)))
    if not path.exists():
        beside = path.with_suffix(".part")
        beside.write_text(json.dumps(ours, indent=2, ensure_ascii=False), encoding="utf-8")
        beside.replace(path)
    theirs = json.loads(path.read_text(encoding="utf-8"))
    names = sorted(theirs.keys() | ours.keys())
    other = [name for name in names if theirs.get(name) != ours.get(name)]
    if other:
        msg = (
            f"{folder} holds another run: its {', '.join(other)} differ from this command's. "
            "Repeat that run's command to continue it, or use another --run-dir."
        )
        raise InputError(msg)


class ReplyCache:
    """Replies of models by their request, with the cost of failed attempts.

    The cost of a failed call is kept as well, so that `spent` is all that the models wrote; the
    call itself is asked again.

    Args:
        path: The file. It is made when it does not exist.

    Attributes:
        failure: The reason why nothing more can be written. From then on no model is asked.
        results: Scores of answers under their keys, for tuning.

    Raises:
        StorageError: The file cannot be opened or written, or is no database.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.RLock()
        self._awaiting: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._blocking: WeakValueDictionary[str, threading.Lock] = WeakValueDictionary()
        self.failure: StorageError | None = None
        try:
            # Autocommit: every statement is on disk when it returns.
            self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=NORMAL")
            self._db.executescript(_TABLES)
            self._spent = int(self._db.execute(_SPENT).fetchone()[0])
        except sqlite3.Error as error:
            raise _storage_error(path, error) from error
        self.results = Results(self)

    @property
    def spent(self) -> int:
        """Completion tokens that the models wrote, in this run and in earlier ones."""
        with self._lock:
            return self._spent

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    @asynccontextmanager
    async def exclusive(self, key: str, *, blocking: bool) -> AsyncIterator[None]:
        """Hold a request while a model is asked: identical requests wait for its reply."""
        if blocking:
            with self._lock:
                lock = self._blocking.setdefault(key, threading.Lock())
            with lock:
                yield
        else:
            async with self._awaiting.setdefault(key, asyncio.Lock()):
                yield

    def get(self, key: str, purpose: Purpose) -> Reply | None:
        """Return the reply to a request, charged to this purpose as if it had just been made."""
        row = self.execute("SELECT reply FROM replies WHERE key = ?", key).fetchone()
        if row is None:
            return None
        reply = Reply.from_json(json.loads(row[0]))
        charged: Any = {"node": purpose.node, "step": purpose.step}
        lost = tuple(cast("Charge", charge | charged) for charge in reply.lost)
        return replace(reply, charge=cast("Charge", reply.charge | charged), lost=lost)

    def put(self, key: str, reply: Reply) -> None:
        """Keep a reply, unless it is empty and was free: then another try is worth it."""
        if not reply.text and not reply.tokens:
            return
        text = json.dumps(reply.to_json())
        with self._lock:
            self.write("INSERT OR REPLACE INTO replies VALUES (?, ?, ?)", key, text, reply.tokens)
            self._spent += reply.tokens

    def put_lost(self, key: str, lost: Iterable[Charge]) -> None:
        """Keep the cost of a call that failed in the end."""
        charges = list(lost)
        tokens = sum(charge["output_tokens"] for charge in charges)
        if charges:
            with self._lock:
                self.write("INSERT INTO lost VALUES (?, ?, ?)", key, json.dumps(charges), tokens)
                self._spent += tokens

    def execute(self, statement: str, *values: object) -> sqlite3.Cursor:
        """Execute one statement; threads take turns."""
        with self._lock:
            return self._db.execute(statement, values)

    def write(self, statement: str, *values: object) -> None:
        """Execute one statement that writes, or raise `StorageError` and keep it in `failure`."""
        try:
            self.execute(statement, *values)
        except sqlite3.Error as error:
            self.failure = _storage_error(self._path, error)
            raise self.failure from error


def spent_in(folder: Path) -> int:
    """Return the completion tokens that earlier runs in a folder spent."""
    if not (folder / REPLIES).exists():
        return 0
    cache = ReplyCache(folder / REPLIES)
    cache.close()
    return cache.spent


class Results:
    """JSON objects under keys, in the file of a `ReplyCache`."""

    def __init__(self, cache: ReplyCache) -> None:
        self._cache = cache

    def __len__(self) -> int:
        return int(self._cache.execute("SELECT COUNT(*) FROM results").fetchone()[0])

    def __contains__(self, key: str) -> bool:
        return self.get(key) is not None

    def get(self, key: str) -> dict[str, Any] | None:
        """Return the object under a key, or None."""
        row = self._cache.execute("SELECT entry FROM results WHERE key = ?", key).fetchone()
        return None if row is None else json.loads(row[0])

    def put(self, key: str, entry: Mapping[str, Any]) -> None:
        """Keep an object under a key, in the place of an earlier one."""
        text = json.dumps(dict(entry))
        self._cache.write("INSERT OR REPLACE INTO results VALUES (?, ?)", key, text)


@contextmanager
def report_disk_errors(folder: Path, cache: ReplyCache) -> Iterator[None]:
    """Raise `StorageError` if a run failed, or went on, with a folder that is not writable."""
    try:
        yield
    except Exception as error:
        cause: BaseException | None = error
        while cause is not None and not (isinstance(cause, OSError) and cause.errno):
            cause = cause.__cause__ or cause.__context__
        failure = _storage_error(folder, cause) if isinstance(cause, OSError) else error
        raise cache.failure or failure from error
    if cache.failure is not None:
        raise cache.failure
