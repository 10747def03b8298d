"""Define the task of an optimizer, and the optimizers: functions that propose candidates."""

from __future__ import annotations

import inspect
import io
import logging
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dspy
from dspy.utils.exceptions import AdapterParseError

from optim.datasets.dataset import example_of
from optim.e3 import E3Metric
from optim.records import PLANNING
from optim.tuning.evaluator import OutageError, SearchEndedError
from optim.tuning.program import SharedOnDeepcopy, TunableProgram
from pb_graph.errors import InputError

if TYPE_CHECKING:
    from optim.datasets import Question
    from optim.e3 import ReferencePoint
    from optim.records import Record
    from optim.tuning.evaluator import Evaluator
    from optim.tuning.program import Candidate
    from optim.tuning.reflection import Reflector
    from pb_graph.types import StepReport

_BETWEEN = re.compile(r"^---+[ \t]*$", re.MULTILINE)
_GRADING = (
    " Judge the level of each sub-question, from 1 (easiest) to 5 (hardest), and share 100 credits "
    "among them by how much work each one takes."
)
_SIZES = (2, 4, 6)  # sets of examples for the solver; a single one shows its subject, not a style
_MAX_LENGTH = 1200  # characters of an example's problem and solution: every later prompt has them
_BREADTH = 5  # instructions of a round of COPRO


@dataclass(frozen=True, slots=True)
class OptimizerTask(SharedOnDeepcopy):
    """The work of an optimizer.

    Attributes:
        evaluator: Measures candidates; earlier measurements cost nothing.
        incumbent: The candidate to improve.
        reference: Accuracy and tokens of the incumbent on dev.
        train: Questions to learn from; those of dev where there are none.
        dev: Questions that candidates are chosen by.
        predictor: The predictor to tune.
        reflector: Writes instructions; None for optimizers that need none.
    """

    evaluator: Evaluator
    incumbent: Candidate
    reference: ReferencePoint
    train: Sequence[Question]
    dev: Sequence[Question]
    predictor: str
    reflector: Reflector | None

    @property
    def reflection(self) -> Reflector:
        """The reflection model."""
        if self.reflector is None:
            msg = "task.reflection needs an optimizer that is registered with reflects=True"
            raise InputError(msg)
        return self.reflector

    def metric(self) -> E3Metric:
        """Return the E³ metric with its tangent at the incumbent."""
        return E3Metric(self.reference, lambda _, pred: pred.score)

    def prediction(self, record: Record | None) -> dspy.Prediction:
        """Return an answer as the metric takes it; its tokens are what it costs."""
        if record is None:
            return NOT_ANSWERED
        told = {name: getattr(record, name) for name in ("score", "report", "error")}
        return dspy.Prediction(
            **told, answer=record.output, tokens=record.cost(self.evaluator.prompt_price)
        )

    def candidates(self, texts: Sequence[str]) -> list[Candidate]:
        """Return the incumbent with each of these instructions."""
        return [self.incumbent.with_instruction(self.predictor, text) for text in texts]


# The optimizers


def candidates(task: OptimizerTask) -> list[Candidate]:
    """Return the incumbent with each instruction that the user gives, or of the package's list."""
    texts = task.evaluator.options.candidates
    if texts is None or isinstance(texts, str | Path):
        texts = read_instructions(texts, task.predictor)
    return task.candidates(texts)


def copro(task: OptimizerTask) -> list[Candidate]:
    """Return the instructions that DSPy's COPRO writes, in as many rounds as the budget allows."""
    rounds = task.evaluator.limit // (_BREADTH * len(task.dev))
    lm = task.reflection.language_model()
    optimizer = dspy.COPRO(lm, task.metric(), breadth=_BREADTH, depth=max(1, rounds))
    return compile_with(task, optimizer)


def read_instructions(path: str | Path | None, predictor: str) -> list[str]:
    """Read instructions from a text file with lines of --- between them."""
    if path is None and predictor not in {"decompose", "fused"}:
        msg = f"the package has no candidates for {predictor!r}: give --candidates"
        raise InputError(msg)
    ending = _GRADING if path is None and predictor == "fused" else ""
    path = Path(path or Path(__file__).with_name("instructions.txt"))
    try:
        texts = _BETWEEN.split(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        msg = f"cannot read the candidates {path}: {error}"
        raise InputError(msg) from error
    return [text.strip() + ending for text in texts if text.strip()]


def compile_with(
    task: OptimizerTask,
    optimizer: Any,  # noqa: ANN401 -- an optimizer of DSPy's, which has no types
) -> list[Candidate]:
    """Compile the incumbent with an optimizer of DSPy."""
    takes = inspect.signature(optimizer.compile).parameters
    # An optimizer that evaluates on its training set, as COPRO does, gets dev for it.
    train = task.dev if "eval_kwargs" in takes else task.train
    arguments = {
        "trainset": list(map(example_of, train)),
        "valset": list(map(example_of, task.dev)),
        "eval_kwargs": {"num_threads": task.evaluator.options.concurrency},
        "seed": task.evaluator.options.seed,
    }
    given = {name: value for name, value in arguments.items() if name in takes}
    last: list[Candidate] = []
    try:
        with silenced(), dspy.context(trace=None, disable_history=True):
            last = [optimizer.compile(EvaluatedProgram(task), **given).candidate]
    except AdapterParseError:
        msg = "a reply with instructions cannot be read: choose a more able model to write them"
        task.evaluator.refusal = SearchEndedError(msg)
    except Exception:
        if task.evaluator.refusal is None:  # else what was measured counts, whatever failed
            raise
    return [*task.evaluator.measured(task.dev), *last]


def shortest(task: OptimizerTask) -> list[Candidate]:
    """Return the incumbent with different sets of the model's own answers as solver examples.

    Only training questions are asked, so no dev or held-out question is ever an example. Only right
    answers that no cap has cut off count. Examples are taken from each level in turn, the shortest
    first, so a set does not only show easy questions.
    """
    evaluator, incumbent = task.evaluator, task.incumbent
    with suppress(SearchEndedError, OutageError):  # finished answers count
        evaluator.measure(incumbent, task.train)
    right: list[tuple[int, Question, str]] = []
    for question in task.train:
        for record in evaluator.known(incumbent, [question]):
            nodes = record.report["usage"]["by_node"]
            solving = [part for name, part in nodes.items() if name not in PLANNING]
            answer = record.report["answer"].strip()
            fits = len(answer) <= _MAX_LENGTH and len(question.question) <= _MAX_LENGTH
            if fits and record.score == 1.0 and sum(part["calls"] for part in solving) == 1:
                right.append((sum(part["output_tokens"] for part in solving), question, answer))
    turns: dict[int | None, Iterator[int]] = defaultdict(count)
    by_length = sorted(right, key=lambda pair: pair[0])
    in_turn = sorted(by_length, key=lambda pair: next(turns[pair[1].level]))
    demos = [{"problem": one.question, "solution": answer} for _, one, answer in in_turn]
    sets = [demos[:size] for size in _SIZES]
    return [incumbent.with_examples("solve", demos) for demos in sets if len(demos) >= _SIZES[0]]


# What DSPy's optimizers run


class EvaluatedProgram(TunableProgram):
    """The incumbent as a DSPy program; the evaluator answers, and pays for no answer twice."""

    def __init__(self, task: OptimizerTask) -> None:
        super().__init__(task.incumbent, task.predictor)
        self._task = task
        self._questions = {question.identity: question for question in (*task.train, *task.dev)}

    @property
    def candidate(self) -> Candidate:
        """The candidate that this copy of the program is now."""
        candidate, name = super().candidate, self._task.predictor
        if name != "solve" and candidate.examples.get(name) != self._base.examples.get(name):
            msg = "only the solver's prompt takes examples: set the optimizer's "
            msg += "max_bootstrapped_demos and max_labeled_demos to 0, or tune solve"
            raise InputError(msg)
        return candidate

    def forward(self, question: str, id: str) -> dspy.Prediction:  # noqa: A002, ARG002
        """Answer one of the task's questions, which is known by its id.

        Never raises, since an optimizer would score that with a constant.
        """
        task, item = self._task, self._questions[id]
        try:
            [record] = task.evaluator.measure(self.candidate, [item])
        except Exception as error:  # noqa: BLE001 -- see above
            return NOT_ANSWERED.copy(error=str(error))
        kind, output = output_of(record, task.predictor)
        inputs = {"domain": item.domain, "problem": item.question}
        self._trace(task.predictor, inputs, **{kind: output})
        return task.prediction(record)


NOT_ANSWERED = dspy.Prediction(
    answer="", score=0.0, tokens=10**9, report=None, error="It was not answered."
)
"""The prediction of an answer that never came: any answer is better."""


def output_of(record: Record | None, predictor: str) -> tuple[str, str]:
    """Return the kind and the text of what a predictor wrote in an answer."""
    if predictor == "solve":
        return "solution", record.output if record else ""
    steps = record.report["steps"] if record else ()
    return "plan", "\n".join(map(_line, steps)) or "(no plan)"


def _line(step: StepReport) -> str:
    hint = f" | {step['hint']}" if step["hint"] else ""
    graded = step["level"] is not None and step["credit"] is not None
    grades = f" (level {step['level']}, {step['credit']:.0f} credits)" if graded else ""
    return f"{step['index'] + 1}. {step['question']}{hint}{grades}"


@contextmanager
def silenced() -> Iterator[None]:
    """Suppress all printing and logging inside the context."""
    logging.disable(logging.CRITICAL)
    try:
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            yield
    finally:
        logging.disable(logging.NOTSET)
