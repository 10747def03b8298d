"""What a folder of paid work holds, whose it is, and what is left to do in it."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout

from pb_graph.errors import InputError
from pb_graph.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from filelock import AcquireReturnProxy

    from optim.evaluation.task import Job
    from optim.records import LogHeader, Records

LOCK, RUN = ".pb-optim.lock", "run.json"
_FORMER = ("answers.jsonl", "plans.jsonl")
_DONE = "success"
# Conditions that are digests, which say nothing to a person.
_NAMES = {"solver": "the model's parameters", "planner": "the planner's parameters or program"}


class FolderInUseError(InputError):
    """Another process has the folder."""


def held(folder: Path) -> AcquireReturnProxy:
    """Make the folder where there is none, and take it for this process.

    Returns:
        What lets go of it at the end of a ``with`` block, or by ``.lock.release()``. The system
        does when the process dies, however it does.

    Raises:
        FolderInUseError: Another process has it.
        InputError: It cannot be written to, or its name, which is printed and logged, has control
            characters.
    """
    if not str(folder).isprintable():
        msg = f"the folder {str(folder)!r} has control characters in its name; use another one"
        raise InputError(msg)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return FileLock(folder / LOCK, timeout=0).acquire()
    except Timeout:
        msg = f"another process is using the folder {folder}; wait, or use another one"
        raise FolderInUseError(msg) from None
    except OSError as error:
        msg = f"cannot write to {folder}: {error.strerror}"
        raise InputError(msg) from error


def refuse_former(folder: Path) -> None:
    """Refuse to go on with the paid answers of the format before this one.

    Raises:
        InputError: The folder holds such.
    """
    former = [name for name in _FORMER if (folder / name).exists()]
    if former:
        msg = (
            f"{folder} holds {' and '.join(former)} of an earlier version, which this one cannot "
            "go on with. Use a new folder. What is finished there can still be read, such as with "
            "`pb-optim report`."
        )
        raise InputError(msg)


def claim(folder: Path, conditions: Mapping[str, Any]) -> None:
    """Write down what run the folder belongs to, or check that it is this one.

    Raises:
        InputError: The folder belongs to a run under other conditions; the error names them.
    """
    path, ours = folder / RUN, json.loads(json.dumps(dict(conditions)))
    if not path.exists():
        beside = path.with_suffix(f".{os.getpid()}.part")
        beside.write_text(json.dumps(ours, indent=2, ensure_ascii=False), encoding="utf-8")
        beside.replace(path)
        return
    theirs = _read(path)
    names = sorted(theirs.keys() | ours.keys())
    other = [name for name in names if theirs.get(name) != ours.get(name)]
    if other:
        msg = (
            f"{folder} holds another run: its {', '.join(other)} differ from this command's. "
            "Repeat that run's command to go on with it, or use another --run-dir."
        )
        raise InputError(msg)


class LogFolder:
    """What earlier evaluations have left in a folder."""

    def __init__(self, folder: Path) -> None:
        from optim.records import is_there, log_headers  # noqa: PLC0415 -- tuning needs neither

        self._folder = folder
        headers = log_headers(folder) if is_there(folder) else []
        self._headers = [h for h in headers if h.path.parent == folder]

    def check(self, jobs: Sequence[Job]) -> None:
        """Refuse to mix: the latest log of a task counts, so it has to be of the same conditions.

        Raises:
            InputError: The folder holds one of the tasks under other conditions.
        """
        for job in jobs:
            header = self._latest(job)
            if header is None:
                continue
            before = header.metadata["conditions"]
            now = json.loads(json.dumps(job.metadata["conditions"]))
            changes = _changes(before, now)
            if changes:
                msg = (
                    f"{self._folder} already holds {job.method!r} on {job.dataset!r} under other "
                    f"conditions ({', '.join(changes)}). Use another --log-dir, so that tables do "
                    "not mix them."
                )
                raise InputError(msg)

    def completed(self, job: Job, *, errors: bool) -> bool:
        """Whether the job's latest log has every sample; with ``errors``, none that failed."""
        header = self._latest(job)
        if header is None or header.log.status != _DONE:
            return False
        if header.metadata["fingerprint"] != job.fingerprint:
            return False
        failed, samples = header.errors_and_samples()
        return samples == job.samples and not (errors and failed)

    def clear_up(self, jobs: Sequence[Job]) -> None:
        """Remove the unfinished logs of these jobs: newer ones hold all that was in them."""
        tasks = {_task(job) for job in jobs}
        for header in self._headers:
            if header.task in tasks and header.log.status != _DONE:
                header.path.unlink(missing_ok=True)

    def records(self, jobs: Sequence[Job]) -> Records:
        """The records of the jobs' latest logs."""
        from optim.records import Records, records_of  # noqa: PLC0415
        from optim.records.parts import pooled  # noqa: PLC0415

        headers = [header for job in jobs if (header := self._latest(job)) is not None]
        logs = [[(header, list(records_of(header)))] for header in headers]
        return Records(record for log in logs for record in pooled(log, partial=True))

    def _latest(self, job: Job) -> LogHeader | None:
        return next((h for h in reversed(self._headers) if h.task == _task(job)), None)


def _read(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        msg = f"cannot read {path}: {error}. Use another --run-dir."
        raise InputError(msg) from error
    if not isinstance(content, dict):
        msg = f"{path} is no run's description. Use another --run-dir."
        raise InputError(msg)
    return content


def _task(job: Job) -> tuple[str, str, str, str]:
    return job.dataset, job.method, job.model, job.planner


def _changes(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """What differs, setting by setting. A setting that is newer than a log had its default."""
    defaults = Settings().model_dump(mode="json")
    old = before | {"settings": None} | defaults | before["settings"]
    new = now | {"settings": None} | now["settings"]
    return [
        f"{_NAMES[key]} changed" if key in _NAMES else f"{key}: {old.get(key)} → {new.get(key)}"
        for key in new
        if old.get(key) != new.get(key)
    ]
