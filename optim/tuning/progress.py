"""What a tuning shows while it runs: the incumbent's E³, accuracy and T, and what is spent."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from optim.evaluation.progress import Progress
from optim.report.formatting import settings
from optim.tuning.artefact import changed
from optim.tuning.selection import Measurement
from pb_graph.cli.display import safe

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optim.tuning.candidate import Candidate
    from optim.tuning.evaluator import Evaluator, Result
    from optim.tuning.examples import Split
    from optim.tuning.optimizer import Proposal
    from optim.tuning.selection import Trial

_SHOWN = 70  # characters of an instruction


class TuneProgress(Progress):
    """Follows a tuning: a line for each candidate, and at a terminal a live one below.

    Args:
        console: Where to. Standard error as it is now when not given: optimizers that print are
            silenced by replacing it.
    """

    def __init__(self, console: Console | None = None) -> None:
        super().__init__(console or Console(file=sys.stderr), redirects=False)
        self._evaluator: Evaluator | None = None
        self._best: Measurement | None = None
        self._dev: frozenset[str] = frozenset()
        self._met: dict[str, dict[str, Result]] = {}
        self._original: Trial | None = None

    def begins(self, split: Split, evaluator: Evaluator, forecast: str) -> None:
        """Say what it will take, as far as that is known before anything is measured."""
        self._evaluator = evaluator
        self._dev = frozenset(question.id for question in split.dev)
        evaluator.watcher = self._answered
        train = "" if split.train is split.dev else f"{len(split.train)} to learn from, "
        kept = 2 * len(split.held_out)
        self._console.print(
            f"{train}{len(split.dev)} dev and {len(split.held_out)} held-out questions. "
            f"The original takes {len(split.dev)} answers, each candidate as many at most; {kept} "
            f"are kept back for the comparison at the end. Budget: {_limits(evaluator)}."
        )
        if forecast:
            self._console.print(forecast)

    def measured(self, trial: Trial, incumbent: Trial) -> None:
        """Show a candidate's figures; of the original, also what the whole budget comes to."""
        self._best = incumbent.measurement
        self._original = self._original or trial
        better = ", the best so far" if trial is incumbent and trial.round else ""
        self._console.print(
            Text(f"{trial.origin}: {_figures(trial.measurement)}{better}"),
            self._difference(trial.candidate),
        )
        if not trial.round:
            self._estimate(trial)

    def round_begins(self, number: int, optimizer: str, incumbent: Trial) -> None:
        """Show who is asked, from where."""
        self._best = incumbent.measurement
        self._console.print(f"Round {number}: {optimizer}, from E³ {incumbent.measurement.e3:.2f}")

    def round_ends(self, dropped: Sequence[Proposal]) -> None:
        """Show what fell, and why."""
        for one in dropped:
            figures = f" {_figures(one.measurement)}" if one.measurement else ""
            self._console.print(
                safe(f"fell:{figures} {one.fell}", "dim"), self._difference(one.candidate)
            )

    def judging(self, winner: Trial | None) -> None:
        """Show that the end is near."""
        if winner is not None:
            self._console.print("The best of dev and the original on the held-out questions …")

    def _estimate(self, trial: Trial) -> None:
        evaluator = self._evaluator
        calls = evaluator.meter.limits.calls if evaluator else None
        if evaluator is None or calls is None:
            return
        self._console.print(
            f"At this rate {calls} answers take about {calls * trial.measurement.tokens:,.0f} "
            "completion tokens."
        )

    def _difference(self, candidate: Candidate) -> Text:
        """What is different from the original, in a line: settings, else prompts."""
        if self._original is None or candidate is self._original.candidate:
            return Text("")
        changes = changed(candidate.settings, self._original.candidate.settings)
        shown = [f"{len(some)} examples for {name}" for name, some in candidate.examples.items()]
        words = " / ".join([*shown, *candidate.instructions.values()])
        text = " ".join((settings(changes) or words).split())
        return safe(text if len(text) <= _SHOWN else f"{text[:_SHOWN]} …", "dim")

    def _answered(self, candidate: Candidate, result: Result) -> None:
        """Take note of a candidate that has met all of dev, long before its round is over."""
        met = self._met.setdefault(candidate.identity, {})
        met |= {result.question: result} if result.question in self._dev else {}
        if result.question in self._dev and len(met) == len(self._dev):
            found = Measurement(list(met.values()))
            if found.tokens and (self._best is None or found.e3 > self._best.e3):
                self._best = found
        self._moved()

    def _line(self) -> Text:
        if self._evaluator is None:
            return Text("")
        spent = self._evaluator.spent
        parts = [
            f"{spent.calls} answers",
            f"{spent.tokens:,} tokens",
        ]
        if self._best is not None:
            parts.append(f"best {_figures(self._best)}")
        return Text(" · ".join(parts))


def _figures(measurement: Measurement) -> str:
    accuracy, tokens = measurement.accuracy, measurement.tokens
    return f"E³ {measurement.e3:.2f} (accuracy {accuracy:.1f} %, T {tokens:.0f})"


def _limits(evaluator: Evaluator) -> str:
    limits = evaluator.meter.limits
    parts = [
        (limits.calls, "answers"),
        (limits.tokens, "completion tokens"),
    ]
    return " and ".join(f"{value:,.9g} {name}" for value, name in parts if value) or "no limit"
