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
_NO_DEMOS = {"max_bootstrapped_demos": 0, "max_labeled_demos": 0}
_NEVER = 10**9  # errors that end DSPy's evaluation; our program does not raise


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
    given = {name: list(map(example_of, sets[name])) for name in sets if name in takes}
    program, compiled = task.program(), None
    with running_optimizer(task, is_guarded=is_guarded):
        compiled = made.compile(program, **(given | arguments))
    return task.collect(program, compiled)


def copro(task: OptimizerTask, *, breadth: int = 6, depth: int = 2) -> list[Candidate]:
    """Run DSPy's COPRO on dev; of what it finds only instructions count, not output prefixes.

    Args:
        task: The round.
        breadth: Instructions for each depth, the incumbent's among the first.
        depth: How often the reflection model sees how they did.
    """
    writes = task.reflection.language_model()
    made = dspy.COPRO(prompt_model=writes, metric=task.metric(), breadth=breadth, depth=depth)
    shown = {"display_progress": False, "display_table": 0}
    threads = {"num_threads": task.evaluator.concurrency}
    return compile_with(
        task, made, trainset=list(map(example_of, task.dev)), eval_kwargs=threads | shown
    )


def miprov2(task: OptimizerTask, *, instructions: int = 6, trials: int = 10) -> list[Candidate]:
    """Run DSPy's MIPROv2 without examples; each trial is the whole of dev.

    Args:
        task: The round.
        instructions: How many are written, the incumbent's included.
        trials: How many are tried.
    """
    writes = task.reflection.language_model()
    made = dspy.MIPROv2(
        metric=task.metric(),
        prompt_model=writes,
        task_model=writes,  # never asked: the program brings its own
        auto=None,
        num_candidates=instructions,
        num_threads=task.evaluator.concurrency,
        max_errors=_NEVER,
        seed=task.seed + 1,  # 0 would count as not given
        **_NO_DEMOS,
    )
    return compile_with(
        task,
        made,
        is_guarded=True,
        num_trials=trials,
        minibatch=False,
        program_aware_proposer=False,  # our source code tells nothing about the task
        fewshot_aware_proposer=False,
    )


def simba(
    task: OptimizerTask, *, batch: int = 8, width: int = 3, steps: int = 3
) -> list[Candidate]:
    """Run DSPy's SIMBA without examples; it needs a solver that samples.

    Args:
        task: The round.
        batch: Questions of a step.
        width: Answers to each question of a step, and most new instructions of it.
        steps: Number of steps.
    """
    writes = task.reflection.language_model()
    made = dspy.SIMBA(
        metric=task.metric(),
        bsize=min(batch, len(task.train)),
        num_candidates=width,
        max_steps=steps,
        max_demos=0,
        prompt_model=writes,
        num_threads=task.evaluator.concurrency,
    )
    with dspy.context(lm=writes):
        return compile_with(task, made, seed=task.seed)


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
