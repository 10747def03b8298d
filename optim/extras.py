"""Imports on first use, and packages of the extras, checked before anything is paid for."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from pb_graph.errors import PlanAndBudgetError

_EXTRAS = ("eval", "tune", "ray", "gym", "local")  # not dev, which has all of them
_REQUIREMENT = re.compile(r"([\w.-]+).*\bextra\s*==\s*['\"](\w+)['\"]")


class MissingPackageError(PlanAndBudgetError):
    """A package of an extra is not installed. The message says how to install it."""


def import_or_explain(module: str) -> ModuleType:
    """Import a module.

    Raises:
        MissingPackageError: The module needs a package of an extra that is not installed.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        explained = missing_extra(error)
        if explained is None:
            raise
        raise explained from error


def missing_extra(error: ModuleNotFoundError) -> MissingPackageError | None:
    """Return the error that names the extra to install, or None if no extra has the package."""
    name = (error.name or "").partition(".")[0]
    found = map(_REQUIREMENT.match, importlib.metadata.requires("plan-and-budget") or ())
    provided = {(m[1].replace("-", "_"), m[2]) for m in found if m}  # modules have no dashes
    extra = next((extra for extra in _EXTRAS if (name, extra) in provided), None)
    text = f"this needs {name}: pip install 'plan-and-budget[{extra}]'"
    return MissingPackageError(text) if extra else None


def require_modules(*modules: str) -> None:
    """Check that modules of an extra are installed, without loading them.

    Raises:
        MissingPackageError: One is not installed.
    """
    for name in modules:
        if importlib.util.find_spec(name) is None:
            error = ModuleNotFoundError(f"No module named {name!r}", name=name)
            raise missing_extra(error) or error


def on_first_use(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a package's ``__getattr__``, which loads its names on first use.

    Args:
        package: Name of the package.
        homes: Module of the package for each name; "" where the name is a module itself.
    """

    def find(name: str) -> Any:  # noqa: ANN401 -- whatever the name stands for
        if name not in homes:
            msg = f"module {package!r} has no attribute {name!r}"
            raise AttributeError(msg)
        home = import_or_explain(f"{package}.{homes[name] or name}")
        return getattr(home, name) if homes[name] else home

    return find
