"""Examples for the solver: the model's own shortest right answers to training questions."""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING

from optim.records import PLANNING
from optim.tuning.evaluator import BudgetSpentError, OutageError
from pb_graph.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from optim.datasets import Question
    from optim.tuning.candidate import Candidate
    from optim.tuning.evaluator import Result
    from optim.tuning.optimizers import OptimizerTask
    from pb_graph.types import Usage

_FEWEST = 2  # examples: a single one shows its subject rather than a style


def shortest(
    task: OptimizerTask,
    *,
    samples: int = 4,
    sizes: Sequence[int] = (2, 4, 6),
    longest: int = 1200,
) -> Sequence[Candidate]:
    """Return the incumbent with sets of the model's own answers as examples.

    Only training questions are asked, so no dev or held-out question is ever an example. The
    shortest right answer to each question counts. Examples are taken from each level in turn, the
    shortest first, so a set does not show easy questions alone.

    Args:
        task: The round.
        samples: Answers to each question, of a model that samples; one at temperature 0.
        sizes: Sizes of the sets.
        longest: The most characters of an example's question and of its answer: they are prompt
            tokens of every later question.

    Raises:
        InputError: There are no such sets.
    """
    if samples < 1 or not sizes or min(sizes) < 1:
        msg = f"samples and sizes must be at least 1, not {samples} and {list(sizes)}"
        raise InputError(msg)
    epochs = 1 if task.evaluator.models.temperature == 0 else samples
    budget = max(task.answers - len(sizes) * len(task.dev), len(task.train))
    best: dict[str, tuple[Question, Result]] = {}
    for question, result in _answers(task, epochs, budget):
        answer = result.report["answer"]
        fits = 0 < len(answer) <= longest and len(question.question) <= longest
        calls = sum(part["calls"] for part in _solving(result))
        if not fits or result.score < 1.0 or calls != 1:  # a forced ending is no example
            continue
        known = best.get(question.id)
        if known is None or _length(result) < _length(known[1]):
            best[question.id] = question, result
    found = _interleave_levels(sorted(best.values(), key=lambda pair: _length(pair[1])))
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


def _length(result: Result) -> int:
    return sum(part["output_tokens"] for part in _solving(result))


def _solving(result: Result) -> list[Usage]:
    nodes = result.report["usage"]["by_node"]
    return [part for name, part in nodes.items() if name not in PLANNING]


def _interleave_levels(pairs: Sequence[tuple[Question, Result]]) -> list[dict[str, str]]:
    """Take one from each level, then a second one from each, and so on."""
    turns: dict[int | None, Iterator[int]] = defaultdict(count)
    ordered = sorted(pairs, key=lambda pair: next(turns[pair[0].level]))
    return [
        {"problem": question.question, "solution": result.report["answer"].strip()}
        for question, result in ordered
    ]
