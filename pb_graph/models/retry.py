"""When a failed call is tried again, and the time limit of each attempt."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from pb_graph.models.caps.openai import sdk_options
from pb_graph.models.provider_errors import is_transient, retry_after

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

M = TypeVar("M", bound="BaseChatModel")

# Google's clients count attempts and read 0 as 'the default': their word for no retries is 1.
_GOOGLE = "langchain_google"


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often a call is tried again after a transient fault, and how long is waited before.

    The wait is drawn from 0 to ``initial_interval`` seconds, and the upper end doubles with every
    attempt up to ``max_interval`` (exponential backoff with full jitter), so that many callers that
    failed together do not come back together. What a server asks for (``Retry-After``) is waited on
    top.

    Attributes:
        max_retries: Attempts after the first one.
        initial_interval: Upper end of the first wait, in seconds.
        max_interval: Upper end of any wait, in seconds.
    """

    max_retries: int = 3
    initial_interval: float = 0.5
    max_interval: float = 8.0

    def wait(self, error: Exception, failed: int, longest: float) -> float | None:
        """Return the seconds to wait before the next attempt, or None if there is to be none.

        Args:
            error: What ended the last attempt.
            failed: Attempts that have failed, that one included.
            longest: Longest wait, in seconds, that a server may ask for. One that asks for more
                will refuse any earlier attempt, so there is none.
        """
        asked = retry_after(error)
        if failed > self.max_retries or asked > longest or not is_transient(error):
            return None
        ceiling = min(self.max_interval, self.initial_interval * 2.0 ** (failed - 1))
        return asked + random.uniform(0, ceiling)  # noqa: S311 -- spread, not secrecy


def without_sdk_retries(model: M) -> M:
    """Return a copy of a chat model whose own client never repeats a request.

    An attempt that is repeated inside a provider's SDK may be billed, and is never seen here. The
    copy shares the HTTP connections. A model whose class has no ``max_retries`` is returned as it
    is.
    """
    fields: Any = type(model).model_fields
    if "max_retries" not in fields:
        return model
    counts_attempts = any(kind.__module__.startswith(_GOOGLE) for kind in type(model).__mro__)
    changed: dict[str, Any] = {"max_retries": 1 if counts_attempts else 0}
    for side in ("client", "async_client"):
        if getattr(model, f"root_{side}", None) is not None:
            changed |= sdk_options(model, side, max_retries=0)
    copy = model.model_copy(update=changed)
    for kind in type(model).__mro__:  # Anthropic's clients, if a call has made them already
        for name in [name for name, own in vars(kind).items() if isinstance(own, cached_property)]:
            vars(copy).pop(name, None)
    return copy


def own_timeout(model: BaseChatModel) -> float | None:
    """Return the seconds that a chat model object was given for a call, or None.

    Of limits for each part of a request (``httpx.Timeout``, or a tuple) the longest counts.
    """
    for name in ("timeout", "request_timeout", "default_request_timeout"):
        given: Any = getattr(model, name, None)
        if hasattr(given, "as_dict"):
            given = tuple(given.as_dict().values())
        parts = given if isinstance(given, tuple) else (given,)
        seconds = [float(part) for part in parts if isinstance(part, int | float) and part > 0]
        if seconds:
            return max(seconds)
    return None
