"""Whether a failed call is worth another attempt, and how long to wait before it."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pb_graph.models.faults import asked_wait, is_transient

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

# Google's clients count attempts and read 0 as 'the default': their word for no retries is 1.
_COUNTS_ATTEMPTS = "langchain_google"


@dataclass(frozen=True, slots=True)
class Patience:
    """How often a call is tried again after a transient fault, and how long is waited before.

    The wait is drawn from 0 to ``first`` seconds, and the upper end doubles with every attempt up
    to ``longest`` (exponential backoff with full jitter), so that many callers that failed together
    do not come back together. What a server asks for (``Retry-After``) is waited on top.

    Attributes:
        retries: Attempts after the first one.
        first: Upper end of the first wait, in seconds.
        longest: Upper end of any wait, in seconds.
    """

    retries: int = 3
    first: float = 0.5
    longest: float = 8.0

    def wait(self, error: Exception, failed: int, patience: float) -> float | None:
        """Seconds to wait before the next attempt; None when there is to be none.

        Args:
            error: What ended the last attempt.
            failed: Attempts that have failed, that one included.
            patience: Longest wait, in seconds, that a server may ask for. One that asks for more
                will refuse any earlier attempt, so there is none.
        """
        asked = asked_wait(error)
        if failed > self.retries or asked > patience or not is_transient(error):
            return None
        ceiling = min(self.longest, self.first * 2.0 ** (failed - 1))
        return asked + random.uniform(0, ceiling)  # noqa: S311 -- spread, not secrecy


def retries_itself(model: BaseChatModel) -> bool:
    """Whether a model's own client tries failed calls again, so that we must not do it as well."""
    given = getattr(model, "max_retries", 0)
    if type(model).__module__.startswith(_COUNTS_ATTEMPTS):
        return bool(given != 1)
    return bool(given)


def unretried(model: BaseChatModel) -> dict[str, Any]:
    """What to change in a copy of an OpenAI-like model so that its client leaves retrying to us.

    Only where the user left the number open: LangChain then takes the SDK's default of two, which
    nobody chose and whose paid attempts nobody would see. Empty for any other model.
    """
    changed: dict[str, Any] = {}
    if getattr(model, "max_retries", 0) is not None:
        return changed
    for root, chat in (("root_client", "client"), ("root_async_client", "async_client")):
        sdk = getattr(model, root, None)
        if sdk is not None:
            changed[root] = sdk.with_options(max_retries=0)  # shares the HTTP connections
            changed[chat] = changed[root].chat.completions
    return changed
