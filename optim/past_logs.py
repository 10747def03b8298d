"""The logs that a folder already holds: what is done, what fits, and what has been superseded."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from optim.records import log_headers, records_of
from pb_graph.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from optim.records import LogHeader, Record
    from optim.tasks import Job

__all__ = ["Past"]

_DONE = "success"
# Conditions that are digests, which say nothing to a person.
_NAMES = {
    "solver": "the model's parameters",
    "planner": "the planner's parameters or program",
    "wording": "this version's prompts",
}


class Past:
    """What earlier runs have left in a folder.

    Args:
        folder: The log folder.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._headers = [h for h in log_headers(folder) if h.path.parent == folder]

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
        """Whether the job's latest log has every sample.

        Args:
            job: The job.
            errors: Whether samples that ended in an error count as missing.
        """
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

    def records(self, jobs: Sequence[Job]) -> list[Record]:
        """The records of the jobs' latest logs."""
        found = [header for job in jobs if (header := self._latest(job)) is not None]
        return [record for header in found for record in records_of(header)]

    def _latest(self, job: Job) -> LogHeader | None:
        return next((h for h in reversed(self._headers) if h.task == _task(job)), None)


def _task(job: Job) -> tuple[str, str, str, str]:
    return job.dataset, job.method, job.model, job.planner


def _changes(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """What differs, setting by setting."""
    old = {key: value for key, value in before.items() if key != "settings"} | before["settings"]
    new = {key: value for key, value in now.items() if key != "settings"} | now["settings"]
    return [
        f"{_NAMES[key]} changed" if key in _NAMES else f"{key}: {old.get(key)} → {new.get(key)}"
        for key in new
        if old.get(key) != new.get(key)
    ]
