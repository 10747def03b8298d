"""Define the planner as a DSPy module that can be called, tuned, saved and loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Self, TypeVar, cast

import dspy

from pb_graph.errors import InputError
from pb_graph.models.reply import ASYNC, BLOCKING, IO, run_sync
from pb_graph.planner.plans import clean_plan
from pb_graph.planner.requests import PlannerRequest, level_request, plan_request
from pb_graph.planner.signatures import (
    Decompose,
    DecomposeAndEstimate,
    EstimateDifficulty,
    JudgeLevel,
    PlannerAdapter,
    Solve,
    select_inputs,
)
from pb_graph.program import PlannerProgram
from pb_graph.settings import Settings
from pb_graph.styles import Example, Style
from pb_graph.types import Query

T = TypeVar("T")


class Planner(dspy.Module):  # type: ignore[misc]  # dspy carries no types
    """Decomposes a question and estimates its difficulty.

    ``Planner()(question="…", level=3)`` asks DSPy's current language model and returns the plan;
    `build_graph` asks its own models with the same predictors.

    Attributes:
        decompose: Predictor of the plan.
        estimate: Predictor of the levels and credits of a plan.
        fused: Predictor of both in one call, for ``planning="fused"``.
        level: Predictor of the level of a question alone.
        solve: Holds the instruction and demos for the solver. Never called.
    """

    def __init__(self) -> None:
        super().__init__()
        self.decompose = dspy.Predict(Decompose)
        self.estimate = dspy.Predict(EstimateDifficulty)
        self.fused = dspy.Predict(DecomposeAndEstimate)
        self.solve = dspy.Predict(Solve)
        self.level = dspy.Predict(JudgeLevel)

    def forward(
        self,
        question: str,
        level: int | None = None,
        settings: Settings | None = None,
        **fields: str,
    ) -> dspy.Prediction:
        """Plan one question with DSPy's current language model; see ``dspy.context``.

        Args:
            question: The question.
            level: Its difficulty from 1 to 5; None to ask for it first.
            settings: Only ``planning``, ``max_steps``, ``domain`` and ``level_examples`` are used.
            fields: Values of further input fields that your own signature has.

        Returns:
            ``plan``, a list of `SubQuestion`, with levels and credits if ``planning="fused"``;
            ``level``; and ``warnings``, the corrections of the plan.

        Raises:
            AdapterParseError: If the reply holds no plan.
        """
        return run_sync(self._plan(BLOCKING, question, level, settings or Settings(), fields))

    async def aforward(
        self,
        question: str,
        level: int | None = None,
        settings: Settings | None = None,
        **fields: str,
    ) -> dspy.Prediction:
        """Plan one question as `forward` does, in an event loop."""
        return await self._plan(ASYNC, question, level, settings or Settings(), fields)

    async def _plan(
        self, io: IO, question: str, level: int | None, settings: Settings, fields: dict[str, str]
    ) -> dspy.Prediction:
        query: Query = {
            "question": question,
            "reference": None,
            "instruction": None,
            "answer_format": None,
            "domain": settings.domain,
            "level": level,
        }
        if level is None:
            query["level"] = (await self._ask(io, level_request(query, settings), fields)).level
        request = plan_request(query, settings, graded=settings.planning == "fused")
        raw_plan = await self._ask(io, request, fields)
        plan, warnings = clean_plan(raw_plan, query, settings.max_steps)
        return dspy.Prediction(plan=plan, level=query["level"], warnings=warnings)

    async def _ask(self, io: IO, request: PlannerRequest[T], fields: dict[str, str]) -> T:
        predictor = getattr(self, request.predictor)
        inputs = select_inputs(predictor.signature, request.inputs | fields)
        with dspy.context(adapter=PlannerAdapter(request.form, request.examples)):
            prediction = await io.call(predictor, predictor.acall, **inputs)
        return cast("T", next(iter(prediction.values())))

    @property
    def teaching(self) -> Style | None:
        """Instruction, if it was changed, and examples for the solver; None without either."""
        examples = tuple(
            Example(demo["problem"], demo["solution"])
            for demo in self.solve.demos
            if demo.get("problem") and demo.get("solution")
        )
        is_changed = not self.solve.signature.equals(Solve)
        if not examples and not is_changed:
            return None
        return Style(self.solve.signature.instructions if is_changed else "", examples)

    def program(self) -> PlannerProgram:
        """Return the instructions and demos as they are saved, without a model."""
        state = self.dump_state()
        return PlannerProgram(state={name: part | {"lm": None} for name, part in state.items()})

    def save(self, path: str | Path) -> None:
        """Write instructions and demos as JSON; never a pickle."""
        self.program().save(path)

    def load(self, program: PlannerProgram | str | Path) -> Self:
        """Take over the instructions and demos of a program.

        Args:
            program: A program, or the path of one that `save` or ``pb-optim tune`` wrote.

        Raises:
            InputError: If the file is no planner program, or its planner has other fields.
        """
        if not isinstance(program, PlannerProgram):
            program = PlannerProgram.load(program)
        try:
            for name, predictor in self.named_predictors():
                fields = program.state[name]["signature"]["fields"]
                if len(fields) != len(predictor.signature.fields):
                    msg = f"The planner program has other fields in {name!r}. Tune it again."
                    raise InputError(msg)
            self.load_state(program.state)
        except (LookupError, TypeError, AttributeError) as error:
            msg = (
                f"The planner program is damaged, or of another version: {error!r}. Tune it again."
            )
            raise InputError(msg) from error
        return self


def load_planner(program: Planner | PlannerProgram | str | Path | None) -> Planner:
    """Return the planner of a program; None for the package's own prompts.

    Raises:
        InputError: If the program does not fit, as in `Planner.load`.
    """
    if isinstance(program, Planner):
        return program
    return Planner() if program is None else Planner().load(program)
