"""Measure candidates: answer questions, score them, and pay for no answer twice.

One file of the run folder (`optim.evaluation.store`) holds every reply of the models under its
request. A restarted run makes the same requests, gets the same replies, and so makes the same
decisions.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Coroutine, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from anyio.from_thread import start_blocking_portal

from optim.evaluation.models import build_models
from optim.evaluation.runner import Runner, score_answer
from optim.evaluation.store import REPLIES, ReplyCache, StorageError, lock_run_dir
from optim.methods import Method
from optim.scorers import ScorerError, as_scorer
from optim.scorers.identity import scorer_name
from optim.tuning.program import SharedOnDeepcopy
from pb_graph.errors import PlanAndBudgetError

if TYPE_CHECKING:
    from optim.datasets import Question
    from optim.scorers import ScorerLike
    from optim.tuning.options import TuneOptions
    from optim.tuning.program import Candidate, GraphProgram
    from pb_graph.types import Report

_OUTAGE = 8  # failed answers in a row

T = TypeVar("T")


class SearchEndedError(PlanAndBudgetError):
    """The budget of the tuning is spent."""


class OutageError(PlanAndBudgetError):
    """A question could not be answered, so a candidate cannot be measured on it."""


@dataclass(frozen=True, slots=True)
class Spending:
    """Answers of a tuning, and completion tokens of all starts of its run folder."""

    answers: int = 0
    tokens: int = 0

    def text(self) -> str:
        """Return the figures with their units."""
        return f"{self.answers} answers, {self.tokens:,} completion tokens"


@dataclass(frozen=True, slots=True)
class Result:
    """One answer of one candidate.

    Attributes:
        question: The question's id.
        score: From 0 to 1; 0 for a paid and empty answer, or one that could not be scored.
        tokens: Completion tokens charged for it, planning included.
        report: The graph's report.
        error: Reason why the answer could not be scored, or None.
    """

    question: str
    score: float
    tokens: int
    report: Report
    error: str | None


class Evaluator(SharedOnDeepcopy):
    """Answer questions with any candidate within a budget, in a locked run folder.

    A paid and empty answer is wrong, and so is one that cannot be scored. A failed answer is
    neither right nor wrong: the candidate is not measured, because an outage must not decide
    between candidates. Eight answers in a row that failed, or could not be scored, end the run,
    unless they are all of one candidate after others succeeded.

    Args:
        program: The program whose models answer.
        scorer: As for `optim.scorers.as_scorer`.
        options: Options with the run folder, the budget, concurrency and estimate_level.

    Attributes:
        models: Models with stored replies.
        replies: The cache of replies, for a reflection model to share.
        limit: Largest number of answers, including those of earlier runs in this folder.
        refusal: The error that stops further model calls; None while calls are allowed.
        watcher: Called after every answer.

    Raises:
        InputError: If the folder is in use or cannot be written.
        PlanAndBudgetError: If a model or the scorer cannot be set up.
    """

    def __init__(self, program: GraphProgram, scorer: ScorerLike, options: TuneOptions) -> None:
        self.program, self.options, self.run_dir = program, options, Path(options.run_dir)
        self.scorer_name, self._scorer = scorer_name(scorer), as_scorer(scorer)
        with ExitStack() as opened:
            opened.enter_context(lock_run_dir(self.run_dir))
            self.replies = ReplyCache(self.run_dir / REPLIES)
            opened.callback(self.replies.close)
            self.models = build_models(
                program.graph.model,
                program.graph.planner,
                settings=program.settings,
                cache=self.replies,
                cap_policy=program.graph.cap_policy,
            )
            opened.callback(getattr(self._scorer, "close", lambda: None))
            # One event loop on its own thread, for callers on any thread.
            portal = start_blocking_portal("asyncio", name="pb-optim-tune")
            self._portal = opened.enter_context(portal)
            self._opened = opened.pop_all()
        self._places = asyncio.Semaphore(options.concurrency)
        self._runners: dict[Candidate, Runner] = {}
        self._known: defaultdict[Candidate, dict[str, Result]] = defaultdict(dict)
        self._begun: set[tuple[Candidate, str]] = set()
        self._failing: list[Candidate] = []  # of the answers that failed in a row
        self._has_answers = False
        self.limit = options.budget
        self.refusal: PlanAndBudgetError | None = None
        self.watcher: Callable[[], None] = lambda: None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Cancel running answers and unlock the folder."""
        with suppress(RuntimeError):  # the loop is closed already
            self._portal.call(self._portal.stop, True)
        self._opened.close()

    @property
    def spent(self) -> Spending:
        """The cost so far."""
        return Spending(len(self._begun), self.replies.spent)

    def measure(self, candidate: Candidate, questions: Sequence[Question]) -> list[Result]:
        """Answer questions with a candidate, several at once, from any thread.

        Args:
            candidate: The candidate.
            questions: The questions. An answer that is known costs nothing.

        Returns:
            The results, in the order of the questions.

        Raises:
            SearchEndedError: If the limit is reached. Answers that have begun are kept.
            OutageError: If a question cannot be answered; with a `refusal`, no question can.
            StorageError: If the disk is full.
        """
        return self.run(self._all, candidate, questions)

    def known(self, candidate: Candidate, questions: Sequence[Question]) -> list[Result]:
        """Return the results that exist already, in the order of the questions.

        Args:
            candidate: The candidate.
            questions: The questions.
        """
        results = self._known[candidate]
        return [results[q.identity] for q in questions if q.identity in results]

    def measured(self, questions: Sequence[Question]) -> list[Candidate]:
        """Return the candidates that have answered all of these questions."""
        identities = {question.identity for question in questions}
        return [each for each, results in self._known.items() if identities <= results.keys()]

    def check(self) -> None:
        """Raise if the budget is used up, also for a reflection model."""
        if self.refusal is None and len(self._begun) >= self.limit:
            kept = self.options.budget - self.limit
            rest = f", and {kept} are kept for the held-out questions" if kept else ""
            self.refusal = SearchEndedError(
                f"{self.limit} of {self.options.budget} answers are spent{rest}. Finished answers "
                "are kept: to continue, run the same command with a higher budget"
            )
        if self.refusal is not None:
            raise self.refusal

    def run(self, work: Callable[..., Coroutine[Any, Any, T]], *arguments: object) -> T:
        """Run a coroutine function in the evaluator's event loop; an interrupt cancels it.

        Args:
            work: The coroutine function.
            arguments: Its arguments.
        """
        waiting = self._portal.start_task_soon(work, *arguments)
        try:
            result: T = waiting.result()
        except BaseException:
            waiting.cancel()
            raise
        return result

    async def _all(self, candidate: Candidate, questions: Sequence[Question]) -> list[Result]:
        jobs = [self._one(candidate, question) for question in questions]
        outcomes = await asyncio.gather(*jobs, return_exceptions=True)
        errors = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        if errors:
            raise self.refusal or errors[0]
        return [outcome for outcome in outcomes if isinstance(outcome, Result)]

    async def _one(self, candidate: Candidate, question: Question) -> Result:
        known, key = self._known[candidate], question.identity
        if key not in known:
            async with self._places:
                self.check()
                self._begun.add((candidate, key))
                known[key] = await self._result(candidate, question)
            self.watcher()
        return known[key]

    async def _result(self, candidate: Candidate, question: Question) -> Result:
        try:
            outcome = await self._runner_of(candidate).answer(question)
        except StorageError as error:
            self.refusal = error
            raise
        score, unscored = 0.0, None
        if outcome.error is None:
            try:
                score = (await score_answer(self._scorer, outcome.report, question)).value
            except ScorerError as error:
                unscored = str(error)
        failure = outcome.error or unscored
        self._failing = [*self._failing, candidate] if failure else []
        self._has_answers |= not failure
        is_outage = len(self._failing) >= _OUTAGE
        if outcome.error or is_outage:
            failed = OutageError(
                f"Question {question.id} ({question.question:.60}) failed: {failure} Fix the cause "
                "and rerun the same command, or leave the question out."
            )
            if is_outage and (len(set(self._failing)) > 1 or not self._has_answers):
                self.refusal = failed
            raise failed
        tokens = outcome.report["usage"]["output_tokens"]
        return Result(question.id, score, tokens, outcome.report, unscored)

    def _runner_of(self, candidate: Candidate) -> Runner:
        if candidate not in self._runners:
            settings, level = candidate.settings, self.options.estimate_level
            method = Method("tune", settings, candidate.prompts(), level)
            self._runners[candidate] = Runner(method, self.models)
        return self._runners[candidate]
