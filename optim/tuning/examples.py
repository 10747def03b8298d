"""Questions and metrics as a DSPy user has them, and which questions a run tunes and judges on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any

import dspy

from optim.datasets import Question
from optim.datasets.dataset import digest
from optim.datasets.jsonl import parse
from optim.datasets.loading import drawn_by_level, normalized
from optim.evaluation.identity import question_identity
from optim.scorers import Scorer, as_scorer
from optim.scorers.base import FunctionScorer
from optim.scorers.inspect_scorers import is_inspect_scorer
from pb_graph.errors import InputError

Metric = Callable[..., Any]
"""A metric as DSPy has them: ``metric(example, prediction, trace=None)``, from 0 to 1."""

Judge = str | Scorer | Metric
"""A scorer's name, a scorer, or a metric."""

_EXAMPLE = "dspy.Example"  # key of a question's metadata
_FEWEST = 6  # of dev and held-out together: two to compare on, so that there is an interval
_HELD_OUT = 3  # every third question
_NAMED = 5


def questions_of(given: Iterable[Question | dspy.Example]) -> list[Question]:
    """Questions as they are, and examples as questions.

    Raises:
        InputError: An example that is no question, or one that is there twice.
    """
    found: dict[str, Question] = {}
    for place, one in enumerate(given, start=1):
        try:
            question = question_of(one)
        except InputError as error:
            msg = f"example {place}: {error}"
            raise InputError(msg) from error
        if question.id in found:
            msg = f"example {place} is a question that is there already ({question.id})"
            raise InputError(msg)
        found[question.id] = question
    return list(found.values())


def question_of(given: Question | dspy.Example) -> Question:
    """A question as it is, or an example with ``question`` and ``answer`` (or ``answers``, a list).

    What else a question has (id, level, reference, instruction, answer_format, domain) is taken
    where the example has it; all of the example goes along for the metric.

    Raises:
        InputError: No question or answer, or a level outside 1 to 5.
    """
    if isinstance(given, Question):
        return given
    if not isinstance(given, dspy.Example):
        msg = f"it is of type {type(given).__name__}, not a dspy.Example or a Question"
        raise InputError(msg)
    question = parse(given.toDict())
    return replace(question, metadata={**question.metadata, _EXAMPLE: given})


def scorer_of(given: Judge) -> str | Scorer:
    """A scorer for the bench; a metric is wrapped, and sees the example that it knows."""
    if isinstance(given, str | Scorer):
        return given
    if is_inspect_scorer(given):
        return as_scorer(given)
    metric = given

    @wraps(metric, updated=())  # for whoever asks how it is written
    def judge(output: str, question: Question) -> float:
        known = question.metadata.get(_EXAMPLE) or example(question)
        return float(metric(known, dspy.Prediction(answer=output)))

    judge.__qualname__ = getattr(metric, "__qualname__", type(metric).__qualname__)
    return FunctionScorer(judge)


def example(question: Question) -> dspy.Example:
    """A question as DSPy wants it: plain text, so that prompts can show it."""
    fields = {"question": question.question, "id": question.id}
    answer = " or ".join(question.targets)
    return dspy.Example(**fields, answer=answer).with_inputs("question", "id")


def examples(questions: Sequence[Question]) -> list[dspy.Example]:
    """Several of them."""
    return [example(question) for question in questions]


@dataclass(frozen=True, slots=True)
class Split:
    """Three sets without a common question.

    Attributes:
        train: What optimizers learn from.
        dev: What candidates are chosen by.
        held_out: What decides whether a choice is better than the original.
    """

    train: Sequence[Question]
    dev: Sequence[Question]
    held_out: Sequence[Question]

    @property
    def identity(self) -> dict[str, str]:
        """A digest of each set, with its targets: they bear on the scores."""
        sets = {"train": self.train, "dev": self.dev, "held_out": self.held_out}
        return {
            name: digest([[question_identity(q), list(q.targets)] for q in questions])
            for name, questions in sets.items()
        }


def split_of(
    train: Sequence[Question],
    dev: Sequence[Question],
    held_out: Sequence[Question] | None,
    seed: int,
) -> Split:
    """Check the sets, and take the held-out third from dev, evenly by level, where none is given.

    Without questions to train on, optimizers learn from dev.

    Raises:
        InputError: Too few dev questions, none held out, or a question that is in two sets.
    """
    if not dev or (held_out is not None and not held_out):
        empty, why = ("held-out", "judge the winner") if dev else ("dev", "choose candidates")
        msg = f"the {empty} split is empty: give questions to {why} by"
        raise InputError(msg)
    if held_out is None:
        if len(dev) < _FEWEST:
            msg = (
                f"{len(dev)} dev questions are too few, as a third of them is held out for the "
                f"last comparison: give {_FEWEST} at least, better 60"
            )
            raise InputError(msg)
        held_out, dev = part(dev, 1, _HELD_OUT, seed)
    for one, other, names in (
        (train, dev, "dev and train"),
        (train, held_out, "held-out and train"),
        (dev, held_out, "held-out and dev"),
    ):
        _check_apart(one, other, names)
    return Split(train or dev, dev, held_out)


def part(
    questions: Sequence[Question], parts: int, of: int, seed: int
) -> tuple[list[Question], list[Question]]:
    """Draw ``parts`` of every ``of`` questions of each level; give them, and the rest in order.

    What levels cannot give evenly is made up for over all of them, so the size is as near to
    ``len(questions) * parts / of`` as whole questions allow.
    """
    levels = drawn_by_level(questions, seed)
    lined_up = [item for level in sorted(levels, key=str) for item in levels[level]]
    chosen = {item.id for place, item in enumerate(lined_up) if place % of < parts}
    return (
        [item for item in questions if item.id in chosen],
        [item for item in questions if item.id not in chosen],
    )


def _check_apart(one: Sequence[Question], other: Sequence[Question], names: str) -> None:
    texts = {normalized(question.question) for question in one}
    both = [question.id for question in other if normalized(question.question) in texts]
    if both:
        msg = (
            f"{names} share {len(both)} questions ({', '.join(both[:_NAMED])}"
            f"{', …' if len(both) > _NAMED else ''}): a score on what was learnt from proves "
            "nothing. Leave them out of one."
        )
        raise InputError(msg)
