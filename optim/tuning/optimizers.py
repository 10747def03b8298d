"""The work of a round, and DSPy's optimizers as functions that propose candidates."""

from __future__ import annotations

import inspect
import io
import logging
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import dspy
from dspy.utils.exceptions import AdapterParseError

from optim.tangent import E3Metric, ReferencePoint, example_of
from optim.tuning.candidate import SharedOnDeepcopy
from optim.tuning.program import EvaluatedProgram
from optim.tuning.reflection import ReflectionAdapter, ReflectionError
from pb_graph.errors import InputError

if TYPE_CHECKING:
    from optim.datasets import Question
    from optim.tuning.candidate import Candidate
    from optim.tuning.evaluator import Evaluator
    from optim.tuning.reflection import Reflector

_LOUD = ("dspy", "gepa", "optuna")  # loggers

DSPY: dict[str, tuple[Any, dict[str, Any], dict[str, Any]]] = {
    "copro": (
        dspy.COPRO,
        {"breadth": 6, "depth": 2},
        {"eval_kwargs": {"num_threads": 8, "display_progress": False, "display_table": 0}},
    ),
    "miprov2": (
        dspy.MIPROv2,
        {
            "auto": None,
            "num_candidates": 6,
            "max_bootstrapped_demos": 0,
            "max_labeled_demos": 0,
            "max_errors": 10**9,  # our program does not raise
        },
        {
            "num_trials": 10,
            "minibatch": False,  # a trial that repeats an instruction costs nothing
            "program_aware_proposer": False,  # our source code tells nothing about the task
            "fewshot_aware_proposer": False,
        },
    ),
    "simba": (dspy.SIMBA, {"bsize": 8, "num_candidates": 3, "max_steps": 3, "max_demos": 0}, {}),
}
"""DSPy's optimizers by name: class, its arguments, and those of its ``compile``."""


@dataclass(frozen=True, slots=True)
class OptimizerTask(SharedOnDeepcopy):
    """The work of one round.

    Attributes:
        evaluator: Measures; what was measured before costs nothing.
        incumbent: The best candidate so far.
        reference: Its accuracy and tokens on dev.
        train: Questions to learn from; those of dev where there are none.
        dev: Questions that candidates are chosen by.
        predictor: The predictor to tune.
        reflector: Writes instructions; None for optimizers that need none.
        answers: The most answers, cached ones included, that the round should ask for.
        seed: Of everything drawn by chance.
    """

    evaluator: Evaluator
    incumbent: Candidate
    reference: ReferencePoint
    train: Sequence[Question]
    dev: Sequence[Question]
    predictor: str
    reflector: Reflector | None
    answers: int
    seed: int

    @property
    def reflection(self) -> Reflector:
        """The reflection model.

        Raises:
            InputError: There is none.
        """
        if self.reflector is None:
            msg = "this optimizer needs a model that writes instructions: give --reflection-model"
            raise InputError(msg)
        return self.reflector

    @property
    def is_refused(self) -> bool:
        """Whether nothing more can be paid for."""
        return self.evaluator.refusal is not None

    def program(self) -> EvaluatedProgram:
        """Return the incumbent as a DSPy program that knows the round's questions."""
        questions = [*self.train, *self.dev]
        return EvaluatedProgram(self.evaluator, self.incumbent, self.predictor, questions)

    def metric(self, *, objectives: bool = False) -> E3Metric:
        """Return the E³ metric with its tangent at the incumbent."""
        return E3Metric(self.reference, lambda _, pred: pred.score, objectives=objectives)

    def candidates(self, texts: Sequence[str]) -> list[Candidate]:
        """Return the incumbent with each instruction, without unusable and repeated ones."""
        usable: dict[str, Candidate] = {}
        for text in texts:
            with suppress(InputError):  # empty or too long
                candidate = self.incumbent.with_instruction(self.predictor, text)
                usable.setdefault(candidate.identity, candidate)
        return list(usable.values())

    def collect(self, program: EvaluatedProgram, compiled: Any = None) -> list[Candidate]:  # noqa: ANN401
        """Return the candidates that met all of dev, and those that DSPy returned as the best."""
        rows = getattr(compiled, "candidate_programs", None) or []
        found = [row["program"] for row in rows if isinstance(row, dict) and "program" in row]
        best: dict[str, Candidate] = {}
        for one in [*found, compiled]:
            if isinstance(one, EvaluatedProgram):
                with suppress(InputError):
                    best.setdefault(one.candidate.identity, one.candidate)
        whole = [one for one in program.seen.values() if self.evaluator.is_cached(one, self.dev)]
        return [*whole, *best.values()]


def compile_with(
    task: OptimizerTask,
    made: Any,  # noqa: ANN401 -- an optimizer of DSPy's, which has no types
    *,
    is_guarded: bool = False,
    **arguments: Any,  # noqa: ANN401
) -> list[Candidate]:
    """Let an optimizer of DSPy's compile the incumbent, and return what it found.

    Args:
        task: The round.
        made: The optimizer, with a metric for predictions with ``answer``, ``score``, ``tokens``.
        is_guarded: Whether it cuts the beginning of instructions, as MIPROv2 does.
        arguments: Of its ``compile``; train and dev sets are passed where it takes them.
    """
    sets = {"trainset": task.train, "valset": task.dev}
    takes = inspect.signature(made.compile).parameters
    if "eval_kwargs" in takes:  # as of COPRO, which evaluates on its trainset
        sets["trainset"] = task.dev
    if "seed" in takes and "seed" not in arguments:
        arguments["seed"] = task.seed
    given = {name: list(map(example_of, sets[name])) for name in sets if name in takes}
    program, compiled = task.program(), None
    with running_optimizer(task, is_guarded=is_guarded):
        compiled = made.compile(program, **(given | arguments))
    return task.collect(program, compiled)


def with_dspy(task: OptimizerTask, *, name: str, **options: Any) -> list[Candidate]:  # noqa: ANN401
    """Run one of DSPy's optimizers without examples, with E³'s tangent as its metric.

    Args:
        task: The round.
        name: A line of `DSPY`.
        options: Arguments of its class, instead of those of `DSPY`.
    """
    made, arguments, compiles = DSPY[name]
    writes, takes = task.reflection.language_model(), inspect.signature(made).parameters
    given = {
        "metric": task.metric(),
        "prompt_model": writes,
        "task_model": writes,  # never asked: the program brings its own
        "num_threads": task.evaluator.concurrency,
        "seed": task.seed + 1,  # 0 would count as not given
    }
    given = {one: value for one, value in given.items() if one in takes} | arguments | options
    if "bsize" in given:
        given["bsize"] = min(given["bsize"], len(task.train))
    with dspy.context(lm=writes):
        return compile_with(task, made(**given), is_guarded=name == "miprov2", **compiles)


def random_search(task: OptimizerTask, *, texts: Sequence[str]) -> list[Candidate]:
    """Return the instructions in drawn order: the baseline that an optimizer has to beat."""
    order = random.Random(task.seed)  # noqa: S311 -- a draw, not a secret
    return task.candidates(order.sample(list(texts), len(texts)))


def candidates(task: OptimizerTask, *, texts: Sequence[str]) -> list[Candidate]:
    """Return all instructions in their order."""
    return task.candidates(texts)


@contextmanager
def running_optimizer(task: OptimizerTask, *, is_guarded: bool = False) -> Iterator[None]:
    """Run an optimizer of DSPy's within, silenced.

    A spent budget, an outage or a silent reflection model may make an optimizer fail in any way:
    then it is left, and what was measured counts. Any other error is raised.

    Raises:
        ModelCallError: The reflection model could not be called.
    """
    adapter, reflector = ReflectionAdapter(is_guarded=is_guarded), task.reflector
    if reflector is not None:
        reflector.failure = None
    with silenced(), dspy.context(adapter=adapter, trace=None, disable_history=True):
        try:
            yield
        except Exception as error:
            failure = reflector.failure if reflector else None
            if reflector is not None and failure is None and isinstance(error, AdapterParseError):
                failure = reflector.failure = reflector.error("nothing that could be used")
            if task.is_refused or isinstance(failure, ReflectionError):
                return
            if failure is None:
                raise
            raise failure from error  # DSPy has wrapped it


@contextmanager
def silenced() -> Iterator[None]:
    """Swallow everything that is printed and logged within."""
    loggers = [logging.getLogger(name) for name in _LOUD]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
