"""Record what calls cost: a `Bill`, its sums by model and node, and its amount in an account."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import KW_ONLY, dataclass, replace
from decimal import ROUND_CEILING, Decimal
from functools import lru_cache
from numbers import Integral, Real
from operator import attrgetter
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self, cast

from pydantic import Field, TypeAdapter, ValidationError

from pb_graph.errors import InputError
from pb_graph.types import Charge, Spending, TokenUsage, Usage

Unit = Literal["completion tokens", "tokens", "dollars"]
Prices = Mapping[str, Sequence[float]]  # dollars per million tokens: input, output, cached input
SURCHARGES = {"priority": 20, "us": 11}  # prices of a service tier and a region, in tenths
MAX_TOKENS = 10**9  # completion tokens of a call or a question that nothing limits
_PER_DOLLAR = 10**12  # accounts count pico-dollars: of a price per million tokens, six decimals
_SUMS = ("input", "output", "reasoning", "guessed", "cached", "written", "lasting")
_sums_of, _counts_of = attrgetter(*_SUMS), attrgetter(*_SUMS, "largest")
_Rates = Annotated[list[Annotated[Decimal, Field(ge=0)]], Field(min_length=2, max_length=3)]
_TABLE = TypeAdapter(dict[str, _Rates])


@dataclass(frozen=True, slots=True)
class Bill:
    """The tokens of calls to one model, or the most that they can be."""

    model: str = ""  # its key: ``provider:name``, ``name at address`` or the plain name
    _: KW_ONLY
    input: int = 0  # with cached and written tokens
    output: int = 0  # completion tokens, with reasoning
    reasoning: int = 0  # completion tokens of hidden reasoning
    guessed: int = 0  # those of them that are estimated, as the thought stands in the text
    cached: int = 0  # input tokens that were read from a cache
    written: int = 0  # input tokens that were written to a cache
    lasting: int = 0  # those of them that were written for an hour
    largest: int = 0  # input of the largest call, which prices long prompts; 0 for a single call
    is_measured: bool = True  # reported by the provider; else an estimate or a bound

    def __post_init__(self) -> None:
        for count in _counts_of(self):
            if type(count) is not int or count < 0:
                whole_number("tokens of a bill", count, minimum=0)

    def most(self, call: Bill) -> Bill:
        """Return the most that a call was billed; its bound counts if no tokens were reported."""
        if self.is_measured:
            return self if self.model else replace(self, model=call.model)
        return replace(call, output=self.output) if self.output else Bill(call.model)

    def usage(self) -> TokenUsage:
        """Return the tokens as plain JSON."""
        rare = {"ephemeral_1h_input_tokens": self.lasting, "largest_call": self.largest}
        details = {"cache_read": self.cached, "cache_creation": self.written - self.lasting}
        guessed = {"reasoning_estimated": self.guessed} if self.guessed else {}
        return {
            "input_tokens": self.input,
            "output_tokens": self.output,
            "total_tokens": self.input + self.output,
            "input_token_details": details | {key: count for key, count in rare.items() if count},
            "output_token_details": {"reasoning": self.reasoning} | guessed,
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


def spending_of(bills: Iterable[Bill]) -> Spending:
    """Return the tokens of bills by model, without refused calls."""
    return {
        model: _sum(own, max([bill.largest or bill.input for bill in own])).usage()
        for model, own in _by_model(bills).items()
    }


def _by_model(bills: Iterable[Bill], name: Callable[[str], str] = str) -> dict[str, list[Bill]]:
    """Return the bills of calls that were not refused, under the names of their models."""
    groups: dict[str, list[Bill]] = {}
    for bill in bills:
        if bill.output or bill.input:
            groups.setdefault(name(bill.model), []).append(bill)
    return groups


def _sum(bills: Iterable[Bill], largest: int = 0) -> Bill:
    """Return the tokens of calls, without their models."""
    sums = map(sum, zip(*map(_sums_of, bills), strict=True))
    counts: dict[str, Any] = dict(zip(_SUMS, sums, strict=False))
    return Bill(**counts, largest=largest)


def add_spending(first: Spending | None, second: Spending | None) -> Spending:
    """Return the sum of tokens by model, as a reducer: ``add_usage`` would add up largest calls."""
    return spending_of([*bills_of(first or {}), *bills_of(second or {})])


def subtract_spending(whole: Spending, part: Spending) -> Spending:
    """Return the tokens by model that are in `whole` and not in `part`."""
    rest = list[Bill]()
    for bill in bills_of(whole):
        taken = _sums_of(Bill.of(bill.model, part[bill.model]) if bill.model in part else Bill())
        pairs = zip(_SUMS, _sums_of(bill), taken, strict=True)
        counts = {name: max(0, count - other) for name, count, other in pairs}
        rest.append(Bill(bill.model, **counts, largest=bill.largest or bill.input))
    return spending_of(rest)


def spending(charges: Iterable[Charge]) -> Spending:
    """Return the largest possible bill of calls for each model, as budgets count it."""
    return spending_of(Bill.of(row["model"], row["most"]) for row in charges)


def spent(charges: Iterable[Charge]) -> int:
    """Return the completion tokens of ``charges``."""
    return sum(row["usage"]["output_tokens"] for row in charges)


def most_billed(charges: Iterable[Charge]) -> int:
    """Return the most completion tokens that may be charged: of a lost attempt its whole cap."""
    return sum(row["most"]["output_tokens"] for row in charges)


def usage_of(charges: Iterable[Charge], dollars: Dollars | None = None) -> Usage:
    """Sum up charges for the question, and for each node in order of first appearance.

    Args:
        charges: The charges of all calls. A sum is measured only if each of its charges is.
        dollars: The prices; None for sums without a cost.
    """
    counted = [(row, Bill.of(row["model"], row["usage"])) for row in charges]
    parts = dict[str, Usage]()
    for node in dict.fromkeys(row["node"] for row, _ in counted):
        parts[node] = _total([one for one in counted if one[0]["node"] == node], dollars)
    return cast("Usage", {**_total(counted, dollars), "by_node": parts})


def _total(counted: Sequence[tuple[Charge, Bill]], dollars: Dollars | None) -> Usage:
    rows, bills = [row for row, _ in counted], [bill for _, bill in counted]
    by_model = _by_model(bills, plain_name).items()
    usage: Any = {
        **_sum(bills).usage(),
        "calls": len(rows),
        "seconds": round(sum(row["seconds"] for row in rows), 3),
        "measured": all(row["measured"] for row in rows),
        "by_model": {name: _sum(own).usage() for name, own in by_model},
    }
    if dollars is not None:
        usage["cost"] = None
        with suppress(InputError):  # a model without a price
            usage["cost"] = round(sum(map(dollars.cost, bills)) / dollars.scale, 8)
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
    """The unit of an account: counts calls in whole units."""

    unit: Unit
    cost: Callable[[Bill], int]
    scale: int = 1  # whole units of one token or dollar
    needs_input: bool = True
    units = staticmethod(whole_number)

    def text(self, figure: float) -> str:
        """Return a figure with its unit."""
        if self.unit == "dollars":
            return f"${figure:.6f}".rstrip("0").rstrip(".")
        noun = "token" if round(figure) == 1 else "tokens"
        return f"{figure:.0f} {noun}" + (", input included" if self.needs_input else "")


COMPLETION_TOKENS = Rate("completion tokens", attrgetter("output"), needs_input=False)
ALL_TOKENS = Rate("tokens", lambda bill: bill.input + bill.output)


class _Price(NamedTuple):
    """Pico-dollars of a token, in calls with more than `start` input tokens."""

    start: int
    input: int
    output: int
    cached: int
    written: int
    lasting: int


class Dollars(Rate):
    """Counts dollars by the prices of models, or of genai-prices where they are ``"auto"``."""

    def __init__(self, prices: Prices | Literal["auto"]) -> None:
        super().__init__("dollars", self._cost, _PER_DOLLAR)
        try:
            self._table = None if prices == "auto" else _TABLE.validate_python(prices)
        except ValidationError as error:
            msg = "prices must be dollars per million tokens of input and output, such as "
            msg += f'{{"gpt-5-mini": (0.25, 2.0)}}, not {prices!r:.100}'
            raise InputError(msg) from error

    @staticmethod
    def units(name: str, value: object, *, minimum: int) -> int:
        """Return dollars in whole units; 1 as the `minimum` demands more than 0."""
        is_number = isinstance(value, (Real, Decimal)) and not isinstance(value, bool)
        number = Decimal(str(value)) if is_number else Decimal("NaN")
        if not number.is_finite() or number < 0 or (minimum and not number):
            size = "more than 0" if minimum else "at least 0"
            msg = f"{name} must be a number of dollars, {size}, not {value!r}"
            raise InputError(msg)
        return int(number * _PER_DOLLAR)

    def price(self, model: str) -> list[_Price]:
        """Return the prices of a model by the length of a prompt; raise InputError without any."""
        base, _, surcharge = model.removesuffix(")").partition(" (")
        row = _known_prices(base) if self._table is None else self._row(base)
        if not row:
            msg = f"No price is known for the model {model!r}. Give it in dollars per million "
            msg += f'tokens of input and output: prices={{"{plain_name(base)}": (0.25, 2.0)}}.'
            raise InputError(msg)
        factor = SURCHARGES.get(surcharge, 10)
        fields = [row[0] if one is None else one for one in (*row, None, None, None)[:5]]
        starts = {0, *(tier.start for field in fields for tier in getattr(field, "tiers", ()))}
        tiers = [(start, *(_pico(field, start) for field in fields)) for start in sorted(starts)]
        return [_Price(n, *(-(-pico * factor // 10) for pico in picos)) for n, *picos in tiers]

    def _cost(self, bill: Bill) -> int:
        if not (bill.output or bill.input):
            return 0
        size = bill.largest or bill.input
        tiers = [tier for tier in self.price(bill.model) if size > tier.start or not tier.start]
        _, fresh, output, cached, written, lasting = tiers[-1]
        cost = max(0, bill.input - bill.cached - bill.written) * fresh + bill.output * output
        # A bound assumes that all input is written to the cache at the highest price.
        dearest = max(fresh, cached, written)
        cost += bill.cached * cached + (bill.written - bill.lasting) * dearest
        return cost + bill.lasting * max(dearest, lasting)

    def _row(self, model: str) -> list[Decimal]:
        """Return the row of a model's key, else of its plain name, else of one of its providers."""
        table, name = self._table or {}, plain_name(model)
        for key in (model, model.rstrip("/"), name):
            if key in table:
                return table[key]
        rows = {key.partition(":")[0]: table[key] for key in table if key.partition(":")[2] == name}
        rows.pop("ft", None)  # a fine-tune has its own row
        # The provider that the address names, or the dearest. OpenAI's name stands in the addresses
        # of others, before Azure's and after Groq's.
        host = model.partition(" at ")[2].partition("//")[2].partition("/")[0]
        best = sorted(rows, key=lambda provider: (-host.rfind(provider), -rows[provider][1]))
        return rows[best[0]] if best else []


def _pico(price: object, start: int) -> int:
    """Return the pico-dollars of a token in calls with more than `start` input tokens."""
    prices: list[Any] = [getattr(price, "base", price)]
    prices += [tier.price for tier in getattr(price, "tiers", ()) if start >= tier.start]
    return int((prices[-1] * 10**6).to_integral_value(ROUND_CEILING))


@lru_cache
def _known_prices(model: str) -> list[Any]:
    """Return the prices of genai-prices for a model, which may have tiers; empty if unknown."""
    from genai_prices import Usage, calc_price  # noqa: PLC0415 -- takes 0.4 seconds

    name, _, address = model.partition(" at ")
    owner, _, tail = name.partition(":")
    where = {"provider_api_url": address} if address else {"provider_id": owner if tail else None}
    try:
        known = calc_price(Usage(), plain_name(model), **where).model_price
    except LookupError:
        return []
    prices = [known.input_mtok, known.output_mtok]
    caches = [known.cache_read_mtok, known.cache_write_mtok, known.cache_write_1h_mtok]
    return [] if None in prices else prices + caches


class Reservation:
    """Tokens reserved for one call until the call is settled.

    Attributes:
        tokens: The call's cap in completion tokens.
        call: The model and the bound of the input, where an account counts it.
        most: The most that the call can cost.
        bill: The counted bill of a settled call; its largest possible value if unknown.
    """

    OPEN: ClassVar[ContextVar[int]] = ContextVar("pb_graph_open_reservations", default=0)

    def __init__(self, tokens: int, call: Bill, settle: Callable[..., None]) -> None:
        self.tokens, self.call, self._settle = tokens, call, settle
        self.most = replace(call, output=tokens) if call.input else Bill(call.model, output=tokens)
        self.bill: Bill | None = None

    def settle(self, cost: int | list[Bill]) -> None:
        """Charge the cost of the call once, and release the rest of the reservation.

        The cost is the bills of all calls that were made; or completion tokens, reasoning included,
        to which the bound of the input is added; or 0 for a call that was refused.
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
