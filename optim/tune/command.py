"""``pb-optim tune``: from options to a tuned program on disk."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optim.datasets import data_set, load
from optim.tune.bench import Bench, Limits
from optim.tune.board import Board
from optim.tune.candidate import Candidate
from optim.tune.candidates import Candidates, own_candidates, read_candidates
from optim.tune.loop import predictor_of, tune
from optim.tune.picture import write
from optim.tune.random_search import RandomSearch
from optim.tune.record import artefact_of
from optim.tune.split import part
from pb_graph.artefact import Artefact
from pb_graph.errors import InputError
from pb_graph.planner.planner import Planner
from pb_graph.settings import Settings

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from optim.clients import Given
    from optim.datasets import Question
    from optim.scorers import Scorer
    from optim.tune.loop import Audience, TuneResult
    from optim.tune.proposer import Proposer
    from optim.tune.reflection import Reflector
    from pb_graph.artefact import Candidate as Row
    from pb_graph.models.caps import CapPolicy

__all__ = ["OPTIMIZERS", "Tuned", "Tuning", "run"]

OPTIMIZERS = ("gepa", "copro", "miprov2", "simba", "random", "candidates")
TUNED = ("decompose", "estimate", "settings")
_WRITTEN_FOR = ("gepa", "copro", "miprov2", "simba")  # by a reflection model
_LEARNERS = ("gepa", "miprov2", "simba")  # from questions of their own
_TRAIN = (1, 4)  # a quarter of the questions
PROGRAM, INSTRUCTIONS = "program.json", "candidates.json"


@dataclass(frozen=True, kw_only=True)
class Tuning:
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
        optimizer: One of `OPTIMIZERS`.
        tuned: One of `TUNED`: a prompt, or the settings, whose search leaves prompts be.
        candidates: File of instructions. For ``random`` and ``candidates`` instead of the
            package's list; for others, what is measured before they begin.
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

    Raises:
        InputError: An unknown name, or no round at all.
    """

    dataset: str
    data: str | Path | None = None
    split: str | None = None
    fields: Mapping[str, str] = field(default_factory=dict)
    levels: Sequence[int] | None = None
    limit: int | None = None
    scorer: str | Scorer | None = None
    model: Given = None
    planner: Given = None
    reflection_model: BaseChatModel | str | None = None
    optimizer: str = "gepa"
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

    def __post_init__(self) -> None:
        if self.optimizer not in OPTIMIZERS:
            msg = f"no optimizer named {self.optimizer!r}; there are: {', '.join(OPTIMIZERS)}"
            raise InputError(msg)
        if self.tuned not in TUNED:
            msg = f"what is tuned is one of {', '.join(TUNED)}, not {self.tuned!r}"
            raise InputError(msg)
        if self.rounds < 1:
            msg = f"rounds must be at least 1, not {self.rounds}"
            raise InputError(msg)


@dataclass(frozen=True, slots=True)
class Tuned:
    """What a command leaves.

    Attributes:
        result: Of the loop.
        program: What was written.
        path: Where to.
        instructions: File with every instruction that was measured, for ``--candidates``.
        pictures: The candidates on the accuracy-token plane, as a page and as a PNG.
    """

    result: TuneResult
    program: Artefact
    path: Path
    instructions: Path
    pictures: Sequence[Path]


def run(tuning: Tuning, audience: Audience | None = None) -> Tuned:
    """Tune, and write the program into the run folder.

    Args:
        tuning: What to do.
        audience: Is told how far it is; a `Board` on standard error when not given.

    Raises:
        InputError: As `optim.datasets.load`, `tune` and `Bench`.
        PlannerProgramError: The program to begin from does not fit.
        PlanAndBudgetError: A model cannot be set up or reached, or the reflection model is silent.
    """
    start = _start(tuning)
    predictor = predictor_of(start.settings, tuning.tuned)
    pool = _pool(tuning, predictor)
    optimizer = _optimizer(tuning, pool)
    train, dev = _questions(tuning)
    with _bench(tuning, start.settings) as bench:
        reflector = _reflector(tuning, bench)
        chosen: dict[str, Any] = {
            "start": start,
            "tuned": tuning.tuned,
            "pool": pool if optimizer.name in _WRITTEN_FOR else (),
            "reflector": reflector,
            "rounds": tuning.rounds,
            "seed": tuning.seed,
        }
        if audience is None:
            with Board() as board:
                result = tune(bench, train, dev, optimizer, audience=board, **chosen)
        else:
            result = tune(bench, train, dev, optimizer, audience=audience, **chosen)
        program = artefact_of(
            result,
            dataset=tuning.dataset,
            staff=bench.staff,
            reflection=reflector.name if reflector else None,
            more=_given_up(optimizer, start.settings),
        )
    return _saved(result, program, Path(tuning.run_dir))


def _start(tuning: Tuning) -> Candidate:
    """What is tuned: a saved program or the package's own, with the settings asked for."""
    if tuning.program is None:
        return Candidate(settings=Settings.read(tuning.settings))
    saved = Artefact.load(tuning.program)
    fields = saved.settings.model_dump() if saved.settings else {}
    planner = Planner().adopt(saved, str(tuning.program))
    predictors = planner.named_predictors()
    if any(predictor.demos for _, predictor in predictors):
        msg = f"{tuning.program} has examples in its prompts; only instructions can be tuned"
        raise InputError(msg)
    told = {name: predictor.signature.instructions for name, predictor in predictors}
    return Candidate(told, Settings.read(fields | dict(tuning.settings)))


def _pool(tuning: Tuning, predictor: str) -> list[str]:
    if tuning.candidates is not None:
        return read_candidates(Path(tuning.candidates))
    alone = tuning.tuned != "settings" and tuning.optimizer not in _WRITTEN_FOR
    return own_candidates(predictor) if alone else []


def _optimizer(tuning: Tuning, pool: Sequence[str]) -> Proposer:
    """The proposer; each loads its libraries only when it is chosen."""
    if tuning.tuned == "settings":
        from optim.tune.settings_search import SettingsSearch  # noqa: PLC0415 -- needs Optuna

        return SettingsSearch()
    if tuning.optimizer == "gepa":
        from optim.tune.gepa import Gepa  # noqa: PLC0415

        return Gepa()
    if tuning.optimizer == "copro":
        from optim.tune.copro import Copro  # noqa: PLC0415

        return Copro()
    if tuning.optimizer == "miprov2":
        from optim.tune.miprov2 import Miprov2  # noqa: PLC0415

        return Miprov2()
    if tuning.optimizer == "simba":
        from optim.tune.simba import Simba  # noqa: PLC0415

        return Simba()
    return RandomSearch(pool) if tuning.optimizer == "random" else Candidates(pool)


def _questions(tuning: Tuning) -> tuple[list[Question], list[Question]]:
    """Train and dev. Who writes no instructions from examples leaves all of them to dev."""
    questions = load(
        tuning.dataset,
        path=tuning.data,
        split=tuning.split,
        limit=tuning.limit,
        seed=tuning.seed,
        levels=tuning.levels,
        fields=tuning.fields,
    )
    if tuning.tuned == "settings" or tuning.optimizer not in _LEARNERS:
        return [], questions
    return part(questions, *_TRAIN, tuning.seed)


def _bench(tuning: Tuning, settings: Settings) -> Bench:
    return Bench(
        tuning.model,
        planner=tuning.planner,
        scorer=tuning.scorer or data_set(tuning.dataset).scorer,
        run_dir=tuning.run_dir,
        limits=tuning.limits,
        concurrency=tuning.concurrency,
        seed=tuning.seed,
        estimate_level=tuning.estimate_level,
        settings=settings,
        cap_policy=tuning.cap_policy,
        retry_errors=tuning.retry_errors,
    )


def _reflector(tuning: Tuning, bench: Bench) -> Reflector | None:
    if tuning.tuned == "settings" or tuning.optimizer not in _WRITTEN_FOR:
        return None
    from optim.tune.reflection import Reflector  # noqa: PLC0415 -- DSPy takes a second
    from pb_graph.models.resolve import model_name  # noqa: PLC0415

    given = tuning.reflection_model or tuning.planner or tuning.model
    return Reflector(
        model_name(None) if given is None else given,
        bench.reflections,
        bench.meter,
        bench.settings,
        tuning.cap_policy,
    )


def _given_up(optimizer: Proposer, base: Settings) -> list[Row]:
    """What the settings search did not measure to the end, for the picture."""
    if optimizer.name != "settings":
        return []
    from optim.tune.settings_search import SettingsSearch  # noqa: PLC0415 -- needs Optuna

    return optimizer.given_up(base) if isinstance(optimizer, SettingsSearch) else []


def _saved(result: TuneResult, program: Artefact, folder: Path) -> Tuned:
    path, instructions = folder / PROGRAM, folder / INSTRUCTIONS
    program.save(path)
    pictures = write(program.tuning, folder) if program.tuning else ()
    texts = [trial.candidate.text(result.predictor) for trial in result.trials[1:]]
    content = json.dumps(list(dict.fromkeys(texts)), indent=2, ensure_ascii=False)
    instructions.write_text(content, encoding="utf-8", errors="replace")
    return Tuned(result, program, path, instructions, pictures)
