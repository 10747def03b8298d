"""Packages of the extras, looked for before anything is read or paid for."""

from __future__ import annotations

import gc
import importlib.metadata
import importlib.util
import re
from types import ModuleType

from pb_graph.errors import PlanAndBudgetError

_EXTRAS = ("eval", "tune", "ray", "local")  # not dev, which has all of them
_REQUIREMENT = re.compile(r"([\w.-]+).*\bextra\s*==\s*['\"](\w+)['\"]")


class MissingPackageError(PlanAndBudgetError):
    """A package of an extra is not installed; the message says how to install it."""


def imported(module: str) -> ModuleType:
    """Import a module of ours, and say it in one line where it needs a package of an extra.

    Garbage is not collected meanwhile: what is imported stays, and looking through it again and
    again is a third of the five seconds that Inspect and DSPy take.

    Raises:
        MissingPackageError: Such a package is not installed.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        told = missing(error)
        if told is None:
            raise
        raise told from error
    finally:
        if collects:
            gc.enable()


def missing(error: ModuleNotFoundError) -> MissingPackageError | None:
    """What to install where an import failed; None for what no extra brings."""
    name = (error.name or "").partition(".")[0]
    found = map(_REQUIREMENT.match, importlib.metadata.requires("plan-and-budget") or ())
    brought = {(m[1].replace("-", "_"), m[2]) for m in found if m}  # called alike but for dashes
    extra = next((extra for extra in _EXTRAS if (name, extra) in brought), None)
    told = f"this needs {name}: pip install 'plan-and-budget[{extra}]'"
    return MissingPackageError(told) if extra else None


def require(*modules: str) -> None:
    """Make sure that modules of an extra are there, without loading them.

    Raises:
        MissingPackageError: One is not.
    """
    for name in modules:
        if importlib.util.find_spec(name) is None:
            error = ModuleNotFoundError(f"No module named {name!r}", name=name)
            raise missing(error) or error
