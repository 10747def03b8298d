"""Search for the best candidate on dev, and judge it on held-out questions.

Optimizers average over examples, but E³ is not an average. So they get its tangent at the original,
and every candidate is ranked by exact E³ on dev.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from itertools import combinations, groupby
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from optim.bench.bench import RETRY_SETTINGS
from optim.datasets import Questions
from optim.datasets.dataset import digest, question_of
from optim.datasets.questions import sample
from optim.records import Records
from optim.records.record import Conditions, differences
from optim.statistics.estimates import PERCENT
from optim.tangent import ReferencePoint
from optim.tuning.evaluator import OutageError, SearchEndedError
from optim.tuning.optimizers import OptimizerTask
from optim.tuning.program import check_is_sent
from optim.tuning.verdict import Trial, Verdict, judge
from pb_graph.errors import InputError

if TYPE_CHECKING:
    from optim.datasets import Question
    from optim.tuning.evaluator import Evaluator
    from optim.tuning.options import Optimizer
    from optim.tuning.program import Candidate
    from optim.tuning.reflection import Reflector

RUN = "run.json"
"""The file of a run folder with what all of its runs have in common."""

_COMPARED = 2  # on the held-out questions: the original and the winner of dev
_FEWEST_DEV = 6  # of dev and held-out together: two to compare on, so that there is an interval
_HELD_OUT = 3  # one of every three questions
_NAMED = 5  # question ids that an error names


class Split(NamedTuple):
    """Three sets of questions: to learn from, to choose candidates by, and to judge the choice."""

    train: Sequence[Question]
    dev: Sequence[Question]
    held_out: Sequence[Question]


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
        check_budget(budget, self.split)
        self._check_folder(original)
        self.callback(
            f"{dev} dev and {held_out} held-out questions; {_COMPARED * held_out} answers are kept "
            "back for the comparison at the end. This budget tries about "
            f"{(budget - _COMPARED * held_out) // dev - 1} candidates on all of dev."
        )
        evaluator.reserved = _COMPARED * held_out
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

    def name(self, trial: Trial) -> str:
        """Return the name of a trial: its optimizer and its number, or ``original``."""
        place = next(place for place, one in enumerate(self.trials) if one is trial)
        return f"{trial.origin} {place}" if place else "original"

    def records(self, label: str, about: Mapping[str, Any]) -> Records:
        """Return every answer; each candidate is a method, dev and held-out are data sets."""
        verdict, found = self.verdict, [(self.name(one), "dev", one) for one in self.trials]
        if verdict.winner and verdict.before and verdict.after:
            found.append(("original", "held out", verdict.before))
            found.append((self.name(verdict.winner), "held out", verdict.after))
        return Records(
            replace(record, method=name, dataset=f"{label}, {part}", made_by=made_by)
            for name, part, trial in found
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
        models, method = evaluator.models, original.method(estimate_level=options.estimate_level)
        sets = {
            name: digest([[question.identity, list(question.targets)] for question in questions])
            for name, questions in self.split._asdict().items()
        }
        conditions = Conditions(
            settings=method.settings.model_dump(mode="json", exclude=set(RETRY_SETTINGS)),
            solver=models.solver_identity,
            planner=models.planner_identity,
            program=method.program_digest,
            estimate_level=method.estimate_level,
            temperature=models.temperature,
            epochs=1,
            seed=options.seed,
            source=[],
            scorer=evaluator.scorer[0],
            scorer_code=evaluator.scorer[1],
        )
        ours = asdict(conditions) | sets
        ours["optimizer"] = [self.optimizer.name, self.predictor]
        ours["objective"] = [options.objective, options.price_ratio]
        ours["reflection"] = self.reflector.name if self.reflector else None
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
                if not all(map(evaluator.options.allows, candidate.instructions.values())):
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
        try:
            records = self.evaluator.measure(candidate, self.split.dev)
        except OutageError as error:
            if not self.trials:  # the original
                raise
            self.callback(f"{origin}: a candidate was left out. {error}")
            return
        trial = Trial(candidate, records, origin, self.evaluator.options.cost)
        self.trials.append(trial)
        better = ", the best so far" if trial is max(self.trials, key=lambda t: t.e3) else ""
        self.callback(
            f"{origin}: E³ {trial.e3:.2f} (accuracy {PERCENT * fmean(trial.scores):.1f} %, "
            f"T {fmean(trial.costs):.0f}){better}"
        )


def check_budget(budget: int, split: Split) -> None:
    """Raise `InputError` if a budget of answers pays for less than one candidate."""
    dev, held_out = len(split.dev), len(split.held_out)
    required = 2 * dev + _COMPARED * held_out
    if budget < required:
        msg = (
            f"{budget} answers are too few: the original and one candidate on {dev} dev and "
            f"{held_out} held-out questions take {required}. Raise the budget (--budget-answers), "
            "or give fewer questions (--limit)."
        )
        raise InputError(msg)


def questions_of(given: Questions | Iterable[Any]) -> list[Question]:
    """Return the questions that are chosen or listed, and examples as questions."""
    listed = given.load() if isinstance(given, Questions) else given
    questions = [question_of(item) for item in listed]
    counts = Counter(question.id for question in questions)
    if repeated := [id_ for id_, count in counts.items() if count > 1]:
        msg = f"duplicate questions: {', '.join(repeated[:_NAMED])}. Remove one of each."
        raise InputError(msg)
    return questions


def split_of(
    train: Sequence[Question],
    dev: Sequence[Question],
    held_out: Sequence[Question] | None,
    seed: int,
) -> Split:
    """Check the sets; without held-out questions, hold out a third of dev, of each level."""
    if held_out is None:
        if len(dev) < _FEWEST_DEV:
            msg = (
                f"{len(dev)} dev questions are too few: a third of them is held out for the final "
                f"comparison. Give at least {_FEWEST_DEV}, better 60."
            )
            raise InputError(msg)
        held_out, dev = draw(dev, _HELD_OUT, seed)
    if not dev or not held_out:
        msg = "dev and held_out must not be empty: dev chooses the winner, held_out judges it"
        raise InputError(msg)
    sets = {"train": train, "dev": dev, "held-out": held_out}
    for (first, left), (second, right) in combinations(sets.items(), 2):
        texts = {_text(question) for question in left}
        shared = [question.id for question in right if _text(question) in texts]
        if shared:
            listed = f"{len(shared)} questions ({', '.join(shared[:_NAMED])})"
            msg = f"{second} and {first} share {listed}: remove the repeated ones"
            raise InputError(msg)
    return Split(train or dev, dev, held_out)


def draw(
    questions: Sequence[Question], of: int, seed: int
) -> tuple[list[Question], list[Question]]:
    """Draw one of every ``of`` questions, at least one, from each level its share."""
    mixed = sorted(sample(questions, len(questions), seed), key=lambda one: one.level or 0)
    part: list[Question] = []
    seen = 0
    for _, group in groupby(mixed, key=lambda one: one.level or 0):
        level = [*group]
        part += level[: (seen + len(level)) // of - seen // of]
        seen += len(level)
    part = part or mixed[:1]
    return part, [question for question in questions if question not in part]


def _text(question: Question) -> str:
    return " ".join(f"{question.question}\n{question.reference or ''}".casefold().split())
