"""The work of a round, and the optimizers: functions that propose candidates."""

from __future__ import annotations

import inspect
import io
import logging
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dspy
from dspy.utils.exceptions import AdapterParseError

from optim.records import PLANNING
from optim.tangent import E3Metric, example_of
from optim.tuning.evaluator import BudgetSpentError, OutageError
from optim.tuning.program import SharedOnDeepcopy, TunableProgram, trace
from optim.tuning.reflection import ReflectionAdapter
from pb_graph.errors import InputError

if TYPE_CHECKING:
    from optim.datasets import Question
    from optim.tangent import ReferencePoint
    from optim.tuning.evaluator import Evaluator
    from optim.tuning.program import Candidate
    from optim.tuning.reflection import Reflector
    from pb_graph.types import StepReport

_BETWEEN = re.compile(r"^---+[ \t]*$", re.MULTILINE)
_FEWEST = 2  # examples: a single one shows its subject rather than a style


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
    def threads(self) -> int:
        """Number of questions that are answered at once."""
        return self.evaluator.options.concurrency

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


# The optimizers


def read_instructions(given: Sequence[str] | str | Path | None, predictor: str) -> list[str]:
    """Return instructions to choose from.

    Args:
        given: The instructions, or a text file with lines of --- between them; None for the
            package's list.
        predictor: What they are for.

    Raises:
        InputError: The file holds no instruction, or the package has none for this predictor.
    """
    if given is not None and not isinstance(given, str | Path):
        return list(given)
    if given is None and predictor != "decompose":
        msg = f"the package has no instructions for {predictor!r} to choose from: give --candidates"
        raise InputError(msg)
    path = Path(given or Path(__file__).with_name("instructions.txt"))
    try:
        content = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        msg = f"cannot read the candidates {path}: {error}"
        raise InputError(msg) from error
    usable = [text.strip() for text in _BETWEEN.split(content) if text.strip()]
    if not usable:
        msg = f"{path} holds no instruction; write some, with a line of --- between two"
        raise InputError(msg)
    return usable


def copro(task: OptimizerTask, *, breadth: int = 6, depth: int = 2) -> list[Candidate]:
    """Run DSPy's COPRO with E³'s tangent as its metric."""
    writes = task.reflection.language_model()
    made = dspy.COPRO(metric=task.metric(), prompt_model=writes, breadth=breadth, depth=depth)
    shown = {"display_progress": False, "display_table": 0}
    return compile_with(task, made, eval_kwargs={"num_threads": task.threads, **shown})


def miprov2(
    task: OptimizerTask, *, num_candidates: int = 6, num_trials: int = 10
) -> list[Candidate]:
    """Run DSPy's MIPROv2 without examples, with E³'s tangent as its metric."""
    writes = task.reflection.language_model()
    made = dspy.MIPROv2(
        metric=task.metric(),
        prompt_model=writes,
        task_model=writes,  # never asked: the program brings its own
        auto=None,
        num_candidates=num_candidates,
        max_bootstrapped_demos=0,
        max_labeled_demos=0,
        max_errors=10**9,  # our program does not raise
        num_threads=task.threads,
        seed=task.seed + 1,  # 0 would count as not given
    )
    return compile_with(
        task,
        made,
        num_trials=num_trials,
        minibatch=False,  # a trial that repeats an instruction costs nothing
        program_aware_proposer=False,  # our source code tells nothing about the task
        fewshot_aware_proposer=False,
    )


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
        The candidates that met all of dev, and the one that DSPy returned.
    """
    takes = inspect.signature(made.compile).parameters
    # An optimizer that evaluates on its training set, as COPRO does, gets dev for it.
    sets = {"trainset": task.dev if "eval_kwargs" in takes else task.train, "valset": task.dev}
    given: dict[str, Any] = {n: list(map(example_of, sets[n])) for n in sets if n in takes}
    if "seed" in takes:
        given["seed"] = task.seed
    context: dict[str, Any] = {"adapter": ReflectionAdapter(), "trace": None}
    context |= {"lm": task.reflector.language_model()} if task.reflector else {}
    compiled = None
    try:
        with silenced(), dspy.context(**context, disable_history=True):
            compiled = made.compile(EvaluatedProgram(task), **(given | arguments))
    except Exception as error:
        if isinstance(error, AdapterParseError) and task.reflector and not task.is_refused:
            task.evaluator.refusal = task.reflector.error("nothing that could be used")
        if not task.is_refused:  # else what was measured counts, however the optimizer failed
            raise
    dev, known = len(task.dev), task.evaluator.known
    found = [one for one in task.seen.values() if len(known(one, task.dev)) == dev]
    if isinstance(compiled, EvaluatedProgram):
        with suppress(InputError):
            found.append(compiled.candidate)
    return found


def shortest(
    task: OptimizerTask, *, sizes: Sequence[int] = (2, 4, 6), longest: int = 1200
) -> list[Candidate]:
    """Return the incumbent with sets of the model's own answers as examples for the solver.

    Only training questions are asked, so no dev or held-out question is ever an example. Right
    answers count that no cap has cut short. Examples are taken from each level in turn, the
    shortest first, so a set does not show easy questions alone.

    Args:
        task: The round.
        sizes: Sizes of the sets.
        longest: The most characters of an example's question and of its answer: they are prompt
            tokens of every later question.
    """
    evaluator, incumbent = task.evaluator, task.incumbent
    with suppress(BudgetSpentError, OutageError):  # finished answers count
        evaluator.measure(incumbent, task.train)
    right: list[tuple[int, Question, str]] = []
    for question in task.train:
        for result in evaluator.known(incumbent, [question]):
            nodes = result.report["usage"]["by_node"]
            solving = [part for name, part in nodes.items() if name not in PLANNING]
            answer = result.report["answer"].strip()
            fits = 0 < len(answer) <= longest and len(question.question) <= longest
            if fits and result.score >= 1.0 and sum(part["calls"] for part in solving) == 1:
                right.append((sum(part["output_tokens"] for part in solving), question, answer))
    turns: dict[int | None, Iterator[int]] = defaultdict(count)
    by_length = sorted(right, key=lambda one: one[0])
    in_turn = sorted(by_length, key=lambda one: next(turns[one[1].level]))
    found = [{"problem": one.question, "solution": answer} for _, one, answer in in_turn]
    if len(found) < min(_FEWEST, *sizes):
        return []
    return [incumbent.with_examples("solve", found[:size]) for size in sizes]


# What DSPy's optimizers run


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
        """Answer one of the task's questions, which is known by its id.

        Never raises, since an optimizer would score that with a constant: ``refused`` says that
        nothing was answered, which is no result.
        """
        task = self._task
        try:
            candidate, asked = self.candidate, self._questions[id]
            task.seen.setdefault(candidate.identity, candidate)
            result = task.evaluator.one(candidate, asked)
        except Exception as error:  # noqa: BLE001 -- see above
            nothing = {"answer": "", "score": 0.0, "tokens": 0, "report": None}
            return dspy.Prediction(**nothing, error=str(error), refused=True)
        report, given = result.report, {"domain": asked.domain, "problem": asked.question}
        plan = "\n".join(map(_line, report["steps"])) or "(no plan)"
        said = {"solution": report["answer"]} if task.predictor == "solve" else {"plan": plan}
        trace(getattr(self, task.predictor), given, **said)
        return dspy.Prediction(
            answer=report["answer"],
            score=result.score,
            tokens=result.tokens,
            report=report,
            error=result.error,
            refused=False,
        )


def _line(step: StepReport) -> str:
    hint = f" | {step['hint']}" if step["hint"] else ""
    graded = step["level"] is not None and step["credit"] is not None
    grades = f" (level {step['level']}, {step['credit']:.0f} credits)" if graded else ""
    return f"{step['index'] + 1}. {step['question']}{hint}{grades}"


@contextmanager
def silenced() -> Iterator[None]:
    """Swallow everything that is printed and logged within."""
    logging.disable(logging.CRITICAL)
    try:
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            yield
    finally:
        logging.disable(logging.NOTSET)
