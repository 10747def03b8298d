"""One turn of a model within a budget: a call, and another that finishes what the cap cut off."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from langchain.agents.middleware.types import ModelRequest, ModelResponse
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage
from langchain_core.messages.ai import UsageMetadata, add_usage

from pb_graph.errors import BudgetUsedUpError, InputError
from pb_graph.models.caps import CAP_NAMES, capped_arguments, constructor_overrides, policy_for
from pb_graph.models.inner_calls import InnerCalls
from pb_graph.models.options import CallOptions, Thinking
from pb_graph.models.usage import finish_of, reported, tokens_of
from pb_graph.models.wrapped import configured

if TYPE_CHECKING:
    from pb_graph.budget.shared import Budget, Call
    from pb_graph.models.retry import RetryPolicy

FINISH = "The token budget is nearly used up. Give your best final answer now, in brief."
_GO_ON = "What you wrote stays above it: go on there, and repeat nothing."
# A call without tools must not say either how they are to be used.
_OF_TOOLS = frozenset({"tools", "tool_choice", "parallel_tool_calls"})

_LONGEST_WAIT = 60.0
_ANSWERS = ("n", "candidate_count")
# Arguments that hold others.
_BODIES = ("extra_body", "model_kwargs", "generation_config", "options")

Ask = Callable[[ModelRequest[Any]], ModelResponse[Any] | Awaitable[ModelResponse[Any]]]


@dataclass
class Turn:
    """What is asked, and what it may draw on.

    Attributes:
        request: As LangChain's agents make it.
        ask: Makes one call.
        account: What the calls draw on.
        kept: Tokens of it that are left for the call that finishes.
        last: Where that call may find more than the account has left.
        enough: Tokens that are worth waiting for while others may give some back.
        per_call: Most of a single call.
        warn_at: Share of the account from which on the model is told what is left.
        blocking: Whether nothing may be awaited.
        retries: How often a call that failed for a passing reason is made again; None for never.
        by_tool: Whether the answer is a call of a tool, which the last call, too, is to make.
    """

    request: ModelRequest[Any]
    ask: Ask
    account: Budget
    kept: int
    last: Budget
    enough: int
    per_call: int | None
    warn_at: float
    blocking: bool
    retries: RetryPolicy | None
    by_tool: bool = False
    _begun: ModelResponse[Any] | None = None

    def __post_init__(self) -> None:
        """Of a configurable model, ask the one that the run chooses, which has a word for a cap."""
        model: object = self.request.model  # typed as a chat model, which such a one is not
        if not isinstance(model, BaseChatModel) and (chosen := configured(model)):
            self.request = self.request.override(model=cast("BaseChatModel", chosen))

    async def response(self) -> ModelResponse[Any]:
        """The answer, or the tool calls; once nothing at all is left, a message that says so.

        Asked once more after a failure, it does not begin again what was only to be finished.

        Raises:
            BudgetUsedUpError: Nothing is left, and no message would be taken for the answer.
        """
        failed = 0
        while True:
            try:
                return await self._responded()
            except BudgetUsedUpError:
                if self.by_tool or "response_format" in self.request.model_settings:
                    raise  # a LangChain agent would ask again, for ever
                note = AIMessage(f"The budget of {self.account.total} tokens is used up.")
                return self._begun or ModelResponse(result=[note])
            except Exception as error:
                failed += 1
                wait = self.retries.wait(error, failed, _LONGEST_WAIT) if self.retries else None
                if wait is None:
                    raise
            if self.blocking:
                time.sleep(wait)  # noqa: ASYNC251 -- as the whole of it
            else:
                await asyncio.sleep(wait)

    async def _responded(self) -> ModelResponse[Any]:
        call = None
        if self._begun is None:
            with suppress(BudgetUsedUpError):
                call = await self._reserved(self.account, keep=self.kept)
        if call:
            # As it is now: while this call waited, others may have given back what they held.
            asked = self._warned(self.account.left + call.tokens)
            try:
                begun = await self._called(asked, call, keep=self.kept)
            except Exception as error:
                if (refused := _cut_and_refused(error)) is None:
                    raise
                begun = refused
            if not _cut_off(begun):
                return begun
            self._begun = begun
        fuller = max(self.account, self.last, key=lambda account: account.left)
        call = await self._reserved(fuller)
        ended = await self._called(self._ending(), call, thinking="off")
        return _joined(self._begun, ended, typed=self._typed) if self._begun else ended

    async def _reserved(self, account: Budget, *, keep: int = 0) -> Call:
        if (several := max(_numbers(self.request, _ANSWERS), default=1)) > 1:
            msg = f"{several} answers in one call may each cost its cap: ask {several} times"
            raise InputError(msg)
        limits = [self.per_call, *_numbers(self.request, CAP_NAMES)]
        most = min((limit for limit in limits if limit is not None), default=None)
        if self.blocking:
            return account.reserve(most, keep=keep, at_least=self.enough)
        return await account.areserve(most, keep=keep, at_least=self.enough)

    async def _called(
        self,
        request: ModelRequest[Any],
        call: Call,
        *,
        keep: int = 0,
        thinking: Thinking = "bounded",
    ) -> ModelResponse[Any]:
        # Whoever cancels it leaves it unsettled.
        with call, InnerCalls(call, keep=keep) as inner:
            try:
                capped = _capped(request, call.tokens, thinking=thinking)
                made = self.ask(capped)
                response = await made if isinstance(made, Awaitable) else made
            except Exception as error:
                inner.settle_failed(error)
                raise
            response = _without_half_a_tool_call(response)
            inner.settle(_cost(response, capped, call.tokens))
        return response

    @property
    def _typed(self) -> bool:
        """Whether the answer is read by its type, and so has to be in one piece."""
        asked = self.request
        given = asked.response_format, asked.model_settings.get("response_format")
        return self.by_tool or any(one is not None for one in given)

    def _warned(self, left: int) -> ModelRequest[Any]:
        if self.account.total - left < self.warn_at * self.account.total:
            return self.request
        return _told(self.request, f"Only {left} tokens are left for this task: come to an end.")

    def _ending(self) -> ModelRequest[Any]:
        """The request that is to be answered now: no tools, no more working."""
        settings = self.request.model_settings
        dropped = frozenset[str]() if self.by_tool else _OF_TOOLS
        bare = self.request.override(
            tools=[],
            tool_choice=None,
            model_settings={name: settings[name] for name in settings.keys() - dropped},
        )
        partial = _answer(self._begun).text if self._begun and not self._typed else ""
        if not partial:
            return _told(bare, FINISH)
        said: list[AnyMessage] = [AIMessage(partial), HumanMessage(f"{FINISH} {_GO_ON}")]
        return bare.override(messages=[*self.request.messages, *said])


def _capped(request: ModelRequest[Any], cap: int, *, thinking: Thinking) -> ModelRequest[Any]:
    """The cap in the words of the request's own model."""
    model, settings = request.model, _without_caps(request.model_settings)
    policy = policy_for(model)
    change = constructor_overrides(model, policy)
    if getattr(model, "stream_usage", True) is None:
        change["stream_usage"] = True  # else nobody knows what a stream of another server's cost
    # What the call says is the caller's own choice, too, such as of an effort.
    told = {name: settings[name] for name in settings.keys() & type(model).model_fields.keys()}
    limits = CallOptions(cap, timeout=math.inf, thinking=thinking)
    arguments = policy(model.model_copy(update=change | told), limits)
    arguments.pop("timeout", None)  # the host's own business
    model = model.model_copy(update=change)
    return request.override(model=model, model_settings=capped_arguments(settings, arguments))


def _without_caps(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """All but caps, of which some server would heed another one than ours."""
    return {
        name: _without_caps(given) if name in _BODIES and isinstance(given, Mapping) else given
        for name, given in arguments.items()
        if name not in CAP_NAMES
    }


def _numbers(request: ModelRequest[Any], names: Sequence[str]) -> list[int]:
    """What the call, or else its model, was given under these names.

    None below 1, where Ollama has no limit.
    """
    told: dict[str, Any] = {name: getattr(request.model, name, None) for name in (*names, *_BODIES)}
    told |= request.model_settings
    places = [told, *(told[body] for body in _BODIES if isinstance(told[body], Mapping))]
    found = [place.get(name) for place in places for name in names]
    return [number for number in found if isinstance(number, int) and number > 0]


def _told(request: ModelRequest[Any], note: str) -> ModelRequest[Any]:
    """The request with a note at the end of its system message, which else stays as it is."""
    said = request.system_message
    if said is None:
        return request.override(system_message=SystemMessage(note))
    content: Any = said.content
    # Blocks may be marked for the provider's prompt cache: the note comes behind them.
    added = f"{content}\n\n{note}" if isinstance(content, str) else [*content, *_blocks(note)]
    return request.override(system_message=said.model_copy(update={"content": added}))


def _joined(
    begun: ModelResponse[Any], ended: ModelResponse[Any], *, typed: bool
) -> ModelResponse[Any]:
    """What was cut off, with its ending behind it, as one message that cost both calls.

    A text that is read by its type is whole in the second.
    """
    first, second = _answer(begun), _answer(ended)
    content: Any = second.content
    if first.text and not typed and ended.structured_response is None:
        whole = isinstance(first.content, str) and isinstance(second.content, str)
        parts = [one.content for one in (first, second) if one.content]
        content = "\n\n".join(map(str, parts)) if whole else [b for p in parts for b in _blocks(p)]
    usage = [one.usage_metadata for one in (first, second)]
    update = {"content": content, "usage_metadata": add_usage(*usage) if any(usage) else None}
    return _replaced(ended, second.model_copy(update=update))


def _replaced(response: ModelResponse[Any], message: AIMessage) -> ModelResponse[Any]:
    """The response with another message of the model's; results of its tool calls stay."""
    said = _answer(response)
    result = [message if one is said else one for one in response.result]
    return ModelResponse(result, response.structured_response)


def _without_half_a_tool_call(response: ModelResponse[Any]) -> ModelResponse[Any]:
    """The response of a call that was cut off, without the tool call that it may have ended in.

    Half of one that was streamed looks like a whole: its arguments are closed where they broke off.
    """
    said = _answer(response)
    if finish_of(said) != "length" or not (said.tool_calls or said.invalid_tool_calls):
        return response
    whole = said.tool_calls if said.invalid_tool_calls else said.tool_calls[:-1]
    names = {call["id"] for call in whole}
    half = {call["id"] for call in (*said.tool_calls, *said.invalid_tool_calls)} - names - {None}
    content: Any = said.content
    if not isinstance(content, str):
        content = [block for block in content if not half & _names_of(block)]
    update = {"content": content, "tool_calls": whole, "invalid_tool_calls": []}
    result = [one for one in response.result if getattr(one, "tool_call_id", None) not in half]
    # An answer that is a tool call was read from what there was of it.
    return _replaced(ModelResponse(result), said.model_copy(update=update))


def _names_of(block: Any) -> set[Any]:  # noqa: ANN401 -- text, or a block of some provider's
    return {block.get("id"), block.get("call_id")} if isinstance(block, dict) else set()


def _cut_and_refused(error: Exception) -> ModelResponse[Any] | None:
    """What was cut off, where somebody wanted to read it by its type, and refused it for that."""
    said = getattr(error, "ai_message", None)  # LangChain's agents
    if type(error).__name__ == "LengthFinishReasonError":  # OpenAI's client
        given, written = (reported(error) or (0, 0))[:2]
        usage = UsageMetadata(
            input_tokens=given, output_tokens=written, total_tokens=given + written
        )
        said = AIMessage("", usage_metadata=usage, response_metadata={"finish_reason": "length"})
    if said is None or finish_of(said) != "length":
        return None
    return ModelResponse([said.model_copy(update={"tool_calls": [], "invalid_tool_calls": []})])


def _blocks(content: Any) -> list[Any]:  # noqa: ANN401 -- text, or blocks already
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _answer(response: ModelResponse[Any]) -> AIMessage:
    return next(message for message in response.result if isinstance(message, AIMessage))


def _cost(response: ModelResponse[Any], ask: ModelRequest[Any], cap: int) -> int:
    """Completion tokens of a call, estimated where the server reports none; cut off, all of it."""
    tokens = tokens_of(_answer(response), ask.messages)
    known = tokens.measured or not _cut_off(response)
    return tokens.output if known else max(cap, tokens.output)


def _cut_off(response: ModelResponse[Any]) -> bool:
    """Whether the cap ended the call before it came to an answer or to a whole tool call."""
    said = _answer(response)
    return finish_of(said) == "length" and not said.tool_calls
