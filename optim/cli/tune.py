"""Define ``pb-optim tune`` and ``show``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from optim.cli.options import AsJson, echo, plain_errors, with_options
from optim.datasets import Questions, sample
from optim.datasets.questions import option
from optim.scorers import scorer_name
from optim.tuning.options import TuneOptions, resolve_optimizer

if TYPE_CHECKING:
    from optim.datasets import Question
    from pb_graph.program import PlannerProgram

_SHARE = 8  # of the answers, for the dev questions: six candidates, the original, the verdict

PROGRAM = "program.json"
"""The tuned program in the run folder."""


@dataclass(frozen=True, kw_only=True)
class TuneCommand(TuneOptions, Questions):
    """The choices of `pb-optim tune`: `Questions`, `TuneOptions` and the models.

    ``settings`` overrides those of ``program``.
    """

    scorer: str | None = None
    model: str | None = None
    planner: str | None = None
    cap_policy: str | None = option("The one that `pb-graph probe` names.", "Model", None)
    program: str | None = option("A saved program to start from.", "Model", None)
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        TuneOptions.__post_init__(self)
        Questions.__post_init__(self)


@with_options(TuneCommand)
def tune_program(options: dict[str, Any], *, as_json: AsJson = False) -> None:
    """Tune prompts, the solver's examples or settings for E³; write a program file.

    The winner is compared with the original on a third of the questions. The verdict is better
    (confidence 90 %), undecided (the winner is used) or kept (the original stays). Run the same
    command again to resume; no answer is paid twice.
    """
    from optim.tuning.program import GraphProgram  # noqa: PLC0415 -- DSPy takes a second
    from optim.tuning.run import draw, tune  # noqa: PLC0415

    command = TuneCommand(**options)
    optimizer = resolve_optimizer(command)
    program = GraphProgram(
        command.model,
        planner=command.planner,
        settings=command.settings,
        planner_program=command.program,
        cap_policy=command.cap_policy,
    )
    dev = command.load()
    most = command.budget // _SHARE * 3 // 2  # with the third that is held out
    most += most // 3 if optimizer.learns else 0
    if command.limit is None and len(dev) > most >= 1:
        typer.echo(
            f"{most} of {len(dev)} questions are used, so that {command.budget} answers measure "
            f"about {_SHARE - 2} candidates. Choose another number by --limit.",
            err=True,
        )
        dev = sample(dev, most, command.seed)
    train: list[Question] = []
    if optimizer.learns:
        train, dev = draw(dev, 4, command.seed)
    scorer = command.scorer or command.source.scorer
    origin = command.origin() | {"dataset": command.label, "scorer": scorer_name(scorer)}
    keys = ("dataset", "data", "split", "scorer", "command")
    result = tune(
        program,
        train,
        dev,
        scorer=scorer,
        about={name: origin[name] for name in keys if origin[name]},
        **{item.name: getattr(command, item.name) for item in fields(TuneOptions)},
    )
    path = Path(command.run_dir) / PROGRAM
    result.save(path)
    _show_program(result.artefact, as_json=as_json)
    typer.echo(f"{path} is written: pb-graph solve --program {path}", err=True)


@plain_errors()
def show(
    path: Annotated[str, typer.Argument(help="A file that `pb-optim tune` wrote.")],
    as_json: AsJson = False,
) -> None:
    """Show a tuned program: its prompts beside the package's own, and its figures."""
    from pb_graph.program import PlannerProgram  # noqa: PLC0415

    _show_program(PlannerProgram.load(path), as_json=as_json)


def _show_program(program: PlannerProgram, *, as_json: bool) -> None:
    from optim.reporting.formatting import console  # noqa: PLC0415
    from optim.tuning.record import shown  # noqa: PLC0415 -- DSPy takes a second

    if as_json:
        echo(program.model_dump(mode="json"))
        return
    for piece in shown(program):
        console().print(piece)
