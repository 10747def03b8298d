"""The attempts of one call: they share its cap, and learn from each other what a server refuses."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from pb_graph.models.provider_errors import (
    is_too_long,
    may_be_paid,
    shown_safely,
    status_of,
    to_model_call_error,
)
from pb_graph.models.reply import charge_of, reply_of
from pb_graph.models.usage import Tokens, reported

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_core.messages import AIMessage, BaseMessage

    from pb_graph.budget.ledger import Charge
    from pb_graph.models.caps import Limits
    from pb_graph.models.reply import Purpose, Reply
    from pb_graph.models.retry import RetryPolicy
    from pb_graph.models.streaming import OnText

_UNSUPPORTED = frozenset({400, 422})


class Attempts:
    """The attempts of one call: what is left for the next, and what the last ones came to."""

    def __init__(
        self,
        prompt: Sequence[BaseMessage],
        limits: Limits,
        purpose: Purpose,
        retry_policy: RetryPolicy,
        secrets: Sequence[str],
    ) -> None:
        self._prompt, self._limits, self._purpose = prompt, limits, purpose
        self._retry_policy, self._secrets = retry_policy, secrets
        self._lost: list[Charge] = []
        self._failed = 0
        self._started = 0.0
        self.on_text: OnText | None = None
        self.schema_refused = self.stream_refused = self.probabilities_refused = False

    def next_limits(self) -> Limits:
        """Begin an attempt, within these limits."""
        self._started = time.perf_counter()
        return self._limits

    def delay_before_next(self, error: Exception) -> float:
        """Take note of a failed attempt, and say how many seconds to wait before the next.

        Raises:
            ModelCallError: There is to be none.
        """
        if _schema_refused(error, self._limits):
            self.schema_refused = True
            self._limits = without_schema(self._limits)
            return 0.0
        if self._limits.probabilities and _unsupported(error):
            self.probabilities_refused = True
            self._limits = replace(self._limits, probabilities=False)
            return 0.0
        if self.on_text and _unsupported(error):
            self.on_text, self.stream_refused = None, True
            return 0.0
        self._failed += 1
        self._note(error)
        wait = self._retry_policy.wait(error, self._failed, self._limits.timeout)
        if wait is None or self._limits.cap < 1:
            cause = shown_safely(error, self._secrets)
            lost = tuple(self._lost)
            raise to_model_call_error(
                error, secrets=self._secrets, lost=lost, attempts=self._failed
            ) from cause
        return wait

    @property
    def lost(self) -> tuple[Charge, ...]:
        """What the attempts that failed were charged, or may have been."""
        return tuple(self._lost)

    def reply(self, message: AIMessage) -> Reply:
        """What the attempt that succeeded came to, and what those before it cost."""
        reply = reply_of(message, self._prompt, self._limits, self._purpose, self._seconds())
        return replace(reply, lost=tuple(self._lost))

    def _note(self, error: Exception) -> None:
        """Charge what a failed attempt reported; note one that may be paid without a report."""
        tokens = reported(error)
        if tokens is None and not may_be_paid(error):
            return
        charge = charge_of(
            tokens or Tokens(0, 0, 0, 0, measured=False),
            self._limits.cap,
            self._purpose,
            self._seconds(),
            "error",
        )
        self._lost.append(charge)
        self._limits = replace(self._limits, cap=self._limits.cap - charge["output_tokens"])

    def _seconds(self) -> float:
        return time.perf_counter() - self._started


def _schema_refused(error: Exception, limits: Limits) -> bool:
    """Whether to try once more without the schema: a server that cannot constrain says 400."""
    return limits.schema is not None and _unsupported(error)


def _unsupported(error: Exception) -> bool:
    return status_of(error) in _UNSUPPORTED and not is_too_long(error)


def without_schema(limits: Limits) -> Limits:
    """The same limits for a server that cannot constrain its replies."""
    return replace(limits, schema=None)
