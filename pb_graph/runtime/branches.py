"""What other branches of a thread have spent, when a run goes on from an older checkpoint."""

from __future__ import annotations

from functools import reduce
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from langgraph.config import get_config
from langgraph.runtime import get_runtime

from pb_graph.budget.shared import Budget
from pb_graph.budget.snapshots import together
from pb_graph.runtime.langgraph_internals import checkpointer

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple

    Snapshot = Mapping[str, Any]

_PAGE = 20
_ATTEMPTS = 100  # to read a page while others write


async def known_everywhere(channel: str, kept: Snapshot, *, blocking: bool) -> Snapshot:
    """A run's account as all branches of its thread know it.

    An older checkpoint has the account as it was then; what later ones say was spent is spent, on
    whichever branch. A process that has the account itself knows what it has spent: it reads
    only the newest checkpoint, which tells whether another process has gone on since.

    Args:
        channel: Where the graph's state has the account.
        kept: What it has there.
        blocking: Whether reading blocks.
    """
    info, saver = get_runtime().execution_info, checkpointer()
    if not (info and saver):
        return kept
    at: RunnableConfig = {
        "configurable": {
            "thread_id": get_config()["configurable"]["thread_id"],
            "checkpoint_ns": info.checkpoint_ns.rpartition("|")[0],
        }
    }
    if Budget.is_known(kept):
        newest = await _page(saver, at, None, blocking=blocking, limit=1)
        told = [one for checkpoint in newest for one in _snapshots(checkpoint, channel)]
        if all(Budget.is_known(one) for one in told if one["id"] == kept["id"]):
            return kept
    found, ours = [kept], {info.checkpoint_id}
    before: RunnableConfig | None = None
    while page := await _page(saver, at, before, blocking=blocking):
        for checkpoint in page:
            found += _snapshots(checkpoint, channel)
            if _is_where_it_was_written(checkpoint, channel, kept, ours):
                return _told_by(found, kept["id"])
        before = page[-1].config
    return _told_by(found, kept["id"])


async def _page(
    saver: BaseCheckpointSaver[Any],
    at: RunnableConfig,
    before: RunnableConfig | None,
    *,
    blocking: bool,
    limit: int = _PAGE,
) -> list[CheckpointTuple]:
    """The next checkpoints, newest first, read to their end: a saver may hold a lock until then.

    LangGraph's `InMemorySaver` holds none: it goes through a dict, and a step that runs beside this
    one, in another thread, may add its checkpoint to it meanwhile.
    """
    attempts = 0
    while True:
        try:
            if blocking:
                return list(saver.list(at, before=before, limit=limit))
            return [one async for one in saver.alist(at, before=before, limit=limit)]
        except RuntimeError as error:
            attempts += 1
            if attempts == _ATTEMPTS or "changed size during iteration" not in str(error):
                raise


def _told_by(found: Sequence[Snapshot], name: str) -> Snapshot:
    """What snapshots of one account tell together, the latest of each process."""
    same = sorted((one for one in found if one["id"] == name), key=itemgetter("by"))
    latest = (reduce(together, by_one) for _, by_one in groupby(same, itemgetter("by")))
    return reduce(together, latest)


def _snapshots(checkpoint: CheckpointTuple, channel: str) -> Iterator[Snapshot]:
    """The account there, and after the tasks that have ended since."""
    if snapshot := checkpoint.checkpoint["channel_values"].get(channel):
        yield snapshot
    for _, written, value in checkpoint.pending_writes or ():
        if written == channel and isinstance(value, dict) and "id" in value:
            yield value


def _is_where_it_was_written(
    checkpoint: CheckpointTuple, channel: str, kept: Snapshot, ours: set[str]
) -> bool:
    """Whether nothing older need be read, newest first: whoever wrote ``kept`` there had done so.

    Args:
        checkpoint: The next one.
        channel: As above.
        kept: As above.
        ours: Ids of those that the run goes on from; the one before ``checkpoint`` is added to it
            if ``checkpoint`` has the account only by copying it.
    """
    if checkpoint.checkpoint["id"] not in ours:
        return False
    if checkpoint.checkpoint["channel_values"].get(channel) != kept or not checkpoint.parent_config:
        return True
    ours.add(checkpoint.parent_config["configurable"]["checkpoint_id"])
    return False
