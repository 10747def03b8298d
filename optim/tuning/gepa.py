"""GEPA: instructions evolve; the reflection model is told the cost and the outcome of each plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dspy

from optim.e3 import e3
from optim.tuning.optimizers import compile_with
from optim.tuning.reflection import instruction_in
from pb_graph.errors import PlanAndBudgetError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gepa.proposer.base import CandidateProposal, SubsampleEvaluation

    from optim.tuning.optimizers import OptimizerTask
    from optim.tuning.program import Candidate

_GOAL = """\
What counts is accuracy squared, divided by the mean number of tokens written. So right answers \
count most, and every word that does not make an answer right is waste."""
_PLANNED = f"""\
A planner splits a problem into sub-questions with hints. A solver then answers them one after \
another, each within its share of a token budget. {_GOAL} That includes the words of the plan."""
_SOLVED = f"A solver answers problems after it was shown a few worked examples. {_GOAL}"
_PROMPT = """\
{scene}

This is the instruction that the {role} works by now:

<instruction>
{instruction}
</instruction>

This is what came of it on some problems:

{cases}

Write a better instruction, of 120 words at most. Learn from the cases, but name nothing that is \
in them: it has to serve other problems of the kind. The form of the reply is fixed elsewhere, so \
say nothing about it. {never}Reply with the new instruction and nothing else."""
_ROLES = {
    "decompose": "planner",
    "fused": "planner, who also judges difficulty,",
    "estimate": "judge of the sub-questions' difficulty",
    "solve": "solver",
    "level": "judge of a problem's difficulty",
}
_MINIBATCH = 8  # answers that decide whether a new instruction gets the whole of dev
_CASES = 16_000  # characters of all cases, within a small model's context
_PROBLEM = 1500  # characters of one problem


def gepa(task: OptimizerTask) -> Sequence[Candidate]:
    """Return every instruction that was measured on the whole of dev.

    GEPA gets no folder, because its folder holds a pickle and outdated scores. Paid answers come
    from the evaluator instead.
    """
    options = task.evaluator.options
    optimizer = dspy.GEPA(
        metric=task.metric(),
        max_metric_calls=3 * task.evaluator.limit,  # free answers count; the evaluator ends it
        reflection_minibatch_size=min(_MINIBATCH, len(task.train)),
        instruction_proposer=lambda candidate, reflective_dataset, components_to_update: {
            name: _better(task, name, candidate[name], reflective_dataset.get(name, ()))
            for name in components_to_update
        },
        use_merge=False,  # there is one instruction to change
        num_threads=options.concurrency,
        track_stats=True,
        seed=options.seed,
        gepa_kwargs={
            "acceptance_criterion": Acceptance(),
            "frontier_type": "hybrid",
            "cache_evaluation": False,  # it mixes up train and dev
            "stop_callbacks": [lambda _: task.evaluator.refusal is not None],
        },
    )
    return compile_with(task, optimizer)


class Acceptance:
    """Accepts an instruction by its minibatch: one with a higher E³ than its parent."""

    def should_accept(self, proposal: CandidateProposal[Any], state: object) -> bool:  # noqa: ARG002 -- GEPA's signature
        """Return whether the proposal is accepted."""
        before, after = _figures(proposal.eval_before), _figures(proposal.eval_after)
        return e3(*after) > e3(*before)


def _figures(evaluation: SubsampleEvaluation | None) -> tuple[list[float], list[float]]:
    """Return scores and tokens of a minibatch."""
    rows = (evaluation and evaluation.objective_scores) or []
    return [row["accuracy"] for row in rows], [-row["neg_tokens"] for row in rows]


def _better(task: OptimizerTask, name: str, text: str, cases: Sequence[Mapping[str, Any]]) -> str:
    """Return the instruction that the reflection model writes, or the old one."""
    room = _CASES // max(1, len(cases))
    prompt = _PROMPT.format(
        scene=_SOLVED if name == "solve" else _PLANNED,
        role=_ROLES[name],
        instruction=text,
        cases="\n\n".join(_case(number, case)[:room] for number, case in enumerate(cases, 1)),
        never="" if name == "solve" else "Never ask for the solving itself. ",
    )
    try:
        proposal = instruction_in(task.reflection.ask(prompt))
        return text if proposal.split() in ([], text.split()) else proposal  # small models copy it
    except PlanAndBudgetError:  # the evaluator keeps it; GEPA would only ask again
        return text


def _case(number: int, case: Mapping[str, Any]) -> str:
    problem = str(case["Inputs"].get("problem", ""))[:_PROBLEM]
    ((kind, output),) = case["Generated Outputs"].items()
    return f"Problem {number}: {problem}\n{kind.title()}:\n{output}\nOutcome:\n{case['Feedback']}"
