"""The work of a round, and the optimizers: functions that propose candidates."""

from __future__ import annotations

import inspect
import io
import logging
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any

import dspy
from dspy.utils.exceptions import AdapterParseError

from optim.records import PLANNING
from optim.tangent import E3Metric, ReferencePoint, example_of
from optim.tuning.candidate import SharedOnDeepcopy
from optim.tuning.evaluator import BudgetSpentError, OutageError
from optim.tuning.program import TunableProgram, trace
from optim.tuning.reflection import ReflectionAdapter, ReflectionError
from pb_graph.errors import InputError

if TYPE_CHECKING:
    from optim.datasets import Question
    from optim.tuning.candidate import Candidate
    from optim.tuning.evaluator import Evaluator, Result
    from optim.tuning.reflection import Reflector
    from pb_graph.types import StepReport, Usage

_LOUD = ("dspy", "gepa", "optuna")  # loggers
_FEWEST = 2  # examples: a single one shows its subject rather than a style

STOCK: dict[str, tuple[Any, dict[str, Any], dict[str, Any]]] = {
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
        seen: Every candidate that an `EvaluatedProgram` has run, by identity, in order.
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
    seen: dict[str, Candidate] = field(default_factory=dict)

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
        """Return whether nothing more can be paid for."""
        return self.evaluator.refusal is not None

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


class EvaluatedProgram(TunableProgram):
    """The incumbent as a DSPy program: the evaluator answers, and pays for nothing twice."""

    def __init__(self, task: OptimizerTask) -> None:
        super().__init__(task.incumbent, task.predictor)
        self._task = task
        self._questions = {one.id: one for one in (*task.train, *task.dev)}

    @property
    def candidate(self) -> Candidate:
        """The candidate that this copy of the program is now.

        Raises:
            InputError: Its instruction is empty or too long, or an optimizer has added examples:
                the evaluator knows plans as they were read, not as they were written.
        """
        demos = getattr(self, self._task.predictor).demos
        if demos and demos != self._base.examples.get(self._task.predictor):
            msg = "only instructions are tuned: use an optimizer without examples (0 demos)"
            raise InputError(msg)
        return super().candidate

    def forward(self, question: str, id: str) -> dspy.Prediction:  # noqa: A002, ARG002
        """Answer one question. Never raises: an optimizer would score that with a constant.

        Args:
            question: Its text, for optimizers that read their examples.
            id: Its id; it is one of the task's questions.

        Returns:
            ``answer``; ``score`` from 0 to 1; ``tokens``; ``report``; ``error``, None when there
            is an answer; ``refused``, True where nothing was answered, which is no result.
        """
        task = self._task
        try:
            candidate, asked = self.candidate, self._questions[id]
            task.seen.setdefault(candidate.identity, candidate)
            result = task.evaluator.one(candidate, asked)
        except Exception as error:  # noqa: BLE001 -- see above
            return dspy.Prediction(
                answer="", score=0.0, tokens=0, report=None, error=str(error), refused=True
            )
        answer = result.report["answer"]
        plan = "\n".join(map(_line, result.report["steps"])) or "(no plan)"
        said = {"solution": answer} if task.predictor == "solve" else {"plan": plan}
        given = {"domain": asked.domain, "problem": asked.question}
        trace(getattr(self, task.predictor), given, **said)
        return dspy.Prediction(
            answer=answer,
            score=result.score,
            tokens=result.tokens,
            report=result.report,
            error=result.error,
            refused=False,
        )


def _line(step: StepReport) -> str:
    hint = f" | {step['hint']}" if step["hint"] else ""
    graded = step["level"] is not None and step["credit"] is not None
    grades = f" (level {step['level']}, {step['credit']:.0f} credits)" if graded else ""
    return f"{step['index'] + 1}. {step['question']}{hint}{grades}"


def candidates(task: OptimizerTask, *, texts: Sequence[str]) -> list[Candidate]:
    """Return the incumbent with each instruction of a list."""
    return task.candidates(texts)


def run_stock(task: OptimizerTask, *, name: str, **options: Any) -> list[Candidate]:  # noqa: ANN401
    """Run one of DSPy's optimizers without examples, with E³'s tangent as its metric.

    Args:
        task: The round.
        name: A line of `STOCK`.
        options: Arguments of its class, instead of those of `STOCK`.
    """
    made, arguments, compiles = STOCK[name]
    writes, takes = task.reflection.language_model(), inspect.signature(made).parameters
    given = {
        "metric": task.metric(),
        "prompt_model": writes,
        "task_model": writes,  # never asked: the program brings its own
        "num_threads": task.evaluator.concurrency,
        "seed": task.seed + 1,  # 0 would count as not given
    }
    given = {one: value for one, value in given.items() if one in takes} | arguments | options
    with dspy.context(lm=writes):
        return compile_with(task, made(**given), **compiles)


def compile_with(
    task: OptimizerTask,
    made: Any,  # noqa: ANN401 -- an optimizer of DSPy's, which has no types
    **arguments: Any,  # noqa: ANN401
) -> list[Candidate]:
    """Let an optimizer of DSPy's compile the incumbent.

    Args:
        task: The round.
        made: The optimizer, with a metric for predictions with ``answer``, ``score``, ``tokens``.
        arguments: Of its ``compile``; train and dev sets are passed where it takes them.

    Returns:
        The candidates that met all of dev, and those that DSPy returned as the best.
    """
    sets = {"trainset": task.train, "valset": task.dev}
    takes = inspect.signature(made.compile).parameters
    if "eval_kwargs" in takes:  # as of COPRO, which evaluates on its trainset
        sets["trainset"] = task.dev
    if "seed" in takes:
        arguments = {"seed": task.seed} | arguments
    given = {name: list(map(example_of, sets[name])) for name in sets if name in takes}
    compiled = None
    with running_optimizer(task):
        compiled = made.compile(EvaluatedProgram(task), **(given | arguments))
    rows = getattr(compiled, "candidate_programs", None) or []
    best = [row["program"] for row in rows if isinstance(row, dict) and "program" in row]
    found = [one for one in task.seen.values() if task.evaluator.is_cached(one, task.dev)]
    for one in [*best, compiled]:
        if isinstance(one, EvaluatedProgram):
            with suppress(InputError):
                found.append(one.candidate)
    return found


def shortest(
    task: OptimizerTask,
    *,
    samples: int = 4,
    sizes: Sequence[int] = (2, 4, 6),
    longest: int = 1200,
) -> list[Candidate]:
    """Return the incumbent with sets of the model's own answers as examples for the solver.

    Only training questions are asked, so no dev or held-out question is ever an example. The
    shortest right answer to each question counts. Examples are taken from each level in turn, the
    shortest first, so a set does not show easy questions alone.

    Args:
        task: The round.
        samples: Answers to each question, of a model that samples; one at temperature 0.
        sizes: Sizes of the sets.
        longest: The most characters of an example's question and of its answer: they are prompt
            tokens of every later question.
    """
    epochs = 1 if task.evaluator.models.temperature == 0 else samples
    budget = max(task.answers - len(sizes) * len(task.dev), len(task.train))
    best: dict[str, tuple[int, Question, str]] = {}
    for question, result in _answers(task, epochs, budget):
        answer, solving = result.report["answer"].strip(), _solving(result)
        fits = 0 < len(answer) <= longest and len(question.question) <= longest
        is_forced = sum(part["calls"] for part in solving) != 1
        length = sum(part["output_tokens"] for part in solving)
        if fits and result.score >= 1.0 and not is_forced:
            known = best.get(question.id)
            if known is None or length < known[0]:
                best[question.id] = length, question, answer
    turns: dict[int | None, Iterator[int]] = defaultdict(count)
    by_length = sorted(best.values(), key=lambda one: one[0])
    in_turn = sorted(by_length, key=lambda one: next(turns[one[1].level]))
    found = [{"problem": one.question, "solution": answer} for _, one, answer in in_turn]
    if len(found) < min(_FEWEST, *sizes):
        return []
    return [task.incumbent.with_examples("solve", found[:size]) for size in sizes]


def _answers(task: OptimizerTask, epochs: int, budget: int) -> Iterator[tuple[Question, Result]]:
    """Answer within the budget; every question once before any is asked again."""
    evaluator, incumbent = task.evaluator, task.incumbent
    for epoch in range(1, epochs + 1):
        asked = task.train[: max(0, budget - (epoch - 1) * len(task.train))]
        with suppress(BudgetSpentError, OutageError):  # finished answers count
            evaluator.measure(incumbent, asked, epoch)
        for question in asked:
            if evaluator.is_cached(incumbent, [question], epoch):
                yield question, evaluator.one(incumbent, question, epoch)


def _solving(result: Result) -> list[Usage]:
    nodes = result.report["usage"]["by_node"]
    return [part for name, part in nodes.items() if name not in PLANNING]


@contextmanager
def running_optimizer(task: OptimizerTask) -> Iterator[None]:
    """Run an optimizer of DSPy's within, silenced.

    A spent budget, an outage or a silent reflection model may make an optimizer fail in any way:
    then it is left, and what was measured counts. Any other error is raised.

    Raises:
        ModelCallError: The reflection model could not be called.
    """
    reflector = task.reflector
    if reflector is not None:
        reflector.failure = None
    with silenced(), dspy.context(adapter=ReflectionAdapter(), trace=None, disable_history=True):
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
