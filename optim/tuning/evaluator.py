"""Measure candidates: answer questions, score them, and pay for no answer twice.

One file of the run folder (`optim.evaluation.store`) holds everything that was paid for: the
replies of the models under their requests, and the scores of the answers that count against the
budget. A run that is started again makes the same requests, gets the same replies and scores, and
so takes the same decisions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from anyio.from_thread import start_blocking_portal

from optim.datasets.dataset import digest
from optim.evaluation.experiment import scorer_code, scorer_name
from optim.evaluation.models import build_models, planner_identity
from optim.evaluation.runner import Runner, score_answer
from optim.evaluation.store import REPLIES, ReplyCache, StorageError, lock_run_dir
from optim.methods import Method
from optim.scorers import ScorerError, as_scorer
from optim.tuning.program import SharedOnDeepcopy
from pb_graph.errors import PlanAndBudgetError

if TYPE_CHECKING:
    from optim.datasets import Question
    from optim.evaluation.runner import Outcome
    from optim.scorers import Scorer
    from optim.tuning.options import TuneOptions
    from optim.tuning.program import Candidate, GraphProgram
    from pb_graph.types import Report

_TRIES = 3  # of an answer that fails for a reason outside
_IN_A_ROW = 12  # failed tries without a token that count as an outage

T = TypeVar("T")


class BudgetSpentError(PlanAndBudgetError):
    """A limit is reached: no further answer is begun. Finished answers are kept."""


class OutageError(PlanAndBudgetError):
    """A question could not be answered, so a candidate cannot be measured on it."""


class ReflectionError(PlanAndBudgetError):
    """The reflection model returns nothing that could be an instruction."""


@dataclass(frozen=True, slots=True)
class Spending:
    """Answers and completion tokens of all starts of a run folder together."""

    answers: int = 0
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class Result:
    """One answer of one candidate.

    Attributes:
        question: The question's id.
        score: From 0 to 1; 0 for a paid and empty answer, or one that could not be scored.
        tokens: Completion tokens charged for it, planning included.
        report: The graph's report.
        error: Why it could not be scored; None when it was.
    """

    question: str
    score: float
    tokens: int
    report: Report
    error: str | None


class Evaluator(SharedOnDeepcopy):
    """Answers with any candidate within a budget; a context manager that locks the run folder.

    A paid and empty answer is wrong. A call that fails for good is neither right nor wrong: the
    question is asked three times, then the candidate is not measured, since a server's bad moment
    must not decide between candidates.

    Args:
        program: Its models answer.
        scorer: A scorer or its name.
        options: Of these the run folder, the budget, concurrency and estimate_level matter here.

    Attributes:
        models: The models behind the cache.
        replies: The cache of replies, for a reflection model to share.
        refusal: Why nothing more may be paid for: the budget, an outage, a full disk or a silent
            reflection model. None while it may.
        watcher: Called after every answer, cached ones too.

    Raises:
        InputError: The folder is in use or cannot be written.
        PlanAndBudgetError: A model or the scorer cannot be set up.
    """

    def __init__(self, program: GraphProgram, scorer: str | Scorer, options: TuneOptions) -> None:
        self.program, self.options, self.run_dir = program, options, Path(options.run_dir)
        self.scorer_name, self._scorer_code = scorer_name(scorer), scorer_code(scorer)
        self._scorer = as_scorer(scorer)
        with ExitStack() as opened:
            opened.enter_context(lock_run_dir(self.run_dir))
            self.replies = ReplyCache(self.run_dir / REPLIES)
            opened.callback(self.replies.close)
            self.models = build_models(
                program.graph.model,
                program.graph.planner,
                program=None,
                settings=program.settings,
                cache=self.replies,
                cap_policy=program.graph.cap_policy,
            )
            opened.callback(getattr(self._scorer, "close", lambda: None))
            # One event loop on its own thread, for callers on any thread.
            portal = start_blocking_portal("asyncio", name="pb-optim-tune")
            self._portal = opened.enter_context(portal)
            self._opened = opened.pop_all()
        self._begun, self._earlier = set[str](), self.replies.count_results()
        self._places = asyncio.Semaphore(options.concurrency)
        self._runners: dict[str, Runner] = {}
        self._known: dict[tuple[str, str], Result] = {}  # by candidate and question
        self._failed_in_a_row = self._held_back = 0
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
        """The cost of the folder, earlier starts included."""
        return Spending(self._earlier + len(self._begun), self.replies.spent)

    def measure(self, candidate: Candidate, questions: Sequence[Question]) -> list[Result]:
        """Answer questions with a candidate, several at once; results are in their order.

        Raises:
            BudgetSpentError: A limit was reached. Answers that had begun are finished and kept.
            OutageError: A question could not be answered; with a `refusal`, no question can.
            StorageError: The disk is full.
        """
        return self.run(self._all, candidate, questions)

    def one(self, candidate: Candidate, question: Question) -> Result:
        """Answer one question, from any thread. Raises as `measure`."""
        known = self._known.get((candidate.identity, question.id))
        return known or self.run(self._once, candidate, question)

    def known(self, candidate: Candidate, questions: Sequence[Question]) -> list[Result]:
        """Return the results that this start has of a candidate, in the order of the questions."""
        keys = [(candidate.identity, question.id) for question in questions]
        return [self._known[key] for key in keys if key in self._known]

    def hold_back(self, answers: int) -> None:
        """Keep so many answers for the end of the run; 0 releases them."""
        self._held_back = answers
        if isinstance(self.refusal, BudgetSpentError | ReflectionError):
            self.refusal = None

    def check(self) -> None:
        """Raise if nothing more may be paid for, by a reflection model too.

        From then on every payment is refused. Answers that are held back count with the mean cost
        of answers so far.
        """
        spent, options = self.spent, self.options
        share = 1.0 + (self._held_back / spent.answers if spent.answers else 0.0)
        for limit, used, unit in (
            (options.budget, spent.answers + self._held_back, "answers"),
            (options.budget_tokens, spent.tokens * share, "tokens"),
        ):
            if self.refusal is None and limit is not None and used >= limit:
                self.refusal = BudgetSpentError(
                    f"the budget of {limit} {unit} is spent; finished answers are kept, and the "
                    "same command with a higher budget goes on"
                )
        if self.refusal is not None:
            raise self.refusal

    def run(self, work: Callable[..., Coroutine[Any, Any, T]], *arguments: object) -> T:
        """Run a coroutine function in the evaluator's event loop; an interrupt cancels it."""
        waiting = self._portal.start_task_soon(work, *arguments)
        try:
            result: T = waiting.result()
        except BaseException:
            waiting.cancel()
            raise
        return result

    async def _all(self, candidate: Candidate, questions: Sequence[Question]) -> list[Result]:
        jobs = [self._once(candidate, question) for question in questions]
        outcomes = await asyncio.gather(*jobs, return_exceptions=True)
        errors = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        if errors:
            raise self.refusal if self.refusal in errors else errors[0]
        return [outcome for outcome in outcomes if isinstance(outcome, Result)]

    async def _once(self, candidate: Candidate, question: Question) -> Result:
        key = (candidate.identity, question.id)
        if key not in self._known:  # DSPy submits slow examples again: the cache asks once for both
            self._known[key] = await self._result(candidate, question)
        return self._known[key]

    async def _result(self, candidate: Candidate, question: Question) -> Result:
        """Answer from the cache alone if the answer was counted before, else within the budget."""
        asked = [question.identity, list(question.targets)]
        key = digest([candidate.identity, self.scorer_name, *asked])
        runner = self._runner_of(candidate)
        try:
            async with self._places:
                is_counted = self.replies.get_result(key) is not None
                outcome = await runner.replay(question) if is_counted else None
                if outcome is None or outcome.error is not None:
                    self.check()
                    if not is_counted:
                        self._begun.add(key)
                    outcome = await self._answered(runner, question)
                result = await self._scored(key, outcome, question)
        except StorageError as error:
            self.refusal = error
            raise
        self.watcher()
        return result

    async def _answered(self, runner: Runner, question: Question) -> Outcome:
        for _ in range(_TRIES):
            before = self.replies.spent
            outcome = await runner.answer(question)
            if outcome.error is None:
                self._failed_in_a_row = 0
                return outcome
            self._failed_in_a_row += self.replies.spent == before
            if self._failed_in_a_row >= _IN_A_ROW:
                self.refusal = OutageError(
                    f"{_IN_A_ROW} tries in a row failed without a token, the last with: "
                    f"{outcome.error} Fix the cause and rerun the same command."
                )
                raise self.refusal
        msg = (
            f"Question {question.id} failed {_TRIES} times: {outcome.error} The candidate was not "
            "scored. Fix the cause and rerun the same command, or exclude the question and use a "
            "new --run-dir."
        )
        raise OutageError(msg)

    async def _scored(self, key: str, outcome: Outcome, question: Question) -> Result:
        """Score an answer, or return an earlier start's score unless the scorer has changed."""
        report, entry = outcome.report, self.replies.get_result(key)
        facts = {"answer": digest(report["answer"]), "scorer": self._scorer_code}
        if entry is None or entry["error"] or not facts.items() <= entry.items():
            score, error = 0.0, None
            try:
                score = (await score_answer(self._scorer, report, question)).value
            except Exception as failure:  # noqa: BLE001 -- a user's scorer raises anything
                kind = "" if isinstance(failure, ScorerError) else f"{type(failure).__name__}: "
                error = f"{kind}{failure}"
            entry = {**facts, "question": question.id, "score": score, "error": error}
            self.replies.put_result(key, entry)
        tokens = report["usage"]["output_tokens"]
        return Result(question.id, entry["score"], tokens, report, entry["error"])

    def _runner_of(self, candidate: Candidate) -> Runner:
        if candidate.identity not in self._runners:
            planner = candidate.prompts()
            identity = planner_identity(self.models.planner_identity, planner)
            self._runners[candidate.identity] = Runner(
                Method("tune", candidate.settings, self.options.estimate_level),
                replace(self.models, program=planner, planner_identity=identity),
            )
        return self._runners[candidate.identity]
