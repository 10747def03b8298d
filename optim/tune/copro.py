"""COPRO: the reflection model writes a handful of instructions, sees their E³, and writes more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import dspy

from optim.e3 import e3
from optim.tune.compiling import compiling

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optim.tune.candidate import Candidate
    from optim.tune.proposer import Task

__all__ = ["Copro"]


class WholeSplit(dspy.Module):  # type: ignore[misc]  # dspy carries no types
    """Answers a whole split at once, so that the metric sees a set and E³ is exact.

    Args:
        task: The split is its dev.
    """

    def __init__(self, task: Task) -> None:
        super().__init__()
        self._work = _Work(task)
        program = task.program()
        self.program = program

    def forward(self, split: str) -> dspy.Prediction:  # noqa: ARG002 -- there is one
        """Answer them all; `ratio` is E³ over the incumbent's, 0 where it was not measured."""
        task = self._work.task
        try:
            candidate = self.program.candidate
            results = task.bench.measure(candidate, task.dev)
        except Exception as error:  # noqa: BLE001 -- an unusable instruction must not end the others
            return dspy.Prediction(ratio=0.0, error=str(error))
        self.program.seen.setdefault(candidate.identity, candidate)
        value = e3([result.score for result in results], [result.tokens for result in results])
        baseline = task.baseline
        return dspy.Prediction(ratio=value * baseline.tokens / baseline.accuracy**2, error=None)


class _Work:
    """Keeps the task out of the copies that COPRO makes of the program."""

    def __init__(self, task: Task) -> None:
        self.task = task

    def __deepcopy__(self, memo: object) -> _Work:
        return self


@dataclass(frozen=True, slots=True)
class Copro:
    """Proposes with DSPy's COPRO, the whole split as one example.

    COPRO also tunes the words that lead up to the reply. Our prompts have none, so of what it
    finds only the instruction counts.

    Attributes:
        breadth: Instructions for each depth, the incumbent's among the first.
        depth: How often the reflection model gets to see how they did.
        name: What the optimizer is called.
    """

    breadth: int = 6
    depth: int = 2
    name: str = "copro"
    reflects: ClassVar[bool] = True
    once: ClassVar[bool] = False

    def propose(self, task: Task) -> Sequence[Candidate]:
        """Give every instruction that was measured."""
        split = WholeSplit(task)
        optimizer = dspy.COPRO(
            prompt_model=task.reflection.language_model(),
            metric=lambda gold, pred, trace=None: pred.ratio,  # noqa: ARG005 -- DSPy's signature
            breadth=self.breadth,
            depth=self.depth,
        )
        whole = dspy.Example(split="dev").with_inputs("split")
        how = {"num_threads": 1, "display_progress": False, "display_table": 0}
        with compiling(task):
            optimizer.compile(split, trainset=[whole], eval_kwargs=how)
        return task.measured(split.program)
