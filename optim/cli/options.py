"""Share options between commands: options from dataclass fields, and errors of one line.

The metadata of a field holds its ``help``, and where they are needed its ``panel``, ``flags``,
``metavar`` and ``names`` (to choose from). A field with a mapping takes the option several times.
Defaults are the dataclass's. A field without metadata has the metadata of the same field in
`Experiment`.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from optim.evaluation.experiment import Experiment
from optim.extras import missing_extra
from pb_graph.budget.bill import Dollars, Prices
from pb_graph.cli.options import INTERRUPTED, Exits, read_assignments, read_set
from pb_graph.errors import InputError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

exits = Exits("pb-optim")

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON only.", rich_help_panel="Output")]
Logs = Annotated[
    list[str], typer.Argument(metavar="DIR...", help="One or several --log-dir of `pb-optim eval`.")
]
Partial = Annotated[bool, typer.Option("--partial", help="Accept missing or unfinished parts.")]
PriceRatio = Annotated[
    float,
    typer.Option(
        metavar="N", help="Units that a completion token costs.", rich_help_panel="Output"
    ),
]

_TYPES: dict[object, Any] = {
    "bool": bool,
    "int": int,
    "float": float,
    "int | None": int | None,
    "float | None": float | None,
}


def read_numbers(option: str, text: str) -> list[int]:
    """Read comma-separated whole numbers, or raise `InputError`."""
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        msg = f"{option} must be whole numbers separated by commas, not {text!r}"
        raise InputError(msg) from None


def read_prices(text: str) -> Literal["auto"] | Prices | None:
    """Return the prices that ``--prices`` names: of genai-prices, of a file, or none.

    Raises:
        InputError: If the file cannot be read.
    """
    if text in {"auto", "none"}:
        return "auto" if text == "auto" else None
    try:
        prices: Prices = json.loads(Path(text).read_text(encoding="utf-8"))
        Dollars(prices)
    except (OSError, ValueError, TypeError, AttributeError) as error:
        form = 'US $ per million tokens as JSON: {"MODEL": [input, output]}'
        msg = f"cannot read the prices in {text}: {error}. Give {form}."
        raise InputError(msg) from error
    return prices


_READERS: dict[str, Callable[[Any], Any]] = {
    "fields": lambda texts: read_assignments("--field", texts),
    "settings": read_set,
    "levels": lambda text: text and read_numbers("--levels", text),
    "prices": read_prices,
}
"""Functions that make a field's value of the text on the command line."""


def with_options(
    choices: type[DataclassInstance],
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command an option for each field of a dataclass with metadata.

    The command takes the dataclass as its first argument. It ends as `plain_errors` says.

    Args:
        choices: The dataclass.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = list(inspect.signature(command, eval_str=True).parameters.values())[1:]
        offered = {
            field.name: (field, metadata)
            for field in dataclasses.fields(choices)
            if (metadata := field.metadata or _EXPERIMENT.get(field.name))
        }

        @plain_errors()
        def run(**given: Any) -> None:  # noqa: ANN401 -- values that Typer read
            values = {name: given.pop(name) for name in offered}
            for name in values.keys() & _READERS.keys():
                values[name] = _READERS[name](values[name])
            command(choices(**values), **given)

        parameters = [_parameter(field, metadata) for field, metadata in offered.values()]
        run.__name__, run.__doc__ = command.__name__, command.__doc__
        signature = inspect.Signature([*parameters, *own])
        run.__signature__ = signature  # type: ignore[attr-defined]
        run.__annotations__ = {}
        return run

    return decorate


def _option(name: str, metadata: Mapping[str, Any]) -> Any:  # noqa: ANN401 -- as Typer says
    """Return Typer's option of a field."""
    listed = f" {', '.join(metadata['names'])}." if "names" in metadata else ""
    return typer.Option(
        metadata.get("flags") or f"--{name.replace('_', '-')}",  # a flag has no --no-… form
        help=metadata["help"] + listed,
        metavar=metadata.get("metavar"),
        rich_help_panel=metadata.get("panel"),
    )


def _parameter(field: dataclasses.Field[Any], metadata: Mapping[str, Any]) -> inspect.Parameter:
    """Return the parameter from which Typer makes the option."""
    is_mapping = field.default is dataclasses.MISSING
    return inspect.Parameter(
        field.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=None if is_mapping else field.default,
        annotation=Annotated[
            list[str] | None if is_mapping else _TYPES.get(field.type, str | None),
            _option(field.name, metadata),
        ],
    )


_EXPERIMENT = {field.name: field.metadata for field in dataclasses.fields(Experiment)}
PricesOption = Annotated[str, _option("prices", _EXPERIMENT["prices"])]


@contextmanager
def plain_errors() -> Iterator[None]:
    """End the process with one line and an exit code instead of a traceback."""
    try:
        with exits.handle_errors():
            yield
    except KeyboardInterrupt:
        exits.fail("interrupted. Run the same command to continue.", INTERRUPTED)
    except OSError as error:
        exits.fail(f"{error}. Fix this and run the same command again.")
    except ModuleNotFoundError as error:
        hint = missing_extra(error)
        if hint is None:
            raise
        exits.fail(str(hint))


def echo(value: object) -> None:
    """Print one JSON value."""
    typer.echo(json.dumps(value, ensure_ascii=False))
