"""Call a planner with a LangChain chat model as DSPy's engine.

All contact with DSPy's engine contract (``dspy.lm15``, DSPy 3.4) is in this module. An engine makes
one attempt per call: no cache (a hit would report no tokens), no retries (the client has its own),
no history.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from types import SimpleNamespace
from typing import TypeVar, cast

import dspy
from dspy.lm15 import Message, Request, Response, TextPart, Usage
from dspy.utils.exceptions import AdapterParseError
from langchain_core.messages import BaseMessage, convert_to_messages

from pb_graph.errors import InputError
from pb_graph.models.options import CallOptions
from pb_graph.models.provider_errors import to_model_call_error
from pb_graph.models.reply import ASYNC, BLOCKING, IO, Reply, run_sync
from pb_graph.planner.planner import Planner
from pb_graph.planner.requests import PlannerRequest, UnreadableReplyError
from pb_graph.planner.signatures import PlannerAdapter, select_inputs

T = TypeVar("T")


Call = Callable[[Sequence[BaseMessage], CallOptions, IO], Awaitable[Reply]]
"""Makes one call, as `ModelClient.call` does."""


def language_model(call: Call, options: CallOptions, replies: list[Reply] | None = None) -> dspy.LM:
    """Return a DSPy language model without rules of a model family.

    Args:
        call: Answers DSPy's requests.
        options: The options of every call.
        replies: Collects the replies.
    """

    async def complete(request: Request, io: IO) -> Response:
        messages = [("system", request.system)] if request.system else []
        messages += [(message.role, message.text or "") for message in request.messages]
        reply = await call(convert_to_messages(messages), options, io)
        if replies is not None:
            replies.append(reply)
        usage = reply.charge["usage"]
        return Response(
            id=None,
            model=request.model,
            message=Message.assistant([TextPart(reply.text)]),
            # Never "length": DSPy would log advice about its own max_tokens, which is not used.
            finish_reason="stop",
            usage=Usage(input_tokens=usage["input_tokens"], output_tokens=usage["output_tokens"]),
        )

    return dspy.LM(
        "chat:planner",
        engine=SimpleNamespace(complete=lambda request: run_sync(complete(request, BLOCKING))),
        async_engine=SimpleNamespace(complete=partial(complete, io=ASYNC)),
        cache=False,
        num_retries=0,
    )


async def ask_planner(  # noqa: PLR0913 -- one argument for each part of the call
    planner: Planner,
    call: Call,
    request: PlannerRequest[T],
    options: CallOptions,
    *,
    traced: bool,
    io: IO,
) -> T:
    """Make one request to a planner.

    Args:
        planner: The planner that has the predictor.
        call: Asks the chat model behind it.
        request: The request.
        options: The options of the call.
        traced: Whether an active DSPy trace sees the call, as an optimizer needs. DSPy's default
            trace is one global list that only grows.
        io: How to wait, `BLOCKING` or `ASYNC`.

    Raises:
        UnreadableReplyError: If the reply cannot be read.
        ModelCallError: If the model call fails.
    """
    replies = list[Reply]()
    predictor = getattr(planner, request.predictor)
    with dspy.context(  # never dspy.configure, which is the host's
        lm=language_model(call, options, replies),
        adapter=PlannerAdapter(request.form, request.examples),
        trace=dspy.settings.trace if traced else None,
        disable_history=True,
        send_stream=None,
        track_usage=False,
    ):
        # The model is given again at the call: a saved predictor may have one of its own, which
        # nobody would cap or count.
        inputs = select_inputs(predictor.signature, request.inputs) | {"lm": dspy.settings.lm}
        try:
            prediction = await io.call(predictor, predictor.acall, **inputs)
        except AdapterParseError as error:
            reason = str(error.__cause__ or "it was empty")
            is_cut = any(reply.finish == "length" for reply in replies[-1:])
            raise UnreadableReplyError(reason, is_cut=is_cut) from error
        except Exception as error:  # noqa: BLE001 -- raised as our own
            fault = error.__cause__  # DSPy wraps the error of the client
            fault = fault if isinstance(fault, Exception) else error
            if isinstance(fault, InputError):  # such as a model without a price
                raise fault from fault.__cause__
            raise to_model_call_error(fault) from fault.__cause__
    is_cut = any(reply.finish == "length" for reply in replies[-1:])
    if is_cut and options.thinking == "off" and request.cap is None:  # a part of a plan is another
        msg = "it was cut off"
        raise UnreadableReplyError(msg, is_cut=True)
    return cast("T", next(iter(prediction.values())))
