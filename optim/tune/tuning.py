"""`tune`: a program, questions and a budget go in; the tuned program and the evidence come out."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

from optim.program import GraphProgram
from optim.tune.bench import Bench
from optim.tune.board import Board
from optim.tune.candidate import predictor_of
from optim.tune.given import questions_of, scorer_of
from optim.tune.loop import search
from optim.tune.meter import Limits
from optim.tune.optimizers import check, chosen, pool_of
from optim.tune.record import artefact_of
from optim.tune.reflection import Reflector
from optim.tune.split import split_of
from pb_graph.errors import InputError
from pb_graph.models.resolve import model_name

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import dspy
    from langchain_core.language_models import BaseChatModel

    from optim.datasets import Question
    from optim.tune.candidate import Candidate
    from optim.tune.given import Judge
    from optim.tune.loop import Audience, SearchResult
    from optim.tune.optimizers import Texts
    from optim.tune.proposer import Proposer
    from optim.tune.standing import Standing
    from optim.tune.verdict import Verdict
    from pb_graph.artefact import Artefact

__all__ = ["TuneResult", "tune"]


@dataclass(frozen=True, slots=True, repr=False)
class TuneResult:
    """What came of a tuning.

    Attributes:
        program: What to use from now on, with the models of the program that was given: the tuned
            one, or the original where that was kept.
        artefact: The same as it is saved: prompts, settings, and the record of the tuning.
        search: Every candidate that was measured, round by round, and the questions.
    """

    program: GraphProgram
    artefact: Artefact
    search: SearchResult

    def __repr__(self) -> str:
        return f"TuneResult({self.verdict.verdict}: {self.verdict.reason})"

    @property
    def adopted(self) -> bool:
        """Whether the original was replaced."""
        return self.search.adopted

    @property
    def verdict(self) -> Verdict:
        """Adopted or kept, why, and the figures on the held-out questions."""
        return self.search.verdict

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
    budget: int | Limits,
    run_dir: str | Path,
    optimizer: str | Proposer | None = None,
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
    audience: Audience | None = None,
) -> TuneResult:
    """Tune what a program's planner is told, or its settings, for E³ on a dev split.

    Whatever is found replaces the original only when its E³ on questions that nothing was tuned on
    is not below the original's. The same call with the same run folder goes on where it was
    killed, and pays for nothing twice.

    ::

        from optim.tune import GraphProgram, tune

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
            answers, tokens and minutes.
        run_dir: A local folder for what has been paid for.
        optimizer: ``gepa`` (when not given), ``copro``, ``miprov2``, ``simba``, ``random``,
            ``candidates``, or a `Proposer`.
        reflection_model: Writes instructions; None for the planner's model. One that is made from
            a name is asked at temperature 1, if it was at 0.
        tuned: ``decompose`` or ``estimate``, a prompt; or ``settings``, which Optuna searches.
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
        audience: Is told how far it is; None for a `Board` on standard error.

    Raises:
        InputError: No usable questions, or one in two sets; choices that do not go together;
            nothing of the method to tune; every answer wrong; a budget below one round's; or a
            folder that is in use or belongs to another run.
        ModelSetupError: A model cannot be set up.
        ReflectionError: The reflection model says nothing.
        OutageError: A model is out of reach; what was finished is kept.
        ScorerError: The scorer cannot be set up.
    """
    _check(program, rounds)
    check(optimizer, tuned, candidates, reflection=reflection_model is not None)
    start = program.candidate
    predictor = predictor_of(start.settings, tuned)
    proposer = chosen(optimizer, tuned, predictor, candidates)
    pool = pool_of(optimizer, candidates)
    others = None if held_out is None else questions_of(held_out)
    split = split_of(questions_of(train), questions_of(dev), others, seed)
    bench = Bench(
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
    with bench, nullcontext(audience) if audience else Board() as shown:
        reflector = _reflector(program, reflection_model, bench) if proposer.reflects else None
        found = search(
            bench,
            split,
            proposer,
            start=start,
            tuned=tuned,
            pool=pool,
            reflector=reflector,
            rounds=rounds,
            threshold=threshold,
            seed=seed,
            audience=shown,
        )
        artefact = artefact_of(
            found,
            dataset=dataset,
            staff=bench.staff,
            reflection=reflector.name if reflector else None,
            tried=_tried(proposer),
        )
    return TuneResult(program.told(found.candidate), artefact, found)


def _check(program: object, rounds: int) -> None:
    if not isinstance(program, GraphProgram):
        msg = (
            f"what is tuned is a GraphProgram, not a {type(program).__name__}: make one with "
            "optim.tune.GraphProgram(model, planner=..., settings=...)"
        )
        raise InputError(msg)
    if rounds < 1:
        msg = f"rounds must be at least 1, not {rounds}"
        raise InputError(msg)


def _reflector(program: GraphProgram, given: BaseChatModel | str | None, bench: Bench) -> Reflector:
    model = given or program.graphs.planner or program.graphs.model or model_name(None)
    return Reflector(
        model, bench.reflections, bench.meter, bench.settings, program.graphs.cap_policy
    )


def _tried(proposer: Proposer) -> Sequence[tuple[Candidate, Standing]]:
    """What the settings search measured, also what it gave up; others keep no such list."""
    if proposer.name != "settings":
        return ()
    from optim.tune.settings_search import SettingsSearch  # noqa: PLC0415 -- needs Optuna

    return proposer.tried if isinstance(proposer, SettingsSearch) else ()
