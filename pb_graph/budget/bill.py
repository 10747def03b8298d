"""Record what calls cost: a `Bill`, its sums by model and node, and how an account counts a bill.

An account counts completion tokens, all tokens, or dollars by the prices of models.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import KW_ONLY, dataclass, replace
from decimal import ROUND_CEILING, Decimal
from functools import lru_cache
from numbers import Integral, Real
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple, Self, cast

from pydantic import Field, TypeAdapter, ValidationError

from pb_graph.errors import InputError

if TYPE_CHECKING:
    from pb_graph.types import Charge, Spending, TokenUsage, Usage

Unit = Literal["completion tokens", "tokens", "dollars"]
Prices = Mapping[str, Sequence[float]]
"""Dollars per million tokens by model: of input, of output and, if it differs, of cached input."""

SURCHARGES = {"priority": 20, "us": 11}
"""Price of a service tier or a region, in tenths of the usual one; part of a model's key."""
MAX_TOKENS = 10**9
"""Completion tokens of a call or a question that nothing limits."""
_PER_DOLLAR = 10**12  # accounts count pico-dollars: of a price per million tokens, six decimals
_COUNTS = ("input", "output", "reasoning", "guessed", "cached", "written", "lasting")
_counts_of = attrgetter(*_COUNTS)

_Rates = Annotated[list[Annotated[Decimal, Field(ge=0)]], Field(min_length=2, max_length=3)]
_TABLE = TypeAdapter(dict[str, _Rates])


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
        counts = (*_counts_of(self), self.largest)
        if {*map(type, counts)} != {int} or min(counts) < 0:
            wrong = next(count for count in counts if type(count) is not int or count < 0)
            msg = f"A number of tokens must be whole and at least 0, not {wrong!r}."
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
        pairs = zip(_COUNTS, _counts_of(self), _counts_of(other), strict=True)
        counts = {name: max(0, own + sign * more) for name, own, more in pairs}
        largest = max(self.largest or self.input, other.largest or other.input)
        is_measured = self.is_measured and other.is_measured
        return Bill(self.model, **counts, largest=largest, is_measured=is_measured)

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
        """Return the bill of a model that `usage` tells."""
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


def add_bills(
    bills: Iterable[Bill], key: Callable[[Bill], str] = attrgetter("model")
) -> list[Bill]:
    """Return the sum of bills for each model, or for each key, without refused calls."""
    total: dict[str, Bill] = {}
    for bill in bills:
        if bill.output or bill.input:
            name = key(bill)
            total[name] = (total.get(name) or Bill(name)).plus(bill)
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


def spending(charges: Iterable[Charge]) -> Spending:
    """Return the largest possible bill of calls for each model, as budgets count it."""
    return spending_of(Bill.of(row["model"], row["most"]) for row in charges)


def spent(charges: Iterable[Charge]) -> int:
    """Return the completion tokens of ``charges``."""
    return sum(row["usage"]["output_tokens"] for row in charges)


def most_billed(charges: Iterable[Charge]) -> int:
    """Return the most completion tokens that the provider may have charged for.

    A lost attempt, whose bill is unknown, counts as its whole cap.
    """
    return sum(row["most"]["output_tokens"] for row in charges)


def usage_of(
    charges: Iterable[Charge], dollars: Callable[[Bill], float | None] | None = None
) -> Usage:
    """Sum up charges for the question, and for each node in order of first appearance.

    Args:
        charges: The charges of all calls. A sum is measured only if each of its charges is.
        dollars: The cost of a bill; None for sums without a cost.
    """
    rows = [(row, Bill.of(row["model"], row["usage"])) for row in charges]
    nodes = dict.fromkeys(row["node"] for row, _ in rows)
    calls = {node: [row for row in rows if row[0]["node"] == node] for node in nodes}
    by_node = {node: _total(calls[node], dollars) for node in nodes}
    return cast("Usage", {**_total(rows, dollars), "by_node": by_node})


def _total(
    rows: list[tuple[Charge, Bill]], dollars: Callable[[Bill], float | None] | None
) -> Usage:
    by_model = add_bills((bill for _, bill in rows), lambda bill: plain_name(bill.model))
    whole = add_bills(by_model, lambda _: "") or [Bill()]
    sums: dict[str, Any] = {bill.model: bill.usage() for bill in (*by_model, *whole)}
    for tokens in sums.values():
        tokens["input_token_details"].pop("largest_call", None)
    usage: Any = {
        **sums.pop(""),
        "calls": len(rows),
        "seconds": round(sum(row["seconds"] for row, _ in rows), 3),
        "measured": all(row["measured"] for row, _ in rows),
        "by_model": sums,
    }
    if dollars is not None:
        costs = [dollars(bill) for _, bill in rows]
        usage["cost"] = None if None in costs else round(sum(filter(None, costs)), 8)
    return cast("Usage", usage)


def plain_name(model: str) -> str:
    """Return a model's plain name, without its provider and its address."""
    name = model.partition(" at ")[0]
    return name if " at " in model else (name.partition(":")[2] or name)


def whole_number(name: str, value: object, *, minimum: int) -> int:
    """Return a whole number as an int; raise InputError for every other value.

    Args:
        name: Name of the number, for the error.
        value: The number, of any integral type.
        minimum: The smallest valid number.
    """
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < minimum:
        msg = f"{name} must be a whole number of at least {minimum}, not {value!r}"
        raise InputError(msg)
    return int(value)


@dataclass(eq=False)
class Rate:
    """The unit of an account: counts calls in whole units.

    Attributes:
        unit: The unit of the account's figures.
        cost: Returns the units of a bill.
        needs_input: Whether the input of calls counts.
        scale: Whole units of one token or dollar.
    """

    unit: Unit
    cost: Callable[[Bill], int]
    _: KW_ONLY
    needs_input: bool = True
    scale: int = 1

    def tokens_for(self, units: int, call: Bill, keep: int = 0, keep_tokens: int = 0) -> int:
        """Return the completion tokens that a call can have for so many units.

        Args:
            units: Units of this rate.
            call: The model and the input of the call.
            keep: Units to keep for one more call that has the same input and, besides, the
                completion of this one.
            keep_tokens: Completion tokens to keep for such a call.
        """
        base = self.cost(call)
        each = self.cost(replace(call, output=1)) - base
        if keep or keep_tokens:
            units -= keep + base + keep_tokens * each
            longer = replace(call, input=call.input + 1, written=call.written + 1)
            each += self.cost(longer) - base
        if base > units:
            return 0
        return (units - base) // each if each else MAX_TOKENS

    def text(self, figure: float) -> str:
        """Return a figure with its unit."""
        if self.unit == "dollars":
            return f"${figure:.6f}".rstrip("0").rstrip(".")
        noun = "token" if round(figure) == 1 else "tokens"
        return f"{figure:.0f} {noun}" + (", input included" if self.needs_input else "")


COMPLETION_TOKENS = Rate("completion tokens", attrgetter("output"), needs_input=False)
ALL_TOKENS = Rate("tokens", lambda bill: bill.input + bill.output)


class _Price(NamedTuple):
    """Pico-dollars per token, for calls with more than `start` input tokens."""

    start: int
    input: int
    output: int
    cached: int
    written: int
    lasting: int


class Dollars(Rate):
    """Counts dollars by the prices of models.

    Args:
        prices: Prices by model, or ``"auto"`` for those that genai-prices knows.

    Raises:
        InputError: If a price is not a pair or triple of numbers of at least 0.
    """

    def __init__(self, prices: Prices | Literal["auto"]) -> None:
        super().__init__("dollars", self._cost, scale=_PER_DOLLAR)
        self._table: dict[str, _Price] | None = None
        if prices == "auto":
            return
        try:
            table = _TABLE.validate_python(prices)
        except ValidationError as error:
            msg = "prices must be dollars per million tokens of input and output, such as "
            msg += f'{{"gpt-5-mini": (0.25, 2.0)}}, not {prices!r:.100}'
            raise InputError(msg) from error
        self._table = {}
        for name, (fresh, output, *cached) in table.items():
            fields = fresh, output, cached[0] if cached else fresh, fresh, fresh
            self._table[name] = _Price(0, *map(_pico, fields))

    @staticmethod
    def units(name: str, figure: object, *, minimum: int) -> int:
        """Return dollars in whole units; 1 as the `minimum` demands more than 0."""
        is_number = isinstance(figure, (Real, Decimal)) and not isinstance(figure, bool)
        number = Decimal(str(figure)) if is_number else Decimal("NaN")
        if not number.is_finite() or number < 0 or (minimum and number <= 0):
            size = "more than 0" if minimum else "at least 0"
            msg = f"{name} must be a number of dollars, {size}, not {figure!r}"
            raise InputError(msg)
        return int(number * _PER_DOLLAR)

    def dollars(self, bill: Bill) -> float | None:
        """Return the dollars of a bill; None if its model has no price."""
        try:
            return self._cost(bill) / self.scale
        except InputError:
            return None

    def price(self, model: str) -> list[_Price]:
        """Return the prices of a model by the length of a prompt; raise InputError without any."""
        base, _, surcharge = model.removesuffix(")").partition(" (")
        factor = SURCHARGES.get(surcharge, 10)
        prices = _known_price(base) if self._table is None else self._row(base)
        if not prices:
            name = plain_name(model)
            msg = f"No price is known for the model {model!r}. Give it in dollars per million "
            msg += f'tokens of input and output: prices={{"{name}": (0.25, 2.0)}}.'
            raise InputError(msg)
        return [
            _Price(start, *(-(-price * factor // 10) for price in each)) for start, *each in prices
        ]

    def _cost(self, bill: Bill) -> int:
        if not (bill.output or bill.input):
            return 0
        size = bill.largest or bill.input
        price = [tier for tier in self.price(bill.model) if size > tier.start or not tier.start][-1]
        fresh = max(0, bill.input - bill.cached - bill.written)
        # A bound assumes that all input is written to the cache at the highest price.
        dearest = max(price.input, price.cached, price.written)
        cache_cost = bill.cached * price.cached + (bill.written - bill.lasting) * dearest
        cache_cost += bill.lasting * max(dearest, price.lasting)
        return fresh * price.input + cache_cost + bill.output * price.output

    def _row(self, model: str) -> list[_Price]:
        """Return the row of the table for a model: its own key, else its plain name.

        Else it is the row of a provider that has a model of this name: of the provider that the
        address names, or the dearest one. A fine-tuned model (``ft:``) has only a row of its own.
        """
        table, name = self._table or {}, plain_name(model)
        if exact := [table[key] for key in (model, model.rstrip("/"), name) if key in table]:
            return exact[:1]
        rows = {key.partition(":")[0]: table[key] for key in table if key.partition(":")[2] == name}
        rows.pop("ft", None)
        # OpenAI's name stands in the addresses of others, before Azure's and after Groq's.
        host = model.partition(" at ")[2].partition("//")[2].partition("/")[0]
        best = sorted(rows, key=lambda provider: (-host.rfind(provider), -rows[provider].output))
        return [rows[provider] for provider in best[:1]]


def _pico(per_million: float | Decimal) -> int:
    return int((Decimal(str(per_million)) * 10**6).to_integral_value(ROUND_CEILING))


@lru_cache
def _known_price(model: str) -> list[_Price]:
    """Return the prices of genai-prices for a model; empty if the model is unknown."""
    from genai_prices import Usage, calc_price  # noqa: PLC0415 -- takes 0.4 seconds
    from genai_prices.types import calc_unit_price  # noqa: PLC0415

    name, _, address = model.partition(" at ")
    provider, _, tail = name.partition(":")
    usage = Usage(input_tokens=0, output_tokens=0)
    try:
        if address:
            known = calc_price(usage, name, provider_api_url=address).model_price
        else:
            owner = provider if tail else None
            known = calc_price(usage, tail or name, provider_id=owner).model_price
    except LookupError:
        return []
    fresh, output = known.input_mtok, known.output_mtok
    if fresh is None or output is None:
        return []
    caches = known.cache_read_mtok, known.cache_write_mtok, known.cache_write_1h_mtok
    fields = [fresh, output, *(fresh if price is None else price for price in caches)]
    starts = sorted({0, *(tier.start for price in fields for tier in getattr(price, "tiers", ()))})
    return [
        _Price(start, *(_pico(calc_unit_price(price, 1, start + 1, 1)) for price in fields))
        for start in starts
    ]


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
