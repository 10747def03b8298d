"""GEPA: instructions evolve; the reflection model is told the cost and the outcome of each plan."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from gepa.api import optimize
from gepa.core.adapter import EvaluationBatch, GEPAAdapter

from optim.datasets.dataset import example_of
from optim.e3 import e3
from optim.tuning.optimizers import output_of
from optim.tuning.reflection import instruction_in
from pb_graph.errors import PlanAndBudgetError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gepa.proposer.base import CandidateProposal

    from optim.datasets import Question
    from optim.records import Record
    from optim.tuning.optimizers import OptimizerTask
    from optim.tuning.program import Candidate

_GOAL = """\
What counts is accuracy squared, divided by the mean {cost}. So right answers count most, and \
every word that does not make an answer right is waste."""
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

Write a better instruction, of {most} words at most; it has {size} now. Learn from the cases, but \
name nothing that is in them: it has to serve other problems of the kind. The form of the reply is \
fixed elsewhere, so say nothing about it. {never}Reply with the new instruction and nothing else."""
_ROLES = {
    "decompose": "planner",
    "fused": "planner, who also judges difficulty,",
    "estimate": "judge of the sub-questions' difficulty",
    "solve": "solver",
    "level": "judge of a problem's difficulty",
}
_COSTS = {
    "e3": "number of tokens written",
    "front": "number of tokens written",
    "money": "price of all tokens, in which every word of this instruction is paid for each call",
}
_WORDS = 120  # of an instruction, at most
_MINIBATCH = 8  # answers that decide whether a new instruction gets the whole of dev
_CASES = 16_000  # characters of all cases, within a small model's context
_PROBLEM = 1500  # characters of one problem


def gepa(task: OptimizerTask) -> Sequence[Candidate]:
    """Return every instruction that was measured on the whole of dev.

    GEPA gets no folder, because its folder holds a pickle and outdated scores. Paid answers come
    from the evaluator instead, and an instruction is accepted if its E³ on the minibatch is higher
    than that of its parent.
    """
    evaluator, objective = task.evaluator, task.evaluator.options.objective
    with suppress(PlanAndBudgetError):  # the evaluator keeps it: what was measured counts
        optimize(
            {task.predictor: task.incumbent.text(task.predictor)},
            list(task.train),
            list(task.dev),
            adapter=_Adapter(task),
            max_metric_calls=3 * evaluator.limit,  # free answers count; the evaluator ends it
            reflection_minibatch_size=min(_MINIBATCH, len(task.train)),
            frontier_type="objective" if objective == "front" else "hybrid",
            acceptance_criterion=Acceptance(objective),
            stop_callbacks=[lambda _: evaluator.refusal is not None],
            logger=SimpleNamespace(log=lambda _: None),
            seed=evaluator.options.seed,
        )
    return evaluator.measured(task.dev)


@dataclass(frozen=True)
class Acceptance:
    """Accepts an instruction by its minibatch: one with a higher E³ than its parent.

    With the objective ``front``, one with more right answers or a lower cost, if any is right.
    """

    objective: str = "e3"

    def should_accept(self, proposal: CandidateProposal[Any], state: object) -> bool:  # noqa: ARG002 -- GEPA's signature
        """Return whether the proposal is accepted."""
        before, after = (
            list(zip(*((row["accuracy"], -row["neg_tokens"]) for row in rows), strict=True))
            for each in (proposal.eval_before, proposal.eval_after)
            if each and (rows := each.objective_scores)
        )
        if self.objective != "front":
            return e3(*after) > e3(*before)
        (right, cost), (right_before, cost_before) = map(sum, after), map(sum, before)
        return right > 0 and (right > right_before or cost < cost_before)


class _Adapter(GEPAAdapter["Question", dict[str, str], "Record | None"]):
    """Answer GEPA: measure an instruction, tell the cases, and write a better one."""

    def __init__(self, task: OptimizerTask) -> None:
        self._task, self._metric = task, task.metric()

    def evaluate(
        self,
        batch: list[Question],
        candidate: dict[str, str],
        capture_traces: bool = False,  # noqa: ARG002 -- GEPA's signature
    ) -> EvaluationBatch[dict[str, str], Record | None]:
        """Answer the questions, and tell the case of each; one that was not answered is last."""
        evaluator, name = self._task.evaluator, self._task.predictor
        chosen = self._task.incumbent.with_instruction(name, candidate[name])
        with suppress(PlanAndBudgetError):  # what was answered is known
            evaluator.measure(chosen, batch)
        records, cases, told = [], [], []
        for question in batch:
            records.append(next(iter(evaluator.known(chosen, [question])), None))
            told.append(self._metric(example_of(question), self._task.prediction(records[-1])))
            kind, output = output_of(records[-1], name)
            problem = f"{question.question[:_PROBLEM]}\n{kind.title()}:\n{output}"
            cases.append({"case": f"{problem}\nOutcome:\n{told[-1].feedback}"})
        objectives = [dict(each.objective_scores) for each in told]
        return EvaluationBatch(records, [each.score for each in told], cases, objectives)

    def make_reflective_dataset(
        self,
        candidate: dict[str, str],  # noqa: ARG002 -- GEPA's signature
        eval_batch: EvaluationBatch[dict[str, str], Record | None],
        components_to_update: list[str],
    ) -> Mapping[str, Any]:
        """Return the cases."""
        return dict.fromkeys(components_to_update, eval_batch.trajectories)

    def propose_new_texts(
        self,
        candidate: dict[str, str],
        reflective_dataset: Mapping[str, Any],
        components_to_update: list[str],  # noqa: ARG002 -- there is one
    ) -> dict[str, str]:
        """Return the instruction that the reflection model writes, or the old one."""
        [(name, cases)], [text] = reflective_dataset.items(), candidate.values()
        room, options = _CASES // max(1, len(cases)), self._task.evaluator.options
        prompt = _PROMPT.format(
            scene=(_SOLVED if name == "solve" else _PLANNED).format(cost=_COSTS[options.objective]),
            role=_ROLES[name],
            instruction=text,
            size=len(text.split()),
            most=min(_WORDS, options.max_prompt_tokens or _WORDS),
            cases="\n\n".join(
                f"Problem {n}: {row['case']}"[:room] for n, row in enumerate(cases, 1)
            ),
            never="" if name == "solve" else "Never ask for the solving itself. ",
        )
        try:
            proposal = instruction_in(self._task.reflection.ask(prompt))
        except PlanAndBudgetError:  # the evaluator keeps it; GEPA would only ask again
            return candidate
        is_same = proposal.split() in ([], text.split())  # small models copy it
        return (
            candidate if is_same or not self._task.evaluator.allows(proposal) else {name: proposal}
        )
