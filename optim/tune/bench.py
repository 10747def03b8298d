"""Where candidates are measured: answers questions, scores them, and pays for none twice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from optim.answering import Answering, Staff
from optim.clients import hire
from optim.fingerprint import planner_identity
from optim.journal import Journal
from optim.lock import held
from optim.methods import Method
from optim.scorers import ScorerError
from optim.scorers import scorer as make_scorer
from optim.tune.background import Background
from optim.tune.meter import BudgetSpentError, Limits, Meter, paid_tokens
from pb_graph.errors import InputError, PlanAndBudgetError
from pb_graph.settings import Settings

if TYPE_CHECKING:
    from optim.answering import Outcome
    from optim.clients import Given
    from optim.datasets import Question
    from optim.scorers import Scorer
    from optim.tune.candidate import Candidate
    from optim.tune.meter import Spent
    from pb_graph.models.caps import CapPolicy
    from pb_graph.state import Report

__all__ = ["Bench", "OutageError", "Result"]

ANSWERS, PLANS, REFLECTIONS, CLOCK = (
    "answers.jsonl",
    "plans.jsonl",
    "reflections.jsonl",
    "clock.jsonl",
)
_IN_A_ROW = 12  # failures without a token, one after the other, that are taken for an outage

_Key = tuple[str, str, int]  # candidate, question, epoch


class OutageError(PlanAndBudgetError):
    """Answer after answer failed without costing anything: the model is out of reach."""


@dataclass(frozen=True, slots=True)
class Result:
    """One answer of one candidate.

    Attributes:
        question: The question's id.
        score: From 0 to 1; 0 when there is no answer.
        tokens: Completion tokens it is charged, planning included.
        report: The graph's account, also of a failure.
        error: Why there is no answer, or no judgement of it; None when there is.
    """

    question: str
    score: float
    tokens: int
    report: Report
    error: str | None


class Bench:
    """Answers with any candidate; a context manager that holds the run folder.

    Every finished answer is in the folder's journal under a fingerprint of all that bears on it.
    Asked again, in this run or after it was killed, it is recalled: the same score and tokens,
    nothing paid.

    Args:
        model: Solves, as for `build_graph`.
        planner: Plans; None for the same model.
        scorer: Name of a scorer, or one of your own.
        run_dir: A local folder for what has been paid for.
        limits: What the folder may cost over all its starts.
        concurrency: How many answers run at once.
        seed: Part of what identifies an answer.
        estimate_level: Let the planner estimate a question's level instead of telling it.
        settings: Time-out and retries of the models.
        cap_policy: As for `build_graph`.
        retry_errors: Answer again what failed in an earlier start.

    Attributes:
        refusal: Why an answer was not begun: the budget is spent, or the model out of reach. From
            then on whatever would have to be paid for is refused.
        watcher: Told of every answer, recalled ones too.

    Raises:
        InputError: The folder is in use, cannot be written or is damaged.
        ModelSetupError: A model cannot be set up.
        ScorerError: The scorer cannot be set up.
    """

    def __init__(  # noqa: PLR0913 -- all but one by name
        self,
        model: Given = None,
        *,
        planner: Given = None,
        scorer: str | Scorer,
        run_dir: str | Path,
        limits: Limits | None = None,
        concurrency: int = 8,
        seed: int = 0,
        estimate_level: bool = False,
        settings: Settings | None = None,
        cap_policy: CapPolicy | None = None,
        retry_errors: bool = False,
    ) -> None:
        if concurrency < 1:
            msg = f"concurrency must be at least 1, not {concurrency}"
            raise InputError(msg)
        self.run_dir = Path(run_dir)
        self.concurrency = concurrency
        self.seed = seed
        self.scorer_name = scorer if isinstance(scorer, str) else _name_of(scorer)
        self._judge = make_scorer(scorer) if isinstance(scorer, str) else scorer
        self._estimate_level, self._retry_errors = estimate_level, retry_errors
        self.settings = settings or Settings()
        self._lock = held(self.run_dir).lock
        try:
            self._answers = Journal(self.run_dir / ANSWERS)
            plans = Journal(self.run_dir / PLANS)
            self.reflections = Journal(self.run_dir / REFLECTIONS)
            self.meter = Meter(
                limits or Limits(),
                Journal(self.run_dir / CLOCK),
                calls=sum(1 for _ in self._answers.entries()),
                tokens=paid_tokens(self._answers, plans, self.reflections),
            )
            self.staff: Staff = hire(
                model,
                planner,
                program=None,
                settings=self.settings,
                plans=plans,
                pay=self.meter.pay,
                cap_policy=cap_policy,
            )
        except BaseException:
            self._lock.release()
            raise
        self._background = Background()
        self._slots = asyncio.Semaphore(concurrency)
        self._answering: dict[str, Answering] = {}
        self._known: dict[_Key, Result] = {}
        self._running: dict[_Key, asyncio.Task[Result]] = {}
        self._failed_in_a_row = 0
        self.refusal: PlanAndBudgetError | None = None
        self.watcher: Callable[[Candidate, Result], None] | None = None

    def __enter__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self  # optimizers copy programs; there is one bench

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Cancel what runs, end what was started, and let go of the folder."""
        self._background.close()
        self.meter.tick()
        close = getattr(self._judge, "close", None)
        if close is not None:
            close()
        self._lock.release()

    @property
    def spent(self) -> Spent:
        """What the folder has cost, this start and earlier ones together."""
        return self.meter.spent

    @cached_property
    def identity(self) -> dict[str, object]:
        """Who answers and who judges, for the fingerprint of a run."""
        return {
            "solver": self.staff.solver_identity,
            "planner": self.staff.planner_identity,
            "scorer": self.scorer_name,
            "seed": self.seed,
            "estimate_level": self._estimate_level,
        }

    def measure(self, candidate: Candidate, questions: Sequence[Question]) -> list[Result]:
        """Answer the questions with a candidate, several at once.

        Args:
            candidate: Who answers.
            questions: What is asked.

        Returns:
            Results in the order of the questions.

        Raises:
            BudgetSpentError: A limit was reached on the way; what had begun was let finish and is
                kept.
            OutageError: The model is out of reach.
        """
        return self._background.run(self._all(candidate, questions))

    def one(self, candidate: Candidate, question: Question, epoch: int = 1) -> Result:
        """Answer one question, for the epoch-th time; from any thread. Raises as `measure`."""
        known = self._known.get((candidate.identity, question.id, epoch))
        return known or self._background.run(self._once(candidate, question, epoch))

    def is_known(self, candidate: Candidate, questions: Sequence[Question]) -> bool:
        """Whether measuring would cost nothing."""
        return all(
            (candidate.identity, question.id, 1) in self._known
            or self._answering_of(candidate).recall(question, 1) is not None
            for question in questions
        )

    def reserve(self, answers: int) -> None:
        """Keep so many answers back for what comes last; 0 lets go of them."""
        self.meter.reserved = answers
        if isinstance(self.refusal, BudgetSpentError):
            self.refusal = None

    async def _all(self, candidate: Candidate, questions: Sequence[Question]) -> list[Result]:
        jobs = [self._once(candidate, question, 1) for question in questions]
        found = await asyncio.gather(*jobs, return_exceptions=True)
        for outcome in found:
            if isinstance(outcome, BaseException):
                raise outcome
        return [outcome for outcome in found if isinstance(outcome, Result)]

    async def _once(self, candidate: Candidate, question: Question, epoch: int) -> Result:
        """Answer, or join an answer that is under way: optimizers resubmit what takes long."""
        key = (candidate.identity, question.id, epoch)
        if key in self._known:
            return self._known[key]
        if key not in self._running:
            work = asyncio.ensure_future(self._answered(candidate, question, epoch))
            self._running[key] = work
            work.add_done_callback(lambda _: self._running.pop(key, None))
        result = await asyncio.shield(self._running[key])
        self._known[key] = result
        return result

    async def _answered(self, candidate: Candidate, question: Question, epoch: int) -> Result:
        answering = self._answering_of(candidate)
        outcome = answering.recall(question, epoch)
        if outcome is None:
            async with self._slots:
                self._begin()
                outcome = await answering.answer(question, epoch)
                self.meter.tick()
            self._check_outage(outcome)
        result = await self._scored(outcome, question)
        if self.watcher is not None:
            self.watcher(candidate, result)
        return result

    def _begin(self) -> None:
        if self.refusal is not None:
            raise self.refusal
        try:
            self.meter.begin()
        except BudgetSpentError as spent:
            self.refusal = spent
            raise

    async def _scored(self, outcome: Outcome, question: Question) -> Result:
        score, error = 0.0, outcome.error
        if error is None:
            try:
                answer = outcome.report["answer"]
                score = (await asyncio.to_thread(self._judge.score, answer, question)).value
            except ScorerError as failure:
                error = str(failure)
        tokens = outcome.report["usage"]["output_tokens"]
        return Result(question.id, score, tokens, outcome.report, error)

    def _check_outage(self, outcome: Outcome) -> None:
        """Give up when nothing but failures comes, rather than spend the budget of answers."""
        free = outcome.error is not None and not outcome.report["usage"]["output_tokens"]
        self._failed_in_a_row = self._failed_in_a_row + 1 if free else 0
        if self._failed_in_a_row >= _IN_A_ROW:
            msg = (
                f"{_IN_A_ROW} answers in a row failed without a token, the last with: "
                f"{outcome.error} Mend that; the same command with --retry-errors goes on."
            )
            self.refusal = OutageError(msg)
            raise self.refusal

    def _answering_of(self, candidate: Candidate) -> Answering:
        if candidate.identity not in self._answering:
            planner = candidate.planner()
            identity = planner_identity(self.staff.planner_identity, planner)
            self._answering[candidate.identity] = Answering(
                Method("tune", candidate.settings),
                replace(self.staff, program=planner, planner_identity=identity),
                journal=self._answers,
                seed=self.seed,
                estimate_level=self._estimate_level,
                retry_errors=self._retry_errors,
            )
        return self._answering[candidate.identity]


def _name_of(scorer: Scorer) -> str:
    return getattr(scorer, "name", type(scorer).__qualname__)
