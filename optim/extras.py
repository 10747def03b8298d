"""Import packages and the user's own objects on first use, and check extras before a payment."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from pkgutil import resolve_name
from types import ModuleType
from typing import Any

from pb_graph.errors import InputError, PlanAndBudgetError, how_to_install

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
    """Return a package's ``__getattr__``, which loads its names on first use."""

    def find(name: str) -> Any:  # noqa: ANN401 -- whatever the name stands for
        if name not in homes:
            msg = f"module {package!r} has no attribute {name!r}"
            raise AttributeError(msg)
        return getattr(import_or_explain(f"{package}.{homes[name]}"), name)

    return find


def named_object(text: str) -> Any:  # noqa: ANN401 -- whatever the user has written
    """Return the object that ``module:name`` or ``file.py:name`` names; None for other texts."""
    place, _, name = text.rpartition(":")
    if not place or not all(part.isidentifier() for part in name.split(".")):
        return None
    try:
        if place.endswith(".py"):
            return resolve_name(f"{_import_file(Path(place).resolve())}:{name}")
        if str(Path.cwd()) not in sys.path:
            sys.path.append(str(Path.cwd()))  # as `python -m` does
        return resolve_name(text)
    except Exception as error:  # of the user's code, too
        reason = f"{type(error).__name__}: {error}"
        msg = f"cannot import {text}: {reason}. Give module:NAME or FILE.py:NAME."
        raise InputError(msg) from error


def _import_file(path: Path) -> str:
    """Import a file once, with the files beside it, and return the name of its module."""
    name = f"{path.stem}_{abs(hash(path))}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None or not path.is_file():
            msg = f"there is no file {path}"
            raise InputError(msg)
        if str(path.parent) not in sys.path:
            sys.path.append(str(path.parent))
        sys.modules[name] = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(sys.modules[name])
        except BaseException:
            del sys.modules[name]
            raise
    return name
