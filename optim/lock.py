"""A folder of paid work is held by one process at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from filelock import FileLock, Timeout

from pb_graph.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

    from filelock import AcquireReturnProxy

__all__ = ["LOCK", "held"]

LOCK = ".pb-optim.lock"


def held(folder: Path) -> AcquireReturnProxy:
    """Make the folder where there is none, and take it.

    Returns:
        What lets go of it at the end of a ``with`` block, or by ``.lock.release()``. The system
        does when the process dies, however it does.

    Raises:
        InputError: Another process has it, or it cannot be written to.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return FileLock(folder / LOCK, timeout=0).acquire()
    except Timeout:
        msg = f"another process is using the folder {folder}; wait, or use another one"
        raise InputError(msg) from None
    except OSError as error:
        msg = f"cannot write to {folder}: {error.strerror}"
        raise InputError(msg) from error
