"""Packages of the extras, looked for before anything is read or paid for."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re

from pb_graph.errors import PlanAndBudgetError

_EXTRAS = ("eval", "tune", "ray", "local")  # not dev, which has all of them
_REQUIREMENT = re.compile(r"([\w.-]+).*\bextra\s*==\s*['\"](\w+)['\"]")


class MissingPackageError(PlanAndBudgetError):
    """A package of an extra is not installed; the message says how to install it."""


def require(*modules: str) -> None:
    """Make sure that modules of an extra are there, without loading them.

    Raises:
        MissingPackageError: One is not.
    """
    for name in modules:
        if importlib.util.find_spec(name) is None:
            msg = f"this needs {name}: pip install 'plan-and-budget[{extra_of(name)}]'"
            raise MissingPackageError(msg)


def extra_of(module: str) -> str | None:
    """The extra of this package that brings a module; the two are called alike but for dashes."""
    found = map(_REQUIREMENT.match, importlib.metadata.requires("plan-and-budget") or ())
    brought = {(m[1].replace("-", "_"), m[2]) for m in found if m}
    return next((extra for extra in _EXTRAS if (module, extra) in brought), None)
