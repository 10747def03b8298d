"""The attempts of one call: they share its cap, and learn from each other what a server refuses."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from langchain_core.messages import AIMessage

from pb_graph.budget.ledger import most_billed, spent
from pb_graph.errors import ModelCallError
from pb_graph.models.naming import described, name_of
from pb_graph.models.provider_errors import (
    is_from_callback,
    is_too_long,
    may_be_paid,
    shown_safely,
    status_of,
    to_model_call_error,
)
from pb_graph.models.reply import charge_of, reply_of
from pb_graph.models.streaming import StreamedReply
from pb_graph.models.usage import Tokens, estimate, reported

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import BaseMessage

    from pb_graph.models.options import CallOptions, OnText
    from pb_graph.models.reply import Reply
    from pb_graph.models.retry import RetryPolicy
    from pb_graph.types import Charge, Purpose

_UNSUPPORTED = frozenset({400, 422})
Wish = Literal["schema", "stream"]
"""What a call can do without, where its server refuses it or its policy does not pass it on."""


class Attempts:
    """The attempts of one call: what is left for the next, and what the last ones came to."""

    def __init__(  # noqa: PLR0913, PLR0917 -- what a call is made of
        self,
        prompt: Sequence[BaseMessage],
        limits: CallOptions,
        purpose: Purpose,
        retry_policy: RetryPolicy,
        secrets: Sequence[str],
        model: BaseChatModel,
    ) -> None:
        self._prompt, self._limits, self._purpose = prompt, limits, purpose
        self._within = limits  # of this attempt, for which a shared budget may have had less left
        self._retry_policy, self._secrets, self._model = retry_policy, secrets, model
        self._lost: list[Charge] = []
        self._failed = 0
        self._started = 0.0
        self.on_text: OnText | None = None
        self.echoes = False
        self.refused: set[Wish] = set()
        self._streamed: StreamedReply | None = None

    def next_limits(self) -> CallOptions:
        """Begin an attempt, within these limits."""
        self._started = time.perf_counter()
        self._streamed, self._within = None, self._limits
        return self._limits

    def lowered(self, cap: int) -> CallOptions:
        """The limits of this attempt, with a lower cap."""
        self._within = replace(self._limits, cap=cap)
        return self._within

    def streamed(self, model: BaseChatModel, seconds: float) -> StreamedReply | None:
        """Where to gather the reply of this attempt; None when it is not to be streamed."""
        if self.on_text:
            self._streamed = StreamedReply(model, self.on_text, seconds, self._within.cap)
        return self._streamed

    def rescued(self, error: Exception) -> AIMessage | None:
        """The reply of a failed attempt, if it had ended before the stream broke off."""
        if self._streamed is None or is_from_callback(error):
            return None
        return self._streamed.rescued()

    def delay_before_next(self, error: Exception) -> float:
        """Take note of a failed attempt, and say how many seconds to wait before the next.

        Raises:
            ModelCallError: There is to be none.
            Exception: The error itself, if it is that of a host's callback.
        """
        if self._streamed:
            self._streamed.give_up()
        if is_from_callback(error):
            raise error
        unsupported = status_of(error) in _UNSUPPORTED and not is_too_long(error)
        refused = unsupported and self._does_without()
        if refused and not self.begun:  # vLLM says so half-way, too, whatever went wrong
            return 0.0
        self._failed += 1
        self._note(error)
        wait = self._retry_policy.wait(error, self._failed, self._limits.timeout)
        wait = 0.0 if refused else wait
        if wait is None or self._limits.cap < 1:
            cause = shown_safely(error, self._secrets)
            raise to_model_call_error(
                error,
                secrets=self._secrets,
                lost=self.lost,
                attempts=self._failed,
                model=described(self._model),
            ) from cause
        return wait

    def _does_without(self) -> bool:
        """Leave out the next thing that the server may have refused; whether there was one left."""
        if self._limits.schema is not None:  # a server that cannot constrain says 400
            return self._without("schema", schema=None)
        if self.on_text:
            self.on_text = None
            return self._without("stream")
        return False

    def _without(self, refused: Wish, **changes: Any) -> bool:  # noqa: ANN401
        self.refused.add(refused)
        self._limits = replace(self._limits, **changes)
        return True

    @property
    def begun(self) -> bool:
        """Whether a stream brought anything of a reply in this attempt."""
        return self._streamed is not None and self._streamed.begun

    @property
    def lost(self) -> tuple[Charge, ...]:
        """What the attempts that failed were charged, or may have been."""
        return tuple(self._lost)

    def reply(self, message: AIMessage) -> Reply:
        """What the attempt that succeeded came to, and what those before it cost."""
        reply = reply_of(
            message,
            self._prompt,
            self._within,
            self._purpose,
            self._seconds(),
            echoes=self.echoes,
        )
        return replace(reply, charge=self._named(reply.charge), lost=self.lost)

    def _note(self, error: Exception) -> None:
        """Charge what a failed attempt reported, or what arrived of it if it may be paid."""
        tokens, stream = reported(error), self._streamed
        if tokens is None and stream and stream.begun:
            tokens = estimate(AIMessage(stream.arrived), self._prompt)
            tokens = tokens._replace(output=max(tokens.output, stream.counted))
        if tokens is None:
            if not may_be_paid(error):
                return
            tokens = Tokens(0, 0, 0, 0, measured=False)
        charge = charge_of(tokens, self._within.cap, self._purpose, self._seconds(), "error")
        self._lost.append(self._named(charge))
        used_up = self._limits.strict and not tokens.measured
        self._limits = replace(self._limits, cap=0 if used_up else self._limits.cap - tokens.output)

    def _named(self, charge: Charge) -> Charge:
        return {**charge, "model": name_of(self._model)}

    def _seconds(self) -> float:
        return time.perf_counter() - self._started


def limits_after(lost: Sequence[Charge], limits: CallOptions) -> CallOptions:
    """What the models asked before have left of a call's cap.

    Raises:
        ModelCallError: Nothing.
    """
    left = limits.cap - (most_billed if limits.strict else spent)(lost)
    if left < 1:
        msg = "No fallback was asked, as the failed call has used up the budget."
        raise ModelCallError(msg)
    return replace(limits, cap=left)


def joined(failures: Sequence[ModelCallError]) -> ModelCallError:
    """The failures of a model and of its fallbacks as one."""
    if len(failures) == 1:
        return failures[0]
    return ModelCallError(
        " ".join(map(str, failures)),
        status=failures[-1].status,
        lost=tuple(charge for failure in failures for charge in failure.lost),
        fatal=all(failure.fatal for failure in failures),
    )
