"""Define the task of an optimizer, and the optimizers: functions that propose candidates."""

from __future__ import annotations

import inspect
import io
import logging
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dspy
from dspy.utils.exceptions import AdapterParseError
from gepa.api import optimize
from gepa.core.adapter import EvaluationBatch, GEPAAdapter
from gepa.proposer.base import CandidateProposal

from optim.datasets import Question
from optim.datasets.dataset import example_of
from optim.e3 import E3Metric, ReferencePoint, e3
from optim.records import Record, solving_calls
from optim.tuning.evaluator import Evaluator, OutageError, Reflector, SearchEndedError
from optim.tuning.program import Candidate, SharedOnDeepcopy, TunableProgram
from pb_graph.errors import InputError, PlanAndBudgetError

_MARKED = re.compile(r"```[\w-]*\n(.*?)```|<instruction>(.*?)(?:</instruction>|\Z)", re.DOTALL)
_BETWEEN = re.compile(r"^---+[ \t]*$", re.MULTILINE)
_GRADING = (
    " Judge the level of each sub-question, from 1 (easiest) to 5 (hardest), and share 100 credits "
    "among them by how much work each one takes."
)
_SIZES = (2, 4, 6)  # sets of examples for the solver; a single one shows its subject, not a style
_MAX_LENGTH = 1200  # characters of an example's problem and solution: every later prompt has them
_BREADTH = 5  # instructions of a round of COPRO
_GOAL = """\
What counts is accuracy squared, divided by the mean {cost}. So right answers count most, and \
every word that does not make an answer right is waste."""
_PLANNED = f"""\
A planner splits a problem into sub-questions with hints. A solver then answers them one after \
another, each within its share of a token budget. {_GOAL} That includes the words of the plan."""
_SOLVED = f"A solver answers problems after it was shown a few worked examples. {_GOAL}"
_PROMPT = """\
{scene}

This is the instruction that the {role} works by now:

<instruction>
{instruction}
</instruction>

This is what came of it on some problems:

{cases}

Write a better instruction, of {most} words at most; it has {size} now. Learn from the cases, but \
name nothing that is in them: it has to serve other problems of the kind. The form of the reply is \
fixed elsewhere, so say nothing about it. {never}Reply with the new instruction and nothing else."""
_ROLES = {
    "decompose": "planner",
    "fused": "planner, who also judges difficulty,",
    "estimate": "judge of the sub-questions' difficulty",
    "solve": "solver",
    "level": "judge of a problem's difficulty",
}
_COSTS = dict.fromkeys(("e3", "front"), "number of tokens written") | {
    "money": "price of all tokens, in which every word of this instruction is paid for each call",
}
_WORDS = 120  # of an instruction, at most
_MINIBATCH = 8  # answers that decide whether a new instruction gets the whole of dev
_CASES = 16_000  # characters of all cases, within a small model's context
_PROBLEM = 1500  # characters of one problem


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
    """Return the incumbent with each instruction, which `optim.tuning.tune` has read."""
    texts: Any = task.evaluator.options.candidates
    return task.candidates(texts)


def copro(task: OptimizerTask) -> list[Candidate]:
    """Return the instructions that DSPy's COPRO writes, in as many rounds as the budget allows."""
    rounds = task.evaluator.limit // (_BREADTH * len(task.dev))
    lm = task.reflection.language_model()
    optimizer = dspy.COPRO(lm, task.metric(), breadth=_BREADTH, depth=max(1, rounds))
    return compile_with(task, optimizer)


def gepa(task: OptimizerTask) -> Sequence[Candidate]:
    """Return every instruction that was measured on the whole of dev.

    GEPA gets no folder, because its folder holds a pickle and outdated scores. Paid answers come
    from the evaluator instead, and an instruction is accepted if its E³ on the minibatch is higher
    than that of its parent.
    """
    evaluator, objective = task.evaluator, task.evaluator.options.objective
    with suppress(PlanAndBudgetError):  # the evaluator keeps it: what was measured counts
        optimize(
            {task.predictor: task.incumbent.text(task.predictor)},
            list(task.train),
            list(task.dev),
            adapter=_Adapter(task),
            max_metric_calls=3 * evaluator.limit,  # free answers count; the evaluator ends it
            reflection_minibatch_size=min(_MINIBATCH, len(task.train)),
            frontier_type="objective" if objective == "front" else "hybrid",
            acceptance_criterion=Acceptance(objective),
            stop_callbacks=[lambda _: evaluator.refusal is not None],
            logger=SimpleNamespace(log=lambda _: None),
            seed=evaluator.options.seed,
        )
    return evaluator.measured(task.dev)


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
            answer, calls = record.output.strip(), solving_calls(record.report["usage"]["by_node"])
            fits = len(answer) <= _MAX_LENGTH and len(question.question) <= _MAX_LENGTH
            if fits and record.score == 1.0 and calls == 1:
                right.append((record.solving_tokens, question, answer))
    turns: dict[int | None, Iterator[int]] = defaultdict(count)
    by_length = sorted(right, key=lambda pair: pair[0])
    in_turn = sorted(by_length, key=lambda pair: next(turns[pair[1].level]))
    demos = [{"problem": one.question, "solution": answer} for _, one, answer in in_turn]
    sets = [demos[:size] for size in _SIZES]
    return [
        replace(incumbent, examples={**incumbent.examples, "solve": demos})
        for demos in sets
        if len(demos) >= _SIZES[0]
    ]


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
    lines = []
    for step in record.report["steps"] if record else ():
        hint = f" | {step['hint']}" if step["hint"] else ""
        graded = step["level"] is not None and step["credit"] is not None
        grades = f" (level {step['level']}, {step['credit']:.0f} credits)" if graded else ""
        lines.append(f"{step['index'] + 1}. {step['question']}{hint}{grades}")
    return "plan", "\n".join(lines) or "(no plan)"


@contextmanager
def silenced() -> Iterator[None]:
    """Suppress all printing and logging inside the context."""
    logging.disable(logging.CRITICAL)
    try:
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            yield
    finally:
        logging.disable(logging.NOTSET)


# What GEPA runs


@dataclass(frozen=True)
class Acceptance:
    """Accepts an instruction by its minibatch: one with a higher E³ than its parent.

    With the objective ``front``, one with more right answers or a lower cost, if any is right.
    """

    objective: str = "e3"

    def should_accept(self, proposal: CandidateProposal[Any], state: object) -> bool:  # noqa: ARG002 -- GEPA's signature
        """Return whether the proposal is accepted."""
        before, after = (
            list(zip(*((row["accuracy"], -row["neg_tokens"]) for row in rows), strict=True))
            for each in (proposal.eval_before, proposal.eval_after)
            if each and (rows := each.objective_scores)
        )
        if self.objective != "front":
            return e3(*after) > e3(*before)
        (right, cost), (right_before, cost_before) = map(sum, after), map(sum, before)
        return right > 0 and (right > right_before or cost < cost_before)


class _Adapter(GEPAAdapter["Question", dict[str, str], "Record | None"]):
    """Answer GEPA: measure an instruction, tell the cases, and write a better one."""

    def __init__(self, task: OptimizerTask) -> None:
        self._task, self._metric = task, task.metric()

    def evaluate(
        self,
        batch: list[Question],
        candidate: dict[str, str],
        capture_traces: bool = False,  # noqa: ARG002 -- GEPA's signature
    ) -> EvaluationBatch[dict[str, str], Record | None]:
        """Answer the questions, and tell the case of each; one that was not answered is last."""
        evaluator, name = self._task.evaluator, self._task.predictor
        chosen = self._task.incumbent.with_instruction(name, candidate[name])
        with suppress(PlanAndBudgetError):  # what was answered is known
            evaluator.measure(chosen, batch)
        records, cases, told = [], [], []
        for question in batch:
            records.append(next(iter(evaluator.known(chosen, [question])), None))
            told.append(self._metric(example_of(question), self._task.prediction(records[-1])))
            kind, output = output_of(records[-1], name)
            problem = f"{question.question[:_PROBLEM]}\n{kind.title()}:\n{output}"
            cases.append({"case": f"{problem}\nOutcome:\n{told[-1].feedback}"})
        objectives = [dict(each.objective_scores) for each in told]
        return EvaluationBatch(records, [each.score for each in told], cases, objectives)

    def make_reflective_dataset(
        self,
        candidate: dict[str, str],  # noqa: ARG002 -- GEPA's signature
        eval_batch: EvaluationBatch[dict[str, str], Record | None],
        components_to_update: list[str],
    ) -> Mapping[str, Any]:
        """Return the cases."""
        return dict.fromkeys(components_to_update, eval_batch.trajectories)

    def propose_new_texts(
        self,
        candidate: dict[str, str],
        reflective_dataset: Mapping[str, Any],
        components_to_update: list[str],  # noqa: ARG002 -- there is one
    ) -> dict[str, str]:
        """Return the instruction that the reflection model writes, or the old one."""
        [(name, cases)], [text] = reflective_dataset.items(), candidate.values()
        room, options = _CASES // max(1, len(cases)), self._task.evaluator.options
        prompt = _PROMPT.format(
            scene=(_SOLVED if name == "solve" else _PLANNED).format(cost=_COSTS[options.objective]),
            role=_ROLES[name],
            instruction=text,
            size=len(text.split()),
            most=min(_WORDS, options.max_prompt_tokens or _WORDS),
            cases="\n\n".join(
                f"Problem {n}: {row['case']}"[:room] for n, row in enumerate(cases, 1)
            ),
            never="" if name == "solve" else "Never ask for the solving itself. ",
        )
        try:
            proposal = instruction_in(self._task.reflection.ask(prompt))
        except PlanAndBudgetError:  # the evaluator keeps it; GEPA would only ask again
            return candidate
        is_same = proposal.split() in ([], text.split())  # small models copy it
        return (
            candidate if is_same or not self._task.evaluator.allows(proposal) else {name: proposal}
        )


def instruction_in(reply: str) -> str:
    """Return the instruction in a reply: its only marked part, else the whole reply."""
    marked = _MARKED.findall(reply)
    text = ("".join(marked[0]) if len(marked) == 1 else reply).strip()
    is_quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "\"'`"
    return text[1:-1].strip() if is_quoted else text
