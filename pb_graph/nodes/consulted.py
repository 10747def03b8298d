"""Asking the planner with one repair: what plan and estimate have in common."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from pb_graph.errors import ModelCallError
from pb_graph.nodes.contract import Ask

if TYPE_CHECKING:
    from pb_graph.planner.consultation import Consultation, Opinion


def consulted(ask: Consultation) -> Generator[Ask, Opinion, tuple[Any, list[str]]]:
    """Ask; when the reply cannot be read, say why and ask once more.

    Returns:
        The value, or None when there is none to be had, and what to put into the warnings.
    """
    from pb_graph.planner.consultation import UnreadableReplyError  # noqa: PLC0415

    what = ask.node
    try:
        try:
            opinion = yield Ask(ask)
        except UnreadableReplyError as unreadable:
            complaint = str(unreadable)
            opinion = yield Ask(ask.corrected(complaint))
            return opinion.value, [f"{what}: the first reply could not be read ({complaint})"]
    except UnreadableReplyError as unreadable:
        return None, [f"{what}: two replies could not be read ({unreadable}); going on without"]
    except ModelCallError as failure:
        return None, [f"{what}: {failure} Going on without."]
    return opinion.value, []
