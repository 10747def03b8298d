"""What a request's ``model`` stands for: a method, with settings behind it, or a settings file.

``vanilla``, ``plan_and_budget:execution=stepwise,schedule=cosine``, or ``careful`` for a file
``careful.json`` that the server was started with. Over it go the settings named behind a colon.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pb_graph.errors import InputError, did_you_mean
from pb_graph.settings import Settings, choices, fields_of, value_of

ModelNames = Mapping[str, Mapping[str, Any]]
"""Fields of `Settings` by the name that stands for them."""


class UnknownNameError(InputError):
    """No method and no settings file is called so."""


def model_names(files: Iterable[str | Path] = ()) -> ModelNames:
    """All methods, and settings files by their names without the ending.

    Raises:
        InputError: A file cannot be read, holds no settings, or is called like another name.
    """
    names: dict[str, Mapping[str, Any]] = {
        method: {"method": method} for method in choices("method")
    }
    for file in map(Path, files):
        if file.stem in names:
            msg = f"there is a model called {file.stem!r} already: rename {file}"
            raise InputError(msg)
        names[file.stem] = fields_of(file)
        checked(names[file.stem])
    return names


def settings_of(model: str, names: ModelNames) -> Settings:
    """The settings that a model's name stands for; only these fields of them count as set.

    Raises:
        UnknownNameError: Nothing is called so.
        InputError: A setting behind the colon does not exist or has a wrong value.
    """
    name, _, behind = model.partition(":")
    if name not in names:
        msg = f"there is no model {name!r:.100}; there are: {', '.join(names)}"
        raise UnknownNameError(msg + did_you_mean(name, names))
    return checked({**names[name], **_named(behind)})


def checked(fields: Mapping[str, Any]) -> Settings:
    """Settings that a server can use.

    Raises:
        InputError: They are invalid, or pause for a human.
    """
    settings = Settings.read(fields)
    if settings.review_plan:
        msg = "review_plan pauses for a host that can answer: use the graph from Python"
        raise InputError(msg)
    return settings


def _named(behind: str) -> dict[str, Any]:
    """Settings as ``name=value,name=value``; values are JSON, or else text, with any commas."""
    found: dict[str, Any] = {}
    for assignment in re.split(r",\s*(?=\w+=)", behind) if behind else ():
        field, equals, text = assignment.partition("=")
        if not equals:
            msg = f"settings behind a model's name are NAME=VALUE, not {assignment!r:.100}"
            raise InputError(msg)
        found[field.strip()] = value_of(text)
    return found
