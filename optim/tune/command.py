"""``pb-optim tune``: from options to a tuned program on disk."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from optim.datasets import data_set, load
from optim.program import GraphProgram
from optim.tune.meter import Limits
from optim.tune.optimizers import check, learns
from optim.tune.options import TuneOptions
from optim.tune.picture import write
from optim.tune.split import part
from optim.tune.tuning import tune

if TYPE_CHECKING:
    from optim.datasets import Question
    from optim.tune.loop import Audience
    from optim.tune.tuning import TuneResult

__all__ = ["TuneOptions", "Tuned", "run"]

_TRAIN = (1, 4)  # a quarter of the questions
PROGRAM, INSTRUCTIONS = "program.json", "candidates.json"


@dataclass(frozen=True, slots=True)
class Tuned:
    """What a command leaves.

    Attributes:
        result: Of `tune`.
        path: Where its artefact is.
        instructions: File with every instruction that was measured, for ``--candidates``.
        pictures: The candidates on the accuracy-token plane, as a page and as a PNG.
    """

    result: TuneResult
    path: Path
    instructions: Path
    pictures: Sequence[Path]


def run(options: TuneOptions, audience: Audience | None = None) -> Tuned:
    """Tune, and write the program into the run folder.

    Args:
        options: What to do.
        audience: As for `tune`.

    Raises:
        InputError: As `optim.datasets.load` and `tune`.
        PlannerProgramError: The program to begin from does not fit.
        PlanAndBudgetError: A model cannot be set up or reached, or the reflection model is silent.
    """
    named = options.reflection_model is not None
    check(options.optimizer, options.tuned, options.candidates, reflection=named)
    program = GraphProgram(
        options.model,
        planner=options.planner,
        settings=options.settings,
        planner_program=options.program,
        cap_policy=options.cap_policy,
    )
    train, dev = _questions(options)
    result = tune(
        program,
        train,
        dev,
        scorer=options.scorer or data_set(options.dataset).scorer,
        budget=options.limits or Limits(),
        run_dir=options.run_dir,
        optimizer=options.optimizer,
        reflection_model=options.reflection_model,
        tuned=options.tuned,
        candidates=options.candidates,
        rounds=options.rounds,
        seed=options.seed,
        estimate_level=options.estimate_level,
        concurrency=options.concurrency,
        retry_errors=options.retry_errors,
        dataset=options.dataset,
        audience=audience,
    )
    return _saved(result, Path(options.run_dir))


def _questions(options: TuneOptions) -> tuple[list[Question], list[Question]]:
    """Train and dev. Who writes no instructions from examples leaves all of them to dev."""
    questions = load(
        options.dataset,
        path=options.data,
        split=options.split,
        limit=options.limit,
        seed=options.seed,
        levels=options.levels,
        fields=options.fields,
    )
    if learns(options.optimizer, options.tuned):
        return part(questions, *_TRAIN, options.seed)
    return [], questions


def _saved(result: TuneResult, folder: Path) -> Tuned:
    path, instructions = folder / PROGRAM, folder / INSTRUCTIONS
    result.save(path)
    record, found = result.artefact.tuning, result.search
    pictures = write(record, folder) if record else ()
    texts = [trial.candidate.text(found.predictor) for trial in found.trials[1:]]
    content = json.dumps(list(dict.fromkeys(texts)), indent=2, ensure_ascii=False)
    instructions.write_text(content, encoding="utf-8", errors="replace")
    return Tuned(result, path, instructions, pictures)
