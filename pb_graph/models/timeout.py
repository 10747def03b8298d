"""How long a call may take: a model's own limit, and a time-out for any synchronous call."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

T = TypeVar("T")

# Where chat models keep a time limit of their own.
_FIELDS = ("timeout", "request_timeout", "default_request_timeout")


def own_timeout(model: BaseChatModel) -> float | None:
    """The seconds that a chat model object was given for a call; None when it was not.

    Of limits for each part of a request (``httpx.Timeout``, or a tuple) the longest.
    """
    for name in _FIELDS:
        given: Any = getattr(model, name, None)
        if hasattr(given, "as_dict"):
            given = tuple(given.as_dict().values())
        parts = given if isinstance(given, tuple) else (given,)
        seconds = [float(part) for part in parts if isinstance(part, int | float) and part > 0]
        if seconds:
            return max(seconds)
    return None


def patient_stream(model: BaseChatModel) -> dict[str, None]:
    """What to change in a copy of a model so that a stream may be silent for as long as a call may.

    LangChain's client for OpenAI's protocol ends one after 120 seconds, in event loops only, that
    nobody chose: a model that thinks unseen can take longer, and is paid for it. Empty where the
    user has set that limit, and for other models.
    """
    name = "stream_chunk_timeout"
    open_ = name in type(model).model_fields and name not in model.model_fields_set
    return {name: None} if open_ else {}


def within_deadline(call: Callable[[], T], seconds: float) -> T:
    """Make a call in a thread of its own, and wait no longer than ``seconds`` for it.

    Python cannot stop a thread: a call that is given up runs on in the background until it ends by
    itself, and may still be paid for. Its thread does not keep the process alive. The call sees
    the caller's context variables (LangChain's callbacks are there), but not its thread-locals.

    Raises:
        TimeoutError: It took longer.
    """
    outcome: Future[T] = Future()

    def run() -> None:
        try:
            outcome.set_result(call())
        except BaseException as error:  # noqa: BLE001 -- raised where the result is awaited
            outcome.set_exception(error)

    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(run,), daemon=True, name="model-call").start()
    return outcome.result(seconds)
