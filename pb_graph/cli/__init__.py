"""The command ``pb-graph``."""

__all__ = ["main"]


def main() -> None:
    """Run the console script."""
    from pb_graph.cli.app import app  # noqa: PLC0415 -- others import parts of this folder only
    from pb_graph.cli.options import run_command  # noqa: PLC0415

    run_command(app)
