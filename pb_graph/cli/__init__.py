"""The command ``pb-graph``."""

import os

__all__ = ["main"]


def main() -> None:
    """Entry point of the console script."""
    from pb_graph.cli.app import app  # noqa: PLC0415 -- others take pieces of this folder only
    from pb_graph.cli.exit import print_any_letter  # noqa: PLC0415

    # Of a local model: threads that wait give up their core, where others compute, too.
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")
    print_any_letter()
    app()
