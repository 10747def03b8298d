"""The lock of a run folder, and the conditions of the run that it belongs to."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout

from pb_graph.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from filelock import AcquireReturnProxy

LOCK, RUN = ".pb-optim.lock", "run.json"


def lock_run_dir(folder: Path) -> AcquireReturnProxy:
    """Make the folder if it does not exist, and lock it for this process.

    Returns:
        A context manager that releases the lock; ``.lock.release()`` does the same. The system
        releases it when the process dies.

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
    """Write down the conditions of the folder's run, or check that they are these.

    Args:
        folder: The run folder, locked by this process.
        conditions: Everything that bears on the run, as JSON.

    Raises:
        InputError: The folder belongs to a run under other conditions; the error names them.
    """
    path, ours = folder / RUN, json.loads(json.dumps(dict(conditions)))
    if not path.exists():
        beside = path.with_suffix(".part")
        beside.write_text(json.dumps(ours, indent=2, ensure_ascii=False), encoding="utf-8")
        beside.replace(path)
        return
    try:
        theirs = json.loads(path.read_text(encoding="utf-8")) | {}
    except (OSError, ValueError, TypeError) as error:
        msg = f"cannot read {path}: {error}. Use another --run-dir."
        raise InputError(msg) from error
    names = sorted(theirs.keys() | ours.keys())
    other = [name for name in names if theirs.get(name) != ours.get(name)]
    if other:
        msg = (
            f"{folder} holds another run: its {', '.join(other)} differ from this command's. "
            "Repeat that run's command to continue it, or use another --run-dir."
        )
        raise InputError(msg)
