"""GEPA: instructions evolve; the reflection model is told what each plan cost and led to.

Optimizers average, and E³ is no average: so what one answer is `worth` to them is the tangent at
the incumbent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dspy

from optim.e3 import e3, surrogate
from optim.records import planning_tokens
from optim.tuning.examples import examples
from optim.tuning.optimizer import optimizer
from optim.tuning.reflection import compiling, instruction_in
from pb_graph.errors import ModelCallError, PlanAndBudgetError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from gepa.core.state import GEPAState
    from gepa.proposer.base import CandidateProposal, SubsampleEvaluation

    from optim.datasets import Question
    from optim.e3 import Incumbent
    from optim.tuning.candidate import Candidate
    from optim.tuning.optimizer import Round
    from pb_graph.types import Report

FAR_BELOW = -100.0
"""The score of what is no result: below any honest one that an optimizer can tell from others."""

_PLANNED = """\
A planner splits a problem into sub-questions with hints. A solver then answers them one after \
another, each within its share of a token budget. What counts is accuracy squared, divided by the \
mean number of tokens written, those of the plan included. So right answers count most, and every \
word that does not make an answer right is waste, in the plan as in the solving."""
_SOLVED = """\
A solver answers problems after it was shown a few worked examples. What counts is accuracy \
squared, divided by the mean number of tokens written. So right answers count most, and every word \
that does not make an answer right is waste."""
_PROMPT = """\
{scene}

This is the instruction that the {what} works by now:

<instruction>
{instruction}
</instruction>

This is what came of it on some problems:

{cases}

Write a better instruction, of 120 words at most. Learn from the cases, but name nothing that is \
in them: it has to serve other problems of the kind. The form of the reply is fixed elsewhere, so \
say nothing about it. {never}Reply with the new instruction and nothing else."""
_WHAT = {
    "decompose": "planner",
    "fused": "planner, who also judges difficulty,",
    "estimate": "judge of the sub-questions' difficulty",
    "solve": "solver",
    "level": "judge of a problem's difficulty",
}
_CASES = 16_000  # characters of all cases: what a small model's context leaves beside its reply
_PROBLEM = 1500  # characters of one problem
_SHOWN = 300  # characters of an answer
_ENDS = {"length": ", cut off at its cap", "forced": ", hit its cap", "error": ", failed"}


@optimizer("gepa", "DSPy's GEPA: instructions evolve by reflection", reflects=True, learns=True)
def gepa(task: Round, *, minibatch: int = 8) -> Sequence[Candidate]:
    """Give every instruction that was measured on the whole of dev.

    GEPA resumes from a folder with a pickle in it, and would reuse scores of another tangent; it
    is given no folder at all. What was paid for comes back from the evaluator instead.

    Args:
        task: The round.
        minibatch: Answers by which a new instruction is judged before it gets the whole of dev.
    """
    made = dspy.GEPA(
        metric=with_feedback(task.baseline, {q.id: q for q in [*task.train, *task.dev]}),
        max_metric_calls=task.calls,
        reflection_minibatch_size=min(minibatch, len(task.train)),
        reflection_lm=task.reflection.language_model(),
        instruction_proposer=_Writer(task),
        skip_perfect_score=False,  # the tangent has no perfect score; 1 is only the incumbent
        failure_score=FAR_BELOW,
        use_merge=False,  # there is one instruction to change
        num_threads=task.evaluator.concurrency,
        log_dir=None,
        track_stats=True,
        seed=task.seed,
        gepa_kwargs={
            "acceptance_criterion": HigherE3(),
            "frontier_type": "hybrid",  # keeps what is best in accuracy or in tokens alone
            "cache_evaluation": False,  # it mixes up train and dev
            "stop_callbacks": [lambda _: task.reflection.failure is not None or task.refused],
        },
    )
    program = task.program()
    with compiling(task):
        made.compile(program, trainset=examples(task.train), valset=examples(task.dev))
    failure = task.reflection.failure  # GEPA swallows what its proposers raise
    if isinstance(failure, ModelCallError) and not task.refused:
        raise failure
    return task.measured(program)


class HigherE3:
    """Accepts an instruction whose E³ on the minibatch is above that of its parent."""

    def should_accept(
        self,
        proposal: CandidateProposal[Any],
        state: GEPAState[Any, Any],  # noqa: ARG002 -- GEPA's signature
    ) -> bool:
        """Compare the two."""
        return _e3(proposal.eval_after) > _e3(proposal.eval_before)


class _Writer:
    """Asks for a better instruction, as GEPA's proposers do."""

    def __init__(self, task: Round) -> None:
        self._task = task

    def __call__(
        self,
        candidate: dict[str, str],
        reflective_dataset: Mapping[str, Sequence[Mapping[str, Any]]],
        components_to_update: list[str],
    ) -> dict[str, str]:
        """Give a new text for each component; the old one where nothing came back."""
        return {
            name: self._written(name, candidate[name], reflective_dataset.get(name, ()))
            for name in components_to_update
        }

    def _written(self, name: str, text: str, cases: Sequence[Mapping[str, Any]]) -> str:
        room = _CASES // max(1, len(cases))
        shown = "\n\n".join(_case(number, case)[:room] for number, case in enumerate(cases, 1))
        try:
            reply = self._task.reflection.ask(
                _PROMPT.format(
                    scene=_SOLVED if name == "solve" else _PLANNED,
                    what=_WHAT[name],
                    instruction=text,
                    cases=shown,
                    never="" if name == "solve" else "Never ask for the solving itself. ",
                )
            )
        except PlanAndBudgetError:  # which the reflector keeps; GEPA would only ask again
            return text
        written = instruction_in(reply)
        if written in {"", text}:
            why = "the same instruction again" if written else "an empty instruction"
            self._task.drop(self._task.incumbent.with_instruction(name, text), f"duplicate: {why}")
        return written or text


def _case(number: int, case: Mapping[str, Any]) -> str:
    problem = str(case["Inputs"].get("problem", ""))[:_PROBLEM]
    ((what, said),) = case["Generated Outputs"].items()
    return f"Problem {number}: {problem}\n{what.title()}:\n{said}\nOutcome:\n{case['Feedback']}"


def _e3(evaluation: SubsampleEvaluation | None) -> float:
    """E³ of a minibatch; -1 where an answer of it was refused."""
    rows = evaluation.objective_scores if evaluation else None
    if not rows or not all(rows):
        return -1.0
    return e3([row["accuracy"] for row in rows], [-row["neg_tokens"] for row in rows])


def with_feedback(
    baseline: Incumbent, questions: Mapping[str, Question]
) -> Callable[..., dspy.Prediction]:
    """Give the tangent for GEPA: with accuracy and tokens kept apart, and words on the cost."""

    def metric(
        gold: dspy.Example,
        pred: dspy.Prediction,
        trace: object = None,  # noqa: ARG001 -- GEPA's signature
        pred_name: str | None = None,  # noqa: ARG001
        pred_trace: object = None,  # noqa: ARG001
    ) -> dspy.Prediction:
        score = worth(pred, baseline)
        if pred.refused:
            return dspy.Prediction(score=score, feedback="not answered", objective_scores=None)
        asked = questions[gold.id]
        told = [_outcome(pred, asked), _cost(pred.report, baseline), *_steps(pred.report)]
        objectives = {"accuracy": float(pred.score), "neg_tokens": -float(pred.tokens)}
        return dspy.Prediction(score=score, feedback="\n".join(told), objective_scores=objectives)

    return metric


def worth(pred: dspy.Prediction, baseline: Incumbent) -> float:
    """The tangent for one answer, within bounds; `FAR_BELOW` for what was never answered."""
    if pred.refused:
        return FAR_BELOW
    value = surrogate(pred.score, pred.tokens, baseline)
    return max(FAR_BELOW, min(-FAR_BELOW, value))


def _outcome(pred: dspy.Prediction, question: Question) -> str:
    gold = " or ".join(question.targets)
    wanted = f" The answer is {_short(gold)}." if gold else ""
    if pred.error is not None:
        return f"There is no answer: {_short(pred.error)}{wanted}"
    if pred.score >= 1.0:
        return "The answer is right."
    end = _short(str(pred.answer)[-_SHOWN:])
    return f"The answer scores {pred.score:g} of 1; it ends with: {end}{wanted}"


def _cost(report: Report, baseline: Incumbent) -> str:
    usage = report["usage"]
    total, planning = usage["output_tokens"], planning_tokens(report)
    parts = ", ".join(f"{name} {part['output_tokens']}" for name, part in usage["by_node"].items())
    verdict = "more" if total > baseline.tokens else "no more"
    return (
        f"It cost {total} tokens, {verdict} than the {baseline.tokens:.0f} of a usual answer; "
        f"{planning} of them went into planning ({parts})."
    )


def _steps(report: Report) -> Iterator[str]:
    steps = report["steps"]
    if steps:
        yield f"The plan had {len(steps)} step{'' if len(steps) == 1 else 's'}."
    for step in steps:
        if step["answer"] is not None:
            how = f"{step['tokens']} tokens{_ENDS.get(step['finish'] or '', '')}"
            yield f"Step {step['index'] + 1} ({how}) gave: {_short(step['answer'])}"
    yield from (f"Note: {_short(warning)}" for warning in report["warnings"])


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _SHOWN else f"{flat[:_SHOWN]} …"
