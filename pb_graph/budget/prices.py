"""Prices of tokens, as a user writes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError

from pb_graph.errors import InputError

_PRICES = TypeAdapter(
    dict[
        str,
        Annotated[
            tuple[Annotated[float, Field(ge=0, allow_inf_nan=False)], ...],
            Field(min_length=2, max_length=3),
        ],
    ]
)


def read_prices(given: Mapping[str, Sequence[float]]) -> dict[str, tuple[float, ...]]:
    """A table of prices as a user wrote it.

    Raises:
        InputError: Which price is wrong, and what one looks like.
    """
    try:
        return _PRICES.validate_python(given)
    except ValidationError as error:
        msg = "prices are dollars per million tokens of input and output, such as "
        msg += f'{{"gpt-5-mini": (0.25, 2.0)}}, not {given!r:.100}'
        raise InputError(msg) from error
