"""Describe the fields of a dataclass once, for Python and for the command line."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from pb_graph.budget.account import Budget
from pb_graph.errors import InputError

if TYPE_CHECKING:
    from pb_graph.budget.rates import Prices


def option(text: str, panel: str | None = None, default: Any = MISSING, **further: Any) -> Any:  # noqa: ANN401
    """Return a field with the help of its option; `optim.cli.options` reads the metadata.

    Args:
        text: Help of the option.
        panel: Panel of the help that lists the option. None for the first one.
        default: Default of the field; `dict` for an empty mapping.
        further: Further metadata, as `optim.cli.options` describes them.
    """
    metadata = {"help": text, "panel": panel, **further}
    if default is dict:
        return field(default_factory=dict, metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The most that an evaluation or a tuning may cost, by an account of `pb_graph.Budget`.

    What earlier runs in the same folder spent counts. Answers that have begun are finished.

    Attributes:
        limit_tokens: Completion tokens.
        limit_usd: US dollars, by the prices.
        prices: ``auto`` for those of `genai-prices`, or US dollars per million tokens by model, as
            for `Budget`. None for none.

    Raises:
        InputError: If both limits are given, or one is not above 0.
    """

    limit_tokens: int | None = option(
        "Start no answer after N completion tokens.", "Limits", None, metavar="N"
    )
    limit_usd: float | None = option("Start no answer after N US $.", "Limits", None, metavar="N")
    prices: Literal["auto"] | Prices | None = option(
        "Prices in US $: auto, none or a JSON file.", "Output", "auto", metavar="FILE", reads=str
    )

    def __post_init__(self) -> None:
        self.account()

    def account(self) -> Budget | None:
        """Return a new account of the limit, or None without one."""
        if self.limit_usd is None:
            return None if self.limit_tokens is None else Budget(self.limit_tokens)
        if self.limit_tokens is not None:
            msg = "give one limit: --limit-tokens or --limit-usd"
            raise InputError(msg)
        return Budget(usd=self.limit_usd, prices=self.prices or "auto")
