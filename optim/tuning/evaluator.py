"""Spend the budget of a tuning: measure candidates, and ask the model that writes instructions.

One file of the run folder (`optim.bench.store`) holds every reply of the models under its request.
A restarted run makes the same requests, gets the same replies, and so makes the same decisions.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Coroutine, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self, TypeVar

import dspy
from anyio.from_thread import start_blocking_portal
from dspy.lm15 import Message, Request, Response, TextPart, Usage
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, HumanMessage, convert_to_messages

from optim.bench.bench import Runner, build_models, model_identity, score_answer
from optim.bench.store import (
    REPLIES,
    CachedClient,
    Recording,
    ReplyCache,
    RunStoppedError,
    lock_run_dir,
    recording,
)
from optim.datasets import Question
from optim.records import Record
from optim.scorers import ScorerError, ScorerLike, as_scorer, scorer_code, scorer_name
from optim.tuning.options import TuneOptions
from optim.tuning.program import Candidate, GraphProgram, SharedOnDeepcopy
from pb_graph.errors import InputError, PlanAndBudgetError
from pb_graph.models.client import RetryPolicy
from pb_graph.models.options import TIMEOUT, CallOptions
from pb_graph.models.reply import ASYNC, Reply
from pb_graph.models.resolve import client_of, model_name, resolve
from pb_graph.types import Purpose

_OUTAGE = 8  # failed answers in a row
_CHARACTERS = 4  # of a token

_CAP = 2048  # completion tokens of a reflection
_TEMPERATURE = 1.0  # the same prompt is asked several times, for different ideas

T = TypeVar("T")


class SearchEndedError(PlanAndBudgetError):
    """The budget of the tuning is spent."""


class OutageError(PlanAndBudgetError):
    """A question was not answered, so a candidate cannot be measured on it."""

    def __init__(self, question: Question, what: str, reason: str) -> None:
        super().__init__(
            f"Question {question.id} ({question.question:.60}) {what}: {reason} Fix the cause and "
            "rerun the same command, or leave the question out."
        )


class UnscoredError(OutageError, InputError):
    """An answer cannot be scored, so a candidate cannot be measured on its question."""


class Evaluator(SharedOnDeepcopy):
    """Answer questions with any candidate within a budget, in a locked run folder.

    A paid and empty answer is wrong. One that failed, or that cannot be scored, is neither right
    nor wrong: the candidate is not measured, because neither an outage nor a scorer must decide
    between candidates. Eight of them in a row end the run, unless they are all of one candidate
    after others succeeded.
    """

    def __init__(self, program: GraphProgram, scorer: ScorerLike, options: TuneOptions) -> None:
        self.program, self.options, self.run_dir = program, options, Path(options.run_dir)
        self.prompt_price = 1 / options.price_ratio if options.objective == "money" else 0.0
        self._judge = as_scorer(scorer)
        self.scorer = scorer_name(self._judge), scorer_code(self._judge)
        with ExitStack() as opened:
            opened.enter_context(lock_run_dir(self.run_dir))
            self.replies = ReplyCache(self.run_dir / REPLIES, options.account())
            opened.callback(self.replies.close)
            self.models = build_models(
                program.graph.model,
                program.graph.planner,
                settings=program.settings,
                cache=self.replies,
                cap_policy=program.graph.cap_policy,
            )
            opened.callback(getattr(self._judge, "close", lambda: None))
            # One event loop on its own thread, for callers on any thread.
            portal = start_blocking_portal("asyncio", name="pb-optim-tune")
            self._portal = opened.enter_context(portal)
            self._opened = opened.pop_all()
        self._places = asyncio.Semaphore(options.concurrency)
        self._runners: dict[Candidate, Runner] = {}
        self._known: defaultdict[Candidate, dict[str, Record]] = defaultdict(dict)
        self._begun: set[tuple[Candidate, str]] = set()
        self._failing: list[Candidate] = []  # of the answers that failed in a row
        self._has_answers = False
        self.reserved = 0
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
    def limit(self) -> int:
        """The most answers before the held-out questions, those of earlier runs included."""
        return self.options.budget - self.reserved

    @property
    def answers(self) -> int:
        """Answers that were begun."""
        return len(self._begun)

    def spent(self) -> str:
        """Return the cost so far in words."""
        return f"{self.answers} answers, {self.replies.spent:,} completion tokens"

    def measure(self, candidate: Candidate, questions: Sequence[Question]) -> list[Record]:
        """Answer questions with a candidate, several at once, from any thread.

        Args:
            candidate: The candidate.
            questions: The questions. An answer that is known costs nothing.

        Returns:
            The scored answers, in the order of the questions.

        Raises:
            SearchEndedError: If the budget is spent. Answers that have begun are kept.
            OutageError: If an answer failed or cannot be scored; with a `refusal`, none can.
            RunStoppedError: If the disk is full, or the server refuses every call.
        """
        return self.run(self._all, candidate, questions)

    def known(self, candidate: Candidate, questions: Sequence[Question]) -> list[Record]:
        """Return the answers that exist already, in the order of the questions."""
        records = self._known[candidate]
        return [records[q.identity] for q in questions if q.identity in records]

    def measured(self, questions: Sequence[Question]) -> list[Candidate]:
        """Return the candidates that have answered all of these questions."""
        identities = {question.identity for question in questions}
        return [each for each, records in self._known.items() if identities <= records.keys()]

    def add(self, candidate: Candidate, records: Sequence[Record]) -> None:
        """Add a candidate's answers that others tell, so that nobody is asked for them.

        Args:
            candidate: The candidate.
            records: Its scored answers.
        """
        self._known[candidate] |= {record.identity: record for record in records}

    def allows(self, *instructions: str) -> bool:
        """Return whether all instructions are short enough, at four characters a token."""
        longest = self.options.max_prompt_tokens
        return longest is None or all(len(text) <= _CHARACTERS * longest for text in instructions)

    def check(self) -> None:
        """Raise if the budget is used up, also for a reflection model."""
        if self.refusal is not None:
            raise self.refusal
        limit, spent, raised = self.replies.limit, "", "limit"
        # The answers for the held-out questions are taken to cost what the others did.
        kept = limit.spent * self.reserved / max(1, self.answers) if limit else 0.0
        if self.answers >= self.limit:
            spent, raised = f"{self.limit} of {self.options.budget} answers", "budget"
        elif limit and limit.left <= kept:
            spent = f"{limit.spent:g} of {limit.total:g} {limit.unit}"
        if spent:
            rest = f", and {self.reserved} are kept for the held-out questions"
            self.refusal = SearchEndedError(
                f"{spent} are spent{rest if self.reserved else ''}. Finished answers are kept: to "
                f"continue, run the same command with a higher {raised}"
            )
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

    async def _all(self, candidate: Candidate, questions: Sequence[Question]) -> list[Record]:
        jobs = [self._one(candidate, question) for question in questions]
        outcomes = await asyncio.gather(*jobs, return_exceptions=True)
        errors = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        if errors:
            raise self.refusal or errors[0]
        return [outcome for outcome in outcomes if isinstance(outcome, Record)]

    async def _one(self, candidate: Candidate, question: Question) -> Record:
        known, key = self._known[candidate], question.identity
        if key not in known:
            async with self._places:
                self.check()
                self._begun.add((candidate, key))
                known[key] = await self._scored(candidate, question)
            self.watcher()
        return known[key]

    async def _scored(self, candidate: Candidate, question: Question) -> Record:
        if candidate not in self._runners:
            self._runners[candidate] = Runner(candidate, self.models)
        try:
            record = await self._runners[candidate].answer(question)
        except RunStoppedError as error:
            self.refusal = error
            raise
        failure: OutageError | None = None
        try:
            if record.error is not None:
                failure = OutageError(question, "failed", record.error)
            else:
                verdict = await score_answer(self._judge, record.report, question)
        except ScorerError as error:
            failure = UnscoredError(question, "cannot be scored", str(error))
        self._failing = [*self._failing, candidate] if failure else []
        self._has_answers |= not failure
        if failure is not None:
            others = len(set(self._failing)) > 1 or not self._has_answers
            if len(self._failing) >= _OUTAGE and others:
                self.refusal = failure
            raise failure
        reason, details = verdict.explanation, verdict.metadata
        return replace(record, score=verdict.value, explanation=reason, score_metadata=details)


class Reflector:
    """Asks the reflection model through the evaluator's cache and budget, from any thread.

    The n-th identical prompt of a run gets the n-th stored reply, so a restarted run makes the same
    decisions.
    """

    def __init__(self, model: BaseChatModel | str, evaluator: Evaluator) -> None:
        settings, name = evaluator.program.settings, model if isinstance(model, str) else None
        if isinstance(model, str):
            model = resolve(model_name(model), settings)
            if getattr(model, "temperature", None) == 0.0:
                model = model.model_copy(update={"temperature": _TEMPERATURE})
        self.model, self.name = model, name or type(model).__name__
        policy, retries = evaluator.program.graph.cap_policy, RetryPolicy(settings.max_retries)
        self._client = CachedClient(
            client_of(model, policy, retries),
            self.name,
            model_identity(model, name),
            evaluator.replies,
            before=evaluator.check,
        )
        self._options = CallOptions(_CAP, settings.timeout or TIMEOUT, purpose=Purpose("reflect"))
        self._evaluator, self._recording = evaluator, Recording()

    def ask(self, prompt: str) -> str:
        """Return the reply to a prompt.

        An error ends the search, because an optimizer would continue and ask again.
        """
        return self._evaluator.run(self._reply, [HumanMessage(prompt)]).text

    def language_model(self) -> dspy.LM:
        """Return the model for the optimizers of DSPy that write instructions themselves."""
        return language_model(lambda messages: self._evaluator.run(self._reply, messages))

    async def _reply(self, messages: Sequence[BaseMessage]) -> Reply:
        try:
            with recording(self._recording):
                reply = await self._client.call(messages, self._options, ASYNC)
            if not reply.text or reply.finish == "length":
                msg = f"{self.name} wrote no whole instruction in {_CAP} tokens. Choose another "
                msg += "model to write instructions (--reflection-model)"
                raise SearchEndedError(msg)
        except PlanAndBudgetError as error:
            self._evaluator.refusal = error
            raise
        return reply


def language_model(ask: Callable[[Sequence[BaseMessage]], Reply]) -> dspy.LM:
    """Return a language model for DSPy without a cache, retries, or rules of a model family.

    All contact with DSPy's engine contract (``dspy.lm15``, DSPy 3.4) is here.

    Args:
        ask: Makes one call.
    """

    def complete(request: Request) -> Response:
        messages = [("system", request.system)] if request.system else []
        messages += [(message.role, message.text or "") for message in request.messages]
        reply = ask(convert_to_messages(messages))
        usage = reply.charge["usage"]
        return Response(
            id=None,
            model=request.model,
            message=Message.assistant([TextPart(reply.text)]),
            finish_reason="stop",
            usage=Usage(input_tokens=usage["input_tokens"], output_tokens=usage["output_tokens"]),
        )

    engine = SimpleNamespace(complete=complete)
    return dspy.LM("chat:reflection", engine=engine, cache=False, num_retries=0)
