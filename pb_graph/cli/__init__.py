"""The command ``pb-graph``."""

import os

__all__ = ["main"]


def main() -> None:
    """Run the console script."""
    from pb_graph.cli.app import app  # noqa: PLC0415 -- others import parts of this folder only
    from pb_graph.cli.options import escape_unknown_letters  # noqa: PLC0415

    # Threads of a local model that wait leave their core to others.
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")
    escape_unknown_letters()
    app()
