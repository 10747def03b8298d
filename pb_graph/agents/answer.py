"""Get one answer of a chat model within a budget, and finish it if its cap cut it off."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

from langchain.agents.middleware.types import ModelRequest, ModelResponse
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.messages.ai import add_usage

from pb_graph.agents.call import ENOUGH, MIN_ANSWER, BudgetUsedUpError, CallLimits
from pb_graph.agents.notes import USED_UP, appended, joined, unfinished, without_tool_calls
from pb_graph.budget.account import Budget
from pb_graph.budget.bill import Bill
from pb_graph.models.options import key_of
from pb_graph.models.reply import finish_of
from pb_graph.run.pause import Decision
from pb_graph.run.tools import without_tools

FINISH = "The token budget is nearly used up. Give your best final answer now, in brief."
_STOPPED = "The token budget is used up, and the run was stopped."
_GO_ON = "What you wrote stays above it: go on there, and repeat nothing."
_TOOL_SETTINGS = frozenset({"tools", "tool_choice", "parallel_tool_calls"})
_MIN_CALL = 64  # fewest completion tokens worth a call


@dataclass
class Answer:
    """One answer to a request: a call, and a finishing call if its cap cut the answer off.

    Attributes:
        request: The request, as LangChain's agents make it.
        limits: What each call may spend.
        ask: Makes one call within limits.
        reserve: Share of the first account that is kept for the finishing call; 0 for none.
        by_tool: Whether the final answer is a tool call; the finishing call then keeps its tools.
        on_used_up: Decides what follows when only the reserve is left. `None` for a last answer.
        decision: The decision of a run that has paused here before.
    """

    request: ModelRequest[Any]
    limits: CallLimits
    ask: Callable[[ModelRequest[Any], CallLimits], Awaitable[ModelResponse[Any]]]
    reserve: float
    by_tool: bool = False
    on_used_up: Callable[[BudgetUsedUpError], Awaitable[Decision]] | None = None
    decision: Decision | None = None

    async def respond(self) -> ModelResponse[Any]:
        """Return the model's answer or tool calls.

        Tool calls that were cut off are dropped. An answer that stays unfinished says so in its
        metadata. If the budget is used up, the response is a message that says so.

        Raises:
            BudgetUsedUpError: If the budget is used up and the model's own arguments ask for
                structured output, which a plain message is not.
        """
        account, is_owner = self.limits.accounts[0], bool(self.reserve)
        least = self._least(ENOUGH, 0.1) if self.on_used_up else self._least(_MIN_CALL, 0.3)
        self.limits = replace(self.limits, wait_for=ENOUGH, is_owner=is_owner)
        limits = replace(self.limits, keep=reserve_of(account, self.reserve), at_least=least)
        response: ModelResponse[Any] | None = None
        decision = self.decision
        while decision in (None, "raise"):
            try:
                response = await self._ask(self.request, limits)
                break
            except BudgetUsedUpError as error:
                asks = self.on_used_up if decision is None else None  # a pause is asked for once
                decision = await asks(error) if asks else "finish"
        if decision == "stop":
            return ModelResponse([AIMessage(_STOPPED, response_metadata=USED_UP)])
        if response is None or finish_of(_message(response)) == "length":
            response = await self._finish(response)
        if is_owner and (usage := _message(response).usage_metadata):
            account.keep(reserve_of(account, self.reserve, key_of(self.request.model), usage))
        return response

    async def _finish(self, response: ModelResponse[Any] | None) -> ModelResponse[Any]:
        """Return the final answer, out of the reserve, after what was written so far."""
        least = self._least(MIN_ANSWER // 2 if response else MIN_ANSWER, 0.1)
        limits = replace(self.limits, at_least=least, is_last=True, tell_every=None)
        try:
            final = await self._ask(self._ending(response), limits)
            if not self._is_typed and _message(final).tool_calls:  # it was given no tools
                final = _with(final, without_tool_calls(_message(final)))
        except BudgetUsedUpError as error:
            if self.by_tool or "response_format" in self.request.model_settings:
                raise
            cut = unfinished(_message(response) if response else None, error.note)
            return _with(response, cut) if response else ModelResponse([cut])
        except Exception:
            if response is None or self._is_typed or not _message(response).text:
                raise
            return _with(response, unfinished(_message(response)))  # its tokens are paid for
        final = self._join(response, final) if response else final
        is_cut = not self._is_typed and finish_of(_message(final)) == "length"
        return _with(final, unfinished(_message(final))) if is_cut else final

    async def _ask(self, request: ModelRequest[Any], limits: CallLimits) -> ModelResponse[Any]:
        try:
            response = await self.ask(request, limits)
        except Exception as error:
            answer = getattr(error, "ai_message", None)  # LangChain cannot parse the output
            if answer is None or finish_of(answer) != "length":
                raise
            return ModelResponse([without_tool_calls(answer)])
        answer = _message(response)
        is_cut = finish_of(answer) == "length"
        return ModelResponse([without_tool_calls(answer)]) if is_cut else response

    def _least(self, tokens: int, share: float) -> int:
        """Return the fewest tokens worth a call; less if the whole budget is small."""
        root = self.limits.accounts[0].line[-1]
        small = int(root.total * share) if root.unit == "completion tokens" else tokens
        return max(1, min(tokens, small))

    @property
    def _is_typed(self) -> bool:
        """Return whether the answer is structured, so that it must come in one piece."""
        formats = self.request.response_format, self.request.model_settings.get("response_format")
        return self.by_tool or any(form is not None for form in formats)

    def _ending(self, response: ModelResponse[Any] | None) -> ModelRequest[Any]:
        """Return the request for a final answer, without tools and after the text so far.

        Tool calls and results stand in it as text, because servers refuse them without tools.
        """
        settings, messages = self.request.model_settings, self.request.messages
        dropped = frozenset[str]()
        if not self.by_tool:
            dropped, messages = _TOOL_SETTINGS, without_tools(messages, shortened=False)
        partial = _message(response).text if response and not self._is_typed else ""
        if partial:
            messages = [*messages, AIMessage(partial), HumanMessage(f"{FINISH} {_GO_ON}")]
        elif messages and isinstance(messages[-1], HumanMessage):
            messages = [*messages[:-1], appended(messages[-1], FINISH)]
        else:
            messages = [*messages, HumanMessage(FINISH)]
        return self.request.override(
            messages=messages,
            tools=[],
            tool_choice=None,
            model_settings={name: settings[name] for name in settings.keys() - dropped},
        )

    def _join(self, response: ModelResponse[Any], final: ModelResponse[Any]) -> ModelResponse[Any]:
        """Return both answers as one message with the usage of both calls.

        A structured answer is whole in the second response.
        """
        first, second = _message(response), _message(final)
        content: Any = second.content
        if first.text and not self._is_typed and final.structured_response is None:
            content = joined(first.content, content) if content else first.content
        usage = [answer.usage_metadata for answer in (first, second)]
        update = {"content": content, "usage_metadata": add_usage(*usage) if any(usage) else None}
        return _with(final, second.model_copy(update=update))


def reserve_of(account: Budget, fraction: float, model: str = "", usage: Any = None) -> float:  # noqa: ANN401
    """Return the amount to keep for a last answer: dollars, or whole tokens, rounded up.

    It is a share of the total. Where the input counts, it is at least the cost of the prompt so
    far and of what may be added to it: all that helpers write with the rest of the budget, if they
    read twice as many tokens as they write.

    Args:
        account: The account.
        fraction: The least share of its total, from 0 to 1.
        model: Key of the model.
        usage: Usage of its last call.
    """
    share = account.total * fraction
    if usage and account.rate.needs_input:
        prompt = usage["input_tokens"] + usage["output_tokens"]
        last = account.amount(Bill(model, input=prompt, output=_MIN_CALL))
        read, written = account.amount(Bill(model, input=1)), account.amount(Bill(model, output=1))
        rest = max(0, account.left_with_kept - last)
        # A helper's token costs itself, the two that were read for it, and one in the last prompt.
        share = max(share, last + rest * read / (written + 3 * read))
    return share if account.unit == "dollars" else math.ceil(share)


def _message(response: ModelResponse[Any]) -> AIMessage:
    return next(message for message in response.result if isinstance(message, AIMessage))


def _with(response: ModelResponse[Any], message: AIMessage) -> ModelResponse[Any]:
    """Return a response with another message of the model."""
    before = _message(response)
    return replace(response, result=[message if m is before else m for m in response.result])
