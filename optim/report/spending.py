"""What one question cost, call after call, under the ceiling that was known before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from optim.report.figures import Figure
from optim.report.formatting import number
from optim.report.panels import part_class
from optim.report.svg import Child, Scale, line, svg, tag, text, ticks
from optim.summary import PARTS

if TYPE_CHECKING:
    from pb_graph.types import Report

_WIDTH, _SIDE, _TOP = 480, 14, 44
_ROW, _BAR = 42, 14
_LETTERS = 48  # of a sub-question that have room beside its figures
_FAR = 4  # a ceiling beyond so many times what was spent is only named
_ENDINGS = {"length": ", cut off", "forced": ", stopped and asked for its result"}


@dataclass(frozen=True, slots=True)
class _Part:
    """Calls of one node, or for one sub-question; a cap is None where it has none of its own."""

    name: str
    kind: str
    tokens: int
    cap: int | None = None
    ending: str = ""


def plot_spending(report: Report) -> Figure:
    """Draw the completion tokens of one question, each part where the one before it ended.

    Args:
        report: ``out["report"]`` of the graph, or that of a record.

    Returns:
        A drawing that a notebook shows by itself. Its own background makes it readable on any page.
    """
    parts = list(_parts(report))
    spent, ceiling = report["usage"]["output_tokens"], report["ceiling"]
    height = _TOP + _ROW * len(parts) + 30
    near = ceiling is not None and ceiling <= _FAR * spent
    reach = max(ceiling or 0, spent) if near else 1.5 * spent
    scale = Scale(0, max(reach, 1), _SIDE, _WIDTH - _SIDE)
    limit = "" if ceiling is None else f" of at most {number(ceiling)}"
    title = f"{number(spent)}{limit} completion tokens"
    label = f"{title}: " + "; ".join(f"{part.name} {number(part.tokens)}" for part in parts)
    return Figure(
        svg(
            _WIDTH,
            height,
            label,
            tag("rect", x=0, y=0, width=_WIDTH, height=height, rx=8, class_="card"),
            text(_SIDE, 24, title, "head"),
            _axis(scale, height),
            list(_bars(parts, scale)),
            None if ceiling is None else _ceiling(scale, ceiling, height, near=near),
        )
    )


def _parts(report: Report) -> Iterator[_Part]:
    """In the order in which they are spent; steps that were solved by themselves are ``solve``."""
    nodes = report["usage"]["by_node"]
    for node in sorted(nodes, key=[*PARTS, *nodes].index):
        if node != "solve":
            yield _Part(PARTS.get(node, node), node, nodes[node]["output_tokens"])
            continue
        for place, step in enumerate(report["steps"], 1):
            name = f"{place}. {step['question']}"
            if len(name) > _LETTERS:
                name = name[: _LETTERS - 1] + "\N{HORIZONTAL ELLIPSIS}"
            finish = step["finish"] or ""
            kind = f"solve {finish}" if finish in _ENDINGS else "solve"
            yield _Part(name, kind, step["tokens"] or 0, step["cap"], _ENDINGS.get(finish, ""))


def _axis(scale: Scale, height: int) -> Iterator[Child]:
    for value in ticks(0, scale.high, 6):
        yield line(scale(value), _TOP - 8, scale(value), height - 24, "grid")
        yield text(scale(value), height - 9, number(value), "tick", "middle" if value else "start")


def _bars(parts: Sequence[_Part], scale: Scale) -> Iterator[Child]:
    done = 0
    for place, part in enumerate(parts):
        top = _TOP + _ROW * place + 19
        start, end = scale(done), scale(done + part.tokens)
        figures = number(part.tokens) if part.cap is None else (
            f"{number(part.tokens)} of {number(part.cap)}{part.ending}"
        )  # fmt: skip
        yield text(_SIDE, top - 6, part.name, "name")
        yield text(_WIDTH - _SIDE - 7, top - 6, figures, "tick", "end")
        if part.cap is not None:
            room = round(scale(done + part.cap) - start, 1)
            yield tag("rect", x=start, y=top, width=room, height=_BAR, class_="room")
        yield tag(
            "rect", x=start, y=top, width=round(end - start, 1), height=_BAR,
            class_=f"part {part_class(part.kind)}",
        )  # fmt: skip
        done += part.tokens


def _ceiling(scale: Scale, ceiling: int, height: int, *, near: bool) -> Iterator[Child]:
    if near:
        yield line(scale(ceiling), 30, scale(ceiling), height - 24, "limit")
    arrow = "" if near else " \N{RIGHTWARDS ARROW}"
    yield text(_WIDTH - _SIDE, 24, f"ceiling {number(ceiling)}{arrow}", "bound", "end")
