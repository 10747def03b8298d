"""``pb-optim``: measure methods on a data set, look at what was measured, and improve on it."""

from __future__ import annotations

from optim.cli import evaluate, logs, simulation, tuning
from optim.cli.application import app
from pb_graph.exits import FAILED, INTERRUPTED, USAGE

__all__ = [
    "FAILED",
    "INTERRUPTED",
    "USAGE",
    "app",
    "evaluate",
    "logs",
    "main",
    "simulation",
    "tuning",
]


def main() -> None:
    """Entry point of the console script."""
    app()
