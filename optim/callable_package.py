"""Packages that are called like the function of their name, so that both keep it.

`optim.evaluate` is a package, and what users ask of `optim` is ``evaluate(experiment)``. An import
of the package binds it to that name whenever it happens, so a function there would come and go.
"""

from __future__ import annotations

import inspect
import sys
from types import ModuleType
from typing import Any


class CallablePackage(ModuleType):
    """A package whose call is that of its member of the same name."""

    @property
    def __signature__(self) -> inspect.Signature:
        """The function's, for `help` and editors."""
        return inspect.signature(self._function())

    def __call__(self, *args: Any, **given: Any) -> Any:  # noqa: ANN401 -- the function's own
        """Call the function, loaded on first use."""
        return self._function()(*args, **given)

    def _function(self) -> Any:  # noqa: ANN401 -- a function
        return getattr(self, self.__name__.rpartition(".")[2])


def make_callable(package: str) -> None:
    """Let a package that is being imported be called; its ``__init__`` says so itself."""
    sys.modules[package].__class__ = CallablePackage
