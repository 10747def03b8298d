"""Answers questions with the graph and keeps every finished answer, so that none is paid twice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from optim.fingerprint import digest, question_identity, wording
from optim.records import PLANNING
from optim.witness import Call, listening
from pb_graph.budget.ledger import by_node
from pb_graph.errors import NoAnswerError
from pb_graph.graph import build_graph
from pb_graph.state import Input, Report

if TYPE_CHECKING:
    from langgraph.graph.state import CompiledStateGraph

    from optim.datasets import Question
    from optim.journal import Journal
    from optim.methods import Method
    from optim.witness import Witness
    from pb_graph.planner.planner import Planner
    from pb_graph.settings import Context, Settings
    from pb_graph.state import Output, State

    Graph = CompiledStateGraph[State, Context, Input, Output]

__all__ = ["Answering", "Outcome", "Staff", "conditions", "paid_for_solving"]

# They decide whether a call succeeds, not what it says: raising a time-out must not throw away
# what has been paid for.
_NO_MATTER = {"timeout", "max_retries"}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one question.

    Attributes:
        report: The graph's account, also of a failure.
        calls: Every model call in order; those of a shared plan are repeated for each method.
        error: Why there is no answer; None when there is one.
    """

    report: Report
    calls: Sequence[Call]
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Staff:
    """Who answers.

    Attributes:
        solver: The client that solves; it notes its calls.
        planner: The same for planning.
        program: A tuned planner, or None for the package's own.
        solver_identity: For fingerprints.
        planner_identity: Likewise, with the program.
        model: Name of the solver's model.
        planner_model: Name of the planner's model.
    """

    solver: Witness
    planner: Witness
    program: Planner | None
    solver_identity: str
    planner_identity: str
    model: str
    planner_model: str


def conditions(method: Method, staff: Staff, *, seed: int, estimate_level: bool) -> dict[str, Any]:
    """Everything that bears on a method's answers beside the question and the epoch."""
    return {
        "settings": method.settings.model_dump(mode="json", exclude=_NO_MATTER),
        "solver": staff.solver_identity,
        "planner": staff.planner_identity,
        "seed": seed,
        "estimate_level": estimate_level,
        "wording": wording(),
    }


class Answering:
    """Answers questions with one method.

    Args:
        method: How.
        staff: Who.
        journal: Keeps finished answers under a fingerprint of all that bears on them.
        seed: Of the evaluation.
        estimate_level: Whether the graph estimates a question's level itself instead of being
            told the data set's.
        retry_errors: Whether a question that failed in an earlier run is answered again.
    """

    def __init__(  # noqa: PLR0913 -- all but two by name
        self,
        method: Method,
        staff: Staff,
        *,
        journal: Journal,
        seed: int,
        estimate_level: bool = False,
        retry_errors: bool = False,
    ) -> None:
        self.method = method
        self.conditions = conditions(method, staff, seed=seed, estimate_level=estimate_level)
        self._journal = journal
        self._estimate_level = estimate_level
        self._stale = _failed(journal) if retry_errors else set()
        self._graph: Graph = build_graph(
            staff.solver,
            planner=staff.planner,
            settings=method.settings,
            planner_program=staff.program,
        )

    def fingerprint(self, question: Question, epoch: int) -> str:
        """Identify the answer to a question in an epoch, counted from 1.

        The planner is no part of it where it is not asked: a vanilla answer need not be paid for
        again with every planner.
        """
        asked = question_identity(question, estimate_level=self._estimate_level)
        bearing = dict(self.conditions)
        if not self._asks_planner(question):
            del bearing["planner"]
        return digest([bearing, asked, epoch])

    def recall(self, question: Question, epoch: int) -> Outcome | None:
        """The outcome of an earlier run, if there is one that counts."""
        fingerprint = self.fingerprint(question, epoch)
        entry = self._journal.get(fingerprint)
        if entry is None or (fingerprint in self._stale and entry["error"] is not None):
            return None
        return Outcome(entry["report"], entry["calls"], entry["error"])

    async def answer(self, question: Question, epoch: int) -> Outcome:
        """Answer a question, or recall how it was answered. A failure is an outcome, too."""
        known = self.recall(question, epoch)
        if known is not None:
            return known
        with listening() as calls:
            outcome = await self._outcome(question, calls)
        self._keep(outcome, question, epoch)
        return outcome

    def _asks_planner(self, question: Question) -> bool:
        settings = self.method.settings
        unknown = self._estimate_level or question.level is None
        return settings.plans or (settings.budgets and settings.budget_rule.needs_level and unknown)

    async def _outcome(self, question: Question, calls: list[Call]) -> Outcome:
        try:
            output = await self._graph.ainvoke(self._given(question))
        except NoAnswerError as error:
            return Outcome(error.report, calls, str(error))
        except Exception as error:  # noqa: BLE001 -- one question must not end the others
            reason = f"{type(error).__name__}: {error}"
            report = _broken_off(self.method.settings, question.level, calls)
            return Outcome(report, calls, reason)
        return Outcome(output["report"], calls)

    def _given(self, question: Question) -> Input:
        given = Input(
            question=question.question,
            instruction=question.instruction,
            answer_format=question.answer_format,
            domain=question.domain,
        )
        if question.reference is not None:
            given["reference"] = question.reference
        if question.level is not None and not self._estimate_level:
            given["level"] = question.level
        return given

    def _keep(self, outcome: Outcome, question: Question, epoch: int) -> None:
        fingerprint = self.fingerprint(question, epoch)
        about = {
            "fingerprint": fingerprint,
            "method": self.method.name,
            "question": question.id,
            "epoch": epoch,
        }
        self._journal.append(fingerprint, about | asdict(outcome))
        self._stale.discard(fingerprint)


def paid_for_solving(entry: Mapping[str, Any]) -> int:
    """Completion tokens that a journal entry cost beside its plan, which is paid for elsewhere."""
    charges = [call["charge"] for call in entry["calls"]]
    return sum(row["output_tokens"] for row in charges if row["node"] not in PLANNING)


def _failed(journal: Journal) -> set[str]:
    return {entry["fingerprint"] for entry in journal.entries() if entry["error"] is not None}


def _broken_off(settings: Settings, level: int | None, calls: Sequence[Call]) -> Report:
    """The account of a question that ended with an error of ours: what its calls have cost."""
    local = settings.method == "plan_and_budget"
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
        warnings=[],
    )
