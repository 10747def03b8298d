"""HTML and SVG as values: whatever is not markup already is escaped when it becomes a child."""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape
from typing import TypeAlias

from pb_graph.errors import InputError

__all__ = ["Child", "Markup", "breakable", "joined", "tag"]

_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_VOID = frozenset({"br", "meta", "wbr"})
_LINKS = frozenset({"href", "src", "action", "formaction", "xlink-href"})


class Markup(str):
    """Text that is HTML already. Only `tag`, `joined` and our own style sheets make it."""

    __slots__ = ()


Child: TypeAlias = "str | float | Markup | Iterable[Child] | None"
"""What can stand within an element."""


def joined(*children: Child) -> Markup:
    """Put children one after another, each escaped unless it is markup."""
    return Markup("".join(_pieces(children)))


def tag(name: str, /, *children: Child, **attributes: str | float | None) -> Markup:
    """Make an element.

    Args:
        name: Of the element.
        children: Escaped unless they are markup; None is left out.
        attributes: ``_`` within a name stands for ``-``, one at its end for nothing; None leaves
            the attribute out. Handlers of events are refused, and so are links out of the page.

    Raises:
        InputError: An attribute that could run or load something.
    """
    opening = "".join([f"<{name}", *(_attribute(*pair) for pair in attributes.items()), ">"])
    return Markup(opening if name in _VOID else f"{opening}{joined(*children)}</{name}>")


def breakable(name: str) -> Markup:
    """A name that may go on in the next line after an underscore, a slash or a bracket."""
    return joined([piece, tag("wbr")] for piece in re.split(r"(?<=[_/\[])", name))


def _pieces(children: Iterable[Child]) -> Iterable[str]:
    for child in children:
        if isinstance(child, Markup):
            yield child
        elif isinstance(child, str | float | int):
            yield _escaped(str(child))
        elif child is not None:
            yield from _pieces(child)


def _attribute(name: str, value: str | float | None) -> str:
    if value is None:
        return ""
    name = name.rstrip("_").replace("_", "-")
    if name.startswith("on") or (name in _LINKS and not str(value).startswith("#")):
        msg = f"a report has no attribute {name}={str(value)[:40]!r}: its links stay in the page"
        raise InputError(msg)
    return f' {name}="{_escaped(str(value))}"'


def _escaped(text: str) -> str:
    # Lone surrogates, which a log's JSON may hold, cannot be written to a file.
    writable = text.encode("utf-8", "replace").decode("utf-8")
    return escape(_UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", writable), quote=True)
