"""The unit of a budget: how a call counts in completion tokens, in all tokens, or in dollars."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from decimal import ROUND_CEILING, Decimal
from functools import lru_cache
from numbers import Real
from operator import attrgetter
from typing import Annotated, Literal, NamedTuple

from pydantic import Field, TypeAdapter, ValidationError

from pb_graph.budget.bill import Bill, plain_name
from pb_graph.errors import InputError

Unit = Literal["completion tokens", "tokens", "dollars"]
Prices = Mapping[str, Sequence[float]]
"""Dollars per million tokens by model: of input, of output and, if it differs, of cached input."""

SURCHARGES = {"priority": 20, "us": 11}
"""Price of a service tier or a region, in tenths of the usual one; part of a model's key."""
MAX_TOKENS = 10**9
"""Completion tokens of a call or a question that nothing limits."""
_PER_DOLLAR = 10**12  # accounts count pico-dollars: of a price per million tokens, six decimals
_PER_MILLION = 10**6

_Rates = Annotated[list[Annotated[Decimal, Field(ge=0)]], Field(min_length=2, max_length=3)]
_TABLE = TypeAdapter(dict[str, _Rates])


class Price(NamedTuple):
    """Pico-dollars per token, for calls with more than `start` input tokens."""

    start: int
    input: int
    output: int
    cached: int
    written: int
    lasting: int


class Rate:
    """The unit of an account: counts calls in whole units.

    Attributes:
        unit: The unit of the account's figures.
        cost: Returns the units of a bill.
        needs_input: Whether the input of calls counts.
        scale: Whole units of one token or dollar.
    """

    def __init__(
        self, unit: Unit, cost: Callable[[Bill], int], *, needs_input: bool = True, scale: int = 1
    ) -> None:
        self.unit, self.cost, self.needs_input, self.scale = unit, cost, needs_input, scale

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

    def text(self, value: float) -> str:
        """Return a figure with its unit."""
        if self.unit == "dollars":
            return f"${value:.6f}".rstrip("0").rstrip(".")
        noun = "token" if round(value) == 1 else "tokens"
        return f"{value:.0f} {noun}" + (", input included" if self.needs_input else "")


COMPLETION_TOKENS = Rate("completion tokens", attrgetter("output"), needs_input=False)
ALL_TOKENS = Rate("tokens", lambda bill: bill.input + bill.output)


class Dollars(Rate):
    """Counts dollars by the prices of models.

    Args:
        prices: Prices by model, or ``"auto"`` for those that genai-prices knows.

    Raises:
        InputError: If a price is not a pair or triple of numbers of at least 0.
    """

    def __init__(self, prices: Prices | Literal["auto"]) -> None:
        super().__init__("dollars", self._cost, scale=_PER_DOLLAR)
        self._table = None if prices == "auto" else _read_table(prices)

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

    @staticmethod
    def units(name: str, value: object, *, minimum: int) -> int:
        """Return dollars in whole units.

        Args:
            name: Name of the figure, for the error.
            value: Dollars.
            minimum: 1 for a figure that must be above 0, else 0.

        Raises:
            InputError: If the value is no number, or too small.
        """
        is_number = isinstance(value, (Real, Decimal)) and not isinstance(value, bool)
        number = Decimal(str(value)) if is_number else Decimal("NaN")
        if not number.is_finite() or number < 0 or (minimum and number <= 0):
            size = "more than 0" if minimum else "at least 0"
            msg = f"{name} must be a number of dollars, {size}, not {value!r}"
            raise InputError(msg)
        return int(number * _PER_DOLLAR)

    def dollars(self, bill: Bill) -> float | None:
        """Return the dollars of a bill; None if its model has no price."""
        try:
            return self._cost(bill) / self.scale
        except InputError:
            return None

    def price(self, model: str) -> list[Price]:
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
            Price(start, *(-(-price * factor // 10) for price in each)) for start, *each in prices
        ]

    def _row(self, model: str) -> list[Price]:
        """Return the row of the table for a model: its own key, else its plain name.

        Else it is the row of a provider that has a model of this name: of the provider that the
        address names, or the dearest one. A fine-tuned model (``ft:``) has only a row of its own.
        """
        table, name = self._table or {}, plain_name(model)
        if exact := [table[key] for key in (model, name) if key in table]:
            return exact[:1]
        rows = {key.partition(":")[0]: table[key] for key in table if key.partition(":")[2] == name}
        rows.pop("ft", None)
        address = model.partition(" at ")[2]
        own = [row for provider, row in rows.items() if provider in address]
        return sorted(own or rows.values(), key=lambda row: -row.output)[:1]


def _pico(per_million: float | Decimal) -> int:
    pico = Decimal(str(per_million)) * _PER_DOLLAR / _PER_MILLION
    return int(pico.to_integral_value(ROUND_CEILING))


def _read_table(given: Prices) -> dict[str, Price]:
    try:
        table = _TABLE.validate_python(given)
    except ValidationError as error:
        msg = "prices must be dollars per million tokens of input and output, such as "
        msg += f'{{"gpt-5-mini": (0.25, 2.0)}}, not {given!r:.100}'
        raise InputError(msg) from error
    prices = {}
    for name, (fresh, output, *cached) in table.items():
        read = cached[0] if cached else fresh
        prices[name] = Price(0, *map(_pico, (fresh, output, read, fresh, fresh)))
    return prices


@lru_cache
def _known_price(model: str) -> list[Price]:
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
        Price(start, *(_pico(calc_unit_price(price, 1, start + 1, 1)) for price in fields))
        for start in starts
    ]
