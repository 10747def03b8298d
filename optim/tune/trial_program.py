"""The program that optimizers run: its answers come from the bench, scored and paid for once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dspy

from optim.program import Told

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from optim.datasets import Question
    from optim.tune.bench import Bench, Result
    from optim.tune.candidate import Candidate
    from pb_graph.state import Report, StepReport

__all__ = ["TrialProgram", "example", "examples"]


class TrialProgram(Told):
    """Answers with the bench, whatever this copy's predictor says by now.

    Args:
        bench: Answers, scores and pays.
        base: What the program starts from.
        predictor: Name of the planner's predictor that is open to tuning.
        questions: Those that `forward` knows by their id.

    Attributes:
        seen: Every candidate that was run, by identity, in order; shared with all copies.
    """

    def __init__(
        self,
        bench: Bench,
        base: Candidate,
        predictor: str = "decompose",
        questions: Iterable[Question] = (),
    ) -> None:
        super().__init__(base, predictor)
        self._shared = _Shared(bench, questions)

    @property
    def seen(self) -> dict[str, Candidate]:
        """Every candidate that was run."""
        return self._shared.seen

    def forward(self, question: str | Question, id: str | None = None) -> dspy.Prediction:  # noqa: A002
        """Answer one question. Never raises: a failed one is a wrong answer at what it cost.

        Args:
            question: The question, or its text.
            id: Of one of the program's questions, when only the text is given.

        Returns:
            ``answer``; ``score`` from 0 to 1; ``tokens``; ``report``; ``error``, None when there
            is an answer; ``refused``, True where nothing was answered because the instruction is
            unusable or the budget is spent: that is no result.
        """
        shared = self._shared
        try:
            candidate = self.candidate
            asked = shared.questions[str(id)] if isinstance(question, str) else question
            result = shared.bench.one(candidate, asked, self._epoch)
        except Exception as error:  # noqa: BLE001 -- an optimizer would score it with a constant
            return _refused(error)
        shared.seen.setdefault(candidate.identity, candidate)
        self._trace(asked, result)
        return dspy.Prediction(
            answer=result.report["answer"],
            score=result.score,
            tokens=result.tokens,
            report=result.report,
            error=result.error,
            refused=False,
        )

    @property
    def _epoch(self) -> int:
        """Which sample of an answer is wanted: SIMBA tells them apart by their model's rollout."""
        model = getattr(self, self.tuned).lm
        return 1 if model is None else 1 + int(model.kwargs.get("rollout_id") or 0)

    def _trace(self, question: Question, result: Result) -> None:
        """Show an optimizer what the predictor did, also where the answer was recalled."""
        trace = dspy.settings.trace
        if trace is not None:
            given = {"domain": question.domain, "problem": question.question}
            said = dspy.Prediction(plan=_written(result.report))
            trace.append((getattr(self, self.tuned), given, said))


class _Shared:
    """What the copies of a program have in common: optimizers copy a program for each trial."""

    def __init__(self, bench: Bench, questions: Iterable[Question]) -> None:
        self.bench = bench
        self.questions = {question.id: question for question in questions}
        self.seen: dict[str, Candidate] = {}

    def __deepcopy__(self, memo: dict[int, Any]) -> _Shared:
        return self


def example(question: Question) -> dspy.Example:
    """A question as DSPy wants it: plain text, so that prompts can show it."""
    fields = {"question": question.question, "id": question.id}
    answer = " or ".join(question.targets)
    return dspy.Example(**fields, answer=answer).with_inputs("question", "id")


def examples(questions: Sequence[Question]) -> list[dspy.Example]:
    """Several of them."""
    return [example(question) for question in questions]


def _written(report: Report) -> str:
    """The plan in a report, a line for each step, with its grades where it has any."""
    return "\n".join(map(_line, report["steps"])) or "(no plan)"


def _line(step: StepReport) -> str:
    hint = f" | {step['hint']}" if step["hint"] else ""
    graded = step["level"] is not None and step["credit"] is not None
    grades = f" (level {step['level']}, {step['credit']:.0f} credits)" if graded else ""
    return f"{step['index'] + 1}. {step['question']}{hint}{grades}"


def _refused(error: Exception) -> dspy.Prediction:
    return dspy.Prediction(
        answer="", score=0.0, tokens=0, report=None, error=str(error), refused=True
    )
