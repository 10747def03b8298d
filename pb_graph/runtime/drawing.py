"""The graph as a drawing that needs no network: its nodes in a column, its edges beside them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from langchain_core.runnables.graph import Edge, Graph

_ROW, _BOX, _WIDE = 46, 26, 132  # from node to node, height and width of a node
_REACH = 17  # how much further to the side an edge stands for each node that it passes
_STYLE = """
.g{--paper:#fdfdfb;--ink:#22262b;--quiet:#5d6670;--node:#e8eef5;--edge:#1f5fa8}
@media(prefers-color-scheme:dark){
.g{--paper:#16181b;--ink:#e3e4e1;--quiet:#9da5ad;--node:#22303f;--edge:#7fb0ea}}
.g .paper{fill:var(--paper)}.g .node{fill:var(--node);stroke:var(--edge)}
.g .end{fill:var(--paper);stroke:var(--quiet)}.g .edge{fill:none;stroke:var(--quiet)}
.g .choice{stroke-dasharray:4 3}.g .tip{fill:var(--quiet)}
.g text{fill:var(--ink);font:13px system-ui,sans-serif;text-anchor:middle}
"""


def svg_of(graph: Graph) -> str:
    """Draw a graph from top to bottom: forward edges on the right, those back on the left.

    Edges that depend on the state are dashed.
    """
    rows = {name: row for row, name in enumerate(_in_order(graph))}
    spans = [rows[edge.target] - rows[edge.source] for edge in graph.edges]
    right, left = (_REACH * max([0, *(way * span for span in spans)]) for way in (1, -1))
    middle, height = left + _WIDE / 2 + 14, _ROW * len(rows) - _ROW + _BOX + 20
    width = middle + _WIDE / 2 + right + 14
    drawn = [_edge(edge, rows, middle) for edge in graph.edges]
    drawn += [_node(name, row, middle) for name, row in rows.items()]
    label = f"A graph: {', '.join(f'{edge.source} to {edge.target}' for edge in graph.edges)}."
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="g" viewBox="0 0 {width:g} {height:g}" '
        f'width="{width:g}" height="{height:g}" role="img" aria-label="{escape(label)}">'
        f'<style>{_STYLE}</style><rect class="paper" width="100%" height="100%" rx="8"/>'
        f"{''.join(drawn)}</svg>"
    )


def _in_order(graph: Graph) -> list[str]:
    """Each node after those that lead to it, but for edges that go back."""
    after: dict[str, list[str]] = {name: [] for name in graph.nodes}
    for edge in graph.edges:
        after[edge.source].append(edge.target)
    seen: set[str] = set()

    def finished(name: str) -> Iterator[str]:
        seen.add(name)
        for other in after[name]:
            if other not in seen:
                yield from finished(other)
        yield name

    ends = [last for name in graph.nodes if name not in seen for last in finished(name)]
    return ends[::-1]


def _node(name: str, row: int, middle: float) -> str:
    inner = name.strip("_") if name.startswith("__") else name
    kind = "node" if inner == name else "end"
    return (
        f'<rect class="{kind}" x="{middle - _WIDE / 2:g}" y="{10 + _ROW * row}" width="{_WIDE}" '
        f'height="{_BOX}" rx="{_BOX / 2 if kind == "end" else 5:g}"/>'
        f'<text x="{middle:g}" y="{10 + _ROW * row + 18}">{escape(inner)}</text>'
    )


def _edge(edge: Edge, rows: Mapping[str, int], middle: float) -> str:
    start, end = rows[edge.source], rows[edge.target]
    kind = "edge choice" if edge.conditional else "edge"
    if end - start == 1:
        top, bottom = 10 + _ROW * start + _BOX, 10 + _ROW * end
        path = f"M{middle:g} {top}V{bottom - 6}"
        tip = f"M{middle:g} {bottom}l-4 -8h8z"
    else:
        side = 1 if end > start else -1  # leaves below a node's middle, arrives above it
        x = middle + side * _WIDE / 2
        y, to = (10 + _ROW * row + _BOX / 2 + way * 5 for row, way in ((start, side), (end, -side)))
        out = x + side * (_REACH * abs(end - start) * 4 / 3 - 6)  # a curve gets so far at 3/4 of it
        path = f"M{x:g} {y:g}C{out:g} {y:g} {out:g} {to:g} {x + side * 6:g} {to:g}"
        tip = f"M{x:g} {to:g}l{side * 8} -4v8z"
    return f'<path class="{kind}" d="{path}"/><path class="tip" d="{tip}"/>'
