"""Measures candidates: answers questions, scores them, and pays for none twice.

Two files of the run folder hold what was paid for: ``replies.jsonl`` every reply of a model, under
its request (`optim.evaluation.cache`), ``results.jsonl`` a line for each answer that was counted
against the budget, with its score. A run that is started again makes the same requests; so it gets
the same replies, takes the scores as they were, and goes the same way.
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
from optim.evaluation.cache import REPLIES, ReplyCache
from optim.evaluation.identity import (
    planner_identity,
    question_identity,
    scorer_identity,
    scorer_name,
)
from optim.evaluation.journal import Journal
from optim.evaluation.limits import BudgetSpentError, Limits, Meter
from optim.evaluation.models import build_models
from optim.evaluation.resume import held, refuse_former
from optim.evaluation.runner import Runner, judged
from optim.methods import Method
from optim.scorers import ScorerError, as_scorer
from optim.tuning.candidate import SharedOnDeepcopy
from pb_graph.errors import InputError, PlanAndBudgetError
from pb_graph.settings import Settings

if TYPE_CHECKING:
    from optim.datasets import Question
    from optim.evaluation.limits import Spent
    from optim.evaluation.models import ModelSpec
    from optim.evaluation.runner import Outcome
    from optim.scorers import Scorer
    from optim.tuning.candidate import Candidate
    from pb_graph.models.caps import CapPolicy
    from pb_graph.types import Report

RESULTS = "results.jsonl"
_TRIES = 3  # of an answer that does not come for a reason outside
_IN_A_ROW = 12  # tries without a token, one after the other, that are taken for an outage

T = TypeVar("T")
_Key = tuple[str, str, int]  # candidate, question, epoch


class OutageError(PlanAndBudgetError):
    """An answer did not come for a reason outside: a candidate cannot be measured without it."""


@dataclass(frozen=True, slots=True)
class Result:
    """One answer of one candidate.

    Attributes:
        question: The question's id.
        score: From 0 to 1; 0 when what was paid came to nothing, or nobody could judge it.
        tokens: Completion tokens it is charged, planning included.
        report: The graph's account.
        error: Why nobody could judge it; None when it was judged.
    """

    question: str
    score: float
    tokens: int
    report: Report
    error: str | None


class Evaluator(SharedOnDeepcopy):
    """Answers with any candidate; a context manager that holds the run folder.

    What is paid and comes to nothing is a wrong answer. An answer that does not come for a reason
    outside (a call that fails for good) is neither right nor wrong: it is asked for three times,
    and then the candidate is not measured. Counting it as wrong would let a bad moment of a server
    decide between candidates; leaving the question out would compare them on different sets.

    Args:
        model: Solves, as for `build_graph`.
        planner: Plans; None for the same model.
        scorer: Name of a scorer, or one of your own.
        limits: What the folder may cost over all its starts.
        settings: Time-out and retries of the models.
        retry_errors: Judge again what nobody could judge in an earlier start.

    The other arguments are as for `optim.tune`.

    Attributes:
        identity: Who answers and who judges, for the fingerprint of a run.
        refusal: Why an answer was not begun: the budget is spent, or the model out of reach. From
            then on whatever would have to be paid for is refused.
        unanswered: Ids of questions that had no answer for a reason outside.
        watcher: Told of every answer, recalled ones too.
        reflections: The cache, for a reflection model to share.

    Raises:
        InputError: The folder is in use, cannot be written, is damaged, or of an earlier format.
        ModelSetupError: A model cannot be set up.
        ScorerError: The scorer cannot be set up.
    """

    def __init__(  # noqa: PLR0913 -- all but one by name
        self,
        model: ModelSpec = None,
        *,
        planner: ModelSpec = None,
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
        self.concurrency, self._seed = concurrency, seed
        self._judge, self._scorer_name = as_scorer(scorer), scorer_name(scorer)
        self._estimate_level, self._retry_errors = estimate_level, retry_errors
        folder = self.run_dir
        self._lock = held(folder).lock
        try:
            refuse_former(folder)
            self._results = Journal(folder / RESULTS)
            self.reflections = cache = ReplyCache(folder / REPLIES)
            self.meter = Meter(limits or Limits(), cache, self._results)
            self.models = build_models(
                model,
                planner,
                program=None,
                settings=settings or Settings(),
                cache=cache,
                cap_policy=cap_policy,
            )
        except BaseException:
            self._lock.release()
            raise
        written = scorer_identity(scorer)
        self._written = {"scorer": digest(written)} if written else {}
        self.identity: dict[str, object] = {
            "solver": self.models.solver_identity,
            "planner": self.models.planner_identity,
            "scorer": self._scorer_name,
            "seed": seed,
            "estimate_level": estimate_level,
        }
        # One event loop on a thread of its own, for callers on any thread.
        portal = start_blocking_portal("asyncio", name="pb-optim-tune")
        self._ended = ExitStack()
        self._portal = self._ended.enter_context(portal)
        self._places = asyncio.Semaphore(concurrency)
        self._runners: dict[str, Runner] = {}
        self._known: dict[_Key, Result] = {}
        self._running: dict[_Key, asyncio.Task[Result]] = {}
        self._failed_in_a_row = 0
        self.refusal: PlanAndBudgetError | None = None
        self.unanswered: set[str] = set()
        self.watcher: Callable[[Candidate, Result], None] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Cancel what runs, end what was started, and let go of the folder."""
        try:
            with suppress(RuntimeError):  # it is closed already
                self._portal.call(self._portal.stop, True)
            self._ended.close()
        finally:
            getattr(self._judge, "close", lambda: None)()
            self._lock.release()

    @property
    def spent(self) -> Spent:
        """What the folder has cost: this start and earlier ones, together."""
        return self.meter.spent

    def measure(
        self, candidate: Candidate, questions: Sequence[Question], epoch: int = 1
    ) -> list[Result]:
        """Answer the questions with a candidate, several at once.

        Returns:
            Results in the order of the questions.

        Raises:
            BudgetSpentError: A limit was reached on the way; what had begun was let finish and is
                kept.
            OutageError: An answer did not come for a reason outside. With a `refusal`, none does.
            StorageError: What is paid for cannot be written down.
        """
        return self._run(self._all, candidate, questions, epoch)

    def one(self, candidate: Candidate, question: Question, epoch: int = 1) -> Result:
        """Answer one question, for the epoch-th time; from any thread. Raises as `measure`."""
        known = self._known.get((candidate.identity, question.id, epoch))
        return known or self._run(self._once, candidate, question, epoch)

    def is_known(self, candidate: Candidate, questions: Sequence[Question], epoch: int = 1) -> bool:
        """Whether measuring would cost nothing."""
        return self._run(self._is_known, candidate, questions, epoch)

    def reserve(self, answers: int) -> None:
        """Keep so many answers back for what comes last; 0 lets go of them."""
        self.meter.reserved = answers
        if isinstance(self.refusal, BudgetSpentError):
            self.refusal = None

    def _run(self, work: Callable[..., Coroutine[Any, Any, T]], *about: object) -> T:
        """Run in the loop until it is done. An interrupt while waiting cancels the work."""
        waiting = self._portal.start_task_soon(work, *about)
        try:
            result: T = waiting.result()
        except BaseException:
            waiting.cancel()
            raise
        return result

    async def _is_known(
        self, candidate: Candidate, questions: Sequence[Question], epoch: int
    ) -> bool:
        for question in questions:
            known = (candidate.identity, question.id, epoch) in self._known
            if not known and await self._recalled(candidate, question, epoch) is None:
                return False
        return True

    async def _all(
        self, candidate: Candidate, questions: Sequence[Question], epoch: int
    ) -> list[Result]:
        jobs = [self._once(candidate, question, epoch) for question in questions]
        outcomes = await asyncio.gather(*jobs, return_exceptions=True)
        errors = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        if errors:
            raise self.refusal if self.refusal in errors else errors[0]
        return [outcome for outcome in outcomes if isinstance(outcome, Result)]

    async def _once(self, candidate: Candidate, question: Question, epoch: int) -> Result:
        """Answer, or join an answer that is under way: optimizers resubmit what takes long."""
        key = (candidate.identity, question.id, epoch)
        if key in self._known:
            return self._known[key]
        if key not in self._running:
            work = asyncio.ensure_future(self._result(candidate, question, epoch))
            self._running[key] = work
            work.add_done_callback(lambda _: self._running.pop(key, None))
        result = await asyncio.shield(self._running[key])
        self._known[key] = result
        return result

    async def _result(self, candidate: Candidate, question: Question, epoch: int) -> Result:
        key = self._key(candidate, question, epoch)
        async with self._places:
            outcome = await self._recalled(candidate, question, epoch)
            if outcome is None:
                self.check()
                self.meter.begin(key)
                outcome = await self._answered(candidate, question, epoch)
            result = await self._scored(key, outcome, question)
        if self.watcher is not None:
            self.watcher(candidate, result)
        return result

    async def _recalled(
        self, candidate: Candidate, question: Question, epoch: int
    ) -> Outcome | None:
        """What the cache gives by itself, for an answer that was counted before."""
        if self._key(candidate, question, epoch) not in self._results:
            return None
        outcome = await self._runner_of(candidate).recall(question, epoch)
        return None if outcome is None or outcome.error is not None else outcome

    async def _answered(self, candidate: Candidate, question: Question, epoch: int) -> Outcome:
        """Try until there is something to judge."""
        for _ in range(_TRIES):
            spent = self.spent.tokens
            outcome = await self._runner_of(candidate).answer(question, epoch)
            if outcome.error is None:
                self._failed_in_a_row = 0
                return outcome
            self._failed_in_a_row += 1 if self.spent.tokens == spent else 0
            if self._failed_in_a_row >= _IN_A_ROW:
                self.refusal = OutageError(
                    f"{_IN_A_ROW} tries in a row failed without a token, the last with: "
                    f"{outcome.error} Mend that; the same command goes on."
                )
                raise self.refusal
        self.unanswered.add(question.id)
        msg = (
            f"the question {question.id} had no answer in {_TRIES} tries, for a reason outside: "
            f"{outcome.error} It counts neither as right nor as wrong, so what was to be measured "
            "by it is not. Mend that, and the same command goes on; or leave the question out, "
            "which takes another run folder."
        )
        raise OutageError(msg)

    async def _scored(self, key: str, outcome: Outcome, question: Question) -> Result:
        """Judge, or give the score that an earlier start has given the same answer.

        A scorer of the user's own that was mended since judges anew.
        """
        report, entry = outcome.report, self._results.get(key)
        what = {"answer": digest(report["answer"])} | self._written
        known = entry is not None and what.items() <= entry.items()
        if entry is None or not known or (entry["error"] and self._retry_errors):
            score = 0.0
            error: str | None = None
            try:
                score = (await judged(self._judge, report, question)).value
            except Exception as failure:  # noqa: BLE001 -- one of the user's own raises anything
                kind = "" if isinstance(failure, ScorerError) else f"{type(failure).__name__}: "
                error = f"{kind}{failure}"
            entry = {**what, "question": question.id, "score": score, "error": error}
            self._results.append(key, entry)
        tokens = report["usage"]["output_tokens"]
        return Result(question.id, entry["score"], tokens, report, entry["error"])

    def check(self) -> None:
        """See whether anything more may be paid for, by a reflection model too.

        Raises:
            BudgetSpentError: A limit is reached. From then on whatever would cost is refused.
        """
        if self.refusal is not None:
            raise self.refusal
        try:
            self.meter.check()
        except BudgetSpentError as spent:
            self.refusal = spent
            raise

    def _key(self, candidate: Candidate, question: Question, epoch: int) -> str:
        asked = [question_identity(question), list(question.targets), epoch]
        return digest([candidate.identity, self._scorer_name, *asked])

    def _runner_of(self, candidate: Candidate) -> Runner:
        if candidate.identity not in self._runners:
            planner = candidate.prompts()
            identity = planner_identity(self.models.planner_identity, planner)
            self._runners[candidate.identity] = Runner(
                Method("tune", candidate.settings, self._estimate_level),
                replace(self.models, program=planner, planner_identity=identity),
                seed=self._seed,
            )
        return self._runners[candidate.identity]
