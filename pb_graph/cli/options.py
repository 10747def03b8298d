"""Options that several commands take, each declared once; those of the form NAME=VALUE."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from pb_graph.errors import InputError

if TYPE_CHECKING:
    from pb_graph.program import PlannerProgram
    from pb_graph.settings import Settings


def print_version(wanted: bool) -> None:
    """Print the version of the installed package and end."""
    if wanted:
        import pb_graph  # noqa: PLC0415 -- its version is looked up when it is asked for

        typer.echo(f"plan-and-budget {pb_graph.__version__}")
        raise typer.Exit


Version = Annotated[
    bool,
    typer.Option("--version", callback=print_version, is_eager=True, help="Print the version."),
]
Model = Annotated[str | None, typer.Option(help="'provider:model' or 'local:NAME' that solves.")]
Planner = Annotated[str | None, typer.Option(help="The same for planning.")]
Program = Annotated[
    str | None, typer.Option(help="What `pb-optim tune` wrote: tuned prompts and settings.")
]
Caps = Annotated[str | None, typer.Option(help="What `pb-graph probe` wrote.")]


def assignments(option: str, given: Sequence[str] | None) -> dict[str, str]:
    """The name and the text of each assignment.

    Raises:
        InputError: One has no equals sign.
    """
    found: dict[str, str] = {}
    for assignment in given or []:
        name, separator, text = assignment.partition("=")
        if not separator:
            msg = f"{option} wants NAME=VALUE, not {assignment!r}"
            raise InputError(msg)
        found[name.strip()] = text
    return found


def fields_set(given: Sequence[str] | None) -> dict[str, object]:
    """What ``--set`` gives.

    Raises:
        InputError: One has no equals sign.
    """
    from pb_graph.settings import value_of  # noqa: PLC0415 -- pydantic takes a moment

    return {name: value_of(text) for name, text in assignments("--set", given).items()}


def settings_given(
    program: str | None, set_: Sequence[str] | None, **fields: object
) -> tuple[PlannerProgram | None, Settings]:
    """A tuned program, if any is named, and its settings with what the command says over them.

    Raises:
        InputError: Settings that are none, or pause for a human.
        PlannerProgramError: The program cannot be read.
    """
    from pb_graph.program import PlannerProgram  # noqa: PLC0415
    from pb_graph.serve.names import unattended_settings  # noqa: PLC0415

    tuned = None if program is None else PlannerProgram.load(program)
    base = tuned.settings.model_dump() if tuned and tuned.settings else {}
    named = {name: value for name, value in fields.items() if value is not None}
    return tuned, unattended_settings(base | named | fields_set(set_))


def fetch_weights(*names: str | None) -> None:
    """Fetch what local models there are among these before a run, which would do so in silence."""
    from pb_graph.local.weights import fetch_if_named  # noqa: PLC0415 -- of local models only
    from pb_graph.models.resolve import LOCAL_PREFIX, model_name  # noqa: PLC0415

    for name in {*names}:
        fetch_if_named(model_name(name).removeprefix(LOCAL_PREFIX))
