"""SIMBA: where the same question went well once and badly once, the difference becomes a rule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import dspy

from optim.tune.compiling import compiling
from optim.tune.metric import clipped
from optim.tune.trial_program import examples
from pb_graph.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optim.tune.candidate import Candidate
    from optim.tune.proposer import Task

__all__ = ["Simba"]


@dataclass(frozen=True, slots=True)
class Simba:
    """Proposes with DSPy's SIMBA, without examples in the prompt: rules are appended.

    It lives on answers to one question that differ, so it wants a solver that is not asked at
    temperature 0; the plan is the same each time.

    Attributes:
        batch: Questions of a step.
        width: Answers to each question of a step, and most new instructions of it.
        steps: How many.
        name: What the optimizer is called.
    """

    batch: int = 8
    width: int = 3
    steps: int = 3
    name: str = "simba"
    reflects: ClassVar[bool] = True
    once: ClassVar[bool] = False

    def propose(self, task: Task) -> Sequence[Candidate]:
        """Give the instructions that won a step, best first."""
        model = task.reflection.language_model()
        optimizer = dspy.SIMBA(
            metric=clipped(task.baseline),
            bsize=min(self.batch, len(task.train)),
            num_candidates=self.width,
            max_steps=self.steps,
            max_demos=0,
            prompt_model=model,
            num_threads=task.bench.concurrency,
        )
        program = task.program()
        found = None
        with dspy.context(lm=model), compiling(task):
            found = optimizer.compile(program, trainset=examples(task.train), seed=task.seed)
        if found is None:
            return task.measured(program)
        return [row["program"].candidate for row in found.candidate_programs if _usable(row)]


def _usable(row: dict[str, Any]) -> bool:
    try:
        _ = row["program"].candidate
    except InputError:
        return False
    return True
