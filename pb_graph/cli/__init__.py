"""The command ``pb-graph``."""

__all__ = ["main"]


def main() -> None:
    """Entry point of the console script."""
    from pb_graph.cli.app import app  # noqa: PLC0415 -- others take pieces of this folder only

    app()
