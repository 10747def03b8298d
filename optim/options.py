"""Describe the fields of a dataclass once, for Python and for the command line."""

from __future__ import annotations

from dataclasses import MISSING, field
from typing import Any


def option(text: str, panel: str | None = None, default: Any = MISSING, **further: Any) -> Any:  # noqa: ANN401
    """Return a field with the help of its option; `optim.cli.options` reads the metadata.

    Args:
        text: Help of the option.
        panel: Panel of the help that lists the option. None for the first one.
        default: Default of the field; `dict` for an empty mapping.
        further: Further metadata, as `optim.cli.options` describes them.
    """
    metadata = {"help": text, "panel": panel, **further}
    if default is dict:
        return field(default_factory=dict, metadata=metadata)
    return field(default=default, metadata=metadata)
