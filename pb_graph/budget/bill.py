"""The record of what calls cost: a `Bill`, and as JSON LangChain's `UsageMetadata` by model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING, Any

from pb_graph.errors import InputError

if TYPE_CHECKING:
    from langchain_core.messages.ai import UsageMetadata

    from pb_graph.types import Spending

_LASTING = "ephemeral_1h_input_tokens"  # LangChain's name for Anthropic's cache of an hour


@dataclass(frozen=True, slots=True)
class Bill:
    """The tokens of calls to one model, or the most that they can be.

    Attributes:
        model: The model's key: ``provider:name``, ``name at address`` or its plain name.
        input: Input tokens, cached and written tokens included.
        output: Completion tokens, reasoning included.
        reasoning: Completion tokens of hidden reasoning.
        guessed: Those of them that are estimated, as the thought stands in the text.
        cached: Input tokens that were read from a cache.
        written: Input tokens that were written to a cache.
        lasting: Those of them that were written for an hour.
        largest: Input tokens of the largest call, by which long prompts are priced; 0 for those of
            a single call.
        is_measured: Whether the provider reported the tokens; otherwise they are an estimate or a
            bound.

    Raises:
        InputError: If a number of tokens is not whole, or is negative.
    """

    model: str = ""
    _: KW_ONLY
    input: int = 0
    output: int = 0
    reasoning: int = 0
    guessed: int = 0
    cached: int = 0
    written: int = 0
    lasting: int = 0
    largest: int = 0
    is_measured: bool = True

    def __post_init__(self) -> None:
        """Refuse a number that no account can hold, such as infinity."""
        parts = self.reasoning, self.cached, self.written, self.lasting, self.largest
        for count in (self.input, self.output, *parts):
            if type(count) is not int or count < 0:
                msg = f"A number of tokens must be whole and at least 0, not {count!r}."
                raise InputError(msg)

    def most(self, call: Bill) -> Bill:
        """Return the most that a reserved call was billed, once its reply is known.

        Args:
            call: The model and the bound of the input, which counts if no tokens were reported.
        """
        if self.is_measured:
            return replace(self, model=call.model)
        return replace(call, output=self.output) if self.output else Bill(call.model)

    def usage(self) -> UsageMetadata:
        """Return the tokens as plain JSON."""
        largest = {"largest_call": self.largest} if self.largest else {}
        lasting = {_LASTING: self.lasting} if self.lasting else {}
        written = {"cache_read": self.cached, "cache_creation": self.written - self.lasting}
        reasoning: Any = {"reasoning": self.reasoning}
        reasoning |= {"reasoning_estimated": self.guessed} if self.guessed else {}
        details: Any = {**written, **lasting, **largest}
        return {
            "input_tokens": self.input,
            "output_tokens": self.output,
            "total_tokens": self.input + self.output,
            "input_token_details": details,
            "output_token_details": reasoning,
        }

    @classmethod
    def of(cls, model: str, usage: UsageMetadata) -> Bill:
        """Return the bill that `usage` made, or that a message of LangChain reports.

        Args:
            model: The model's key.
            usage: The tokens.

        Raises:
            InputError: If a number of tokens is not whole, or is negative.
        """
        details: Mapping[str, Any] = usage.get("input_token_details") or {}
        thought: Mapping[str, Any] = usage.get("output_token_details") or {}
        return cls(
            model,
            input=usage["input_tokens"],
            output=usage["output_tokens"],
            reasoning=thought.get("reasoning") or 0,
            guessed=thought.get("reasoning_estimated") or 0,
            cached=details.get("cache_read") or 0,
            written=(details.get("cache_creation") or 0) + (details.get(_LASTING) or 0),
            lasting=details.get(_LASTING) or 0,
            largest=details.get("largest_call") or 0,
        )


def bills_of(spending: Spending) -> list[Bill]:
    """Return one bill for each model."""
    return [Bill.of(model, usage) for model, usage in spending.items()]


def add_bills(bills: Iterable[Bill]) -> list[Bill]:
    """Return the sum of bills for each model, without refused calls."""
    total: dict[str, Bill] = {}
    for bill in bills:
        if bill.output or bill.input:
            known = total.get(bill.model) or Bill(bill.model)
            total[bill.model] = Bill(
                bill.model,
                input=known.input + bill.input,
                output=known.output + bill.output,
                reasoning=known.reasoning + bill.reasoning,
                guessed=known.guessed + bill.guessed,
                cached=known.cached + bill.cached,
                written=known.written + bill.written,
                lasting=known.lasting + bill.lasting,
                largest=max(known.largest, bill.largest or bill.input),
                is_measured=known.is_measured and bill.is_measured,
            )
    return [*total.values()]


def spending_of(bills: Iterable[Bill]) -> Spending:
    """Return the tokens of bills by model."""
    return {bill.model: bill.usage() for bill in add_bills(bills)}


def add_spending(first: Spending | None, second: Spending | None) -> Spending:
    """Return the sum of tokens by model: a reducer for the state of a graph.

    LangChain's ``add_usage`` would also add up the largest calls.

    Args:
        first: Tokens by model.
        second: Further tokens by model.
    """
    return spending_of([*bills_of(first or {}), *bills_of(second or {})])


def subtract_spending(whole: Spending, part: Spending) -> Spending:
    """Return the tokens by model that are in `whole` and not in `part`.

    Args:
        whole: Tokens by model.
        part: Some of these tokens. The largest call of the result is that of `whole`.
    """
    earlier = {bill.model: bill for bill in bills_of(part)}
    return spending_of(
        Bill(
            bill.model,
            input=max(0, bill.input - known.input),
            output=max(0, bill.output - known.output),
            reasoning=max(0, bill.reasoning - known.reasoning),
            guessed=max(0, bill.guessed - known.guessed),
            cached=max(0, bill.cached - known.cached),
            written=max(0, bill.written - known.written),
            lasting=max(0, bill.lasting - known.lasting),
            largest=bill.largest,
        )
        for bill in bills_of(whole)
        for known in [earlier.get(bill.model) or Bill()]
    )
