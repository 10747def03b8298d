"""Search for the best candidate on dev, and judge it on held-out questions.

Optimizers average over examples, but E³ is not an average. So they get its tangent at the original,
and every candidate is ranked by exact E³ on dev.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any, Literal, NamedTuple, Self

from optim.bench.bench import conditions
from optim.datasets import Question
from optim.datasets.dataset import digest
from optim.e3 import Comparison, ReferencePoint, Sample, compare, describe, e3
from optim.records import Record, Records, differences
from optim.statistics.estimates import PERCENT
from optim.tuning.evaluator import Evaluator, OutageError, Reflector, SearchEndedError
from optim.tuning.optimizers import OptimizerTask
from optim.tuning.options import Optimizer
from optim.tuning.program import Candidate, check_is_sent
from pb_graph.errors import InputError

RUN = "run.json"
"""The file of a run folder with what all of its runs have in common."""

COMPARED = 2
"""Candidates that answer the held-out questions: the original and the winner of dev."""

SURE = 0.9
"""One-sided confidence on the held-out questions from which the winner of dev is called better."""

VerdictName = Literal["better", "undecided", "kept"]

_FEWEST = 2  # compared questions: one has no interval


class Split(NamedTuple):
    """Three sets of questions: to learn from, to choose candidates by, and to judge the choice."""

    train: Sequence[Question]
    dev: Sequence[Question]
    held_out: Sequence[Question]

    def check(self, budget: int) -> None:
        """Raise `InputError` if a budget of answers pays for less than one candidate."""
        dev, held_out = len(self.dev), len(self.held_out)
        required = 2 * dev + COMPARED * held_out
        if budget < required:
            msg = (
                f"{budget} answers are too few: the original and one candidate on {dev} dev and "
                f"{held_out} held-out questions take {required}. Raise the budget "
                "(--budget-answers), or give fewer questions (--limit)."
            )
            raise InputError(msg)


@dataclass(frozen=True, slots=True)
class Trial:
    """A candidate's answers to one set of questions, and what each of them costs.

    Attributes:
        candidate: The candidate.
        records: Its answers.
        name: The optimizer that proposed it and its number, or ``original``.
        prompt_price: What a prompt token costs in completion tokens; E³ is taken by this cost.
    """

    candidate: Candidate
    records: Sequence[Record]
    name: str = ""
    prompt_price: float = 0.0

    @property
    def scores(self) -> list[float]:
        """Scores from 0 to 1."""
        return [record.score or 0.0 for record in self.records]

    @property
    def costs(self) -> list[int]:
        """The cost of each answer."""
        return [record.cost(self.prompt_price) for record in self.records]

    @property
    def e3(self) -> float:
        """A²/T; 0 when nothing is right."""
        return e3(self.scores, self.costs) if any(self.scores) else 0.0

    def against(self, other: Trial) -> Comparison:
        """Compare with another candidate's answers to the same questions, paired."""
        mine, others = (
            map(Sample, [record.question for record in trial.records], trial.scores, trial.costs)
            for trial in (self, other)
        )
        return compare(mine, others)


def winner_of(trials: Sequence[Trial]) -> Trial | None:
    """Return the trial with the highest E³ on dev; None if no E³ is above that of the first."""
    best = max(trials, key=lambda trial: trial.e3)
    return best if best.e3 > trials[0].e3 else None


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on the best candidate of dev, from the held-out questions.

    Attributes:
        verdict: ``better``: its E³ is higher there with a one-sided confidence of at least
            `SURE`. ``undecided``: it is not below the original's, so the winner is used, but is
            no known improvement. ``kept``: the original stays.
        reason: One or two sentences with the held-out ratio.
        winner: The best candidate on dev; None if no candidate was above the original.
        held_out: The original and the winner on the held-out questions, if they were compared.
        comparison: Comparison of both, paired by question.
    """

    verdict: VerdictName
    reason: str
    winner: Trial | None = field(default=None, repr=False)  # every report would be shown
    held_out: Sequence[Trial] = field(default=(), repr=False)
    comparison: Comparison | None = field(default=None, repr=False)

    @property
    def is_adopted(self) -> bool:
        """Return whether the winner is used from now on: ``better`` or ``undecided``."""
        return self.verdict != "kept"


@dataclass
class Search:
    """A search and, after `run`, its result."""

    evaluator: Evaluator
    split: Split
    optimizer: Optimizer
    predictor: str
    reflector: Reflector | None = None
    callback: Callable[[str], None] = field(default=lambda _: None)
    trials: list[Trial] = field(default_factory=list)
    verdict: Verdict = field(init=False)
    ended: str = ""

    def run(self, original: Candidate) -> Self:
        """Search for candidates; the same call with the same folder resumes.

        If the budget is used up, the search ends and the call returns.
        """
        evaluator, held_out = self.evaluator, len(self.split.held_out)
        dev, budget = len(self.split.dev), evaluator.options.budget
        self._check_folder(original)
        self.callback(
            f"{dev} dev and {held_out} held-out questions; {COMPARED * held_out} answers are kept "
            "back for the comparison at the end. This budget tries about "
            f"{(budget - COMPARED * held_out) // dev - 1} candidates on all of dev."
        )
        evaluator.reserved = COMPARED * held_out
        self._measure(original, "original")
        if evaluator.options.tuned != "settings" and self.predictor != "level":
            levels = [record.report["level"] for record in self.original.records]
            check_is_sent(self.predictor, original.settings, levels)
        self.ended = self._propose()
        self.callback(f"The search ended: {self.ended}.")
        evaluator.reserved, evaluator.refusal = 0, None
        self.verdict = judge(evaluator, self.trials, self.split.held_out)
        return self

    @property
    def original(self) -> Trial:
        """The original on dev."""
        return self.trials[0]

    @property
    def candidate(self) -> Candidate:
        """The candidate to use: the winner of dev, or the original."""
        winner = self.verdict.winner if self.verdict.is_adopted else None
        return (winner or self.original).candidate

    def records(self, label: str, about: Mapping[str, Any]) -> Records:
        """Return every answer; each candidate is a method, dev and held-out are data sets."""
        found = {"dev": self.trials, "held out": self.verdict.held_out}
        return Records(
            replace(record, method=trial.name, dataset=f"{label}, {part}", made_by=made_by)
            for part, trials in found.items()
            for trial in trials
            for made_by in [{**about, "settings": trial.candidate.settings.model_dump(mode="json")}]
            for record in trial.records
        )

    @property
    def front(self) -> list[Trial]:
        """The Pareto front of accuracy and tokens on dev."""
        front: list[Trial] = []
        for trial in sorted(self.trials, key=lambda one: (sum(one.costs), -sum(one.scores))):
            if not front or sum(trial.scores) > sum(front[-1].scores):
                front.append(trial)
        return front

    def _check_folder(self, original: Candidate) -> None:
        """Store what must be equal in all runs of the folder, targets included, or compare it."""
        evaluator, options = self.evaluator, self.evaluator.options
        ours = conditions(
            original,
            evaluator.models,
            epochs=1,
            seed=options.seed,
            source=[],
            scorer=evaluator.scorer[0],
            scorer_code=evaluator.scorer[1],
            optimizer=[self.optimizer.name, self.predictor],
            objective=[options.objective, options.price_ratio],
            reflection=self.reflector.name if self.reflector else None,
            **{
                name: digest([[one.identity, list(one.targets)] for one in questions])
                for name, questions in self.split._asdict().items()
            },
        )
        path = evaluator.run_dir / RUN
        if not path.exists():
            path.write_text(json.dumps(ours, indent=2, ensure_ascii=False), encoding="utf-8")
        try:
            theirs = json.loads(path.read_text(encoding="utf-8"))
            differ = differences(theirs, ours, {"scorer_code"})
        except (ValueError, AttributeError, TypeError) as error:
            msg = f"{path} is damaged or of another version: {error}. Use another --run-dir."
            raise InputError(msg) from error
        if differ:
            msg = (
                f"{evaluator.run_dir} holds another run ({', '.join(differ)}). Repeat that run's "
                "command to continue it, or use another --run-dir."
            )
            raise InputError(msg)

    def _propose(self) -> str:
        """Measure the optimizer's candidates, and return the reason why the search ended."""
        evaluator, original = self.evaluator, self.original
        task = OptimizerTask(
            evaluator=evaluator,
            incumbent=original.candidate,
            reference=ReferencePoint.of(original.scores, original.costs),
            train=self.split.train,
            dev=self.split.dev,
            predictor=self.predictor,
            reflector=self.reflector,
        )
        with suppress(SearchEndedError):  # of a user's optimizer that measures beyond the budget
            for candidate in self.optimizer.candidates(task):
                if not evaluator.allows(*candidate.instructions.values()):
                    self.callback("An instruction is left out: longer than --max-prompt-tokens.")
                elif all(candidate != trial.candidate for trial in self.trials):
                    with suppress(SearchEndedError):  # others may be known already
                        self._measure(candidate, self.optimizer.name)
        refusal = evaluator.refusal
        if refusal is None:
            return f"all candidates of the optimizer {self.optimizer.name} were tried"
        if isinstance(refusal, SearchEndedError):
            return str(refusal)  # what was measured counts
        raise refusal

    def _measure(self, candidate: Candidate, origin: str) -> None:
        name = f"{origin} {len(self.trials)}" if self.trials else origin
        try:
            records = self.evaluator.measure(candidate, self.split.dev)
        except OutageError as error:
            if not self.trials:  # the original
                raise
            self.callback(f"{origin}: a candidate was left out. {error}")
            return
        trial = Trial(candidate, records, name, self.evaluator.prompt_price)
        self.trials.append(trial)
        better = ", the best so far" if trial is max(self.trials, key=lambda t: t.e3) else ""
        self.callback(
            f"{origin}: E³ {trial.e3:.2f} (accuracy {PERCENT * fmean(trial.scores):.1f} %, "
            f"T {fmean(trial.costs):.0f}){better}"
        )


def judge(evaluator: Evaluator, trials: Sequence[Trial], held_out: Sequence[Question]) -> Verdict:
    """Compare the winner of dev with the original on the held-out questions, and decide.

    A question that could not be answered is left out for both.
    """
    original, winner = trials[0], winner_of(trials)
    if len(trials) == 1:
        return Verdict("kept", "No candidate was measured on dev.")
    if winner is None:
        return Verdict("kept", "No candidate had a higher E³ on dev than the original.")
    pair = (original, winner)
    for trial in pair:
        with suppress(OutageError, SearchEndedError):
            evaluator.measure(trial.candidate, held_out)
    if isinstance(evaluator.refusal, OutageError):
        raise evaluator.refusal
    questions = [q for q in held_out if all(evaluator.known(each.candidate, [q]) for each in pair)]
    if len(questions) < _FEWEST:
        return Verdict("kept", "Too few held-out questions were answered.", winner)
    before, after = (
        replace(trial, records=evaluator.known(trial.candidate, questions)) for trial in pair
    )
    comparison = after.against(before)
    verdict = decide(after, before, comparison)
    # Rounded down: 90 % is never said of less, and 100 % never.
    sure = f"{min(99, math.floor(PERCENT * (comparison.probability_higher or 0.0)))} %"
    conclusions: dict[VerdictName, str] = {
        "kept": "So the original is kept.",
        "better": f"Higher with a one-sided confidence of {sure}.",
        "undecided": f"Not significant: one-sided confidence {sure}, {PERCENT * SURE:g} % "
        "required. The tuned program is used, but is not a proven improvement. Give more held-out "
        "questions in a new run; a second look at the same ones is a further chance to be lucky.",
    }
    reason = f"On the held-out questions, against the original: {describe(comparison)}."
    reason += f" {conclusions[verdict]}"
    if failed := len(held_out) - len(questions):
        reason += f" Excluded, because they failed: {failed} questions."
    return Verdict(verdict, reason, winner, (before, after), comparison)


def decide(winner: Trial, original: Trial, comparison: Comparison) -> VerdictName:
    """Judge the winner of dev by the held-out questions.

    Only this candidate is tested, once, on questions that were not used to choose it. A program
    that is not better is called better in at most one of ten runs. Repeated tests err more often:
    ``tests/benchmarks/verdict_simulation.py`` measures how often.
    """
    is_same = winner.scores == original.scores and winner.costs == original.costs
    if is_same or comparison.e3_a == 0.0 or comparison.e3_a < comparison.e3_b:
        return "kept"
    sure = comparison.probability_higher
    return "better" if sure is not None and sure >= SURE else "undecided"
