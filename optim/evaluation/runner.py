"""Answers a question with a method, from the cache where it can, and judges the answer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from optim.evaluation.cache import Call, Recording, UnknownReplyError, recording
from optim.evaluation.journal import StorageError
from optim.records import paid_for_nothing
from optim.scorers import Score
from pb_graph.budget.ledger import by_node, most_billed
from pb_graph.errors import NoAnswerError
from pb_graph.graph import build_graph
from pb_graph.settings import PLANNED, Context
from pb_graph.state import Input
from pb_graph.types import Report

if TYPE_CHECKING:
    from langgraph.graph.state import CompiledStateGraph

    from optim.datasets import Question
    from optim.evaluation.models import Models
    from optim.methods import Method
    from optim.scorers import Scorer
    from pb_graph.settings import Settings
    from pb_graph.state import Output, State

    Graph = CompiledStateGraph[State, Context, Input, Output]

PATIENCE = {"timeout", "max_retries"}
"""Settings that decide whether a call succeeds, not what it says."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one question.

    Attributes:
        report: The graph's account, also of a failure. Its answer is empty where what was paid
            came to nothing: that is a wrong answer and no error.
        calls: Every model call in order; those of a shared plan are repeated for each method.
        error: Why there is nothing to judge; None when there is.
    """

    report: Report
    calls: Sequence[Call]
    error: str | None = None


class Runner:
    """Answers questions with one method.

    Attributes:
        conditions: Everything that bears on the answers beside the question and the epoch.
    """

    def __init__(self, method: Method, models: Models, *, seed: int) -> None:
        self.method = method
        self.conditions: dict[str, Any] = {
            "settings": method.settings.model_dump(mode="json", exclude=PATIENCE),
            "solver": models.solver_identity,
            "planner": models.planner_identity,
            "seed": seed,
            "estimate_level": method.estimate_level,
        }
        self._graph: Graph = build_graph(
            models.solver,
            planner=models.planner,
            settings=method.settings,
            planner_program=models.program,
        )

    async def answer(self, question: Question, epoch: int = 1) -> Outcome:
        """Answer a question. A failure is an outcome, too.

        Raises:
            StorageError: What it cost cannot be written down.
        """
        with recording(Recording(epoch)) as record:
            return await self._outcome(question, record)

    async def recall(self, question: Question, epoch: int = 1) -> Outcome | None:
        """The same without asking any model; None where one would have to be asked."""
        with recording(Recording(epoch, recalls=True)) as record:
            try:
                return await self._outcome(question, record)
            except UnknownReplyError:
                return None

    async def _outcome(self, question: Question, record: Recording) -> Outcome:
        try:
            output = await self._graph.ainvoke(self._input(question))
        except NoAnswerError as error:
            wrong = paid_for_nothing(error.report)
            report = error.report
            return Outcome(report, record.calls, None if wrong else str(error))
        except (StorageError, UnknownReplyError):
            raise
        except Exception as error:  # noqa: BLE001 -- one question must not end the others
            reason = f"{type(error).__name__}: {error}"
            report = _broken_off(self.method.settings, question.level, record.calls)
            return Outcome(report, record.calls, reason)
        return Outcome(output["report"], record.calls)

    def _input(self, question: Question) -> Input:
        asked = Input(
            question=question.question,
            instruction=question.instruction,
            answer_format=question.answer_format,
            domain=question.domain,
        )
        if question.reference is not None:
            asked["reference"] = question.reference
        if question.level is not None and not self.method.estimate_level:
            asked["level"] = question.level
        return asked


async def judged(judge: Scorer, report: Report, question: Question) -> Score:
    """Score an answer; one that came to nothing is wrong, and no scorer is asked.

    Raises:
        ScorerError: It could not be judged.
    """
    if not report["answer"]:
        spent = report["usage"]["output_tokens"]
        return Score(0.0, None, f"{spent} completion tokens were paid, and no answer came of them")
    if later := getattr(judge, "score_async", None):
        found: Score = await later(report["answer"], question)
        return found
    return await asyncio.to_thread(judge.score, report["answer"], question)


def _broken_off(settings: Settings, level: int | None, calls: Sequence[Call]) -> Report:
    """The account of a question that ended with an error of ours: what its calls have cost."""
    local = settings.method == PLANNED
    return Report(
        method=settings.method,
        execution=settings.execution if local else None,
        schedule=settings.schedule if local else None,
        level=level,
        budget=None,
        ceiling=None,
        answer="",
        steps=[],
        usage=by_node(call["charge"] for call in calls),
        most_billed=most_billed(call["charge"] for call in calls),
        warnings=[],
    )
