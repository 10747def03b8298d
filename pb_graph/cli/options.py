"""Share options between commands, and end commands with an error message."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from io import TextIOWrapper
from typing import Annotated, NamedTuple, NoReturn

import typer

from pb_graph import __version__
from pb_graph.errors import InputError, PlanAndBudgetError

FAILED, USAGE, INTERRUPTED = 1, 2, 130  # exit codes

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")  # all but tab and newline


def printable(text: str) -> str:
    """Return a text without control codes."""
    return _CONTROL.sub("", text)


class Exits(NamedTuple):
    """Ends a program's commands with one line on standard error."""

    program: str

    def fail(self, message: str, code: int = FAILED) -> NoReturn:
        """End with a message.

        Args:
            message: What is wrong, and what to do.
            code: The exit code.
        """
        typer.echo(f"{self.program}: {printable(message)}", err=True)
        raise typer.Exit(code) from None

    @contextmanager
    def handle_errors(self) -> Iterator[None]:
        """End with the message of a `PlanAndBudgetError` that is raised inside the context."""
        try:
            yield
        except PlanAndBudgetError as error:
            self.fail(str(error), USAGE if isinstance(error, InputError) else FAILED)


exits = Exits("pb-graph")


def run_command(app: Callable[[], object]) -> None:
    """Run a console script."""
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")  # waiting threads leave their core to others
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # letters that the terminal lacks become numbers
            stream.reconfigure(errors="backslashreplace")
    app()


def _say_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"plan-and-budget {__version__}")
        raise typer.Exit


_models = partial(typer.Option, rich_help_panel="Models and prompts")
_budget = partial(typer.Option, rich_help_panel="Method and budget")
_server = partial(typer.Option, rich_help_panel="Server")

Version = Annotated[
    bool, typer.Option("--version", callback=_say_version, is_eager=True, help="Print the version.")
]
Model = Annotated[
    str | None, _models(help="Solver: 'provider:model' or 'local:NAME'. Default: PB_MODEL.")
]
Planner = Annotated[str | None, _models(help="Planner. Default: the solver.")]
Program = Annotated[str | None, _models(help="File of tuned prompts, by `pb-optim tune`.")]
CapPolicy = Annotated[str | None, _models(help="Cap policy, such as vllm; `probe` names it.")]
_NAMES = "vanilla, global_budget, planned_vanilla, planned_global_budget"
Method = Annotated[str | None, _budget(help=f"plan_and_budget (default), or a baseline: {_NAMES}.")]
Level = Annotated[int | None, _budget(help="Difficulty, 1 to 5. Default: estimated.")]
Budget = Annotated[int | None, _budget(help="Completion tokens for solving. Default: by level.")]
Limit = Annotated[int | None, _budget(min=1, help="Most completion tokens, planning included.")]
LimitUsd = Annotated[float | None, _budget(min=1e-6, help="Most dollars, with input and planning.")]
Plan = Annotated[bool, _budget("--plan", help="Plan at every level; solve each step on its own.")]
Sets = Annotated[
    list[str] | None,
    _budget("--set", metavar="NAME=VALUE", help="A setting: schedule=linear; repeatable."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the report as JSON only.")]
Plain = Annotated[bool, typer.Option("--plain", help="Print the table once, without animation.")]
KEY_VARIABLE = "PB_API_KEY"
Host = Annotated[str, _server(help=f"Addresses other than this machine need {KEY_VARIABLE}.")]
Port = Annotated[int, _server(min=0, max=65535, help="Port; 0 for a free port.")]


def read_assignments(option: str, texts: Sequence[str] | None) -> dict[str, str]:
    """Return the values by their names.

    Args:
        option: The option that they were given with, for the error.
        texts: Texts of the form NAME=VALUE.

    Raises:
        InputError: If a text has no equals sign.
    """
    if wrong := [text for text in texts or [] if "=" not in text]:
        msg = f"{option} must be NAME=VALUE, not {wrong[0]!r}"
        raise InputError(msg)
    parts = (text.partition("=") for text in texts or [])
    return {name.strip(): value for name, _, value in parts}


def read_set(texts: Sequence[str] | None) -> dict[str, object]:
    """Return the fields of `Settings` that ``--set`` gives: JSON if a value is JSON, else text."""
    values: dict[str, object] = {**read_assignments("--set", texts)}
    for name, text in values.items():
        with suppress(ValueError):
            values[name] = json.loads(str(text))
    return values
