"""What a reflection model is told about one answer: right or wrong, and where the tokens went."""

from __future__ import annotations

from typing import TYPE_CHECKING

from optim.records import planning_tokens

if TYPE_CHECKING:
    from collections.abc import Iterator

    import dspy

    from optim.datasets import Question
    from optim.e3 import Incumbent
    from pb_graph.state import Report, StepReport

__all__ = ["feedback"]

_SHOWN = 300  # characters of an answer


def feedback(pred: dspy.Prediction, question: Question, baseline: Incumbent) -> str:
    """Put an answer's outcome into words.

    Args:
        pred: What `TrialProgram` gave.
        question: What was asked.
        baseline: What answers cost on average, for comparison.
    """
    lines = [_outcome(pred, question), _cost(pred.report, baseline), *_steps(pred.report)]
    return "\n".join(lines)


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
    yield f"The plan had {len(steps)} step{'' if len(steps) == 1 else 's'}."
    for step in steps:
        if step["answer"] is not None:
            yield f"Step {step['index'] + 1} ({_how(step)}) gave: {_short(step['answer'])}"
    yield from (f"Note: {_short(warning)}" for warning in report["warnings"])


def _how(step: StepReport) -> str:
    ends = {"length": ", cut off at its cap", "forced": ", hit its cap", "error": ", failed"}
    return f"{step['tokens']} tokens{ends.get(step['finish'] or '', '')}"


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _SHOWN else f"{flat[:_SHOWN]} …"
