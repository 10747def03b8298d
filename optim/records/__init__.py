"""Measured answers, read from Inspect's logs: one record for each answer."""

from __future__ import annotations

from optim.records.logs import read_records
from optim.records.record import (
    PLANNING,
    Record,
    Records,
    is_empty_paid_answer,
    planning_tokens,
    was_truncated,
)

__all__ = [
    "PLANNING",
    "Record",
    "Records",
    "is_empty_paid_answer",
    "planning_tokens",
    "read_records",
    "was_truncated",
]
