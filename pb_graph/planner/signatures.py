"""The prompts of planner and solver as DSPy signatures, and the adapter that renders them.

The docstrings are the instructions, which ``optim`` tunes, and `with_instructions` replaces. The
adapter adds the form of the reply, so that no optimizer can break it.
"""
# ruff: noqa: ANN401 -- DSPy's signatures carry no types

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dspy
from dspy.utils.exceptions import AdapterParseError

from pb_graph.planner.plans import Difficulty, Level, Plan
from pb_graph.planner.requests import Example
from pb_graph.styles import STYLES


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


class PlannerAdapter(dspy.Adapter):  # type: ignore[misc]
    """Renders a signature in a few lines, and lets the type of its one output read the reply.

    DSPy's own adapters frame each field by headers, which cost a planner output tokens and which
    small models often get wrong.

    Args:
        form: The form of the reply, in words.
        examples: Exchanges to show while the predictor has no demos of its own.
    """

    def __init__(self, form: str, examples: Sequence[Example] = ()) -> None:
        super().__init__()
        self.form, self.examples = form, examples

    def format(
        self, signature: Any, demos: list[dict[str, Any]], inputs: dict[str, Any]
    ) -> list[dict[str, Any]]:
        """Return the messages: instructions and form, then the examples, then the inputs.

        Args:
            signature: The signature of the predictor.
            demos: The demos of the predictor; without any, `examples` are shown.
            inputs: Values of the input fields by name; empty ones are left out.
        """
        name, reply_type = _output_of(signature)
        examples = [demo for demo in demos if is_demo(signature, demo)]
        examples = examples or [{**fields, name: reply} for fields, reply in self.examples]
        said = [("system", f"{signature.instructions}\n\n{self.form}")]
        for demo in examples:
            reply = demo[name]
            if not isinstance(reply, str):  # a demo that was saved and loaded is a mapping
                reply = reply_type.model_validate(reply).to_text()
            said += [("user", _render(signature, demo)), ("assistant", reply)]
        said.append(("user", _render(signature, inputs)))
        return [{"role": role, "content": text} for role, text in said]

    def parse(self, signature: Any, completion: str) -> dict[str, Any]:
        """Return the output field of a reply by its name.

        Raises:
            AdapterParseError: If the output type finds nothing that it can use.
        """
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
        label = field.json_schema_extra["desc"]
        if label.startswith("${"):  # DSPy's own, where a field has no description
            label = name.replace("_", " ").capitalize()
        if value := values.get(name):
            parts.append(f"{label}:\n{value}" if label else str(value))
    return "\n\n".join(parts)
