"""Progress on a console: a live display at a terminal, else a line now and then."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from optim.e3 import e3
from optim.statistics.estimates import PERCENT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console, RenderableType

    from optim.evaluation.limits import TokenLimit
    from optim.evaluation.task import MethodTask
    from pb_graph.types import Report

_EVERY = 30.0  # seconds between two lines where nothing can be drawn over


class Progress(ABC):
    """A context manager that shows the progress of a run.

    Args:
        console: The console to draw on.
        redirects: Whether other output of the process is put above the display.
    """

    def __init__(self, console: Console, *, redirects: bool) -> None:
        self._console = console
        self._redirects = redirects
        self._began = self._said = time.monotonic()
        self._live: Live | None = None

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live = Live(
                console=self._console,
                transient=True,
                get_renderable=self._drawn,
                refresh_per_second=2,
                redirect_stdout=self._redirects,
                redirect_stderr=self._redirects,
            )
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    @abstractmethod
    def _line(self) -> Text:
        """Return the progress in one line."""

    def _drawn(self) -> RenderableType:
        """Return the progress for a terminal."""
        return self._line()

    def _told(self, done: str, errors: int, spent: int, most: int | None) -> Text:
        limit = "" if most is None else f" of {most}"
        waited = f"{time.monotonic() - self._began:.0f} s"
        return Text(
            f"{done} answers, {errors} errors, {spent} completion tokens spent{limit}, {waited}"
        )

    def _moved(self) -> None:
        """Print a line where no display is drawn and the last line is old enough."""
        now = time.monotonic()
        if not self._console.is_terminal and now - self._said >= _EVERY:
            self._said = now
            self._console.print(self._line())


@dataclass(slots=True)
class _Totals:
    scores: list[float] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    errors: int = 0

    @property
    def done(self) -> int:
        return len(self.scores) + self.errors


class EvaluationProgress(Progress):
    """Shows accuracy, T and E³ so far; a table at a terminal, else a line now and then."""

    def __init__(self, tasks: Sequence[MethodTask], limit: TokenLimit, console: Console) -> None:
        super().__init__(console, redirects=True)
        self._tasks = tasks
        self._totals = {id(task): _Totals() for task in tasks}
        self._limit = limit

    def scored(self, task: MethodTask, score: float, report: Report) -> None:
        """Count an answer."""
        totals = self._totals[id(task)]
        totals.scores.append(score)
        totals.tokens.append(report["usage"]["output_tokens"])
        self._moved()

    def failed(self, task: MethodTask) -> None:
        """Count an error."""
        self._totals[id(task)].errors += 1
        self._moved()

    def _line(self) -> Text:
        every = self._totals.values()
        done, errors = sum(t.done for t in every), sum(t.errors for t in every)
        samples = sum(task.samples for task in self._tasks)
        line = self._told(f"{done} of {samples}", errors, self._limit.spent, self._limit.most)
        tokens = [count for totals in every for count in totals.tokens]
        if tokens and done < samples:
            line.append(f"; at this rate {samples * sum(tokens) / len(tokens):,.0f} in all")
        return line

    def _drawn(self) -> Group:
        grid = Table(box=None, header_style="bold", pad_edge=False)
        grid.add_column("method")
        for name in ("done", "errors", "accuracy %", "T", "E³"):
            grid.add_column(name, justify="right")
        for task in self._tasks:
            totals = self._totals[id(task)]
            counts = [f"{totals.done}/{task.samples}", str(totals.errors)]
            grid.add_row(Text(task.method), *counts, *_figures(totals))
        return Group(grid, self._line())


def _figures(totals: _Totals) -> list[str]:
    n = len(totals.scores)
    if not any(totals.tokens):
        return ["", "", ""]
    accuracy, tokens = PERCENT * sum(totals.scores) / n, sum(totals.tokens) / n
    return [f"{accuracy:.1f}", f"{tokens:.0f}", f"{e3(totals.scores, totals.tokens):.2f}"]
