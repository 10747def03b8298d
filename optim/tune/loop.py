"""The tuning loop: measure, propose, measure exactly, take the best; then the held-out verdict.

The optimizers average over examples, and E³ is no average. So each round gives them its tangent
at the incumbent, which never exceeds it, and every candidate they come up with is then ranked by
exact E³ on dev. The incumbent is replaced by a better one only, so its E³ never falls.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from optim.tune.bench import OutageError
from optim.tune.candidate import Candidate, distinct, predictor_of
from optim.tune.candidates import Candidates
from optim.tune.folder import claim
from optim.tune.meter import BudgetSpentError
from optim.tune.proposer import Task
from optim.tune.standing import Standing, Trial
from optim.tune.verdict import FINALISTS, finalists_of, judge
from pb_graph.errors import InputError

if TYPE_CHECKING:
    from optim.tune.bench import Bench
    from optim.tune.meter import Spent
    from optim.tune.proposer import Proposer
    from optim.tune.reflection import Reflector
    from optim.tune.split import Split
    from optim.tune.verdict import Verdict

__all__ = ["Audience", "Round", "SearchResult", "Silence", "search"]

_ANSWERS_PER_QUESTION = 10  # of a round where no number of answers is set
_LEAST_PASSES = 2  # over dev, in a round: else a candidate could not even be measured


class Audience(Protocol):
    """Who is told how far it is."""

    def begins(self, split: Split, bench: Bench) -> None:
        """Tuning begins."""

    def measured(self, trial: Trial, incumbent: Trial) -> None:
        """A candidate was measured on dev; the incumbent is the best so far."""

    def round_begins(self, number: int, optimizer: str, incumbent: Trial) -> None:
        """An optimizer is asked."""

    def judging(self, finalists: Sequence[Trial]) -> None:
        """The finalists meet the held-out questions."""


@dataclass(frozen=True, slots=True)
class Round:
    """One turn of the loop.

    Attributes:
        number: From 1.
        optimizer: Who proposed.
        before: E³ of the incumbent on dev, when it began.
        after: When it ended; never below.
        proposed: How many candidates were new.
        spent: What it cost.
    """

    number: int
    optimizer: str
    before: float
    after: float
    proposed: int
    spent: Spent


@dataclass(frozen=True, slots=True)
class SearchResult:
    """What came of a tuning.

    Attributes:
        candidate: What to use from now on: the adopted one, or the original.
        verdict: Adopted or kept, why, and the figures behind it.
        original: The original on dev.
        trials: Everything that was measured on the whole of dev, in order; the original first.
        rounds: One for each turn.
        ended: Why the search ended.
        split: The questions.
        predictor: Which of the planner's predictors was tuned.
        optimizer: Who searched.
        seed: Of the run.
        spent: What the run folder has cost in all.
    """

    candidate: Candidate
    verdict: Verdict
    original: Trial
    trials: Sequence[Trial]
    rounds: Sequence[Round]
    ended: str
    split: Split
    predictor: str
    optimizer: str
    seed: int
    spent: Spent

    @property
    def adopted(self) -> bool:
        """Whether the original was replaced."""
        return self.verdict.verdict == "adopted"


def search(  # noqa: PLR0913 -- all but four by name
    bench: Bench,
    split: Split,
    optimizer: Proposer,
    *,
    start: Candidate,
    tuned: str = "decompose",
    pool: Sequence[str] = (),
    reflector: Reflector | None = None,
    rounds: int = 3,
    threshold: float = 0.01,
    seed: int = 0,
    audience: Audience | None = None,
) -> SearchResult:
    """Search for a better instruction, or better settings; `optim.tune.tune` is the way in.

    The same call with the same run folder goes on where it was killed, and pays for nothing twice.

    Args:
        bench: Measures, within its limits; its folder then belongs to this run.
        split: The questions.
        optimizer: Who proposes.
        start: The original, with the settings that it works under.
        tuned: ``decompose`` or ``estimate``; ``settings`` for an optimizer that leaves prompts be.
        pool: Instructions that are measured before the optimizer's first round.
        reflector: Writes instructions, for optimizers that have them written.
        rounds: How often the tangent is moved to the incumbent, at most.
        threshold: Gain of E³ below which a round was the last one, relative.
        seed: Of everything drawn by chance.
        audience: Is told how far it is.

    Returns:
        The result. A spent budget ends the search, not the call.

    Raises:
        InputError: Nothing of the method to tune, every answer wrong, a budget below one round's,
            or a folder of another run.
        ReflectionError: The reflection model says nothing.
        OutageError: The model is out of reach; what was finished is kept.
    """
    predictor = predictor_of(start.settings, tuned)
    _check_budget(bench, split)
    conditions = {
        **bench.identity,
        **split.identity,
        "original": start.identity,
        "tuned": predictor,
        "optimizer": optimizer.name,
        "pool": list(pool),
        "reflection": reflector.identity if reflector else None,
        "rounds": rounds,
        "threshold": threshold,
        "tuning_seed": seed,
        "metric": "E3",
    }
    claim(bench.run_dir, conditions)
    work = _Search(bench, split, predictor, reflector, seed, audience or Silence())
    return work.run(start, _turns(optimizer, pool, rounds), threshold)


def _turns(optimizer: Proposer, pool: Sequence[str], rounds: int) -> Iterator[Proposer]:
    if pool:
        yield Candidates(pool, name="pool")
    yield from [optimizer] * (1 if optimizer.once else rounds)


def _check_budget(bench: Bench, split: Split) -> None:
    """Refuse a number of answers that could not even measure one candidate and compare it."""
    least = 2 * len(split.dev) + (1 + FINALISTS) * len(split.held_out)
    most = bench.meter.limits.calls
    if most is not None and most < least:
        msg = (
            f"{most} answers are too few: the original and one candidate on {len(split.dev)} dev "
            f"questions, and {1 + FINALISTS} of them on {len(split.held_out)} held-out ones, take "
            f"{least}. Raise the budget (--budget-calls), or give fewer questions (--limit)."
        )
        raise InputError(msg)


@dataclass
class _Search:
    """The loop's state."""

    bench: Bench
    split: Split
    predictor: str
    reflector: Reflector | None
    seed: int
    audience: Audience
    trials: dict[str, Trial] = field(default_factory=dict)
    rounds: list[Round] = field(default_factory=list)

    def run(self, original: Candidate, turns: Iterator[Proposer], threshold: float) -> SearchResult:
        self.audience.begins(self.split, self.bench)
        self.bench.reserve((1 + FINALISTS) * len(self.split.held_out))
        first = self._first(original)
        optimizer, ended = "", "every round was made"
        for number, turn in enumerate(turns, start=1):
            optimizer = turn.name
            gain = self._round(number, turn)
            if self.bench.refusal is not None:
                self._raise_outage()
                ended = str(self.bench.refusal)
                break
            if gain < threshold and turn.name != "pool":
                ended = f"the last round gained less than {threshold:.1%}"
                break
        best = finalists_of(list(self.trials.values()), first)
        self.bench.reserve(0)
        self.audience.judging(best)
        verdict = judge(self.bench, first, best, self.split.held_out, self.seed)
        chosen = verdict.chosen if verdict.verdict == "adopted" else None
        return SearchResult(
            candidate=chosen.trial.candidate if chosen else original,
            verdict=verdict,
            original=first,
            trials=list(self.trials.values()),
            rounds=self.rounds,
            ended=ended,
            split=self.split,
            predictor=self.predictor,
            optimizer=optimizer,
            seed=self.seed,
            spent=self.bench.spent,
        )

    @property
    def incumbent(self) -> Trial:
        """The best so far; of equals the first."""
        return max(self.trials.values(), key=lambda trial: trial.standing.e3)

    def _first(self, original: Candidate) -> Trial:
        standing = Standing(self.bench.measure(original, self.split.dev))
        trial = Trial(original, standing, "original", 0)
        self.trials[original.identity] = trial
        _ = standing.incumbent  # refuses what cannot be improved on
        self.audience.measured(trial, trial)
        return trial

    def _round(self, number: int, turn: Proposer) -> float:
        """Make one turn; give the relative gain of the incumbent's E³."""
        before, spent = self.incumbent, self.bench.spent
        self.audience.round_begins(number, turn.name, before)
        proposed = distinct(turn.propose(self._task(number, turn, before)))
        new = [one for one in proposed if one.identity not in self.trials]
        for candidate in new:
            try:
                standing = Standing(self.bench.measure(candidate, self.split.dev))
            except (BudgetSpentError, OutageError):
                continue  # others may be known already, and cost nothing
            trial = Trial(candidate, standing, turn.name, number)
            self.trials[candidate.identity] = trial
            self.audience.measured(trial, self.incumbent)
        was, now = before.standing.e3, self.incumbent.standing.e3
        cost = self.bench.spent.since(spent)
        self.rounds.append(Round(number, turn.name, was, now, len(new), cost))
        return now / was - 1.0

    def _task(self, number: int, turn: Proposer, incumbent: Trial) -> Task:
        return Task(
            bench=self.bench,
            incumbent=incumbent.candidate,
            baseline=incumbent.standing.incumbent,
            train=self.split.train,
            dev=self.split.dev,
            predictor=self.predictor,
            reflector=self.reflector,
            calls=self._calls(turn),
            seed=self.seed + number,
        )

    def _calls(self, turn: Proposer) -> int:
        """Answers of a round: half of the budget, so that the tangent is moved at least once.

        Who proposes only once may ask for all of it.

        From the limit, not from what is left of it: a run that is started again has to go the
        same way.
        """
        dev, most = len(self.split.dev), self.bench.meter.limits.calls
        if most is None:
            return _ANSWERS_PER_QUESTION * dev
        return max(_LEAST_PASSES * dev, most if turn.once else most // 2)

    def _raise_outage(self) -> None:
        if isinstance(self.bench.refusal, OutageError):
            raise self.bench.refusal


class Silence:
    """An audience that hears nothing."""

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        return lambda *_: None
