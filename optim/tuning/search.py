"""The tuning loop: measure, propose, measure exactly, take the best; then the held-out verdict.

Optimizers average over examples, and E³ is no average. So each round gives them its tangent at the
incumbent, and every candidate is then ranked by exact E³ on dev. Only a better candidate replaces
the incumbent, so its E³ never falls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from optim.evaluation.store import StorageError, check_run_conditions
from optim.tuning.evaluator import BudgetSpentError, OutageError, Spending
from optim.tuning.optimizers import OptimizerTask
from optim.tuning.options import OPTIMIZERS
from optim.tuning.reflection import ReflectionError
from optim.tuning.select import Measurement, Trial, Verdict, judge, pareto_front, winner_of
from pb_graph.errors import InputError

if TYPE_CHECKING:
    from optim.tuning.candidate import Candidate
    from optim.tuning.evaluator import Evaluator
    from optim.tuning.options import Optimizer
    from optim.tuning.reflection import Reflector
    from optim.tuning.split import Split

_ANSWERS_PER_QUESTION = 10  # of a round where no number of answers is set
_MIN_PASSES = 2  # over dev in a round: else no candidate could be measured
_COMPARED = 2  # on the held-out questions: the original and the winner of dev


@dataclass(frozen=True, slots=True)
class Event:
    """A step of a tuning, for progress displays.

    Attributes:
        text: What happened, in a sentence.
        trial: The candidate that was measured, if one was.
        best: The best trial so far, if the original is measured.
        spent: The cost of the run folder.
    """

    text: str
    trial: Trial | None
    best: Trial | None
    spent: Spending


Callback = Callable[[Event], None]


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The outcome of a search.

    Attributes:
        candidate: The candidate to use: the winner of dev, or the original.
        verdict: The judgement of the held-out questions.
        trials: Every candidate that was measured on the whole of dev; the original first.
        rounds: The optimizer of each turn.
        ended: Why the search ended.
        split: The questions.
        optimizer: Its name.
        seed: Of everything drawn by chance.
        spent: The cost of the run folder.
    """

    candidate: Candidate
    verdict: Verdict
    trials: Sequence[Trial]
    rounds: Sequence[str]
    ended: str
    split: Split
    optimizer: str
    seed: int
    spent: Spending

    @property
    def original(self) -> Trial:
        """The original on dev."""
        return self.trials[0]

    @property
    def front(self) -> list[Trial]:
        """The Pareto front of accuracy and tokens on dev."""
        return pareto_front(self.trials)


@dataclass
class Search:
    """A search; `run` runs it.

    Attributes:
        evaluator: Measures; its folder then belongs to this search.
        split: The questions.
        work: Optimizers, each with the predictor that it tunes.
        reflector: Writes instructions; None where no optimizer needs that.
        texts: Instructions to measure before the first round.
        rounds: The most rounds.
        threshold: Relative gain of E³ below which a round is the last.
        seed: Of everything drawn by chance.
        callback: Called with every `Event`.
    """

    evaluator: Evaluator
    split: Split
    work: Sequence[tuple[Optimizer, str]]
    reflector: Reflector | None = None
    texts: Sequence[str] = ()
    rounds: int = 3
    threshold: float = 0.01
    seed: int = 0
    callback: Callback = field(default=lambda _: None)
    trials: dict[str, Trial] = field(default_factory=dict)
    turns: list[str] = field(default_factory=list)

    def run(self, original: Candidate) -> SearchResult:
        """Search from the original on; the same call with the same folder resumes.

        Returns:
            The result. A spent budget ends the search, not the call.

        Raises:
            InputError: Every answer wrong, a budget below one round's, or a folder of another run.
            ReflectionError: The reflection model is silent, and no candidate was measured.
            OutageError: The model is out of reach.
            StorageError: The disk is full.
        """
        self._check()
        check_run_conditions(self.evaluator.run_dir, self._conditions(original))
        held_out = _COMPARED * len(self.split.held_out)
        self._tell(
            f"{len(self.split.dev)} dev and {len(self.split.held_out)} held-out questions; "
            f"{held_out} answers are kept back for the comparison at the end."
        )
        self.evaluator.hold_back(held_out)
        self._measure(original, "original", 0)
        first = self.trials[original.identity]
        _ = first.measurement.reference  # refuses what cannot be improved on
        optimizer, predictor = self.work[0]
        if self.texts:
            self._turn(OPTIMIZERS["candidates"](texts=self.texts), predictor, "pool")
        ended = self._rounds()
        winner = winner_of(list(self.trials.values()), first)
        self.evaluator.hold_back(0)
        if winner is not None:
            self._tell("The best of dev and the original answer the held-out questions.")
        verdict = judge(self.evaluator, first, winner, self.split)
        return SearchResult(
            candidate=winner.candidate if winner and verdict.is_adopted else original,
            verdict=verdict,
            trials=list(self.trials.values()),
            rounds=self.turns,
            ended=ended,
            split=self.split,
            optimizer=optimizer.name,
            seed=self.seed,
            spent=self.evaluator.spent,
        )

    @property
    def incumbent(self) -> Trial:
        """The best so far; of equals the first."""
        return max(self.trials.values(), key=lambda trial: trial.measurement.e3)

    def _check(self) -> None:
        dev, held_out = len(self.split.dev), len(self.split.held_out)
        required, budget = 2 * dev + _COMPARED * held_out, self.evaluator.budget.answers
        if budget is not None and budget < required:
            msg = (
                f"{budget} answers are too few: the original and one candidate on {dev} dev and "
                f"{held_out} held-out questions take {required}. Raise the budget "
                "(--budget-answers), or give fewer questions (--limit)."
            )
            raise InputError(msg)
        shows_examples = any(optimizer.tunes == "examples" for optimizer, _ in self.work)
        if shows_examples and self.split.train is self.split.dev:
            msg = "examples are found among training questions, and there are none: give some"
            raise InputError(msg)

    def _conditions(self, original: Candidate) -> dict[str, object]:
        """Return what a folder must not mix."""
        return {
            **self.evaluator.identity,
            **self.split.identity,
            "original": original.identity,
            "tuned": "+".join(name for _, name in self.work),
            "optimizer": self.work[0][0].name,
            "options": repr(dict(self.work[0][0].options)),
            "pool": list(self.texts),
            "reflection": self.reflector.identity if self.reflector else None,
            "rounds": self.rounds,
            "threshold": self.threshold,
            "tuning_seed": self.seed,
        }

    def _rounds(self) -> str:
        """Let the optimizers propose, round by round; return why that ended."""
        for number in range(self.rounds):
            turns = [turn for turn in self.work if not number or not turn[0].once]
            before = self.incumbent.measurement.e3
            for optimizer, predictor in turns:
                if self.evaluator.refusal is None:
                    self._turn(optimizer, predictor, optimizer.name)
            refusal = self.evaluator.refusal
            if isinstance(refusal, OutageError | StorageError):
                raise refusal
            if refusal is not None:
                return str(refusal)
            silent = self.reflector.failure if self.reflector else None
            if isinstance(silent, ReflectionError):
                if len(self.trials) == 1:
                    raise silent
                return str(silent)  # what was measured counts
            if turns and self.incumbent.measurement.e3 / before - 1.0 < self.threshold:
                return f"the last round gained less than {self.threshold:.1%}"
        return "every round was made"

    def _turn(self, optimizer: Optimizer, predictor: str, origin: str) -> None:
        number = len(self.turns) + 1
        before = self.incumbent
        self._tell(f"Round {number}: {origin}, from E³ {before.measurement.e3:.2f}.")
        task = OptimizerTask(
            evaluator=self.evaluator,
            incumbent=before.candidate,
            reference=before.measurement.reference,
            train=self.split.train,
            dev=self.split.dev,
            predictor=predictor,
            reflector=self.reflector,
            answers=self._answers(optimizer),
            seed=self.seed + number,
        )
        with suppress(BudgetSpentError):  # of a user's optimizer that measures beyond the budget
            for candidate in optimizer.candidates(task):
                if candidate.identity not in self.trials:
                    with suppress(BudgetSpentError, OutageError):  # others may be cached
                        self._measure(candidate, origin, number)
        self.turns.append(origin)

    def _measure(self, candidate: Candidate, origin: str, number: int) -> None:
        measurement = Measurement(self.evaluator.measure(candidate, self.split.dev))
        trial = Trial(candidate, measurement, origin, number)
        self.trials[candidate.identity] = trial
        better = ", the best so far" if number and trial is self.incumbent else ""
        self._tell(
            f"{origin}: E³ {measurement.e3:.2f} (accuracy {measurement.accuracy:.1f} %, "
            f"T {measurement.tokens:.0f}){better}",
            trial,
        )

    def _answers(self, optimizer: Optimizer) -> int:
        """Return the answers of a turn: half of the budget, so that the tangent moves once.

        An optimizer that runs only once may use the whole budget except the held-out comparison.
        It is taken from the budget, not from what is left: a resumed run must go the same way.
        """
        dev, budget = len(self.split.dev), self.evaluator.budget.answers
        if budget is None:
            return _ANSWERS_PER_QUESTION * dev
        whole = budget - _COMPARED * len(self.split.held_out)
        share = (whole if optimizer.once else budget // 2) // len(self.work)
        return max(_MIN_PASSES * dev, share)

    def _tell(self, text: str, trial: Trial | None = None) -> None:
        best = self.incumbent if self.trials else None
        self.callback(Event(text, trial, best, self.evaluator.spent))
