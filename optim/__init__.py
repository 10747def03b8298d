"""Measures and improves the graph: E³, data sets, scorers, evaluation and tuning.

::

    from optim import Experiment, evaluate, load, read_records, report, tune

The names load on first use, so that importing the package stays light. ``evaluate``, ``report`` and
``tune`` are packages that are called like the function of their name (`make_callable`): an import
binds the package to that name whenever it happens, so a function there would come and go.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from optim.extras import imported

if TYPE_CHECKING:
    from inspect import Signature

    from optim.datasets import load
    from optim.evaluate import Experiment, evaluate
    from optim.records import read_records
    from optim.report import report
    from optim.tune import tune

_HOMES = {"Experiment": "evaluate", "load": "datasets", "read_records": "records"}
_CALLABLE = ("evaluate", "report", "tune")

__all__ = ["Experiment", "evaluate", "load", "read_records", "report", "tune"]


def __getattr__(name: str) -> Any:  # noqa: ANN401 -- whatever the name stands for
    if name in _CALLABLE:
        return imported(f"{__name__}.{name}")
    if name not in _HOMES:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    return getattr(imported(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__


class _CallablePackage(ModuleType):
    """A package whose call is that of its member of the same name, loaded on first use."""

    @property
    def __signature__(self) -> Signature:
        return import_module("inspect").signature(self._function())  # type: ignore[no-any-return]

    def __call__(self, *args: Any, **given: Any) -> Any:  # noqa: ANN401 -- the function's own
        return self._function()(*args, **given)

    def _function(self) -> Any:  # noqa: ANN401 -- a function
        return getattr(self, self.__name__.rpartition(".")[2])


def make_callable(package: str) -> None:
    """Let a package that is being imported be called; its ``__init__`` says so itself."""
    sys.modules[package].__class__ = _CallablePackage
