"""Worked examples for the solver: the model's own shortest right answers to training questions."""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING

from optim.evaluation.limits import BudgetSpentError
from optim.records import PLANNING
from optim.tuning.evaluator import OutageError
from optim.tuning.optimizer import Round, optimizer
from pb_graph.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from optim.datasets import Question
    from optim.tuning.candidate import Candidate
    from optim.tuning.evaluator import Result
    from pb_graph.types import Usage

_FEWEST = 2  # examples: a single one shows its subject rather than a style


def _forecast(
    questions: int,
    calls: int,
    _original: Candidate,
    _seed: int,
    sizes: Sequence[int] = (2, 4, 6),
    **_: object,
) -> str:
    left = max(0, calls - (len(sizes) + 1) * questions)
    told = f"Sets of {', '.join(map(str, sizes))} worked examples on {questions} questions each"
    return f"{told}; up to {left} answers to training questions are left to find them in."


@optimizer(
    "shortest",
    "the model's own shortest right answers become the solver's worked examples",
    learns=True,
    once=True,
    tunes="examples",
    forecast=_forecast,
)
def shortest(
    task: Round, *, samples: int = 4, sizes: Sequence[int] = (2, 4, 6), longest: int = 1200
) -> Sequence[Candidate]:
    """Give the incumbent with sets of its own answers; exact E³ on dev decides.

    Only training questions are asked, so no question of dev or held out is ever an example. Of
    answers to one question the shortest right one counts. They are taken from each level in turn,
    the shortest first, so that a set does not show easy questions alone.

    Args:
        task: The round.
        samples: Answers to each question, of a model that samples; one at temperature 0.
        sizes: Of the sets that are tried.
        longest: Characters of an example's question and of its answer, at most: they are input
            tokens of every question to come.

    Raises:
        InputError: There are no such sets.
    """
    if samples < 1 or not sizes or min(sizes) < 1:
        msg = f"samples and sizes must be at least 1, not {samples} and {list(sizes)}"
        raise InputError(msg)
    epochs = 1 if task.evaluator.models.temperature == 0 else samples
    found = _in_turn(_best(task, epochs, task.calls - len(sizes) * len(task.dev), longest))
    if len(found) < min(_FEWEST, *sizes):
        right = f"{len(found)} short right answers to {len(task.train)} training questions"
        task.drop(task.incumbent, f"no worked examples: {right}")
        return []
    return [task.incumbent.with_examples("solve", found[:size]) for size in sizes]


def _best(task: Round, epochs: int, calls: int, longest: int) -> list[tuple[Question, Result]]:
    """The shortest right answer to each training question that has one, the shortest first."""
    best: dict[str, tuple[Question, Result]] = {}
    for question, result in _answers(task, epochs, max(calls, len(task.train))):
        answer = result.report["answer"]
        fits = 0 < len(answer) <= longest and len(question.question) <= longest
        calls = sum(part["calls"] for part in _solving(result))
        if not fits or result.score < 1.0 or calls != 1:  # a forced ending is no example
            continue
        known = best.get(question.id)
        if known is None or _length(result) < _length(known[1]):
            best[question.id] = question, result
    return sorted(best.values(), key=lambda pair: _length(pair[1]))


def _answers(task: Round, epochs: int, calls: int) -> Iterator[tuple[Question, Result]]:
    """As many as the budget gives; every question once before any is asked again."""
    evaluator, incumbent = task.evaluator, task.incumbent
    for epoch in range(1, epochs + 1):
        asked = task.train[: max(0, calls - (epoch - 1) * len(task.train))]
        with suppress(BudgetSpentError, OutageError):  # what was answered before counts
            evaluator.measure(incumbent, asked, epoch)
        for question in asked:
            if evaluator.is_known(incumbent, [question], epoch):
                yield question, evaluator.one(incumbent, question, epoch)


def _length(result: Result) -> int:
    return sum(part["output_tokens"] for part in _solving(result))


def _solving(result: Result) -> list[Usage]:
    nodes = result.report["usage"]["by_node"]
    return [part for name, part in nodes.items() if name not in PLANNING]


def _in_turn(pairs: Sequence[tuple[Question, Result]]) -> list[dict[str, str]]:
    """From each level one, then from each a second one, and so on."""
    turns: dict[int | None, Iterator[int]] = defaultdict(count)
    ordered = sorted(pairs, key=lambda pair: next(turns[pair[0].level]))
    return [
        {"problem": question.question, "solution": result.report["answer"].strip()}
        for question, result in ordered
    ]
