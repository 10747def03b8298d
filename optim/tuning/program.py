"""The graph as a DSPy program whose prompts can be tuned: for users, and for optimizers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self, cast

import dspy

from optim.datasets.dataset import Row
from optim.methods import reject_plan_review
from optim.tuning.candidate import Candidate, SharedOnDeepcopy, active_predictors, candidate_of
from pb_graph.errors import InputError, NoAnswerError
from pb_graph.graph import build_graph
from pb_graph.settings import Context

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from langgraph.graph.state import CompiledStateGraph

    from optim.evaluation.models import ModelSpec
    from pb_graph.models.caps import CapPolicy
    from pb_graph.planner.planner import Planner, Program
    from pb_graph.program import PlannerProgram
    from pb_graph.settings import Settings
    from pb_graph.state import Input, Output, State

    Graph = CompiledStateGraph[State, Context, Input, Output]

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
            found = found.with_instruction(name, predictor.signature.instructions)
            found = found.with_examples(name, predictor.demos)
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
        """Accept a rollout of BestOfN and Refine, and no other model of DSPy's.

        Raises:
            InputError: It is another model, which would never be asked.
        """
        if lm is not None and "rollout_id" not in lm.kwargs:
            msg = (
                "a GraphProgram asks the models that it was made with, and none of DSPy's: make "
                "another, such as GraphProgram('openai:gpt-5-mini', settings=program.settings, "
                "planner_program=program)"
            )
            raise InputError(msg)
        super().set_lm(lm)

    def program(self) -> PlannerProgram:
        """Return prompts and settings as they are saved, without a model's address."""
        saved = self.candidate.prompts().program()
        return saved.model_copy(update={"settings": self.settings})

    def save(self, path: str | Path) -> None:
        """Write the JSON file that ``build_graph(planner_program=path)`` and `load` read."""
        self.program().save(path)

    def load(self, path: str | Path) -> Self:
        """Take over the prompts of a saved program; the settings stay."""
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
        """
        graph = self.graph.compiled(self.settings)
        known = {name: inputs[name] for name in _INPUTS if inputs.get(name) is not None}
        known |= {"level": Row(known).level()} if "level" in known else {}  # "Level 3" as well
        asked = cast("Input", {**known, "question": question})
        error: str | None = None
        try:
            report = graph.invoke(asked, context=Context(planner_program=self.prompts))["report"]
        except NoAnswerError as failure:
            error, report = str(failure), failure.report
        answer = "" if error else report["answer"]
        if error is None and "solve" in self._open:
            trace(self.solve, {"problem": question}, solution=answer)
        tokens = report["usage"]["output_tokens"]
        return dspy.Prediction(answer=answer, tokens=tokens, report=report, error=error)


class GraphCache(SharedOnDeepcopy):
    """The models and the compiled graph of all copies of a program."""

    def __init__(self, model: ModelSpec, planner: ModelSpec, cap_policy: CapPolicy | None) -> None:
        self.model, self.planner, self.cap_policy = model, planner, cap_policy
        self._compiled: Graph | None = None

    def compiled(self, settings: Settings) -> Graph:
        """Return the graph, compiled once: prompts come with each question."""
        if self._compiled is None:
            reject_plan_review(settings)
            self._compiled = build_graph(
                self.model, planner=self.planner, settings=settings, cap_policy=self.cap_policy
            )
        return self._compiled


def trace(predictor: dspy.Predict, given: Mapping[str, Any], **said: str) -> None:
    """Tell DSPy of a call that the graph has made, or that was answered from the cache."""
    if dspy.settings.trace is not None:
        dspy.settings.trace.append((predictor, dict(given), dspy.Prediction(**said)))
