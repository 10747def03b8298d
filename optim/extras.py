"""Import packages on first use, and check the extras before anything is paid."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from pb_graph.errors import PlanAndBudgetError, how_to_install

_REQUIREMENT = re.compile(r"([\w.-]+).*\bextra\s*==\s*'(\w+)'")


class MissingPackageError(PlanAndBudgetError):
    """A package of an extra is not installed. The message says how to install it."""


def import_or_explain(module: str) -> ModuleType:
    """Import a module; raise `MissingPackageError` if it needs an extra that is not installed."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise (missing_extra(error) or error) from None


def missing_extra(error: ModuleNotFoundError) -> MissingPackageError | None:
    """Return the error that names the extra to install, or None if no extra has the package."""
    name = (error.name or "").partition(".")[0]
    for requirement in importlib.metadata.requires("plan-and-budget") or ():
        match = _REQUIREMENT.match(requirement)
        if match and match[1].replace("-", "_") == name and match[2] != "dev":
            return MissingPackageError(f"This needs {name}. {how_to_install(match[2])}")
    return None


def require_modules(*modules: str) -> None:
    """Raise `MissingPackageError` if one of the modules is not installed, without loading them."""
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
