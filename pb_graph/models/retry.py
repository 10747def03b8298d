"""When a failed call is tried again, and the time limit of each attempt."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pb_graph.models.provider_errors import is_transient, retry_after

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel


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
