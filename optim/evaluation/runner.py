"""Answer a question with a method, from stored replies if possible, and score the answer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from optim.evaluation.store import CacheMissError, Call, OnCall, Recording, StorageError, recording
from optim.scorers import Score
from pb_graph.budget.ledger import most_billed, usage_of
from pb_graph.errors import NoAnswerError
from pb_graph.graph import build_graph
from pb_graph.settings import Context
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

RETRY_SETTINGS = frozenset({"timeout", "max_retries"})
"""Settings that decide whether a call succeeds, not what it says."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one question.

    Attributes:
        report: The graph's report, also of a failure. An empty answer that was paid for is wrong,
            but not an error.
        calls: Every model call in order; the calls of a shared plan are repeated for each method.
        error: Reason why the answer must not be scored: a model call failed. Or None.
    """

    report: Report
    calls: Sequence[Call]
    error: str | None = None


class Runner:
    """Answers questions with one method."""

    def __init__(self, method: Method, models: Models) -> None:
        self.method, self.models = method, models
        self._graph: Graph = build_graph(
            models.solver,
            planner=models.planner,
            settings=method.settings,
            planner_program=method.program,
        )

    async def answer(
        self,
        question: Question,
        epoch: int = 1,
        *,
        replay_only: bool = False,
        on_call: OnCall | None = None,
    ) -> Outcome:
        """Answer a question. A failure is also an outcome.

        Args:
            question: The question.
            epoch: Number of the repetition, from 1.
            replay_only: Whether model calls are forbidden.
            on_call: Awaited after each model call.

        Raises:
            StorageError: If a reply cannot be stored.
            CacheMissError: If a reply is missing, and model calls are forbidden.
        """
        with recording(Recording(epoch, replay_only, on_call)) as record:
            try:
                report = (await self._graph.ainvoke(self._input(question)))["report"]
            except NoAnswerError as error:
                report = error.report
                if not report["usage"]["output_tokens"]:
                    return Outcome(report, record.calls, str(error))
            except (StorageError, CacheMissError):
                raise
            except Exception as error:  # noqa: BLE001 -- one question must not end the others
                report = _failed_report(self.method.settings, question.level, record.calls)
                return Outcome(report, record.calls, f"{type(error).__name__}: {error}")
            notes = report["warnings"]
            failed = [note["message"] for note in notes if note["code"] == "call_failed"]
            return Outcome(report, record.calls, failed[0] if failed else None)

    async def replay(self, question: Question, epoch: int) -> Outcome | None:
        """Answer a question from stored replies only; return None if a reply is missing.

        Args:
            question: The question.
            epoch: Number of the repetition, from 1.
        """
        try:
            return await self.answer(question, epoch, replay_only=True)
        except CacheMissError:
            return None

    def _input(self, question: Question) -> Input:
        names = ("question", "reference", "instruction", "answer_format", "domain", "level")
        inputs = names[:-1] if self.method.estimate_level else names
        values = {name: getattr(question, name) for name in inputs}
        return cast("Input", {name: value for name, value in values.items() if value is not None})


async def score_answer(scorer: Scorer, report: Report, question: Question) -> Score:
    """Score the answer of a report.

    Args:
        scorer: The scorer. It is not asked about an empty answer, which is wrong.
        report: The graph's report.
        question: The question.

    Raises:
        ScorerError: If the answer could not be scored.
    """
    if not report["answer"]:
        spent = report["usage"]["output_tokens"]
        metadata = scorer.unanswered(question) if hasattr(scorer, "unanswered") else {}
        reason = f"{spent} completion tokens were paid without an answer"
        return Score(0.0, None, reason, metadata)
    if later := getattr(scorer, "score_async", None):
        score: Score = await later(report["answer"], question)
        return score
    return await asyncio.to_thread(scorer.score, report["answer"], question)


def _failed_report(settings: Settings, level: int | None, calls: Sequence[Call]) -> Report:
    """Return the report of a question that ended with an error: the cost of its calls."""
    charges = [call.charge for call in calls]
    fields: Any = {
        "method": settings.method,
        "level": level,
        "answer": "",
        "cut_off": False,
        "steps": [],
        "usage": usage_of(charges),
        "most_billed": most_billed(charges),
        "warnings": [],
    }
    return cast("Report", dict.fromkeys(Report.__annotations__) | fields)
