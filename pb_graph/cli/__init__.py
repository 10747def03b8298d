"""The command ``pb-graph``."""

__all__ = ["main"]


def main() -> None:
    """Entry point of the console script."""
    from pb_graph.cli.app import app  # noqa: PLC0415 -- others take pieces of this folder only
    from pb_graph.cli.exit import print_any_letter  # noqa: PLC0415

    print_any_letter()
    app()
