"""Define the planner as a DSPy module, its prompts as signatures, and how a chat model is asked.

The docstrings of the signatures are what ``optim`` tunes: no tuning can break the form of a reply.
"""
# ruff: noqa: ANN401 -- DSPy's signatures carry no types

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self, TypeVar, cast

import dspy
from dspy.utils.exceptions import AdapterParseError
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage

from pb_graph.errors import InputError
from pb_graph.models.reply import ASYNC, BLOCKING, IO, run_sync
from pb_graph.planner.plans import Difficulty, Level, Plan, clean_plan
from pb_graph.planner.requests import PlannerRequest, level_request, plan_request
from pb_graph.program import PlannerProgram
from pb_graph.settings import Settings
from pb_graph.styles import STYLES, Example, Style
from pb_graph.types import Query

T = TypeVar("T")
_MESSAGES = {"system": SystemMessage, "user": HumanMessage, "assistant": AIMessage}


class Decompose(dspy.Signature):  # type: ignore[misc]  # dspy carries no types
    """Plan how to do a task, without doing it.

    Write the fewest parts that lead, in order, to what is asked for: two for a task of level 1 or
    2, three of level 3 or 4, up to five of level 5. Each part is a piece of work that the next ones
    build on: a quantity to find, a choice to make, a section or a function to write. Never state
    its outcome, and ask for nothing that is given. No part repeats another. The last part delivers
    exactly what the task asks for ("last"); only where the parts are written one behind the other
    and are the answer together, as the sections of a long text or the days of a trip, do all of
    them ("all"). Add a hint of a few words that names a method, never a result. Write in
    the language of the task.
    """

    domain: str = dspy.InputField(desc="Field", default="")
    problem: str = dspy.InputField(desc="Problem")
    level: str = dspy.InputField(desc="Difficulty", default="")
    correction: str = dspy.InputField(desc="Your last reply could not be used", default="")
    plan: Plan = dspy.OutputField()


class EstimateDifficulty(dspy.Signature):  # type: ignore[misc]
    """Judge how hard a task and its parts are, without doing it.

    Levels run from 1 (easiest) to 5 (hardest), by the ideas, the steps, the knowledge and the
    pitfalls involved. The whole task is worth 100 credits: share them among the parts by how much
    work each one takes.
    """

    domain: str = dspy.InputField(desc="Field", default="")
    examples: str = dspy.InputField(desc="Levels", default="")
    problem: str = dspy.InputField(desc="Problem")
    sub_questions: str = dspy.InputField(desc="Parts", default="")
    level: str = dspy.InputField(desc="Difficulty", default="")
    correction: str = dspy.InputField(desc="Your last reply could not be used", default="")
    difficulty: Difficulty = dspy.OutputField()


class JudgeLevel(dspy.Signature):  # type: ignore[misc]
    """Judge how hard a problem is, from L1 (easiest) to L5 (hardest), without solving it."""

    domain: str = dspy.InputField(desc="Field", default="")
    examples: str = dspy.InputField(desc="Levels", default="")
    problem: str = dspy.InputField(desc="")  # without a label: shorter
    correction: str = dspy.InputField(desc="Your last reply could not be used", default="")
    level: Level = dspy.OutputField()


DecomposeAndEstimate = Decompose.insert(
    1, "examples", dspy.InputField(desc="Levels", default=""), str
).with_instructions(
    f"{Decompose.instructions} Judge the level of each part, from 1 (easiest) to 5 (hardest), and "
    "share 100 credits among the parts by how much work each one takes."
)
"""`Decompose`, which also asks for the level and the credit of each part."""


class Solve(dspy.Signature):  # type: ignore[misc]  # noqa: D101 -- the docstring is set below
    __doc__ = STYLES["auto"].instruction

    problem: str = dspy.InputField(desc="Problem")
    solution: str = dspy.OutputField()


class Planner(dspy.Module):  # type: ignore[misc]
    """Decomposes a question and estimates its difficulty.

    ``Planner()(question="…", level=3)`` asks DSPy's current language model and returns the plan;
    `build_graph` asks its own models. docs/concepts/plan.md says what each predictor is for.
    """

    def __init__(self) -> None:
        super().__init__()
        self.decompose = dspy.Predict(Decompose)
        self.estimate = dspy.Predict(EstimateDifficulty)
        self.fused = dspy.Predict(DecomposeAndEstimate)
        self.solve = dspy.Predict(Solve)  # shown to the solver, never called
        self.level = dspy.Predict(JudgeLevel)

    def forward(
        self, question: str, level: int | None = None, settings: Settings | None = None, **more: str
    ) -> dspy.Prediction:
        """Plan one question with DSPy's current language model; see ``dspy.context``.

        Args:
            question: The question.
            level: Its difficulty from 1 to 5; None to ask for it first.
            settings: Only ``planning``, ``max_steps``, ``domain`` and ``level_examples`` are used.
            more: Values of further input fields that your own signature has.

        Returns:
            ``plan``, a list of `SubQuestion`, with levels and credits if ``planning="fused"``;
            ``level``; and ``warnings``, the corrections of the plan.

        Raises:
            AdapterParseError: If the reply holds no plan.
        """
        return run_sync(self._plan(BLOCKING, question, level, settings or Settings(), more))

    async def aforward(
        self, question: str, level: int | None = None, settings: Settings | None = None, **more: str
    ) -> dspy.Prediction:
        """Plan one question as `forward` does, in an event loop."""
        return await self._plan(ASYNC, question, level, settings or Settings(), more)

    async def _plan(
        self, io: IO, question: str, level: int | None, settings: Settings, more: Mapping[str, str]
    ) -> dspy.Prediction:
        asked = {"question": question, "domain": settings.domain, "level": level}
        query = cast("Query", dict.fromkeys(("reference", "instruction", "answer_format")) | asked)
        if level is None:
            query["level"] = (await self._ask(level_request(query, settings), io, more)).level
        request = plan_request(query, settings, graded=settings.planning == "fused")
        plan, warnings = clean_plan(await self._ask(request, io, more), query, settings.max_steps)
        return dspy.Prediction(plan=plan, level=query["level"], warnings=warnings)

    async def _ask(self, request: PlannerRequest[T], io: IO, more: Mapping[str, str]) -> T:
        request.inputs.update(more)
        predictor, adapter, inputs = self._parts(request)
        with dspy.context(adapter=adapter):
            prediction = await io.call(predictor, predictor.acall, **inputs)
        return cast("T", next(iter(prediction.values())))

    def messages(self, request: PlannerRequest[T]) -> list[BaseMessage]:
        """Return the messages of a request to a chat model."""
        predictor, adapter, inputs = self._parts(request)
        said = adapter.format(predictor.signature, predictor.demos, inputs)
        return [_MESSAGES[each["role"]](content=each["content"]) for each in said]

    def read(self, request: PlannerRequest[T], text: str, *, traced: bool) -> tuple[T | None, str]:
        """Read the reply to a request.

        Args:
            request: The request.
            text: The text of the reply.
            traced: Whether an optimizer's trace sees the call. DSPy's default one only grows.

        Returns:
            The value, None if the reply cannot be read; and why it cannot.
        """
        predictor = getattr(self, request.predictor)
        try:
            found = PlannerAdapter(request).parse(predictor.signature, text)
        except AdapterParseError as error:
            return None, str(error.__cause__) if text else "it was empty"
        if traced and dspy.settings.trace is not None:
            _, _, inputs = self._parts(request)
            dspy.settings.trace.append((predictor, inputs, dspy.Prediction(**found)))
        return next(iter(found.values())), ""

    def _parts(self, request: PlannerRequest[T]) -> tuple[Any, PlannerAdapter, dict[str, str]]:
        """Return the predictor of a request, its adapter, and the inputs that it has fields for."""
        predictor, known = getattr(self, request.predictor), request.inputs
        inputs = {name: known[name] for name in predictor.signature.input_fields if name in known}
        return predictor, PlannerAdapter(request), inputs

    @property
    def teaching(self) -> Style | None:
        """Instruction, if it was changed, and examples for the solver; None without either."""
        shown = [(demo.get("problem"), demo.get("solution")) for demo in self.solve.demos]
        examples = tuple(Example(*pair) for pair in shown if all(pair))
        signature = self.solve.signature
        instruction = "" if signature.equals(Solve) else signature.instructions
        return Style(instruction, examples) if examples or instruction else None

    def program(self) -> PlannerProgram:
        """Return the instructions and demos as they are saved, without a model."""
        state = self.dump_state()
        return PlannerProgram(state={name: part | {"lm": None} for name, part in state.items()})

    def save(self, path: str | Path) -> None:
        """Write instructions and demos as JSON; never a pickle."""
        self.program().save(path)

    def load(self, program: PlannerProgram | str | Path) -> Self:
        """Take over a program's instructions and demos; raise InputError if they do not fit."""
        if not isinstance(program, PlannerProgram):
            program = PlannerProgram.load(program)
        try:
            for name, part in self.named_predictors():
                if len(program.state[name]["signature"]["fields"]) != len(part.signature.fields):
                    msg = f"The planner program has other fields in {name!r}. Tune it again."
                    raise InputError(msg)
            self.load_state(program.state)
        except (LookupError, TypeError, AttributeError) as error:
            msg = f"The planner program is damaged, or outdated: {error!r}. Tune it again."
            raise InputError(msg) from error
        return self


def load_planner(program: Planner | PlannerProgram | str | Path | None) -> Planner:
    """Return the planner of a program, with the errors of `load`; None for our own prompts."""
    if isinstance(program, Planner):
        return program
    return Planner() if program is None else Planner().load(program)


class PlannerAdapter(dspy.Adapter):  # type: ignore[misc]
    """Renders a signature without DSPy's headers, which cost tokens and small models get wrong."""

    def __init__(self, request: PlannerRequest[Any]) -> None:
        super().__init__()
        self.request = request

    def format(
        self, signature: Any, demos: list[dict[str, Any]], inputs: dict[str, Any]
    ) -> list[dict[str, Any]]:
        """Return the messages: form, then demos, or the examples, then the inputs."""
        name, reply_type = _output_of(signature)
        examples = [demo for demo in demos if is_demo(signature, demo)]
        examples = examples or [{**fields, name: reply} for fields, reply in self.request.examples]
        said = [("system", f"{signature.instructions}\n\n{self.request.form}")]
        for demo in examples:
            reply = demo[name]
            if not isinstance(reply, str):  # a demo that was saved and loaded is a mapping
                reply = reply_type.model_validate(reply).to_text()
            said += [("user", _render(signature, demo)), ("assistant", reply)]
        said.append(("user", _render(signature, inputs)))
        return [{"role": role, "content": text} for role, text in said]

    def parse(self, signature: Any, completion: str) -> dict[str, Any]:
        """Return a reply's output field by its name; raise AdapterParseError if it has none."""
        name, reply_type = _output_of(signature)
        try:
            return {name: reply_type.read(completion)}
        except ValueError as error:
            adapter, reason = type(self).__name__, str(error)
            raise AdapterParseError(adapter, signature, completion, reason) from error


def _output_of(signature: Any) -> tuple[str, Any]:
    """Return the name and the type of the one output field of a planner signature."""
    ((name, field),) = signature.output_fields.items()
    return name, field.annotation


def is_demo(signature: Any, demo: Any) -> bool:
    """Return whether a demo has a problem and a reply; optimizers add rows of training data, too.

    Args:
        signature: The signature of the predictor that shows the demo.
        demo: A mapping or ``dspy.Example``.
    """
    name, reply_type = _output_of(signature)
    return bool(demo.get("problem")) and isinstance(demo.get(name), reply_type | str | dict)


def _render(signature: Any, values: Any) -> str:
    """Return the input fields that have a value, each below its label."""
    parts = []
    for name, field in signature.input_fields.items():
        if value := values.get(name):
            label = field.json_schema_extra["desc"]
            if label.startswith("${"):  # DSPy's own, where a field has no description
                label = name.replace("_", " ").capitalize()
            parts.append(f"{label}:\n{value}" if label else str(value))
    return "\n\n".join(parts)
