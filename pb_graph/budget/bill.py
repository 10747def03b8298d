"""The record of what calls cost: a `Bill`, and its sums by model, by node and for a question."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import KW_ONLY, dataclass, replace
from numbers import Integral
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

from pb_graph.errors import InputError

if TYPE_CHECKING:
    from pb_graph.types import Charge, Spending, TokenUsage, Usage

_COUNTS = ("input", "output", "reasoning", "guessed", "cached", "written", "lasting")


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
        for count in [getattr(self, name) for name in (*_COUNTS, "largest")]:
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

    def plus(self, other: Bill, sign: int = 1) -> Bill:
        """Return the sum of two bills of one model; with a sign of -1, the difference."""
        counts = {n: max(0, getattr(self, n) + sign * getattr(other, n)) for n in _COUNTS}
        largest = max(self.largest or self.input, other.largest or other.input)
        is_measured = self.is_measured and other.is_measured
        return replace(self, **counts, largest=largest, is_measured=is_measured)

    def usage(self) -> TokenUsage:
        """Return the tokens as plain JSON."""
        rare = {"ephemeral_1h_input_tokens": self.lasting, "largest_call": self.largest}
        details = {"cache_read": self.cached, "cache_creation": self.written - self.lasting}
        details |= {name: count for name, count in rare.items() if count}
        reasoning = {"reasoning": self.reasoning}
        reasoning |= {"reasoning_estimated": self.guessed} if self.guessed else {}
        return {
            "input_tokens": self.input,
            "output_tokens": self.output,
            "total_tokens": self.input + self.output,
            "input_token_details": details,
            "output_token_details": reasoning,
        }

    @classmethod
    def of(cls, model: str, usage: Mapping[str, Any]) -> Bill:
        """Return the bill that `usage` made.

        Args:
            model: The model's key.
            usage: The tokens.

        Raises:
            InputError: If a number of tokens is not whole, or is negative.
        """
        details: Mapping[str, Any] = usage.get("input_token_details") or {}
        thought: Mapping[str, Any] = usage.get("output_token_details") or {}
        lasting = details.get("ephemeral_1h_input_tokens") or 0
        return cls(
            model,
            input=usage["input_tokens"],
            output=usage["output_tokens"],
            reasoning=thought.get("reasoning") or 0,
            guessed=thought.get("reasoning_estimated") or 0,
            cached=details.get("cache_read") or 0,
            written=(details.get("cache_creation") or 0) + lasting,
            lasting=lasting,
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
            total[bill.model] = (total.get(bill.model) or Bill(bill.model)).plus(bill)
    return [*total.values()]


def spending_of(bills: Iterable[Bill]) -> Spending:
    """Return the tokens of bills by model."""
    return {bill.model: bill.usage() for bill in add_bills(bills)}


def add_spending(first: Spending | None, second: Spending | None) -> Spending:
    """Return the sum of tokens by model, as a reducer: ``add_usage`` would add up largest calls."""
    return spending_of([*bills_of(first or {}), *bills_of(second or {})])


def subtract_spending(whole: Spending, part: Spending) -> Spending:
    """Return the tokens by model that are in `whole` and not in `part`."""
    earlier = {bill.model: bill for bill in bills_of(part)}
    rest = [bill.plus(earlier.get(bill.model) or Bill(), -1) for bill in bills_of(whole)]
    return spending_of(rest)


def usage_of(
    charges: Iterable[Charge], dollars: Callable[[Bill], float | None] | None = None
) -> Usage:
    """Sum up charges for the question, and for each node in order of first appearance.

    Args:
        charges: The charges of all calls. A sum is measured only if each of its charges is.
        dollars: The cost of a bill; None for sums without a cost.
    """
    nodes: dict[str, list[Charge]] = {}
    for row in (rows := list(charges)):
        nodes.setdefault(row["node"], []).append(row)
    by_node = {node: _total(calls, dollars) for node, calls in nodes.items()}
    return cast("Usage", {**_total(rows, dollars), "by_node": by_node})


def _total(rows: list[Charge], dollars: Callable[[Bill], float | None] | None) -> Usage:
    bills = [Bill.of(row["model"], row["usage"]) for row in rows]
    by_model = add_bills(replace(bill, model=plain_name(bill.model)) for bill in bills)
    whole = add_bills(replace(bill, model="") for bill in by_model) or [Bill()]
    usage: Any = {
        **replace(whole[0], largest=0).usage(),
        "calls": len(rows),
        "seconds": round(sum(row["seconds"] for row in rows), 3),
        "measured": all(row["measured"] for row in rows),
        "by_model": {bill.model: replace(bill, largest=0).usage() for bill in by_model},
    }
    if dollars is not None:
        costs = [dollars(bill) for bill in bills]
        usage["cost"] = None if None in costs else round(sum(filter(None, costs)), 8)
    return cast("Usage", usage)


def plain_name(model: str) -> str:
    """Return a model's plain name, without its provider and its address."""
    name = model.partition(" at ")[0]
    return name if " at " in model else (name.partition(":")[2] or name)


def spent(charges: Iterable[Charge]) -> int:
    """Return the completion tokens of ``charges``."""
    return sum(row["usage"]["output_tokens"] for row in charges)


def most_billed(charges: Iterable[Charge]) -> int:
    """Return the most completion tokens that the provider may have charged for.

    A lost attempt, whose bill is unknown, counts as its whole cap.
    """
    return sum(row["most"]["output_tokens"] for row in charges)


def spending(charges: Iterable[Charge]) -> Spending:
    """Return the largest possible bill of calls for each model, as budgets count it."""
    return spending_of([Bill.of(row["model"], row["most"]) for row in charges])


def whole_number(name: str, value: object, *, minimum: int) -> int:
    """Return a whole number as an int; raise InputError for every other value.

    Args:
        name: Name of the number, for the error.
        value: The number, of any integral type.
        minimum: The smallest valid number.
    """
    if isinstance(value, bool) or not isinstance(value, (int, Integral)) or value < minimum:
        msg = f"{name} must be a whole number of at least {minimum}, not {value!r}"
        raise InputError(msg)
    return int(value)


class Reservation:
    """Tokens reserved for one call until the call is settled.

    Attributes:
        tokens: The call's cap in completion tokens.
        call: The model and the bound of the input, where an account counts it.
        most: The most that the call can cost.
        bill: The counted bill of a settled call; its largest possible value if unknown.
    """

    OPEN: ClassVar[ContextVar[int]] = ContextVar("pb_graph_open_reservations", default=0)
    """The reservations whose blocks are open around a caller."""

    def __init__(self, tokens: int, call: Bill, settle: Callable[..., None]) -> None:
        self.tokens, self.call, self.most = tokens, call, replace(call, output=tokens)
        self.bill: Bill | None = None
        self._settle = settle

    def settle(self, cost: int | list[Bill]) -> None:
        """Charge the cost of the call once, and release the rest of the reservation.

        Args:
            cost: Completion tokens, reasoning included, to which the bound of the input is added; 0
                for a call that was refused. Or the bills of all calls that were made.
        """
        if not isinstance(cost, list):
            output = whole_number("cost", cost, minimum=0)
            cost = [replace(self.call, output=output) if output else Bill(self.call.model)]
        self._settle(self, cost, is_unknown=False)

    def forfeit(self) -> None:
        """Keep all tokens reserved for good, because the bill of the call is unknown."""
        self._settle(self, [self.most], is_unknown=True)

    def __enter__(self) -> Self:
        self.OPEN.set(self.OPEN.get() + 1)
        return self

    def __exit__(self, *_: object) -> None:
        self.OPEN.set(max(0, self.OPEN.get() - 1))
        if self.bill is None:
            self.forfeit()
