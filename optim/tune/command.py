"""``pb-optim tune``: from options to a tuned program on disk."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optim.datasets import data_set, load
from optim.program import GraphProgram
from optim.tune.meter import Limits
from optim.tune.optimizers import check, learns
from optim.tune.picture import write
from optim.tune.split import part
from optim.tune.tuning import tune

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from optim.datasets import Question
    from optim.evaluate.models import ModelSpec
    from optim.scorers import Scorer
    from optim.tune.loop import Audience
    from optim.tune.tuning import TuneResult
    from pb_graph.models.caps import CapPolicy

__all__ = ["TuneOptions", "Tuned", "run"]

_TRAIN = (1, 4)  # a quarter of the questions
PROGRAM, INSTRUCTIONS = "program.json", "candidates.json"


@dataclass(frozen=True, kw_only=True)
class TuneOptions:
    """Everything that a command says.

    Attributes:
        dataset: A name of `optim.datasets.DATASETS`.
        data: A local file instead of the hub.
        split: Another split of the hub's.
        fields: The file's name for a column.
        levels: Only these levels.
        limit: How many questions, drawn evenly over the levels.
        scorer: Another scorer than the data set's, by name or as an object.
        model: Solves.
        planner: Plans; None for the same.
        reflection_model: Writes instructions; None for the planner.
        optimizer: One of `optim.tune.optimizers.OPTIMIZERS`; None as for `tune`.
        tuned: One of `optim.tune.optimizers.TUNED`.
        candidates: File of instructions, used as by `tune`.
        program: A saved program to begin from; its settings count unless others are given.
        settings: Overrides, such as ``{"execution": "single_pass"}``.
        limits: What the run folder may cost.
        rounds: How often the tangent is moved, at most.
        run_dir: For what is paid for, and the outcome.
        seed: Of everything drawn by chance.
        estimate_level: Let the planner estimate levels, and pay for that.
        concurrency: How many answers run at once.
        retry_errors: Answer again what failed in an earlier start.
        cap_policy: As for `build_graph`.
    """

    dataset: str
    data: str | Path | None = None
    split: str | None = None
    fields: Mapping[str, str] = field(default_factory=dict)
    levels: Sequence[int] | None = None
    limit: int | None = None
    scorer: str | Scorer | None = None
    model: ModelSpec = None
    planner: ModelSpec = None
    reflection_model: BaseChatModel | str | None = None
    optimizer: str | None = None
    tuned: str = "decompose"
    candidates: str | Path | None = None
    program: str | Path | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    rounds: int = 3
    run_dir: str | Path = "runs/tune"
    seed: int = 0
    estimate_level: bool = False
    concurrency: int = 8
    retry_errors: bool = False
    cap_policy: CapPolicy | None = None


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
        budget=options.limits,
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
