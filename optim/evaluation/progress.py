"""Progress on a console: a live line at a terminal, else a line now and then."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Self

from rich.live import Live
from rich.text import Text

if TYPE_CHECKING:
    from rich.console import Console

_EVERY = 30.0  # seconds between two lines where nothing can be drawn over


class Progress:
    """A context manager that shows how far a run is.

    Args:
        samples: Number of answers of the run.
        limit: Completion tokens after which no answer begins, or None.
        console: The console to draw on.
    """

    def __init__(self, samples: int, limit: int | None, console: Console) -> None:
        self._samples, self._console = samples, console
        self._of = "" if limit is None else f" of {limit}"
        self._began = self._printed = time.monotonic()
        self._counts = (0, 0, 0)
        self._live: Live | None = None

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live = Live(
                console=self._console,
                transient=True,
                get_renderable=self._line,
                refresh_per_second=2,
            )
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, spent: int, answers: int, errors: int) -> None:
        """Show the counts of the whole run so far.

        Args:
            spent: Completion tokens.
            answers: Answers, errors included.
            errors: Answers without a score.
        """
        self._counts = spent, answers, errors
        now = time.monotonic()
        if self._live is None and now - self._printed >= _EVERY:
            self._printed = now
            self._console.print(self._line())

    def _line(self) -> Text:
        spent, answers, errors = self._counts
        waited = f"{time.monotonic() - self._began:.0f} s"
        return Text(
            f"{answers} of {self._samples} answers, {errors} errors, {spent} completion tokens "
            f"spent{self._of}, {waited}"
        )
