"""The graph as a DSPy program with a prompt that can be tuned: for users, and for optimizers.

`GraphProgram` answers with the graph; `TrialProgram` with the evaluator, scored and paid for once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import dspy

from optim.tune.candidate import Candidate, candidate_of, decomposer, with_instructions
from optim.tune.optimizer import Uncopied
from pb_graph.errors import InputError, NoAnswerError
from pb_graph.graph import build_graph

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from langgraph.graph.state import CompiledStateGraph

    from optim.datasets import Question
    from optim.evaluate.models import ModelSpec
    from optim.tune.evaluator import Evaluator, Result
    from pb_graph.models.caps import CapPolicy
    from pb_graph.planner.planner import Program
    from pb_graph.settings import Context, Settings
    from pb_graph.state import Input, Output, Report, State, StepReport

    Graph = CompiledStateGraph[State, Context, Input, Output]

# MIPROv2 cuts off the first words of an instruction when a colon follows them ("Be brief: ask
# only ..."). An invisible character in front keeps it from that; it never reaches a model.
GUARD = "\u2060"


class TunableProgram(dspy.Module):  # type: ignore[misc]  # dspy carries no types
    """A program whose one predictor holds what the planner is told.

    The instruction is read at every call, so that the copy which an optimizer has changed is the
    one that is used. Everything else stays as it was: the other predictors and the solver are no
    part of the program. Only instructions are tuned; a predictor with examples is refused.

    Args:
        base: What the program starts from.
        predictor: Name of the planner's predictor that is open to tuning; the attribute of that
            name holds it.
    """

    def __init__(self, base: Candidate, predictor: str) -> None:
        super().__init__()
        self.tuned = predictor
        self._base = base
        setattr(self, predictor, getattr(with_instructions(base.instructions), predictor))

    @property
    def candidate(self) -> Candidate:
        """What this copy of the program is by now.

        Raises:
            InputError: Its instruction is empty or too long, or the predictor has examples.
        """
        predictor = getattr(self, self.tuned)
        if predictor.demos:
            msg = "only instructions are tuned: use an optimizer without examples (0 demos)"
            raise InputError(msg)
        text = predictor.signature.instructions.replace(GUARD, "")
        return self._base.with_instruction(self.tuned, text)


class GraphProgram(TunableProgram):
    """Answers questions with the graph, its planner told whatever this program says by now.

    The predictor that is open is the one that decomposes under the settings: ``decompose``, or
    ``fused`` for plan_and_budget with ``planning="fused"``.

    Args:
        model: Solves, as for `build_graph`; made at the first question when it is a name.
        planner: Plans; None for the same model.
        settings: How the graph works. A mapping overrides single ones of the saved program, else
            of the defaults.
        planner_program: A tuned planner, or what was saved of one, to begin from.
        cap_policy: As for `build_graph`.

    Raises:
        InputError: An unknown setting, or a planner program with examples in its prompts.
        PlannerProgramError: The planner program does not fit.
    """

    def __init__(
        self,
        model: ModelSpec = None,
        *,
        planner: ModelSpec = None,
        settings: Settings | Mapping[str, Any] | None = None,
        planner_program: Program | None = None,
        cap_policy: CapPolicy | None = None,
    ) -> None:
        base = candidate_of(planner_program, settings)
        super().__init__(base, decomposer(base.settings))
        self.graphs = Graphs(model, planner, cap_policy)

    @property
    def settings(self) -> Settings:
        """How the graph works."""
        return self._base.settings

    def with_candidate(self, candidate: Candidate) -> GraphProgram:
        """The same models, with another candidate's words and settings."""
        return GraphProgram(
            self.graphs.model,
            planner=self.graphs.planner,
            settings=candidate.settings,
            planner_program=candidate.planner(),
            cap_policy=self.graphs.cap_policy,
        )

    def forward(self, question: str, **about: Any) -> dspy.Prediction:  # noqa: ANN401 -- see Input
        """Answer one question. Never raises: a failed one is a wrong answer at what it cost.

        Args:
            question: What is asked.
            about: What else the graph takes: level, domain, instruction, answer_format,
                reference. Whatever else an example brings is left out.

        Returns:
            ``answer``; ``tokens``, the completion tokens it took, planning included; ``report``,
            None where not even that came of it; ``error``, None when there is an answer.
        """
        try:
            graph = self.graphs.of(self.candidate)
            return _answered(graph.invoke(_given(question, about))["report"])
        except Exception as error:  # noqa: BLE001 -- an optimizer would score it with a constant
            return _failed(error)

    async def aforward(self, question: str, **about: Any) -> dspy.Prediction:  # noqa: ANN401
        """As `forward`, for ``await program.acall(question=...)``."""
        try:
            graph = self.graphs.of(self.candidate)
            return _answered((await graph.ainvoke(_given(question, about)))["report"])
        except Exception as error:  # noqa: BLE001 -- likewise
            return _failed(error)


class Graphs(Uncopied):
    """The graph for each candidate, with the models that all of them share.

    Args:
        model: As `GraphProgram`.
        planner: Likewise.
        cap_policy: Likewise.
    """

    def __init__(self, model: ModelSpec, planner: ModelSpec, cap_policy: CapPolicy | None) -> None:
        self.model = model
        self.planner = planner
        self.cap_policy = cap_policy
        self._known: dict[str, Graph] = {}

    def of(self, candidate: Candidate) -> Graph:
        """Compile it, or give the one that was compiled before."""
        if candidate.identity not in self._known:
            self._known[candidate.identity] = build_graph(
                self.model,
                planner=self.planner,
                settings=candidate.settings,
                planner_program=candidate.planner(),
                cap_policy=self.cap_policy,
            )
        return self._known[candidate.identity]


_ABOUT = ("reference", "instruction", "answer_format", "domain", "level")


def _given(question: str, about: Mapping[str, Any]) -> Input:
    known = {name: about[name] for name in _ABOUT if about.get(name) is not None}
    return cast("Input", {**known, "question": question})


def _answered(report: Report) -> dspy.Prediction:
    return dspy.Prediction(
        answer=report["answer"], tokens=report["usage"]["output_tokens"], report=report, error=None
    )


def _failed(error: Exception) -> dspy.Prediction:
    """A wrong answer, at what it cost if that is known."""
    if isinstance(error, NoAnswerError):
        tokens = error.report["usage"]["output_tokens"]
        return dspy.Prediction(answer="", tokens=tokens, report=error.report, error=str(error))
    text = f"{type(error).__name__}: {error}"
    return dspy.Prediction(answer="", tokens=0, report=None, error=text)


class TrialProgram(TunableProgram):
    """Answers with the evaluator, whatever this copy's predictor says by now.

    Args:
        evaluator: Answers, scores and pays.
        base: What the program starts from.
        predictor: Name of the planner's predictor that is open to tuning.
        questions: Those that `forward` knows by their id.

    Attributes:
        seen: Every candidate that was run, by identity, in order; shared with all copies.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        base: Candidate,
        predictor: str = "decompose",
        questions: Iterable[Question] = (),
    ) -> None:
        super().__init__(base, predictor)
        self._shared = _Shared(evaluator, questions)

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
            shared.seen.setdefault(candidate.identity, candidate)
            result = shared.evaluator.one(candidate, asked, self._epoch)
        except Exception as error:  # noqa: BLE001 -- an optimizer would score it with a constant
            return dspy.Prediction(
                answer="", score=0.0, tokens=0, report=None, error=str(error), refused=True
            )
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
            plan = "\n".join(map(_line, result.report["steps"]))
            said = dspy.Prediction(plan=plan or "(no plan)")
            trace.append((getattr(self, self.tuned), given, said))


class _Shared(Uncopied):
    """What the copies of a program have in common: optimizers copy a program for each trial."""

    def __init__(self, evaluator: Evaluator, questions: Iterable[Question]) -> None:
        self.evaluator = evaluator
        self.questions = {question.id: question for question in questions}
        self.seen: dict[str, Candidate] = {}


def _line(step: StepReport) -> str:
    hint = f" | {step['hint']}" if step["hint"] else ""
    graded = step["level"] is not None and step["credit"] is not None
    grades = f" (level {step['level']}, {step['credit']:.0f} credits)" if graded else ""
    return f"{step['index'] + 1}. {step['question']}{hint}{grades}"
