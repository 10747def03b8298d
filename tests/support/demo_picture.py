"""Draw the picture of ``pb-graph demo``: `python -m tests.support.demo_picture`."""

from __future__ import annotations

import re
from io import StringIO
from pathlib import Path

from rich.console import Console

from pb_graph.cli.demo import draw, play

PICTURE = Path(__file__).parents[2] / "docs" / "pictures" / "demo.svg"


def main() -> None:
    """Run the demo, and write its last frame as an SVG without fonts of other sites."""
    runs = play(Console(file=StringIO()))
    console = Console(file=StringIO(), record=True, width=80, force_terminal=True)
    console.print(draw(runs))
    drawn = console.export_svg(title="pb-graph demo", unique_id="demo")
    PICTURE.write_text(re.sub(r"@font-face \{.*?\}\s*", "", drawn, flags=re.DOTALL), "utf-8")


if __name__ == "__main__":
    main()
