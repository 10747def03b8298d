"""What an evaluation shows while it runs: live totals of each method."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rich.console import Group
from rich.table import Table
from rich.text import Text

from optim.e3 import e3
from optim.ticker import Ticker

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from optim.gate import Purse
    from optim.tasks import Job
    from pb_graph.state import Report

__all__ = ["Board"]

_PERCENT = 100.0


@dataclass(slots=True)
class _Totals:
    job: Job
    scores: list[float] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    errors: int = 0

    @property
    def done(self) -> int:
        return len(self.scores) + self.errors


class Board(Ticker):
    """Shows accuracy, T and E³ so far; a table at a terminal, else a line now and then.

    Args:
        jobs: What is being run.
        purse: What has been spent.
        console: Where to.
    """

    def __init__(self, jobs: Sequence[Job], purse: Purse, console: Console) -> None:
        super().__init__(console, redirects=True)
        self._totals = {id(job): _Totals(job) for job in jobs}
        self._purse = purse
        self._began = time.monotonic()

    def scored(self, job: Job, score: float, report: Report) -> None:
        """Count an answer."""
        totals = self._totals[id(job)]
        totals.scores.append(score)
        totals.tokens.append(report["usage"]["output_tokens"])
        self._moved()

    def failed(self, job: Job, report: Report) -> None:  # noqa: ARG002 -- no figure without a score
        """Count an error."""
        self._totals[id(job)].errors += 1
        self._moved()

    def _line(self) -> Text:
        every = list(self._totals.values())
        done, errors = sum(t.done for t in every), sum(t.errors for t in every)
        samples = sum(totals.job.samples for totals in every)
        spent = f"{self._purse.spent} completion tokens spent"
        if self._purse.limit is not None:
            spent += f" of {self._purse.limit}"
        waited = f"{time.monotonic() - self._began:.0f} s"
        return Text(f"{done} of {samples} answers, {errors} errors, {spent}, {waited}")

    def _drawn(self) -> Group:
        grid = Table(box=None, header_style="bold", pad_edge=False)
        grid.add_column("method")
        for name in ("done", "errors", "accuracy %", "T", "E³"):
            grid.add_column(name, justify="right")
        for totals in self._totals.values():
            grid.add_row(Text(totals.job.method), *_cells(totals))
        return Group(grid, self._line())


def _cells(totals: _Totals) -> list[str]:
    counts = [f"{totals.done}/{totals.job.samples}", str(totals.errors)]
    n = len(totals.scores)
    if not n or not any(totals.tokens):
        return [*counts, "", "", ""]
    accuracy, tokens = _PERCENT * sum(totals.scores) / n, sum(totals.tokens) / n
    return [*counts, f"{accuracy:.1f}", f"{tokens:.0f}", f"{e3(totals.scores, totals.tokens):.2f}"]
