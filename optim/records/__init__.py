"""Measured answers, read from Inspect's logs: one record for each answer."""

from __future__ import annotations

from optim.records.logs import read_records
from optim.records.record import PLANNING, Record, Records, planning_tokens

__all__ = ["PLANNING", "Record", "Records", "planning_tokens", "read_records"]
