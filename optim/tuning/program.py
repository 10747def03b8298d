"""The graph as a DSPy program whose prompts can be tuned: for users, and for optimizers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self, cast

import dspy

from optim.datasets.dataset import parse_level
from optim.methods import reject_plan_review
from optim.tuning.candidate import Candidate, SharedOnDeepcopy, active_predictors, candidate_of
from pb_graph.errors import InputError, NoAnswerError
from pb_graph.graph import build_graph
from pb_graph.models.io import run_sync
from pb_graph.settings import Context

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from langgraph.graph.state import CompiledStateGraph

    from optim.datasets import Question
    from optim.evaluation.models import ModelSpec
    from optim.tuning.evaluator import Evaluator
    from pb_graph.models.caps import CapPolicy
    from pb_graph.planner.planner import Planner, Program
    from pb_graph.program import PlannerProgram
    from pb_graph.settings import Settings
    from pb_graph.state import Input, Output, State
    from pb_graph.types import StepReport

    Graph = CompiledStateGraph[State, Context, Input, Output]

# MIPROv2 cuts off the first words of an instruction before a colon. This invisible character in
# front prevents that; it never reaches a model.
MIPRO_PREFIX_GUARD = "\u2060"
_INPUTS = ("reference", "instruction", "answer_format", "domain", "level")


class TunableProgram(dspy.Module):  # type: ignore[misc]  # dspy carries no types
    """A program whose predictors hold the prompts that are open to tuning.

    They are read at every call, so the copy that an optimizer has changed is the one that is used.

    Args:
        base: The candidate that the program starts from.
        predictors: Names of the open predictors, which become attributes.
    """

    def __init__(self, base: Candidate, *predictors: str) -> None:
        super().__init__()
        self._open, self._base = predictors, base
        planner = base.prompts()
        for name in predictors:
            setattr(self, name, getattr(planner, name))

    @property
    def candidate(self) -> Candidate:
        """The candidate that this copy of the program is now.

        Raises:
            InputError: An instruction is empty or too long.
        """
        found = self._base
        for name in self._open:
            predictor = getattr(self, name)
            text = predictor.signature.instructions.replace(MIPRO_PREFIX_GUARD, "")
            found = found.with_instruction(name, text).with_examples(name, predictor.demos)
        return found


class GraphProgram(TunableProgram):
    """The graph as a DSPy module: DSPy's optimizers and its evaluation take it as any other.

    Open to tuning are the prompts that the settings send, and no others. Use a tuned program with
    ``build_graph(planner_program=program)``, or save it and pass the path.

    Args:
        model: Solves, as for `build_graph`; a name is resolved at the first question.
        planner: Plans; None for the same model.
        settings: Settings of the graph. A mapping overrides the saved program's, else the defaults.
        planner_program: A planner or a saved program to begin from.
        cap_policy: As for `build_graph`.

    Raises:
        InputError: An unknown setting.
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
        super().__init__(base, *active_predictors(base.settings).values())
        self.graph = GraphCache(model, planner, cap_policy)

    @property
    def settings(self) -> Settings:
        """The settings of the graph."""
        return self._base.settings

    @property
    def prompts(self) -> Planner:
        """A planner of this program's own predictors, with every change an optimizer makes."""
        planner = self._base.prompts()
        for name in self._open:
            setattr(planner, name, getattr(self, name))
        return planner

    def set_lm(self, lm: dspy.LM | None) -> None:
        """Accept a rollout of BestOfN, Refine and SIMBA, and no other model of DSPy's.

        Raises:
            InputError: It is another model, which would never be asked.
        """
        if lm is not None and "rollout_id" not in lm.kwargs:
            msg = (
                "a GraphProgram asks the models that it was made with, and none of DSPy's: make "
                "another, such as GraphProgram('openai:gpt-5-mini', planner='openai:gpt-5-nano', "
                "settings=program.settings, planner_program=program)"
            )
            raise InputError(msg)
        super().set_lm(lm)

    def program(self) -> PlannerProgram:
        """Return prompts and settings as they are saved, without a model's address.

        Raises:
            InputError: An instruction is empty or too long.
        """
        saved = self.candidate.prompts().program()
        return saved.model_copy(update={"settings": self.settings})

    def save(self, path: str | Path) -> None:
        """Write the JSON file that ``build_graph(planner_program=path)`` and `load` read.

        Raises:
            InputError: As `program`.
            PlannerProgramError: It cannot be written.
        """
        self.program().save(path)

    def load(self, path: str | Path) -> Self:
        """Take over the prompts of a saved program; the settings stay.

        Raises:
            PlannerProgramError: The file is missing, or does not fit.
        """
        found = GraphProgram(planner_program=path, settings=self.settings)
        for name in self._open:
            setattr(self, name, getattr(found, name))
        self._base = found._base
        return self

    def forward(self, question: str, **inputs: Any) -> dspy.Prediction:  # noqa: ANN401
        """Answer one question.

        A question that the model could not answer is a wrong answer at its cost: raised, DSPy
        would score it with a constant.

        Args:
            question: The question.
            inputs: Other inputs of the graph: level, domain, instruction, answer_format,
                reference. Further fields of an example are ignored.

        Returns:
            ``answer``; ``tokens``, its completion tokens, planning included; ``report``;
            ``error``, None when there is an answer.

        Raises:
            ModelSetupError: There is no such model.
            InputError: The question is empty or too long, or its level is not 1 to 5.
        """
        return run_sync(self._answer(question, inputs, blocking=True))

    async def aforward(self, question: str, **inputs: Any) -> dspy.Prediction:  # noqa: ANN401
        """`forward` for ``await program.acall(question=...)``."""
        return await self._answer(question, inputs, blocking=False)

    async def _answer(
        self, question: str, inputs: Mapping[str, Any], *, blocking: bool
    ) -> dspy.Prediction:
        graph, context = self.graph.compiled(self.settings), Context(planner_program=self.prompts)
        known = {name: inputs[name] for name in _INPUTS if inputs.get(name) is not None}
        known |= {"level": parse_level(known)} if "level" in known else {}  # "Level 3" as well
        asked = cast("Input", {**known, "question": question})
        error: NoAnswerError | None = None
        try:
            if blocking:
                report = graph.invoke(asked, context=context)["report"]
            else:
                report = (await graph.ainvoke(asked, context=context))["report"]
        except NoAnswerError as failure:
            error, report = failure, failure.report
        if error is None and "solve" in self._open:
            _trace(self.solve, {"problem": question}, dspy.Prediction(solution=report["answer"]))
        return dspy.Prediction(
            answer="" if error else report["answer"],
            tokens=report["usage"]["output_tokens"],
            report=report,
            error=error and str(error),
        )


class GraphCache(SharedOnDeepcopy):
    """The models and the compiled graph of all copies of a program."""

    def __init__(self, model: ModelSpec, planner: ModelSpec, cap_policy: CapPolicy | None) -> None:
        self.model = model
        self.planner = planner
        self.cap_policy = cap_policy
        self._compiled: Graph | None = None

    def compiled(self, settings: Settings) -> Graph:
        """Return the graph, compiled once: prompts come with each question."""
        if self._compiled is None:
            reject_plan_review(settings)
            self._compiled = build_graph(
                self.model, planner=self.planner, settings=settings, cap_policy=self.cap_policy
            )
        return self._compiled


class EvaluatedProgram(TunableProgram):
    """A program for optimizers: the evaluator answers and scores, and pays for nothing twice.

    Args:
        evaluator: Answers and scores.
        base: The candidate that it starts from.
        predictor: The one predictor that is open.
        questions: Questions that ``id`` may name.

    Attributes:
        seen: Every candidate that was run, by identity, in order; shared by all copies.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        base: Candidate,
        predictor: str = "decompose",
        questions: Iterable[Question] = (),
    ) -> None:
        super().__init__(base, predictor)
        self.tuned = predictor
        self._shared = _Shared(evaluator, {question.id: question for question in questions})

    @property
    def candidate(self) -> Candidate:
        """The candidate that this copy of the program is now.

        Raises:
            InputError: Its instruction is empty or too long, or an optimizer has added examples:
                the evaluator knows plans as they were read, not as they were written.
        """
        demos = getattr(self, self.tuned).demos
        if demos and demos != self._base.examples.get(self.tuned):
            msg = "only instructions are tuned: use an optimizer without examples (0 demos)"
            raise InputError(msg)
        return super().candidate

    @property
    def seen(self) -> dict[str, Candidate]:
        """Every candidate that was run."""
        return self._shared.seen

    def forward(self, question: str | Question, id: str | None = None) -> dspy.Prediction:  # noqa: A002
        """Answer one question. Never raises: an optimizer would score that with a constant.

        Args:
            question: The question, or its text.
            id: Id of one of the program's questions, when only the text is given.

        Returns:
            ``answer``; ``score`` from 0 to 1; ``tokens``; ``report``; ``error``, None when there
            is an answer; ``refused``, True where nothing was answered, which is no result.
        """
        shared = self._shared
        try:
            candidate = self.candidate
            asked = shared.questions[str(id)] if isinstance(question, str) else question
            shared.seen.setdefault(candidate.identity, candidate)
            # SIMBA tells samples of an answer apart by their model's rollout.
            model = getattr(self, self.tuned).lm
            epoch = 1 if model is None else 1 + int(model.kwargs.get("rollout_id") or 0)
            result = shared.evaluator.one(candidate, asked, epoch)
        except Exception as error:  # noqa: BLE001 -- see above
            return dspy.Prediction(
                answer="", score=0.0, tokens=0, report=None, error=str(error), refused=True
            )
        given = {"domain": asked.domain, "problem": asked.question}
        plan = "\n".join(map(_line, result.report["steps"])) or "(no plan)"
        said = {"solution": result.report["answer"]} if self.tuned == "solve" else {"plan": plan}
        _trace(getattr(self, self.tuned), given, dspy.Prediction(**said))  # also of a cached answer
        return dspy.Prediction(
            answer=result.report["answer"],
            score=result.score,
            tokens=result.tokens,
            report=result.report,
            error=result.error,
            refused=False,
        )


class _Shared(SharedOnDeepcopy):
    def __init__(self, evaluator: Evaluator, questions: Mapping[str, Question]) -> None:
        self.evaluator, self.questions = evaluator, questions
        self.seen: dict[str, Candidate] = {}


def _trace(predictor: dspy.Predict, given: Mapping[str, Any], said: dspy.Prediction) -> None:
    if dspy.settings.trace is not None:
        dspy.settings.trace.append((predictor, dict(given), said))


def _line(step: StepReport) -> str:
    hint = f" | {step['hint']}" if step["hint"] else ""
    graded = step["level"] is not None and step["credit"] is not None
    grades = f" (level {step['level']}, {step['credit']:.0f} credits)" if graded else ""
    return f"{step['index'] + 1}. {step['question']}{hint}{grades}"
