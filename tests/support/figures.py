"""Figures of answers as objects, for tests that look at single ones."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace

from optim.records import Record
from optim.reporting.tables import answers, figures, to_rows


def rows(records: Iterable[Record]) -> list[SimpleNamespace]:
    return [SimpleNamespace(**row) for row in to_rows(figures(answers(records)))]
