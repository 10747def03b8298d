"""`tune`: a program, questions and a budget go in; the tuned program and the evidence come out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, fields
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optim.datasets import data_set, load
from optim.evaluation.identity import provenance, scorer_name
from optim.extras import require_modules
from optim.reporting import write
from optim.reporting.formatting import plain_text
from optim.tangent import scorer_of
from optim.tuning.artefact import artefact_of, tuning_of
from optim.tuning.candidate import default_instructions, predictors_of, read_instructions
from optim.tuning.evaluator import Evaluator
from optim.tuning.options import OPTIMIZERS, TuneCommand, TuneOptions, resolve_optimizer
from optim.tuning.program import GraphProgram
from optim.tuning.reflection import Reflector
from optim.tuning.search import Search
from optim.tuning.show import PAGE, TuneProgress, html, shown
from optim.tuning.split import questions_of, split_fraction, split_of
from pb_graph.errors import InputError
from pb_graph.models.resolve import model_name

if TYPE_CHECKING:
    import dspy

    from optim.datasets import Question
    from optim.tangent import Judge
    from optim.tuning.artefact import Tuning
    from optim.tuning.candidate import Candidate
    from optim.tuning.options import Optimizer
    from optim.tuning.search import Callback, SearchResult
    from optim.tuning.select import Trial, Verdict
    from pb_graph.program import PlannerProgram

PROGRAM = "program.json"
"""The tuned program in the run folder."""

_TRAIN = (1, 4)  # a quarter of the questions


@dataclass(frozen=True, slots=True, repr=False)
class TuneResult:
    """The outcome of a tuning.

    Attributes:
        program: The program to use, with the models of the given program: the winner of dev, or
            the original where that was kept.
        artefact: The same as it is saved: prompts, settings and the record of the tuning.
        search: Every candidate that was measured, and the questions.
    """

    program: GraphProgram
    artefact: PlannerProgram
    search: SearchResult

    def __repr__(self) -> str:
        return plain_text(*shown(self.artefact))

    def _repr_html_(self) -> str:
        """Return the result as a notebook shows it."""
        return f"<pre>{escape(repr(self))}</pre>"

    @property
    def verdict(self) -> Verdict:
        """The verdict: only ``better`` says that the held-out questions show an improvement."""
        return self.search.verdict

    @property
    def front(self) -> list[Trial]:
        """The Pareto front of accuracy and tokens on dev."""
        return self.search.front

    @property
    def record(self) -> Tuning:
        """The record of this tuning in the artefact."""
        record = tuning_of(self.artefact)
        assert record is not None  # noqa: S101 -- `tune` has written it
        return record

    def save(self, path: str | Path) -> None:
        """Write the artefact, which ``build_graph(planner_program=path)`` loads.

        Raises:
            PlannerProgramError: It cannot be written.
        """
        self.artefact.save(path)


def tune(  # noqa: PLR0913 -- all but three by name
    program: GraphProgram,
    train: Sequence[Question | dspy.Example],
    dev: Sequence[Question | dspy.Example],
    *,
    scorer: Judge,
    held_out: Sequence[Question | dspy.Example] | None = None,
    dataset: str = "examples",
    made_by: Mapping[str, Any] | None = None,
    callback: Callback | None = None,
    **choices: Any,  # noqa: ANN401 -- the fields of TuneOptions
) -> TuneResult:
    """Tune a program's prompts, or its settings, for E³ on a dev split.

    The winner of dev meets the original on questions that nothing was tuned on. The verdict is
    ``better`` when its E³ is higher there with a one-sided confidence of 90 %, ``undecided`` when
    it is not below (it is used, but no proven improvement), else ``kept``. The same call with the
    same run folder resumes, and pays for nothing twice.

    ::

        program = GraphProgram("openai:gpt-4o-mini", settings={"execution": "single_pass"})
        result = tune(
            program, train, dev, scorer="math", optimizer="gepa", budget=400, run_dir="runs/gepa",
            reflection_model="openai:gpt-4o", seed=0,
        )
        print(result.verdict.reason)
        result.program(question="How many primes are below 30?").answer
        result.save("tuned.json")

    Args:
        program: The original: its models, prompts and settings.
        train: Questions, or examples with ``question`` and ``answer``, that optimizers learn
            from; dev when empty.
        dev: Questions or examples that candidates are chosen by.
        scorer: Name of a scorer (`optim.scorers.NAMES`), a scorer, or a DSPy metric from 0 to 1
            that judges one answer. E³ of a whole set is made of that and the tokens.
        held_out: Questions or examples for the last comparison; None takes a third of dev.
        dataset: Name of the questions in the record.
        made_by: How it came about, for the record.
        callback: Called with every `optim.tuning.search.Event`; None shows them on standard error.
        choices: Fields of `optim.tuning.options.TuneOptions`, among them ``optimizer`` (a name, an
            `Optimizer`, or an optimizer object of DSPy's), ``budget`` (answers, or a
            `TuneBudget`), ``run_dir``, ``tuned``, ``candidates``, ``reflection_model``, ``seed``.

    Raises:
        MissingPackageError: The optimizer needs a package that is not installed.
        InputError: No usable questions, or one in two sets; choices that do not go together; every
            answer wrong; a budget below one round's; or a folder that belongs to another run.
        ModelSetupError: A model cannot be set up.
        ReflectionError: The reflection model is silent, and no candidate was measured.
        OutageError: A model is out of reach; finished answers are kept.
        StorageError: The disk is full; finished answers are kept.
        ScorerError: The scorer cannot be set up.
    """
    options = TuneOptions(**choices)
    given: object = program
    if not isinstance(given, GraphProgram):
        msg = (
            f"tune takes a GraphProgram, not a {type(given).__name__}: make one with "
            "optim.tuning.GraphProgram(model, planner=..., settings=...)"
        )
        raise InputError(msg)
    optimizer = resolve_optimizer(options)
    require_modules(*optimizer.needs)
    start = program.candidate
    work, texts = _work(options, optimizer, start)
    others = None if held_out is None else questions_of(held_out)
    split = split_of(questions_of(train), questions_of(dev), others, options.seed)
    names = [name for _, name in work]
    if names == ["level"] and not options.estimate_level and all(q.level for q in split.dev):
        msg = (
            "the level of every question is known, so the prompt that judges it is never sent: "
            "pass --estimate-level (estimate_level=True), or tune another prompt"
        )
        raise InputError(msg)
    cap_policy = program.graph.cap_policy
    evaluator = Evaluator(
        program.graph.model,
        planner=program.graph.planner,
        scorer=scorer_of(scorer),
        run_dir=options.run_dir,
        budget=options.limits,
        concurrency=options.concurrency,
        seed=options.seed,
        estimate_level=options.estimate_level,
        settings=start.settings,
        cap_policy=cap_policy,
        retry_errors=options.retry_errors,
    )
    with evaluator, nullcontext(callback) if callback else TuneProgress() as tell:
        reflector = None
        if optimizer.reflects:
            writes = options.reflection_model or program.graph.planner or program.graph.model
            named = writes or model_name(None)
            reflector = Reflector(named, evaluator, start.settings, cap_policy)
        search = Search(
            evaluator,
            split,
            work,
            reflector,
            texts,
            rounds=options.rounds,
            threshold=options.threshold,
            seed=options.seed,
            callback=tell,
        )
        result = search.run(start)
        models = {
            "solver": evaluator.models.model,
            "planner": evaluator.models.planner_model,
            "reflection": reflector.name if reflector else None,
        }
    artefact = artefact_of(result, dataset=dataset, models=models, made_by=made_by or {})
    tuned = GraphProgram(
        program.graph.model,
        planner=program.graph.planner,
        settings=result.candidate.settings,
        planner_program=result.candidate.prompts(),
        cap_policy=cap_policy,
    )
    return TuneResult(tuned, artefact, result)


def _work(
    options: TuneOptions, optimizer: Optimizer, start: Candidate
) -> tuple[list[tuple[Optimizer, str]], list[str]]:
    """Return optimizers with their predictors, and the instructions to measure first."""
    names = predictors_of(start.settings, options.tuned)
    texts = [] if options.candidates is None else read_instructions(options.candidates)
    if optimizer.chooses and "texts" not in optimizer.options:
        optimizer, texts = optimizer(texts=texts or default_instructions(names[0])), []
    is_all = options.tuned == "all"
    shortest = OPTIMIZERS["shortest"]
    work = [(shortest if is_all and name == "solve" else optimizer, name) for name in names]
    return work, texts


def run_command(command: TuneCommand) -> TuneResult:
    """Tune, and write `PROGRAM` and `PAGE` into the run folder.

    Raises:
        MissingPackageError: A package that is needed is not installed.
        InputError: As `optim.datasets.load` and `tune`.
        PlannerProgramError: The program to begin from does not fit.
        PlanAndBudgetError: A model cannot be set up or reached, or the reflection model is silent.
    """
    require_modules("jinja2")
    optimizer = resolve_optimizer(command)
    require_modules(*optimizer.needs)
    program = GraphProgram(
        command.model,
        planner=command.planner,
        settings=command.settings,
        planner_program=command.program,
        cap_policy=command.cap_policy,
    )
    names = ("split", "seed", "levels", "fields", "skip_bad_rows", "limit")
    asked: dict[str, Any] = {name: getattr(command, name) for name in names}
    train: list[Question] = []
    dev = load(command.dataset, path=command.data, **asked)
    if optimizer.tunes != "settings" and (optimizer.learns or command.tuned == "all"):
        train, dev = split_fraction(dev, *_TRAIN, command.seed)
    scorer = command.scorer or data_set(command.dataset).scorer
    about = provenance(command.dataset, data=command.data, split=command.split, seed=command.seed)
    about["scorer"] = scorer_name(scorer)
    kept = ("command", "data", "split", "scorer")
    result = tune(
        program,
        train,
        dev,
        scorer=scorer,
        dataset=command.dataset,
        made_by={name: about[name] for name in kept if about[name] is not None},
        **{item.name: getattr(command, item.name) for item in fields(TuneOptions)},
    )
    path = Path(command.run_dir) / PROGRAM
    result.save(path)
    write(path.with_name(PAGE), html(result.record))
    return result
