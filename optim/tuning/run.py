"""`tune`: a program, questions and a budget go in; the tuned program and the evidence come out."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from optim.evaluation.limits import Limits
from optim.extras import require_modules
from optim.tuning.artefact import artefact_of, tuning_of
from optim.tuning.candidate import predictors_of
from optim.tuning.evaluator import Evaluator
from optim.tuning.examples import questions_of, scorer_of, split_of
from optim.tuning.optimizers import check, choose
from optim.tuning.program import GraphProgram
from optim.tuning.progress import TuneProgress
from optim.tuning.reflection import Reflector
from optim.tuning.search import search
from pb_graph.errors import InputError
from pb_graph.models.resolve import model_name

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import dspy
    from langchain_core.language_models import BaseChatModel

    from optim.datasets import Question
    from optim.tuning.artefact import Tuning
    from optim.tuning.candidate import Texts
    from optim.tuning.examples import Judge
    from optim.tuning.optimizer import Optimizer
    from optim.tuning.search import Callback, SearchResult
    from optim.tuning.selection import Verdict
    from pb_graph.program import PlannerProgram


@dataclass(frozen=True, slots=True, repr=False)
class TuneResult:
    """What came of a tuning.

    Attributes:
        program: What to use from now on, with the models of the program that was given: the winner
            of dev, or the original where that was kept.
        artefact: The same as it is saved: prompts, settings, and the record of the tuning.
        search: Every candidate that was proposed, round by round, and the questions.
    """

    program: GraphProgram
    artefact: PlannerProgram
    search: SearchResult

    def __repr__(self) -> str:
        from optim.report.terminal import plain_text  # noqa: PLC0415 -- brings tables and diffs
        from optim.tuning.show import shown  # noqa: PLC0415

        return plain_text(*shown(self.artefact))

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return f"<pre>{escape(repr(self))}</pre>"

    @property
    def adopted(self) -> bool:
        """Whether the original was replaced: the verdict is ``better`` or ``undecided``.

        That is a choice, not evidence. Only ``result.verdict.verdict == "better"`` says that the
        held-out questions show an improvement.
        """
        return self.search.adopted

    @property
    def verdict(self) -> Verdict:
        """Better, undecided or kept, why, and the figures on the held-out questions."""
        return self.search.verdict

    @property
    def record(self) -> Tuning:
        """The artefact's record of this tuning, with every proposal and why it fell."""
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
    budget: int | Limits = 400,
    run_dir: str | Path,
    optimizer: str | Optimizer | None = None,
    reflection_model: BaseChatModel | str | None = None,
    tuned: str = "decompose",
    candidates: Texts | None = None,
    held_out: Sequence[Question | dspy.Example] | None = None,
    rounds: int = 3,
    threshold: float = 0.01,
    seed: int = 0,
    estimate_level: bool = False,
    concurrency: int = 8,
    retry_errors: bool = False,
    dataset: str = "examples",
    callback: Callback | None = None,
) -> TuneResult:
    """Tune what a program's planner and solver are told, or its settings, for E³ on a dev split.

    The winner of dev meets the original on questions that nothing was tuned on. The verdict is
    ``better`` when its E³ is higher there with a one-sided confidence of 90 %, ``undecided`` when
    it is not below (it is used, but no known improvement), else ``kept``. The same call with the
    same run folder goes on where it was killed, and pays for nothing twice.

    ::

        from optim.tuning import GraphProgram, tune

        program = GraphProgram("openai:gpt-4o-mini", settings={"execution": "single_pass"})
        result = tune(
            program, train, dev, scorer="math", optimizer="gepa", budget=400, run_dir="runs/gepa",
            reflection_model="openai:gpt-4o", seed=0,
        )
        print(result.verdict.reason)
        result.program(question="How many primes are below 30?").answer
        result.save("tuned.json")

    Args:
        program: What is tuned: its models, its words and its settings are the original's.
        train: Questions, or examples with ``question`` and ``answer``, that optimizers learn
            from; dev when empty.
        dev: The same, which candidates are chosen by.
        scorer: Name of a scorer (`optim.scorers.NAMES`), a scorer, or a metric as DSPy has them:
            ``metric(example, prediction, trace=None)`` from 0 to 1, which judges an answer. What
            is optimised is E³ of a whole set, made of that and the tokens.
        budget: How many answers the run folder may cost over all its starts, or `Limits` in
            answers and tokens.
        run_dir: A local folder for what has been paid for.
        optimizer: One of `optim.tuning.options.OPTIMIZERS` (when not given ``gepa``, or
            ``shortest`` for ``solve``), or an `Optimizer`, such as a function
            decorated with `optim.tuning.optimizer.optimizer`.
        reflection_model: Writes instructions; None for the planner's model. One that is made from
            a name is asked at temperature 1, if it was at 0.
        tuned: ``decompose``, ``estimate`` or ``solve``, a prompt; ``all`` of those that the
            settings use, one after the other; or ``settings``, which are searched by successive
            halving. ``solve`` is what the solver is told and shown, in place of its style:
            its examples are found by ``shortest``, its instruction by the other optimizers.
        candidates: Instructions, or the path of a file of them. ``random`` and ``candidates``
            choose from them instead of the package's list; others measure them first.
        held_out: Questions for the last comparison; None takes a third of dev.
        rounds: How often the tangent of E³ is moved to the best so far, at most.
        threshold: Gain of E³ below which a round was the last one, relative.
        seed: Of everything drawn by chance.
        estimate_level: Let the planner estimate levels that are known, and pay for that.
        concurrency: How many answers run at once.
        retry_errors: Answer again what failed in an earlier start.
        dataset: What the record calls the questions.
        callback: Is told how far it is; None for a `TuneProgress` on standard error.

    Raises:
        MissingPackageError: The optimizer needs a package that is not installed.
        InputError: No usable questions, or one in two sets; choices that
            do not go together; nothing of the method to tune; every answer wrong; a budget below
            one round's; or a folder that is in use or belongs to another run.
        ModelSetupError: A model cannot be set up.
        ReflectionError: The reflection model says nothing, and no candidate was measured.
        OutageError: A model is out of reach; what was finished is kept.
        ScorerError: The scorer cannot be set up.
    """
    _check(program, rounds)
    named = check(optimizer, tuned, candidates, reflection=reflection_model is not None)
    require_modules(*named.needs)
    start = program.candidate
    first, *more = predictors_of(start.settings, tuned)
    chosen, pool = choose(optimizer, tuned, first, candidates)
    others = None if held_out is None else questions_of(held_out)
    split = split_of(questions_of(train), questions_of(dev), others, seed)
    if first == "level" and not more and not estimate_level and all(q.level for q in split.dev):
        msg = (
            "the level of every question is known, so no prompt that judges it is asked: let it be "
            "estimated (--estimate-level, estimate_level=True), or tune another"
        )
        raise InputError(msg)
    evaluator = Evaluator(
        program.graphs.model,
        planner=program.graphs.planner,
        scorer=scorer_of(scorer),
        run_dir=run_dir,
        limits=budget if isinstance(budget, Limits) else Limits(calls=budget),
        concurrency=concurrency,
        seed=seed,
        estimate_level=estimate_level,
        settings=start.settings,
        cap_policy=program.graphs.cap_policy,
        retry_errors=retry_errors,
    )
    with evaluator, nullcontext(callback) if callback else TuneProgress() as shown:
        writes = reflection_model or program.graphs.planner or program.graphs.model
        shared = (evaluator.reflections, evaluator.check, start.settings, program.graphs.cap_policy)
        reflector = Reflector(writes or model_name(None), *shared) if chosen.reflects else None
        result = search(
            evaluator,
            split,
            chosen,
            start=start,
            tuned=tuned,
            pool=pool,
            reflector=reflector,
            rounds=rounds,
            threshold=threshold,
            seed=seed,
            callback=shown,
        )
        models = {
            "solver": evaluator.models.model,
            "planner": evaluator.models.planner_model,
            "reflection": reflector.name if reflector else None,
        }
    artefact = artefact_of(result, dataset=dataset, models=models)
    return TuneResult(program.with_candidate(result.candidate), artefact, result)


def _check(program: object, rounds: int) -> None:
    if not isinstance(program, GraphProgram):
        msg = (
            f"what is tuned is a GraphProgram, not a {type(program).__name__}: make one with "
            "optim.tuning.GraphProgram(model, planner=..., settings=...)"
        )
        raise InputError(msg)
    if rounds < 1:
        msg = f"rounds must be at least 1, not {rounds}"
        raise InputError(msg)
