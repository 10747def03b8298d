"""Score answers to questions of reasoning-gym by the checker of their task."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from optim.datasets.reasoning_gym import make_task
from optim.scorers.rouge import read_answer
from optim.scorers.scorer import Score, register

if TYPE_CHECKING:
    from optim.datasets import Question

_make_task = cache(make_task)


@register("reasoning_gym")
def score_reasoning_gym(output: str, question: Question) -> Score:
    """Score the boxed or final answer as `Scorer.score`, by reasoning-gym's own checker."""
    answer = read_answer(output)
    place = dict(question.metadata)
    index = place.pop("index")
    questions = _make_task(**place)
    value = questions.score_answer(answer, questions[index])
    expected = f"expected {' or '.join(question.targets)}"
    return Score(min(1.0, max(0.0, value)), answer or None, expected)
