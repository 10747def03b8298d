"""A model provider of Inspect that asks no server: `inspect eval --model scripted/NAME`.

It plans in two steps and answers 42, within its cap; a token is a word. Each call is a line of the
file that ``SCRIPTED_CALLS`` names.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from inspect_ai.model import ModelAPI, ModelOutput, ModelUsage, modelapi

SAYS = "1. Which one? 2. How many?\nFinal answer: 42"
THOUGHT = 3
"""Reasoning tokens that each call has beside its words."""


@modelapi(name="scripted")
class ScriptedApi(ModelAPI):
    """Says the same each time."""

    async def generate(self, input: Any, tools: Any, tool_choice: Any, config: Any) -> ModelOutput:  # noqa: A002, ANN401, ARG002 -- inherited
        words = SAYS.replace(" 2.", "\n2.").split(" ")
        said = words[: config.max_tokens]
        ended = "stop" if len(said) == len(words) else "max_tokens"
        output = ModelOutput.from_content(self.model_name, " ".join(said), stop_reason=ended)
        spent = len(said) + THOUGHT
        output.usage = ModelUsage(
            input_tokens=5, output_tokens=spent, total_tokens=5 + spent, reasoning_tokens=THOUGHT
        )
        call = {"model": self.model_name, "cap": config.max_tokens, "tokens": spent}
        with Path(os.environ["SCRIPTED_CALLS"]).open("a") as file:  # noqa: ASYNC230 -- a short line
            file.write(json.dumps(call) + "\n")
        return output
