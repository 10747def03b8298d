"""What an optimizer is: a function that gets a round's work and gives candidates, by its name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from optim.tuning.candidate import SharedOnDeepcopy
from pb_graph.errors import InputError

if TYPE_CHECKING:
    from optim.datasets import Question
    from optim.e3 import Incumbent
    from optim.tuning.candidate import Candidate
    from optim.tuning.evaluator import Evaluator
    from optim.tuning.program import TrialProgram
    from optim.tuning.reflection import Reflector
    from optim.tuning.selection import Measurement

NOT_MEASURED = "not measured: the budget was spent"
NOT_ANSWERED = "not measured: a question had no answer for a reason outside"


@dataclass(frozen=True, slots=True)
class Proposal:
    """What an optimizer proposed and did not bring to a measurement on the whole of dev."""

    candidate: Candidate
    origin: str
    round: int
    fell: str
    measurement: Measurement | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Round(SharedOnDeepcopy):
    """One round's work.

    Attributes:
        evaluator: Where to measure; what was measured before costs nothing.
        incumbent: The best so far.
        baseline: Its accuracy and tokens on dev: where the tangent touches.
        train: Questions to learn from; those of dev where there are none of their own.
        dev: Questions that candidates are chosen by.
        predictor: Which of the predictors is tuned.
        reflector: Who writes instructions, if anyone does.
        calls: How many answers, recalled ones too, the round may ask for.
        seed: Of everything drawn by chance.
        origin: Name of the optimizer.
        number: From 1.
        dropped: What was proposed and fell; `drop` adds to it.
    """

    evaluator: Evaluator
    incumbent: Candidate
    baseline: Incumbent
    train: Sequence[Question]
    dev: Sequence[Question]
    predictor: str
    reflector: Reflector | None
    calls: int
    seed: int
    origin: str = ""
    number: int = 1
    dropped: list[Proposal] = field(default_factory=list)

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

    @property
    def refused(self) -> bool:
        """Whether nothing more can be paid for."""
        return self.evaluator.refusal is not None

    def program(self) -> TrialProgram:
        """The incumbent as a DSPy program that knows the round's questions."""
        from optim.tuning.program import TrialProgram  # noqa: PLC0415 -- DSPy takes a second

        questions = [*self.train, *self.dev]
        return TrialProgram(self.evaluator, self.incumbent, self.predictor, questions)

    def candidates(self, texts: Sequence[str]) -> list[Candidate]:
        """The incumbent with each of these instructions; unusable and repeated ones fall."""
        usable: dict[str, Candidate] = {}
        for text in texts:
            try:
                candidate = self.incumbent.with_instruction(self.predictor, text)
            except InputError as error:
                stand_in = self.incumbent.with_instruction(
                    self.predictor, text.strip()[:200] or "(empty)"
                )
                self.drop(stand_in, f"unusable: {error}")
                continue
            if candidate.identity in usable:
                self.drop(candidate, "duplicate: proposed twice")
            usable.setdefault(candidate.identity, candidate)
        return list(usable.values())

    def measured(self, program: TrialProgram) -> list[Candidate]:
        """What the program or a copy of it was run with on every question of dev.

        What was run on a part of the questions only has lost there, and falls.
        """
        whole = []
        for candidate in program.seen.values():
            if self.evaluator.is_known(candidate, self.dev):
                whole.append(candidate)
            elif candidate.identity != self.incumbent.identity:
                self._drop_seen(candidate)
        return whole

    def drop(self, candidate: Candidate, why: str, measurement: Measurement | None = None) -> None:
        """Note that a proposal goes no further, and why."""
        self.dropped.append(Proposal(candidate, self.origin, self.number, why, measurement))

    def _drop_seen(self, candidate: Candidate) -> None:
        from optim.tuning.selection import Measurement  # noqa: PLC0415 -- brings the bench

        every = {question.id: question for question in [*self.train, *self.dev]}
        met = [one for one in every.values() if self.evaluator.is_known(candidate, [one])]
        if not met:
            self.drop(candidate, NOT_MEASURED)
            return
        measurement = Measurement(self.evaluator.measure(candidate, met))
        self.drop(candidate, f"lost on the minibatch ({len(met)} questions)", measurement)


@dataclass(frozen=True, slots=True)
class Optimizer:
    """A function that proposes, and what the loop has to know of it.

    Called with options, such as ``copro(breadth=4)``, it gives the optimizer that has them.

    Attributes:
        name: What it is called on the command line.
        summary: What it does, in a few words, for help texts.
        propose: Gives candidates for a round, in order of promise; the loop measures each on dev,
            exactly. It ends early, with what it has, once nothing more can be paid for.
        reflects: Whether it has instructions written by a reflection model.
        learns: Whether it wants questions of its own to learn from.
        chooses: Whether it chooses from a list of instructions, its option ``texts``.
        once: Whether a second round would propose the same again.
        tunes: ``prompt``, ``examples`` (of the solver) or ``settings``.
        needs: Modules that it imports and that not every installation has.
        forecast: Says what a round will try and what it will not get to, given the number of dev
            questions, the answers of the round, the original and the seed; asked before anything
            is spent.
    """

    name: str
    summary: str
    propose: Callable[..., Sequence[Candidate]]
    reflects: bool = False
    learns: bool = False
    chooses: bool = False
    once: bool = False
    tunes: str = "prompt"
    needs: tuple[str, ...] = ()
    forecast: Callable[..., str] | None = None

    def __call__(self, **options: Any) -> Optimizer:  # noqa: ANN401 -- each has its own
        """The same with options."""
        forecast = self.forecast and partial(self.forecast, **options)
        return replace(self, propose=partial(self.propose, **options), forecast=forecast)


REGISTERED: dict[str, Optimizer] = {}
"""Every optimizer by name; `optim.tuning.optimizers` holds or imports all of the package's."""


def optimizer(
    name: str,
    summary: str,
    **about: Any,  # noqa: ANN401 -- the other fields of `Optimizer`
) -> Callable[[Callable[..., Sequence[Candidate]]], Optimizer]:
    """Register a function ``(round: Round, *, option=...) -> Sequence[Candidate]``."""

    def register(propose: Callable[..., Sequence[Candidate]]) -> Optimizer:
        made = REGISTERED[name] = Optimizer(name, summary, propose, **about)
        return made

    return register
