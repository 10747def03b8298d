"""Asks the planner, with a LangChain chat model as DSPy's engine: one object plans and solves.

DSPy 3.4 takes engines; its older ``BaseLM`` contract goes away in 3.5. All contact with the engine
contract is in this module. One attempt per call: no cache (a hit would report no tokens), no
retries (the chat model has its own), no history.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, Self, TypeVar

import dspy
from dspy.lm15 import Message, Request, Response, TextPart, Usage, response_to_events
from dspy.utils.exceptions import AdapterParseError
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage

from pb_graph.models.options import CallOptions
from pb_graph.models.provider_errors import is_from_callback, to_model_call_error
from pb_graph.planner.adapter import TerseAdapter
from pb_graph.planner.requests import PlannerReply, PlannerRequest, UnreadableReplyError
from pb_graph.types import Purpose

if TYPE_CHECKING:
    from pb_graph.models.client import ChatClient
    from pb_graph.models.reply import Reply
    from pb_graph.planner.planner import Planner
    from pb_graph.settings import Settings

T = TypeVar("T")

_ROLES: dict[str, type[BaseMessage]] = {
    "user": HumanMessage,
    "assistant": AIMessage,
    "system": SystemMessage,
    "developer": SystemMessage,
}


class _Engine:
    """What the sync and the async engine share.

    Attributes:
        replies: Every reply, in order: what the planning really cost.
        errors: What ended calls, as it was before DSPy wrapped it.
    """

    supports_function_calling = supports_reasoning = supports_response_schema = False
    supported_params = frozenset({"temperature", "max_tokens", "stop"})

    def __init__(self, client: ChatClient, limits: CallOptions, purpose: Purpose) -> None:
        self.client = client
        self.limits = limits
        self.purpose = purpose
        self.replies: list[Reply] = []
        self.errors: list[Exception] = []

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self  # optimizers copy predictors; the connection is shared

    @contextmanager
    def _noting_errors(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            self.errors.append(error)
            raise

    def _response(self, reply: Reply, request: Request) -> Response:
        self.replies.append(reply)
        charge = reply.charge
        return Response(
            id=None,
            model=request.model,
            message=Message.assistant([TextPart(reply.text)]),
            # Never "length": DSPy would log advice about its own cap, which is not the one that
            # cut the reply off. The ledger has the true reason.
            finish_reason="stop",
            usage=Usage(input_tokens=charge["input_tokens"], output_tokens=charge["output_tokens"]),
        )


class LangChainEngine(_Engine):
    """Serves DSPy's requests from a chat client, within fixed limits."""

    def complete(self, request: Request) -> Response:
        """Answer one request."""
        with self._noting_errors():
            reply = self.client.call(_messages(request), self.limits, self.purpose)
        return self._response(reply, request)

    def stream(self, request: Request) -> Iterator[Any]:
        """Give the same answer as events; the client itself never streams."""
        yield from response_to_events(self.complete(request))

    def close(self) -> None:
        """Nothing to close: the chat model is the caller's."""


class AsyncLangChainEngine(_Engine):
    """`LangChainEngine` for an event loop; its replies and errors are those of its twin."""

    def __init__(self, twin: LangChainEngine) -> None:
        super().__init__(twin.client, twin.limits, twin.purpose)
        self.replies, self.errors = twin.replies, twin.errors

    async def complete(self, request: Request) -> Response:
        """Answer one request."""
        with self._noting_errors():
            reply = await self.client.acall(_messages(request), self.limits, self.purpose)
        return self._response(reply, request)

    async def stream(self, request: Request) -> AsyncIterator[Any]:
        """Give the same answer as events."""
        for event in response_to_events(await self.complete(request)):
            yield event

    async def aclose(self) -> None:
        """Nothing to close."""


def language_model(engine: LangChainEngine) -> dspy.LM:
    """DSPy's view of an engine. The label carries no provider, so no model family's rules apply."""
    return dspy.LM(
        "chat:planner",
        engine=engine,
        async_engine=AsyncLangChainEngine(engine),
        cache=False,
        num_retries=0,
    )


async def ask_planner(  # noqa: PLR0913 -- who is asked what, by whom, and how
    planner: Planner,
    client: ChatClient,
    request: PlannerRequest[T],
    settings: Settings,
    *,
    traced: bool,
    blocking: bool,
) -> PlannerReply[T]:
    """Ask once.

    Args:
        planner: Whose predictor is asked.
        client: The chat model behind it.
        request: What to ask.
        settings: Cap and time-out of a planner call.
        traced: Whether an active DSPy trace shall see it, as an optimizer needs. Otherwise not:
            DSPy's default trace is one global list that only grows.
        blocking: Whether to call the model, instead of awaiting it.

    Raises:
        UnreadableReplyError: The reply held nothing usable; its charge is in ``replies``.
        ModelCallError: The model could not be called.
    """
    brief = request.cap is not None
    limits = CallOptions(
        min(settings.planner_cap, settings.cutoff, request.cap or settings.cutoff),
        settings.timeout,
        request.schema,
        thinking="off" if brief else "bounded",
        strict=settings.strict_ceiling,
    )
    engine = LangChainEngine(client, limits, Purpose(request.node))
    predictor = getattr(planner, request.predictor)
    with _planner_context(engine, request, traced=traced):
        # The model is said once more at the call: a predictor may have been saved with one of its
        # own, which nobody would cap or count.
        given = request.inputs | {"lm": dspy.settings.lm}
        try:
            prediction = predictor(**given) if blocking else await predictor.acall(**given)
        except Exception as error:  # noqa: BLE001 -- raised on, as what it really is
            # The provider's own, not what DSPy made of it: an error is never its own cause.
            root = engine.errors[-1].__cause__ if engine.errors else error
            raise _cause(error, engine) from root
    (name,) = prediction.keys()
    return PlannerReply(prediction[name], engine.replies)


def _planner_context(
    engine: LangChainEngine, request: PlannerRequest[Any], *, traced: bool
) -> AbstractContextManager[None]:
    """DSPy's settings for this one call; never ``dspy.configure``, which is the host's."""
    context: AbstractContextManager[None] = dspy.context(
        lm=language_model(engine),
        adapter=TerseAdapter(request.form, request.examples),
        trace=dspy.settings.trace if traced else None,
        disable_history=True,
        track_usage=False,
    )
    return context


def _cause(error: Exception, engine: LangChainEngine) -> Exception:
    """What really went wrong below DSPy, with the replies that were paid for."""
    if engine.errors:
        last = engine.errors[-1]
        return last if is_from_callback(last) else to_model_call_error(last)
    if isinstance(error, AdapterParseError) or engine.replies:
        return UnreadableReplyError(str(error.__cause__ or "it was empty"), engine.replies)
    return to_model_call_error(error)


def _messages(request: Request) -> list[BaseMessage]:
    system = request.system
    if not isinstance(system, str | None):
        system = "".join(part.text for part in system)
    head: list[BaseMessage] = [SystemMessage(system)] if system else []
    return head + [_ROLES[message.role](message.text or "") for message in request.messages]
