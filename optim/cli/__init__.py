"""Define ``pb-optim``: measure methods on a data set, report the figures, and tune."""

from optim.cli.commands import app, main
from pb_graph.cli.options import FAILED, INTERRUPTED, USAGE

__all__ = ["FAILED", "INTERRUPTED", "USAGE", "app", "main"]
