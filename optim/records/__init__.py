"""Measured answers, read from Inspect's logs: one record for each answer."""

from __future__ import annotations

from optim.records.logs import (
    BY_RUN,
    REMOTE,
    LogHeader,
    differences,
    log_headers,
    pool,
    read_records,
)
from optim.records.record import (
    PLANNING,
    LevelSource,
    Record,
    Records,
    is_empty_paid_answer,
    planning_tokens,
    was_truncated,
)

__all__ = [
    "BY_RUN",
    "PLANNING",
    "REMOTE",
    "LevelSource",
    "LogHeader",
    "Record",
    "Records",
    "differences",
    "is_empty_paid_answer",
    "log_headers",
    "planning_tokens",
    "pool",
    "read_records",
    "was_truncated",
]
