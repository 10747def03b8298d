"""Reads the ``model`` of a request: a method, a settings file, or any name for the default method.

``vanilla``, ``plan_and_budget:execution=stepwise,schedule=cosine``, or ``careful`` for a file
``careful.json`` that the server was started with. Settings behind a colon replace those of the
name. Any other name, such as ``gpt-5-mini``, stands for the settings of the server.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pb_graph.errors import InputError, did_you_mean
from pb_graph.settings import Settings, choices, fields_of, value_of

ModelNames = Mapping[str, Mapping[str, Any]]
"""Fields of `Settings` by the model name that stands for them."""


class UnknownNameError(InputError):
    """The model name looks like a method or a settings file, and is neither."""


def model_names(files: Iterable[str | Path] = ()) -> ModelNames:
    """Return all methods, and settings files by their names without the ending.

    Raises:
        InputError: A file cannot be read, holds no settings, or has the name of another model.
    """
    names: dict[str, Mapping[str, Any]] = {
        method: {"method": method} for method in choices("method")
    }
    for file in map(Path, files):
        if file.stem in names:
            msg = f"there is a model called {file.stem!r} already: rename {file}"
            raise InputError(msg)
        names[file.stem] = fields_of(file)
        unattended_settings(names[file.stem])
    return names


def settings_of(model: str, names: ModelNames) -> Settings:
    """Return the settings that a model name stands for.

    Args:
        model: The name, with or without settings behind a colon.
        names: The names that stand for settings.

    Returns:
        Settings in which only the fields that the name chooses are set: none for a name that is
        not ours, such as that of the model behind the server.

    Raises:
        UnknownNameError: The name is nearly one of ours, or settings stand behind an unknown name.
        InputError: A setting behind the colon does not exist or has a wrong value.
    """
    name, _, assignments = model.partition(":")
    if name in names:
        return unattended_settings({**names[name], **_read_assignments(assignments)})
    suggestion = did_you_mean(name, names)
    if suggestion or "=" in assignments:
        msg = f"there is no model {name!r:.100}; there are: {', '.join(names)}"
        raise UnknownNameError(msg + suggestion)
    return Settings.read({})


def unattended_settings(fields: Mapping[str, Any]) -> Settings:
    """Return settings for a run that nobody can answer while it goes.

    Raises:
        InputError: A field is wrong, or the run would pause for a person.
    """
    settings = Settings.read(fields)
    if settings.review_plan:
        msg = "review_plan pauses for a host that can answer: use the graph from Python"
        raise InputError(msg)
    return settings


def _read_assignments(text: str) -> dict[str, Any]:
    """Read ``name=value,name=value``; values are JSON, or else text, with any commas."""
    fields: dict[str, Any] = {}
    for assignment in re.split(r",\s*(?=\w+=)", text) if text else ():
        field, equals, value = assignment.partition("=")
        if not equals:
            msg = f"settings behind a model's name are NAME=VALUE, not {assignment!r:.100}"
            raise InputError(msg)
        fields[field.strip()] = value_of(value)
    return fields
