"""The tuning loop: measure, propose, measure exactly, take the best; then the held-out verdict.

The optimizers average over examples, and E³ is no average. So each round gives them its tangent
at the incumbent, which never exceeds it, and every candidate they come up with is then ranked by
exact E³ on dev. The incumbent is replaced by a better one only, so its E³ never falls.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from optim.evaluation.limits import BudgetSpentError
from optim.evaluation.resume import claim
from optim.tuning.candidate import Candidate, predictors_of
from optim.tuning.evaluator import OutageError
from optim.tuning.optimizer import NOT_ANSWERED, NOT_MEASURED, Optimizer, Proposal, Round
from optim.tuning.optimizers import candidates
from optim.tuning.reflection import ReflectionError
from optim.tuning.selection import Measurement, Trial, Verdict, judge, winner_of
from optim.tuning.shortest import shortest
from pb_graph.errors import InputError

if TYPE_CHECKING:
    from optim.evaluation.limits import Spent
    from optim.tuning.evaluator import Evaluator
    from optim.tuning.examples import Split
    from optim.tuning.reflection import Reflector

_ANSWERS_PER_QUESTION = 10  # of a round where no number of answers is set
_LEAST_PASSES = 2  # over dev, in a round: else a candidate could not even be measured
_COMPARED = 2  # on the held-out questions: the original and the winner of dev


class Callback(Protocol):
    """Is told how far it is."""

    def begins(self, split: Split, evaluator: Evaluator, forecast: str) -> None:
        """Tuning begins; the forecast says what the budget will reach, if that is known."""

    def measured(self, trial: Trial, incumbent: Trial) -> None:
        """A candidate was measured on dev; the incumbent is the best so far."""

    def round_begins(self, number: int, optimizer: str, incumbent: Trial) -> None:
        """An optimizer is asked."""

    def round_ends(self, dropped: Sequence[Proposal]) -> None:
        """It has proposed, and this fell."""

    def judging(self, winner: Trial | None) -> None:
        """The winner of dev, if there is one, meets the held-out questions."""


class Silence:
    """A callback that does nothing."""

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        return lambda *_: None


@dataclass(frozen=True, slots=True)
class SearchResult:
    """What came of a tuning.

    Attributes:
        candidate: What to use from now on: the winner of dev, or the original.
        trials: Everything that was measured on the whole of dev, in order; the original first.
        dropped: Everything else that was proposed, and why it fell.
        rounds: Who proposed, turn by turn.
        ended: Why the search ended.
        predictor: Which of the predictors was tuned; of several the first.
        spent: What the run folder has cost in all.
    """

    candidate: Candidate
    verdict: Verdict
    original: Trial
    trials: Sequence[Trial]
    dropped: Sequence[Proposal]
    rounds: Sequence[str]
    ended: str
    split: Split
    predictor: str
    optimizer: str
    seed: int
    spent: Spent

    @property
    def adopted(self) -> bool:
        """Whether the original was replaced: the verdict is ``better`` or ``undecided``."""
        return self.verdict.adopted


def search(  # noqa: PLR0913 -- all but three by name
    evaluator: Evaluator,
    split: Split,
    optimizer: Optimizer,
    *,
    start: Candidate,
    tuned: str = "decompose",
    pool: Sequence[str] = (),
    reflector: Reflector | None = None,
    rounds: int = 3,
    threshold: float = 0.01,
    seed: int = 0,
    callback: Callback | None = None,
) -> SearchResult:
    """Search for a better instruction, or better settings; `optim.tune` is the way in.

    The same call with the same run folder goes on where it was killed, and pays for nothing twice.

    The evaluator measures, within its limits, and its folder then belongs to this run; ``start`` is
    the original, with the settings that it works under; ``pool`` are instructions that are measured
    before the optimizer's first round; ``reflector`` writes instructions for optimizers that have
    them written. All else is as `tune` says.

    Returns:
        The result. A spent budget ends the search, not the call.

    Raises:
        InputError: Nothing of the method to tune, every answer wrong, a budget below one round's,
            or a folder of another run.
        ReflectionError: The reflection model says nothing, and no candidate was measured.
        OutageError: The model is out of reach; what was finished is kept.
    """
    work = [
        (shortest if (tuned, name) == ("all", "solve") else optimizer, name)
        for name in predictors_of(start.settings, tuned)
    ]
    _check_budget(evaluator, split)
    if split.train is split.dev and any(turn.tunes == "examples" for turn, _ in work):
        msg = (
            "worked examples are found among training questions, and there are none but those of "
            "dev: give some (train)"
        )
        raise InputError(msg)
    conditions = {
        **evaluator.identity,
        **split.identity,
        "original": start.identity,
        "tuned": "+".join(name for _, name in work),
        "optimizer": optimizer.name,
        "pool": list(pool),
        "reflection": reflector.identity if reflector else None,
        "rounds": rounds,
        "threshold": threshold,
        "tuning_seed": seed,
        "metric": "E3",
    }
    claim(evaluator.run_dir, conditions)
    loop = _Loop(evaluator, split, work, reflector, seed, callback or Silence())
    return loop.run(start, pool, rounds, threshold)


def _check_budget(evaluator: Evaluator, split: Split) -> None:
    """Refuse a number of answers that could not even measure one candidate and compare it."""
    least = 2 * len(split.dev) + _COMPARED * len(split.held_out)
    most = evaluator.meter.limits.calls
    if most is not None and most < least:
        msg = (
            f"{most} answers are too few: the original and one candidate on {len(split.dev)} dev "
            f"questions, and the same two on {len(split.held_out)} held-out ones, take {least}. "
            "Raise the budget (--budget-calls), or give fewer questions (--limit)."
        )
        raise InputError(msg)


@dataclass
class _Loop:
    """The loop's state."""

    evaluator: Evaluator
    split: Split
    work: Sequence[tuple[Optimizer, str]]
    reflector: Reflector | None
    seed: int
    callback: Callback
    trials: dict[str, Trial] = field(default_factory=dict)
    rounds: list[str] = field(default_factory=list)
    dropped: list[Proposal] = field(default_factory=list)

    def run(
        self, original: Candidate, pool: Sequence[str], rounds: int, threshold: float
    ) -> SearchResult:
        optimizer, predictor = self.work[0]
        forecast, about = optimizer.forecast, (len(self.split.dev), self._calls(optimizer))
        told = forecast(*about, original, self.seed + 1) if forecast else ""
        self.callback.begins(self.split, self.evaluator, told)
        self.evaluator.reserve(_COMPARED * len(self.split.held_out))
        first = self._first(original)
        if pool:
            self._round(candidates(texts=pool), predictor, "pool")
        ended = self._turns(rounds, threshold)
        winner = winner_of(list(self.trials.values()), first)
        self.evaluator.reserve(0)
        self.callback.judging(winner)
        verdict = judge(self.evaluator, first, winner, self.split)
        return SearchResult(
            candidate=winner.candidate if winner and verdict.adopted else original,
            verdict=verdict,
            original=first,
            trials=list(self.trials.values()),
            dropped=self.dropped,
            rounds=self.rounds,
            ended=ended,
            split=self.split,
            predictor=predictor,
            optimizer=optimizer.name,
            seed=self.seed,
            spent=self.evaluator.spent,
        )

    @property
    def incumbent(self) -> Trial:
        """The best so far; of equals the first."""
        return max(self.trials.values(), key=lambda trial: trial.measurement.e3)

    def _first(self, original: Candidate) -> Trial:
        measurement = Measurement(self.evaluator.measure(original, self.split.dev))
        trial = Trial(original, measurement, "original", 0)
        self.trials[original.identity] = trial
        _ = measurement.incumbent  # refuses what cannot be improved on
        self.callback.measured(trial, trial)
        return trial

    def _turns(self, rounds: int, threshold: float) -> str:
        """Let the optimizers propose, each for its predictor, round by round; say why it ended."""
        for number in range(rounds):
            turns = [turn for turn in self.work if not number or not turn[0].once]
            before = self.incumbent.measurement.e3
            for optimizer, predictor in turns:
                if self.evaluator.refusal is None:
                    self._round(optimizer, predictor, optimizer.name)
            if isinstance(self.evaluator.refusal, OutageError):
                raise self.evaluator.refusal
            if self.evaluator.refusal is not None:
                return str(self.evaluator.refusal)
            silent = self.reflector.failure if self.reflector else None
            if isinstance(silent, ReflectionError):
                if len(self.trials) == 1:
                    raise silent
                return str(silent)  # what was measured counts; asked again, it says the same
            if turns and self.incumbent.measurement.e3 / before - 1.0 < threshold:
                return f"the last round gained less than {threshold:.1%}"
        return "every round was made"

    def _round(self, turn: Optimizer, predictor: str, origin: str) -> None:
        """Make one turn."""
        number = len(self.rounds) + 1
        before = self.incumbent
        self.callback.round_begins(number, origin, before)
        task = self._task(turn, predictor, origin, before)
        proposed: list[Candidate] = []
        with suppress(BudgetSpentError):  # of one's own making, which measures beyond the budget
            proposed = list({one.identity: one for one in turn.propose(task)}.values())
        new = [one for one in proposed if one.identity not in self.trials]
        for candidate in new:
            try:
                measurement = Measurement(self.evaluator.measure(candidate, self.split.dev))
            except (BudgetSpentError, OutageError) as error:
                outside = isinstance(error, OutageError)
                task.drop(candidate, NOT_ANSWERED if outside else NOT_MEASURED)
                continue  # others may be known already, and cost nothing
            trial = Trial(candidate, measurement, origin, number)
            self.trials[candidate.identity] = trial
            self.callback.measured(trial, self.incumbent)
        for candidate in proposed:
            known = self.trials.get(candidate.identity)
            if known is not None and 0 < known.round < number and known is not before:
                task.drop(candidate, f"duplicate: measured in round {known.round}")
        self.dropped += task.dropped
        self.callback.round_ends(task.dropped)
        self.rounds.append(origin)

    def _task(self, turn: Optimizer, predictor: str, origin: str, incumbent: Trial) -> Round:
        number = len(self.rounds) + 1
        return Round(
            evaluator=self.evaluator,
            incumbent=incumbent.candidate,
            baseline=incumbent.measurement.incumbent,
            train=self.split.train,
            dev=self.split.dev,
            predictor=predictor,
            reflector=self.reflector,
            calls=self._calls(turn),
            seed=self.seed + number,
            origin=origin,
            number=number,
        )

    def _calls(self, turn: Optimizer) -> int:
        """Answers of a round: half of the budget, so that the tangent is moved at least once.

        Who proposes only once may ask for all of it but what the comparison at the end takes.

        From the limit, not from what is left of it: a run that is started again has to go the
        same way.
        """
        dev, most = len(self.split.dev), self.evaluator.meter.limits.calls
        if most is None:
            return _ANSWERS_PER_QUESTION * dev
        whole = most - _COMPARED * len(self.split.held_out)
        share = (whole if turn.once else most // 2) // len(self.work)
        return max(_LEAST_PASSES * dev, share)
