"""``pb-optim tune``: from options to a tuned program on disk."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optim.datasets import data_set, load
from optim.evaluation.identity import made_by, scorer_name
from optim.evaluation.limits import Limits
from optim.extras import require_modules
from optim.report import write
from optim.tuning.examples import part
from optim.tuning.optimizers import check
from optim.tuning.options import TuneOptions
from optim.tuning.page import PAGE, html
from optim.tuning.program import GraphProgram
from optim.tuning.run import tune

if TYPE_CHECKING:
    from optim.datasets import Question
    from optim.tuning.optimizer import Optimizer
    from optim.tuning.run import TuneResult

_TRAIN = (1, 4)  # a quarter of the questions
_PASSED_ON = (
    *("run_dir", "optimizer", "reflection_model", "tuned", "candidates", "rounds", "seed"),
    *("estimate_level", "concurrency", "retry_errors", "dataset"),
)
_OF_THE_QUESTIONS = ("split", "seed", "levels", "fields", "skip_bad_rows")


@dataclass(frozen=True, slots=True)
class Tuned:
    """What a command leaves."""

    result: TuneResult
    path: Path
    page: Path


def run(options: TuneOptions) -> Tuned:
    """Tune, and write the program into the run folder.

    Raises:
        MissingPackageError: One that is needed is not installed.
        InputError: As `optim.datasets.load` and `tune`.
        PlannerProgramError: The program to begin from does not fit.
        PlanAndBudgetError: A model cannot be set up or reached, or the reflection model is silent.
    """
    require_modules("jinja2")
    named = options.reflection_model is not None
    chosen = check(options.optimizer, options.tuned, options.candidates, reflection=named)
    require_modules(*chosen.needs)
    program = GraphProgram(
        options.model,
        planner=options.planner,
        settings=options.settings,
        planner_program=options.program,
        cap_policy=options.cap_policy,
    )
    train, dev = _questions(options, chosen)
    result = tune(
        program,
        train,
        dev,
        scorer=options.scorer or data_set(options.dataset).scorer,
        budget=options.limits or Limits(),
        **{name: getattr(options, name) for name in _PASSED_ON},
    )
    result, path = _with_origin(result, options), Path(options.run_dir) / "program.json"
    result.save(path)
    return Tuned(result, path, write(path.with_name(PAGE), html(result.record)))


def _with_origin(result: TuneResult, options: TuneOptions) -> TuneResult:
    """The same with how the command brought it about; date, seed and versions it says already."""
    about = made_by(
        options.dataset,
        data=options.data,
        split=options.split,
        seed=options.seed,
        scorer=scorer_name(options.scorer or data_set(options.dataset).scorer),
    )
    kept = ("command", "data", "split", "scorer")
    told = {name: about[name] for name in kept if about[name] is not None}
    tuning = dict(result.artefact.tuning or {}) | {"made_by": told}
    return replace(result, artefact=result.artefact.model_copy(update={"tuning": tuning}))


def _questions(options: TuneOptions, chosen: Optimizer) -> tuple[list[Question], list[Question]]:
    """Train and dev. Who writes no instructions from examples leaves train to dev."""
    about: dict[str, Any] = {"path": options.data}
    about |= {name: getattr(options, name) for name in _OF_THE_QUESTIONS}
    questions = load(options.dataset, limit=options.limit, **about)
    if chosen.tunes != "settings" and (chosen.learns or options.tuned == "all"):
        return part(questions, *_TRAIN, options.seed)
    return [], questions
