"""The graph as a DSPy program with a prompt that can be tuned: for users, and for optimizers.

`GraphProgram` answers with the graph; `TrialProgram` with the evaluator, scored and paid for once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self, cast

import dspy

from optim.datasets.dataset import parse_level
from optim.methods import check_unattended
from optim.tuning.candidate import Candidate, SharedOnDeepcopy, candidate_of, used_by
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
    from optim.tuning.evaluator import Evaluator, Result
    from pb_graph.models.caps import CapPolicy
    from pb_graph.planner.planner import Planner, Program
    from pb_graph.program import PlannerProgram
    from pb_graph.settings import Settings
    from pb_graph.state import Input, Output, State
    from pb_graph.types import StepReport

    Graph = CompiledStateGraph[State, Context, Input, Output]

# MIPROv2 cuts off the first words of an instruction when a colon follows them ("Be brief: ask
# only ..."). An invisible character in front keeps it from that; it never reaches a model.
GUARD = "\u2060"
_ABOUT = ("reference", "instruction", "answer_format", "domain", "level")


class TunableProgram(dspy.Module):  # type: ignore[misc]  # dspy carries no types
    """A program whose predictors hold what planner and solver are told.

    They are read at every call, so that the copy which an optimizer has changed is the one that is
    used. The predictors that are not named stay as they were, and are no part of the program.

    Args:
        base: What the program starts from.
        predictors: Names of the predictors that are open to tuning; the attribute of that name
            holds each.
    """

    def __init__(self, base: Candidate, *predictors: str) -> None:
        super().__init__()
        self._open, self._base = predictors, base
        planner = base.prompts()
        for name in predictors:
            setattr(self, name, getattr(planner, name))

    @property
    def candidate(self) -> Candidate:
        """What this copy of the program is by now.

        Raises:
            InputError: An instruction is empty or too long.
        """
        found = self._base
        for name in self._open:
            predictor = getattr(self, name)
            text = predictor.signature.instructions.replace(GUARD, "")
            found = found.with_instruction(name, text).with_examples(name, predictor.demos)
        return found


class GraphProgram(TunableProgram):
    """Answers questions with the graph, planner and solver told whatever this program says by now.

    A DSPy module like any other: its optimizers and its evaluation can be used as they are. The
    predictors that are open are those that the settings make use of, ``decompose`` (or ``fused``),
    ``estimate`` and ``solve``; ``decompose`` where that is none. A trained program is used by
    ``build_graph(planner_program=program)``, and saved by ``program.save(path)`` for
    ``build_graph(planner_program=path)``.

    Args:
        model: Solves, as for `build_graph`; made at the first question when it is a name.
        planner: Plans; None for the same model.
        settings: How the graph works. A mapping overrides single ones of the saved program, else
            of the defaults.
        planner_program: A tuned planner, or what was saved of one, to begin from.
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
        super().__init__(base, *(used_by(base.settings).values() or ["decompose"]))
        self.graphs = Graphs(model, planner, cap_policy)

    @property
    def settings(self) -> Settings:
        """How the graph works."""
        return self._base.settings

    @property
    def prompts(self) -> Planner:
        """A planner of this program's own predictors: what an optimizer changes, it says."""
        planner = self._base.prompts()
        for name in self._open:
            setattr(planner, name, getattr(self, name))
        return planner

    def set_lm(self, lm: dspy.LM | None) -> None:
        """Take what BestOfN, Refine and SIMBA tell samples apart by, and no other model of DSPy's.

        Raises:
            InputError: It is another: nothing would be asked of it.
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
        """What is saved of it: prompts and settings, never a model's address.

        Raises:
            InputError: An instruction is empty or too long.
        """
        saved = self.candidate.prompts().program()
        return saved.model_copy(update={"settings": self.settings})

    def save(self, path: str | Path) -> None:
        """Write what ``build_graph(planner_program=path)`` and `load` take; never a pickle.

        Raises:
            InputError: As `program`.
            PlannerProgramError: It cannot be written.
        """
        self.program().save(path)

    def load(self, path: str | Path) -> Self:
        """Take over the prompts of a saved program; the settings stay as they are.

        Raises:
            PlannerProgramError: The file is missing, or does not fit.
        """
        found = GraphProgram(planner_program=path, settings=self.settings)
        for name in self._open:
            setattr(self, name, getattr(found, name))
        self._base = found._base
        return self

    def with_candidate(self, candidate: Candidate) -> GraphProgram:
        """The same models, with another candidate's words and settings."""
        return GraphProgram(
            self.graphs.model,
            planner=self.graphs.planner,
            settings=candidate.settings,
            planner_program=candidate.prompts(),
            cap_policy=self.graphs.cap_policy,
        )

    def forward(self, question: str, **about: Any) -> dspy.Prediction:  # noqa: ANN401 -- see Input
        """Answer one question.

        A question that the model could not answer is a wrong answer at what it cost: raised, an
        optimizer would score it with a constant.

        Args:
            question: What is asked.
            about: What else the graph takes: level, domain, instruction, answer_format,
                reference. Whatever else an example brings is left out.

        Returns:
            ``answer``; ``tokens``, the completion tokens it took, planning included; ``report``;
            ``error``, None when there is an answer.

        Raises:
            ModelSetupError: There is no such model.
            InputError: The question is empty or too long, or its level is not 1 to 5.
        """
        return run_sync(self._answer(question, about, blocking=True))

    async def aforward(self, question: str, **about: Any) -> dspy.Prediction:  # noqa: ANN401
        """As `forward`, for ``await program.acall(question=...)``."""
        return await self._answer(question, about, blocking=False)

    async def _answer(
        self, question: str, about: Mapping[str, Any], *, blocking: bool
    ) -> dspy.Prediction:
        graph, context = self.graphs.of(self.settings), Context(planner_program=self.prompts)
        known = {name: about[name] for name in _ABOUT if about.get(name) is not None}
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
            trace(self.solve, {"problem": question}, dspy.Prediction(solution=report["answer"]))
        return dspy.Prediction(
            answer="" if error else report["answer"],
            tokens=report["usage"]["output_tokens"],
            report=report,
            error=error and str(error),
        )


def trace(predictor: dspy.Predict, given: Mapping[str, Any], said: dspy.Prediction) -> None:
    """Show an optimizer, if one listens, what a predictor was asked and what came of it."""
    if dspy.settings.trace is not None:
        dspy.settings.trace.append((predictor, dict(given), said))


class Graphs(SharedOnDeepcopy):
    """The graph for all copies of a program: prompts come with each question."""

    def __init__(self, model: ModelSpec, planner: ModelSpec, cap_policy: CapPolicy | None) -> None:
        self.model = model
        self.planner = planner
        self.cap_policy = cap_policy
        self._made: Graph | None = None

    def of(self, settings: Settings) -> Graph:
        """Compile it, or give the one that was compiled before."""
        if self._made is None:
            check_unattended(settings)
            self._made = build_graph(
                self.model, planner=self.planner, settings=settings, cap_policy=self.cap_policy
            )
        return self._made


class TrialProgram(TunableProgram):
    """Answers with the evaluator, whatever this copy's predictor says by now.

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
        self.tuned = predictor
        self._shared = _Shared(evaluator, questions)

    @property
    def candidate(self) -> Candidate:
        """What this copy of the program is by now, with the examples that it started from.

        Raises:
            InputError: Its instruction is empty or too long, or an optimizer has given it examples:
                recalled plans are known as they were read, not as they were written.
        """
        predictor = getattr(self, self.tuned)
        if predictor.demos and predictor.demos != self._base.examples.get(self.tuned):
            msg = "only instructions are tuned: use an optimizer without examples (0 demos)"
            raise InputError(msg)
        text = predictor.signature.instructions.replace(GUARD, "")
        return self._base.with_instruction(self.tuned, text)

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
            # Which sample is wanted: SIMBA tells them apart by their model's rollout.
            model = getattr(self, self.tuned).lm
            epoch = 1 if model is None else 1 + int(model.kwargs.get("rollout_id") or 0)
            result = shared.evaluator.one(candidate, asked, epoch)
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

    def _trace(self, question: Question, result: Result) -> None:
        """Show an optimizer what the predictor did, also where the answer was recalled."""
        given = {"domain": question.domain, "problem": question.question}
        plan = "\n".join(map(_line, result.report["steps"]))
        said = dspy.Prediction(plan=plan or "(no plan)")
        if self.tuned == "solve":
            said = dspy.Prediction(solution=result.report["answer"])
        trace(getattr(self, self.tuned), given, said)


class _Shared(SharedOnDeepcopy):
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
