"""What every run of a DSPy optimizer is wrapped in: silence, our adapter, and honest errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import dspy
from dspy.utils.exceptions import AdapterParseError

from optim.tune.quiet import quiet
from optim.tune.reflection import ReflectionAdapter, ReflectionError

if TYPE_CHECKING:
    from optim.tune.proposer import Task

__all__ = ["compiling"]


@contextmanager
def compiling(task: Task, *, guarded: bool = False) -> Iterator[None]:
    """Run an optimizer within.

    A spent budget or an outage may throw an optimizer off its course in any way: then it is left,
    and what was measured counts. Anything else is an error.

    Args:
        task: Whose bench and reflection model it uses.
        guarded: As for `ReflectionAdapter`.

    Raises:
        ReflectionError: The reflection model wrote nothing that could be used.
        ModelCallError: It could not be called.
    """
    adapter = ReflectionAdapter(guarded=guarded)
    reflector = task.reflection
    with quiet(), dspy.context(adapter=adapter, trace=None, disable_history=True):
        try:
            yield
        except Exception as error:
            if task.bench.refusal is not None:
                return
            if reflector.failure is not None:  # DSPy has wrapped it
                raise reflector.failure from error
            if isinstance(error, AdapterParseError):
                msg = (
                    f"the reflection model {reflector.name} returned nothing that could be used. "
                    "Use another --reflection-model, or --optimizer candidates, which needs none."
                )
                raise ReflectionError(msg) from error
            raise
