"""Measures and improves the graph: E³, data sets, scorers, evaluation and tuning.

::

    from optim import Experiment, evaluate, load, read_records, report, tune

The names load on first use, so that importing the package stays light. ``report`` and ``tune`` are
packages that are called like the function of their name (`make_callable`), until they are renamed.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from optim.extras import on_first_use

if TYPE_CHECKING:
    from inspect import Signature

    from optim.datasets import load
    from optim.evaluation import Experiment, evaluate
    from optim.records import read_records
    from optim.report import report
    from optim.tuning import tune

__all__ = ["Experiment", "evaluate", "load", "read_records", "report", "tune"]


__getattr__ = on_first_use(
    __name__,
    {"Experiment": "evaluation", "evaluate": "evaluation", "load": "datasets"}
    | {"read_records": "records", "report": "", "tune": "tuning"},
)


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
