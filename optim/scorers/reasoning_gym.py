"""Answers to questions of reasoning-gym, by the checker of their task."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from optim.datasets.reasoning_gym import task_at
from optim.scorers.base import Score, ScorerError, register
from optim.scorers.rouge import read_answer

if TYPE_CHECKING:
    from optim.datasets import Question


@register("reasoning_gym")
class ReasoningGymScorer:
    """The score of reasoning-gym's own checker, from 0 to 1, of the boxed or final answer."""

    def __init__(self) -> None:
        self._task_at = cache(task_at)

    def score(self, output: str, question: Question) -> Score:
        """Score an output.

        Raises:
            ScorerError: The question is not of reasoning-gym, or its checker failed.
        """
        answer = read_answer(output)
        try:
            place = dict(question.metadata)
            index = place.pop("index")
            made = self._task_at(**place)
            value = made.score_answer(answer, made[index])
        except Exception as error:
            msg = f"reasoning-gym cannot score {question.id!r}: {type(error).__name__}: {error}"
            raise ScorerError(msg) from error
        expected = " or ".join(question.targets)
        return Score(min(1.0, max(0.0, value)), answer or None, f"expected {expected}")
