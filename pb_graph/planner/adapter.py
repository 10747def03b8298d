"""DSPy's prompt and parser for small planners: terse in, tolerant out."""
# ruff: noqa: ANN401 -- DSPy's signatures carry no types

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dspy
from dspy.utils.exceptions import AdapterParseError

from pb_graph.planner.requests import Example


class TerseAdapter(dspy.Adapter):  # type: ignore[misc]  # dspy carries no types
    """Renders a signature in a few lines and lets its output type read the reply.

    DSPy's own adapters frame every field with a header that a small model has to write, too,
    which costs output tokens and often goes wrong. Our signatures have one output each, whose type
    knows how to read free text (``read``) and how to write itself as an example (``written``).

    Args:
        form: What the reply has to look like; said last, and not open to tuning.
        examples: Shown when the predictor brings none of its own.
    """

    def __init__(self, form: str, examples: Sequence[Example] = ()) -> None:
        super().__init__()
        self.form = form
        self.examples = examples

    def format(
        self, signature: Any, demos: list[dict[str, Any]], inputs: dict[str, Any]
    ) -> list[dict[str, Any]]:
        """Instructions and form as the system message, then examples, then the inputs."""
        messages = [_message("system", f"{signature.instructions}\n\n{self.form}")]
        shown = [demo for demo in demos if is_example(signature, demo)]
        for asked, answered in () if shown else self.examples:
            messages += [_message("user", asked), _message("assistant", answered)]
        for demo in shown:
            messages.append(_message("user", _render(signature, demo)))
            messages.append(_message("assistant", _written(signature, demo)))
        return [*messages, _message("user", _render(signature, inputs))]

    def parse(self, signature: Any, completion: str) -> dict[str, Any]:
        """Read the one output field.

        Raises:
            AdapterParseError: The output type found nothing it could use.
        """
        name = _output_name(signature)
        try:
            return {name: signature.output_fields[name].annotation.read(completion)}
        except ValueError as error:
            raise AdapterParseError(
                adapter_name=type(self).__name__,
                signature=signature,
                lm_response=completion,
                message=str(error),
            ) from error


def is_example(signature: Any, demo: Any) -> bool:
    """Whether a demo asks and answers; DSPy's optimizers add rows of the training data as well."""
    name = _output_name(signature)
    kinds = (signature.output_fields[name].annotation, str, dict)
    return bool(demo.get("problem")) and isinstance(demo.get(name), kinds)


def _output_name(signature: Any) -> str:
    (name,) = signature.output_fields
    return str(name)


def _render(signature: Any, values: dict[str, Any]) -> str:
    """The inputs that are there, each under its label; text from outside stays below its label."""
    parts = []
    for name, field in signature.input_fields.items():
        value = values.get(name)
        if value:
            parts.append(f"{field.json_schema_extra['desc']}:\n{value}")
    return "\n\n".join(parts)


def _written(signature: Any, demo: Any) -> str:
    """An example's reply; one that was saved and loaded is a mapping by now."""
    name = _output_name(signature)
    output = demo[name]
    if isinstance(output, str):
        return output
    kind = signature.output_fields[name].annotation
    return str(kind.model_validate(output).written())


def _message(role: str, content: str) -> dict[str, Any]:
    return {"role": role, "content": content}
