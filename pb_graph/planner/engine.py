"""Call a planner with a LangChain chat model as DSPy's engine.

All contact with DSPy's engine contract (``dspy.lm15``, DSPy 3.4) is in this module. An engine makes
one attempt per call: no cache (a hit would report no tokens), no retries (the client has its own),
no history.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Self, TypeVar, cast

import dspy
from dspy.lm15 import Message, Request, Response, TextPart, Usage
from dspy.utils.exceptions import AdapterParseError
from langchain_core.messages import convert_to_messages

from pb_graph.models.client import ModelClient
from pb_graph.models.options import TIMEOUT, CallOptions
from pb_graph.models.provider_errors import to_model_call_error
from pb_graph.models.reply import ASYNC, BLOCKING, IO, run_sync
from pb_graph.planner.planner import Planner
from pb_graph.planner.requests import PlannerRequest, UnreadableReplyError
from pb_graph.planner.signatures import PlannerAdapter, select_inputs
from pb_graph.settings import Settings
from pb_graph.types import Purpose

T = TypeVar("T")


class LangChainEngine:
    """Serves DSPy's requests from a chat client, with fixed options.

    Attributes:
        error: The original error of the last call, before DSPy wrapped it.
    """

    def __init__(self, client: ModelClient, options: CallOptions) -> None:
        self.client, self.options = client, options
        self.error: Exception | None = None

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self  # optimizers copy predictors; the connection is shared

    def complete(self, request: Request) -> Response:
        """Answer one request."""
        return run_sync(self._complete(request, BLOCKING))

    async def acomplete(self, request: Request) -> Response:
        """Answer one request in an event loop."""
        return await self._complete(request, ASYNC)

    async def _complete(self, request: Request, io: IO) -> Response:
        system = request.system
        if not isinstance(system, str | None):
            system = "".join(part.text for part in system)
        messages = [("system", system)] if system else []
        messages += [(message.role, message.text or "") for message in request.messages]
        try:
            reply = await self.client.call(convert_to_messages(messages), self.options, io)
        except Exception as error:
            self.error = error
            raise
        charge = reply.charge
        return Response(
            id=None,
            model=request.model,
            message=Message.assistant([TextPart(reply.text)]),
            # Never "length": DSPy would log advice about its own cap, which is another one.
            finish_reason="stop",
            usage=Usage(input_tokens=charge["input_tokens"], output_tokens=charge["output_tokens"]),
        )


def language_model(engine: LangChainEngine) -> dspy.LM:
    """Return an engine as a DSPy language model without rules of a model family."""
    return dspy.LM(
        "chat:planner",
        engine=engine,
        async_engine=SimpleNamespace(complete=engine.acomplete),
        cache=False,
        num_retries=0,
    )


async def ask_planner(  # noqa: PLR0913 -- one argument for each part of the call
    planner: Planner,
    client: ModelClient,
    request: PlannerRequest[T],
    settings: Settings,
    *,
    traced: bool,
    io: IO,
) -> T:
    """Make one request to a planner.

    Args:
        planner: The planner that has the predictor.
        client: The chat model behind it.
        request: The request.
        settings: Settings of the run, for the cap and the time-out.
        traced: Whether an active DSPy trace sees the call, as an optimizer needs. DSPy's default
            trace is one global list that only grows.
        io: How to wait, `BLOCKING` or `ASYNC`.

    Raises:
        UnreadableReplyError: If the reply cannot be read.
        ModelCallError: If the model call fails.
    """
    options = CallOptions(
        min(settings.planner_cap, settings.cutoff, request.cap or settings.cutoff),
        settings.timeout or TIMEOUT,
        request.schema,
        thinking="off" if request.cap is not None else "bounded",
        purpose=Purpose(request.node),
    )
    engine = LangChainEngine(client, options)
    predictor = getattr(planner, request.predictor)
    with dspy.context(  # never dspy.configure, which is the host's
        lm=language_model(engine),
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
            raise UnreadableReplyError(reason) from error
        except Exception as error:  # noqa: BLE001 -- raised as our own
            fault = engine.error or error
            raise to_model_call_error(fault) from fault.__cause__
    return cast("T", next(iter(prediction.values())))
