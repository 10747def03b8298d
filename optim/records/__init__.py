"""What was measured, read back from Inspect's logs: one record for each answer."""

from __future__ import annotations

from optim.records.logs import (
    REMOTE,
    LogHeader,
    is_there,
    location,
    log_headers,
    read_records,
    records_of,
)
from optim.records.record import (
    PLANNING,
    LevelSource,
    Record,
    Records,
    cut_off,
    level_of,
    paid_for_nothing,
    planning_tokens,
)

__all__ = [
    "PLANNING",
    "REMOTE",
    "LevelSource",
    "LogHeader",
    "Record",
    "Records",
    "cut_off",
    "is_there",
    "level_of",
    "location",
    "log_headers",
    "paid_for_nothing",
    "planning_tokens",
    "read_records",
    "records_of",
]
