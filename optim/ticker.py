"""Progress on a console: drawn over at a terminal, else a line now and then."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Self

from rich.live import Live

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.text import Text

__all__ = ["Ticker"]

_EVERY = 30.0  # seconds between two lines where nothing can be drawn over


class Ticker(ABC):
    """A context manager that shows how far it is.

    Args:
        console: Where to.
        redirects: Whether what others print meanwhile is put above what is drawn.
    """

    def __init__(self, console: Console, *, redirects: bool) -> None:
        self._console = console
        self._redirects = redirects
        self._said = time.monotonic()
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
        """How far it is, in a line."""

    def _drawn(self) -> RenderableType:
        """The same with more room."""
        return self._line()

    def _moved(self) -> None:
        """Something has changed: say so, if that was last said long ago."""
        now = time.monotonic()
        if not self._console.is_terminal and now - self._said >= _EVERY:
            self._said = now
            self._console.print(self._line())
