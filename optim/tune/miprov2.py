"""MIPROv2: instructions are written up front, and the best is found by Bayesian search."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import dspy

from optim.tune.compiling import compiling
from optim.tune.metric import clipped
from optim.tune.trial_program import examples

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optim.tune.candidate import Candidate
    from optim.tune.proposer import Task

__all__ = ["Miprov2"]


@dataclass(frozen=True, slots=True)
class Miprov2:
    """Proposes with DSPy's MIPROv2, without examples in the prompt.

    Each trial is the whole of dev: a trial that comes back to an instruction costs nothing here,
    so minibatches would save little and make the choice noisy.

    Attributes:
        instructions: How many are written, the incumbent's included.
        trials: How many are tried.
        name: What the optimizer is called.
    """

    instructions: int = 6
    trials: int = 10
    name: str = "miprov2"
    reflects: ClassVar[bool] = True
    once: ClassVar[bool] = False

    def propose(self, task: Task) -> Sequence[Candidate]:
        """Give every instruction that was measured."""
        model = task.reflection.language_model()
        optimizer = dspy.MIPROv2(
            metric=clipped(task.baseline),
            prompt_model=model,
            task_model=model,  # never asked: the program brings its own
            max_bootstrapped_demos=0,
            max_labeled_demos=0,
            auto=None,
            num_candidates=self.instructions,
            num_threads=task.bench.concurrency,
            max_errors=10**9,  # the program does not raise
            seed=task.seed + 1,  # 0 would count as not given
        )
        program = task.program()
        with compiling(task, guarded=True):
            optimizer.compile(
                program,
                trainset=examples(task.train),
                valset=examples(task.dev),
                num_trials=self.trials,
                minibatch=False,
                program_aware_proposer=False,  # our source code tells nothing about the task
                fewshot_aware_proposer=False,
            )
        return task.measured(program)
