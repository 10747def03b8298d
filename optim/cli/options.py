"""Options, each declared once: a command has those that the fields of a dataclass stand for.

A new option is a field of `Experiment` or `TuneOptions`, and its line here. Defaults are
the dataclass's, and the names that an option takes are those of the registries.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from optim.cli.terminal import numbers, plain_errors
from optim.datasets import DATASETS, data_set
from optim.methods import ALL, NAMES, RIVALS
from optim.scorers import NAMES as SCORERS
from pb_graph.cli.options import assignments, fields_set
from pb_graph.settings import Settings

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON only.")]
Logs = Annotated[
    list[str], typer.Argument(metavar="DIR...", help="A --log-dir of `pb-optim eval`, or several.")
]

_TYPES: dict[object, Any] = {
    "bool": bool,
    "int": int,
    "float": float,
    "int | None": int | None,
    "float | None": float | None,
}


@dataclass(frozen=True, slots=True)
class Option:
    """How a field is said on the command line.

    Attributes:
        help: Its meaning; the names that it takes are added.
        flags: What it is called, where that is not the field's name.
        names: What there is to choose from.
        metavar: What stands for the value in the help.
        reads: Text that it takes, where it is not what the field holds.
        read: Makes the field's value of that text.
    """

    help: str
    flags: str | None = None
    names: Collection[str] = ()
    metavar: str | None = None
    reads: Any = str | None
    read: Callable[[Any], Any] | None = None

    def annotation(self, field: dataclasses.Field[Any]) -> Any:  # noqa: ANN401 -- a type
        """What Typer makes the option of."""
        listed = f" {', '.join(self.names)}." if self.names else ""
        info = typer.Option(
            self.flags or f"--{field.name.replace('_', '-')}",  # without a --no-… beside it
            help=self.help + listed,
            metavar=self.metavar,
            autocompletion=self._complete if self.names else None,
        )
        return Annotated[_TYPES.get(field.type, self.reads), info]

    def _complete(self, incomplete: str) -> list[str]:
        """Names that begin so; of a list with commas, its last name."""
        head, comma, begun = incomplete.rpartition(",")
        return [f"{head}{comma}{name}" for name in self.names if name.startswith(begun)]


OPTIONS: dict[str, Option] = {
    # What is asked
    "dataset": Option("The questions:", names=tuple(DATASETS), reads=str),
    "data": Option(
        "A local file instead of the hub: .jsonl, .json, .csv or .parquet. Columns of --dataset "
        "jsonl, the first two of which must be there: "
        f"{', '.join(data_set('jsonl').columns)} (answers and choices are lists).",
    ),
    "split": Option("Another split of the hub's."),
    "fields": Option(
        "The file's name for a column; repeatable.", "--field", metavar="OURS=THEIRS",
        reads=list[str] | None, read=lambda texts: assignments("--field", texts),
    ),
    "skip_bad_rows": Option("Leave out rows that are no questions."),
    "part": Option(
        "Only this part of the questions, for several machines; a --log-dir for each, and "
        "`pb-optim report DIR...` pools them.",
        metavar="I/N",
    ),
    "levels": Option(
        "Only these levels, such as 1,2.",
        read=lambda text: numbers("--levels", text) if text else None,
    ),
    "limit": Option("Questions, evenly over the levels."),
    "epochs": Option("How often each question is asked."),
    "seed": Option("Of everything drawn by chance."),
    "scorer": Option("Another scorer than the usual one:", names=tuple(SCORERS)),
    # Who answers, and how
    "model": Option("'provider:model' or 'local:NAME' that solves."),
    "planner": Option("The same for planning."),
    "methods": Option(
        f"Names with commas between; {ALL} stands for the paper's ten, {RIVALS} for what others "
        "have published; NAME@300 caps each call at 300 tokens:",
        names=(ALL, RIVALS, *NAMES),
        reads=str,
    ),
    "settings": Option(
        "A setting of the graph, for all methods; repeatable. Settings:", "--set",
        names=tuple(Settings.model_fields), metavar="NAME=VALUE", reads=list[str] | None,
        read=fields_set,
    ),
    "planner_program": Option("A saved planner program.", "--program"),
    "temperature": Option("Of the models' sampling; with --epochs it must be above 0."),
    "top_p": Option("Share of likely tokens that the models sample from."),
    "estimate_level": Option("Estimate each question's level instead of taking the label."),
    "fresh_plans": Option("Plan each question anew for each epoch."),
    # How much, and where to
    "concurrency": Option("Questions answered at once."),
    "log_dir": Option("Folder of logs and of what is paid for, or s3://… for logs.", reads=str),
    "work_dir": Option("With s3://…: local folder of what is paid for."),
    "run_dir": Option("Folder of the run.", reads=str),
    "max_tokens_total": Option(
        "Begin no answer once so many completion tokens are spent; each --part may spend as many, "
        "those of --ray together."
    ),
    "retry_errors": Option("Answer failed questions again."),
    # The simulated world
    "steps": Option("Sub-questions of a query."),
    "front_loaded": Option("Hardest first, or in no order.", "--front-loaded/--even"),
    "graded": Option("Credits follow levels, or are equal.", "--graded/--ungraded"),
    "credits": Option(
        "Credits by position instead, such as 16,18,20,22,24; `pb-optim levels` has a planner's.",
        read=lambda text: numbers("--credits", text) if text else None,
    ),
    "c_spread": Option("Of log c about its level's."),
    "beta_spread": Option("Of log beta about its level's."),
    "aleatoric": Option("Most uncertainty that no tokens remove."),
}  # fmt: skip
"""An option for each field that a command line can say."""


def with_options(
    choices: type[DataclassInstance], *modules: str
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command an option for each field of a dataclass that has one in `OPTIONS`, or help.

    The command takes the values of these fields, by name, as its first argument. A parameter of
    its own goes before a field of the same name. It ends as `plain_errors` says.

    Args:
        choices: Whose fields; its defaults are the options'.
        modules: As for `plain_errors`.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = list(inspect.signature(command, eval_str=True).parameters.values())[1:]
        taken = {parameter.name for parameter in own}
        known = {field.name: option_of(field) for field in dataclasses.fields(choices)}
        offered = [
            field
            for field in dataclasses.fields(choices)
            if known[field.name] and field.name not in taken
        ]

        @plain_errors(*modules)
        def run(**given: Any) -> None:  # noqa: ANN401 -- what Typer read
            values = {field.name: given.pop(field.name) for field in offered}
            for name, value in values.items():
                option = known[name]
                values[name] = option.read(value) if option and option.read else value
            command(values, **given)

        run.__name__, run.__doc__ = command.__name__, command.__doc__
        signature = inspect.Signature([*map(_parameter, offered), *own])
        run.__signature__ = signature  # type: ignore[attr-defined]
        run.__annotations__ = {}
        return run

    return decorate


def option_of(field: dataclasses.Field[Any]) -> Option | None:
    """Return the option of a dataclass field: its metadata, else a line of `OPTIONS`."""
    return Option(**field.metadata) if "help" in field.metadata else OPTIONS.get(field.name)


def _parameter(field: dataclasses.Field[Any]) -> inspect.Parameter:
    option, default = option_of(field), field.default
    assert option is not None  # noqa: S101 -- offered only with one
    if default is dataclasses.MISSING:
        given = field.default_factory is not dataclasses.MISSING
        default = None if given else inspect.Parameter.empty
    return inspect.Parameter(
        field.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=option.annotation(field),
    )
