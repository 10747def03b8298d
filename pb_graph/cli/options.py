"""Options of the form NAME=VALUE, as both commands take them."""

from __future__ import annotations

import json
from collections.abc import Sequence

from pb_graph.errors import InputError


def assignments(option: str, given: Sequence[str] | None) -> dict[str, str]:
    """The name and the text of each assignment.

    Raises:
        InputError: One has no equals sign.
    """
    found: dict[str, str] = {}
    for assignment in given or []:
        name, separator, text = assignment.partition("=")
        if not separator:
            msg = f"{option} wants NAME=VALUE, not {assignment!r}"
            raise InputError(msg)
        found[name.strip()] = text
    return found


def value_of(text: str) -> object:
    """JSON where it is JSON (numbers, true, objects), else the text itself."""
    try:
        return json.loads(text)
    except ValueError:
        return text
