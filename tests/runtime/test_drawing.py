"""The drawing of the graph: every node and edge, and no network."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

from langgraph.graph import END, START, StateGraph
from typing_extensions import TypedDict

from pb_graph import build_graph
from pb_graph.runtime.drawing import svg_of
from tests.support.chat_model import ScriptedChat


class _State(TypedDict):
    text: str


def _heights(svg: str) -> dict[str, int]:
    return {name: int(y) for y, name in re.findall(r'<text x="[^"]+" y="(\d+)">([^<]+)<', svg)}


def test_a_notebook_shows_the_graph_as_a_drawing_that_was_made_here() -> None:
    shown = build_graph(ScriptedChat())._repr_mimebundle_()
    assert set(shown) == {"text/plain", "image/svg+xml"}
    heights = _heights(shown["image/svg+xml"])
    order = sorted(heights, key=lambda name: heights[name])
    assert (order[0], order[1], order[-1]) == ("start", "intake", "end")
    assert order.index("plan") < order.index("estimate") < order.index("allocate")
    assert order.index("allocate") < order.index("solve") < order.index("finish")


def test_each_edge_is_drawn_once_and_dashed_where_it_depends_on_the_state() -> None:
    graph = build_graph(ScriptedChat()).get_graph()
    drawing = svg_of(graph)
    ET.fromstring(drawing)  # noqa: S314 -- our own
    assert drawing.count('class="edge') == len(graph.edges)
    assert drawing.count('class="edge choice"') == sum(edge.conditional for edge in graph.edges)


def test_names_are_data() -> None:
    name = "<script>&"
    builder = StateGraph(_State)
    builder.add_node(name, lambda state: state)
    builder.add_edge(START, name)
    builder.add_edge(name, END)
    drawing = svg_of(builder.compile().get_graph())
    assert "<script" not in drawing
    assert "&lt;script&gt;&amp;" in drawing
