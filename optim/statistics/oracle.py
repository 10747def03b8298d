"""What could be reached by the right row for every question, and where tokens are lost instead.

The oracle knows beforehand which row answers which question rightly, and at what cost. To each
question it gives the cheapest row that is right, and the cheapest of all rows where none is right,
or where the right one is so dear that E³ = A²/T would fall. That last choice is exact: with
questions ordered by what being right costs more than the cheapest row, the best set is the first k
of them, for some k, since E³ grows with A and falls with T.

What looks right may have been lucky, and the cheapest of many rows is the luckiest. So where every
row has answered every question at least twice, the answers are halved: the choice is made on one
half and paid on the other, and the other way round. With one answer each there is no such check:
then the oracle is biased upwards, unless the answers are not sampled at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import NamedTuple, TypeAlias

from optim.statistics.comparison import Comparison, Sample, compare
from optim.statistics.estimates import PERCENT, e3
from pb_graph.errors import InputError

_MOSTLY = 0.5  # a row is right on a question if at least this share of its answers is


class Answer(NamedTuple):
    """One answer of a row to a question."""

    right: bool
    tokens: int
    """Completion tokens, planning included."""
    cut: bool = False
    """Whether it ran into its cap."""


Answers: TypeAlias = Mapping[str, Mapping[str, Sequence[Answer]]]
"""Answers by row and question, those of one question in the order in which they were sampled."""


@dataclass(frozen=True, slots=True)
class Oracle:
    """What the best row for every question would achieve.

    Attributes:
        samples: Its answers, as those of a row.
        picks: How many of the choices fell on each row.
        split: Whether the choice was made on other answers than those that count; else the figures
            are biased upwards where answers are sampled.
        questions: How many questions every row has answered.
    """

    samples: Sequence[Sample]
    picks: Mapping[str, int]
    split: bool
    questions: int

    @property
    def accuracy(self) -> float:
        """A, in percent."""
        return PERCENT * fmean(sample.score for sample in self.samples)

    @property
    def tokens(self) -> float:
        """T: mean completion tokens per query."""
        return fmean(sample.tokens for sample in self.samples)

    @property
    def e3(self) -> float:
        """E³ = A²/T that could be reached."""
        return e3([s.score for s in self.samples], [s.tokens for s in self.samples])


@dataclass(frozen=True, slots=True)
class Waste:
    """Where a row's tokens went: mean completion tokens per query; the parts add up to T.

    Attributes:
        needed: Of right answers, what the cheapest right row took, or the answer itself if less.
        overthinking: Of right answers, what they took beyond that.
        starvation: Of wrong answers that were cut off where a dearer row was right.
        missed: Of other wrong answers where some row was right.
        futility: Of wrong answers where no row was right.
    """

    needed: float
    overthinking: float
    starvation: float
    missed: float
    futility: float


def oracle(rows: Answers) -> Oracle:
    """Find the best row for every question that all rows have answered.

    Raises:
        InputError: No row, or no question that all have answered.
    """
    questions = _shared(rows)
    split = all(len(rows[row][q]) > 1 for row in rows for q in questions)
    halves = (slice(0, None, 2), slice(1, None, 2)) if split else (slice(None),)
    samples: list[Sample] = []
    picks = dict.fromkeys(rows, 0)
    for half, other in zip(halves, reversed(halves), strict=True):
        for question, row in _chosen(rows, questions, half).items():
            picks[row] += 1
            told = rows[row][question][other]
            samples += [Sample(question, float(a.right), a.tokens) for a in told]
    return Oracle(samples, picks, split, len(questions))


def reached(rows: Answers, row: str, best: Oracle) -> Comparison:
    """Compare a row with the oracle, paired by question: the ratio is the share that it reaches.

    How the oracle was chosen is taken as given, so the interval is about these questions' like.
    """
    shared = {sample.question for sample in best.samples}
    ours = [
        Sample(question, float(answer.right), answer.tokens)
        for question, answers in rows[row].items()
        if question in shared
        for answer in answers
    ]
    return compare(ours, best.samples, resamples=1)


def waste(rows: Answers, row: str) -> Waste:
    """Say where a row's tokens went, on the questions that all rows have answered.

    A row counts as right on a question if at least half of its answers are. With one answer each,
    a cheap row that was right by luck makes others look wasteful.

    Raises:
        InputError: No question that all rows have answered.
    """
    parts: dict[str, list[float]] = {name: [] for name in Waste.__slots__}
    count = 0
    for question in _shared(rows):
        right = {
            name: _cost(answers[question])
            for name, answers in rows.items()
            if _rate(answers[question]) >= _MOSTLY
        }
        for answer in rows[row][question]:
            count += 1
            for name, tokens in _parts(answer, right, row).items():
                parts[name].append(tokens)
    return Waste(**{name: sum(tokens) / count for name, tokens in parts.items()})


def _parts(answer: Answer, right: Mapping[str, float], row: str) -> dict[str, float]:
    """The parts of one answer's tokens, given what the rows that are right took."""
    if answer.right:
        others = [cost for name, cost in right.items() if name != row]
        own = right.get(row, answer.tokens)
        cheapest = min([cost for cost in others if cost < own], default=float(answer.tokens))
        needed = min(cheapest, float(answer.tokens))
        return {"needed": needed, "overthinking": answer.tokens - needed}
    if not right:
        return {"futility": answer.tokens}
    starved = answer.cut and any(cost > answer.tokens for cost in right.values())
    return {"starvation" if starved else "missed": answer.tokens}


def _shared(rows: Answers) -> list[str]:
    if not rows:
        msg = "no row has answered anything"
        raise InputError(msg)
    answered = [{q for q, found in answers.items() if found} for answers in rows.values()]
    shared = sorted(set.intersection(*answered))
    if not shared:
        msg = "no question was answered by all rows, so there is no best row for any"
        raise InputError(msg)
    return shared


def _chosen(rows: Answers, questions: Sequence[str], half: slice) -> dict[str, str]:
    """The row for every question, by part of its answers: cheapest right ones while E³ grows."""
    chosen: dict[str, str] = {}
    dearer: list[tuple[float, float, str, str]] = []
    right = spent = 0.0
    for question in questions:
        found = {row: answers[question][half] for row, answers in rows.items()}
        cheapest = min(found, key=lambda row: _cost(found[row]))
        chosen[question] = cheapest
        right += _rate(found[cheapest])
        spent += _cost(found[cheapest])
        good = [row for row in found if _rate(found[row]) >= _MOSTLY]
        if good and cheapest not in good:
            best = min(good, key=lambda row: _cost(found[row]))
            more = _cost(found[best]) - _cost(found[cheapest])
            gain = _rate(found[best]) - _rate(found[cheapest])
            dearer.append((more / gain, gain, question, best))
    best_e3, kept = (right**2 / spent if spent else 0.0), 0
    for place, (price, gain, _, _) in enumerate(sorted(dearer), start=1):
        right, spent = right + gain, spent + price * gain
        if spent and right**2 / spent >= best_e3:
            best_e3, kept = right**2 / spent, place
    return chosen | {question: row for _, _, question, row in sorted(dearer)[:kept]}


def _rate(answers: Sequence[Answer]) -> float:
    return fmean(answer.right for answer in answers)


def _cost(answers: Sequence[Answer]) -> float:
    return fmean(answer.tokens for answer in answers)
