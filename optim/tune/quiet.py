"""Keeps optimizers quiet: they print prompts and draw progress bars that cannot be turned off."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout

__all__ = ["quiet"]

_LOUD = ("dspy", "gepa", "optuna")


@contextmanager
def quiet() -> Iterator[None]:
    """Swallow what is printed and logged within; who has something to show keeps its own stream."""
    loggers = [logging.getLogger(name) for name in _LOUD]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
