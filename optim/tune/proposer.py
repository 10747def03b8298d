"""What an optimizer is to the tuning loop: it gets an incumbent, and gives candidates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from optim.tune.trial_program import TrialProgram
from pb_graph.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optim.datasets import Question
    from optim.e3 import Incumbent
    from optim.tune.bench import Bench
    from optim.tune.candidate import Candidate
    from optim.tune.reflection import Reflector

__all__ = ["Proposer", "Task"]


@dataclass(frozen=True, slots=True)
class Task:
    """One round's work.

    Attributes:
        bench: Where to measure; what was measured before costs nothing.
        incumbent: The best so far.
        baseline: Its accuracy and tokens on dev: where the tangent touches.
        train: Questions to learn from; those of dev where there are none of their own.
        dev: Questions that candidates are chosen by.
        predictor: Which of the planner's predictors is tuned.
        reflector: Who writes instructions, if anyone does.
        calls: How many answers, recalled ones too, the round may ask for.
        seed: Of everything drawn by chance.
    """

    bench: Bench
    incumbent: Candidate
    baseline: Incumbent
    train: Sequence[Question]
    dev: Sequence[Question]
    predictor: str
    reflector: Reflector | None
    calls: int
    seed: int

    @property
    def reflection(self) -> Reflector:
        """The reflection model.

        Raises:
            InputError: There is none.
        """
        if self.reflector is None:
            msg = (
                "this optimizer needs a model that writes instructions (--reflection-model); "
                "'candidates' and 'random' need none"
            )
            raise InputError(msg)
        return self.reflector

    def program(self) -> TrialProgram:
        """The incumbent as a DSPy program that knows the round's questions."""
        questions = [*self.train, *self.dev]
        return TrialProgram(self.bench, self.incumbent, self.predictor, questions)

    def candidates(self, texts: Sequence[str]) -> list[Candidate]:
        """The incumbent with each of these instructions; unusable ones are left out."""
        found = []
        for text in texts:
            try:
                found.append(self.incumbent.told(self.predictor, text))
            except InputError:
                continue
        return found

    def measured(self, program: TrialProgram) -> list[Candidate]:
        """What the program or a copy of it was run with on every question of dev."""
        return [found for found in program.seen.values() if self.bench.is_known(found, self.dev)]


class Proposer(Protocol):
    """An optimizer: one class, one file."""

    @property
    def name(self) -> str:
        """What it is called on the command line."""

    @property
    def reflects(self) -> bool:
        """Whether it has instructions written by a reflection model."""

    @property
    def once(self) -> bool:
        """Whether a second round would propose the same again."""

    def propose(self, task: Task) -> Sequence[Candidate]:
        """Give candidates, in order of promise. The loop measures each on dev, exactly.

        Ends early, with what it has, once the bench refuses to pay for more.

        Raises:
            InputError: The task lacks something that it needs.
            ReflectionError: The reflection model says nothing.
        """
