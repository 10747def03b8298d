"""Draw the nodes and edges of the compiled graph: `python -m tests.support.graph_picture`."""

from __future__ import annotations

from html import escape
from pathlib import Path

from pb_graph import build_graph
from tests.support.chat_model import ScriptedChat

PICTURE = Path(__file__).parents[2] / "docs" / "pictures" / "graph.svg"
PRODUCT = ("plan", "estimate", "allocate", "solve", "synthesize")
"""The nodes of the paper's method; the others stand around them."""
UNDRAWN = {"__start__", "__end__", "no_answer"}

_WIDTH, _HEIGHT = 92, 34
_CENTRES = {
    "intake": (56, 100),
    "plan": (176, 100),
    "estimate": (296, 100),
    "allocate": (416, 100),
    "solve": (566, 100),
    "synthesize": (706, 100),
    "finish": (826, 100),
    "answer": (566, 178),
}
_PATHS = {
    ("intake", "plan"): ("M102 100 H130", None),
    ("plan", "estimate"): ("M222 100 H250", None),
    ("plan", "allocate"): ("M176 83 C176 30 416 30 416 83", ("one step", 296, 36)),
    ("estimate", "allocate"): ("M342 100 H370", None),
    ("allocate", "solve"): ("M462 94 H520", ("a wave of steps", 491, 78)),
    ("solve", "allocate"): ("M520 108 H462", ("next wave", 491, 124)),
    ("allocate", "synthesize"): ("M430 83 C446 30 706 30 706 83", ("all steps solved", 572, 36)),
    ("allocate", "answer"): ("M416 117 V178 H520", ("all steps in one call", 420, 196)),
    ("synthesize", "finish"): ("M752 100 H780", None),
    ("answer", "finish"): ("M612 178 H826 V117", None),
}
"""Path of each edge, and its label with the position of the label."""
_STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#3b6ea5;text-anchor:middle}"
    ".label{font-size:11px;fill:#7a7a7a}"
    "path{fill:none;stroke:#8a8a8a;stroke-width:1.4;marker-end:url(#tip)}"
    "rect{fill:none;stroke:#8a8a8a}.product{fill:#3b6ea5;stroke:#3b6ea5}"
    ".product+text{fill:#fff;font-weight:600}#tip path{fill:#8a8a8a;stroke:none}"
)


def edges() -> set[tuple[str, str]]:
    """Return the edges of the compiled graph between the nodes that are drawn."""
    drawn = build_graph(ScriptedChat()).get_graph().edges
    return {
        (edge.source, edge.target) for edge in drawn if not {edge.source, edge.target} & UNDRAWN
    }


def picture() -> str:
    """Return the drawing as an SVG that needs no font and no script of another site."""
    parts = []
    for edge in sorted(edges()):
        path, label = _PATHS[edge]
        parts.append(f'<path d="{path}"><title>{" to ".join(edge)}</title></path>')
        if label:
            text, x, y = label
            parts.append(f'<text class="label" x="{x}" y="{y}">{escape(text)}</text>')
    for name, (x, y) in _CENTRES.items():
        kind = ' class="product"' if name in PRODUCT else ""
        place = f'x="{x - _WIDTH // 2}" y="{y - _HEIGHT // 2}" width="{_WIDTH}" height="{_HEIGHT}"'
        parts.append(f'<rect{kind} {place} rx="6"/><text x="{x}" y="{y + 5}">{name}</text>')
    tip = '<marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
    tip += 'orient="auto"><path d="M0 0L8 4L0 8z"/></marker>'
    head = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 884 212" role="img" '
    head += 'aria-label="The nodes of the graph and the edges between them">'
    return "\n".join([head, f"<style>{_STYLE}</style><defs>{tip}</defs>", *parts, "</svg>", ""])


def main() -> None:
    """Write the drawing."""
    PICTURE.write_text(picture(), encoding="utf-8")


if __name__ == "__main__":
    main()
