"""Answers in Inspect's viewer: each call as a model event, and the report.

The graph asks LangChain models, which Inspect does not know. So an Inspect model repeats each call:
the viewer shows prompts, replies, tokens and seconds as for its own models, also of replies that an
earlier run paid for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from inspect_ai.log import transcript
from inspect_ai.model import (
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageUser,
    GenerateConfig,
    ModelAPI,
    ModelOutput,
    ModelUsage,
    get_model,
    modelapi,
)
from inspect_ai.util import span

from optim.records import PLANNING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from inspect_ai.model import ChatMessage
    from inspect_ai.solver import TaskState

    from optim.evaluation.cache import Call, Message
    from optim.evaluation.runner import Outcome

PROVIDER = "recorded"
KINDS = {"system": ChatMessageSystem, "human": ChatMessageUser, "ai": ChatMessageAssistant}
"""Inspect's messages by LangChain's names of their roles."""

_OVERVIEW = ("level", "budget", "ceiling", "steps", "warnings")


@modelapi(name=PROVIDER)
class RecordedModel(ModelAPI):
    """Repeats one call."""

    def __init__(self, model_name: str, call: Call | None = None, **_: Any) -> None:  # noqa: ANN401
        super().__init__(model_name)
        self._call = call

    def max_connections(self) -> int:
        """Return a limit that no run reaches: nothing is asked here."""
        return 10_000

    async def generate(self, *_: Any, **__: Any) -> ModelOutput:  # noqa: ANN401 -- inherited
        """Return the reply with its tokens and seconds."""
        if self._call is None:
            msg = (
                "this model only repeats the calls of LangChain models. A scorer that asks a model "
                "needs one of its own: model_graded_qa(model=...)"
            )
            raise RuntimeError(msg)
        charge = self._call["charge"]
        output = ModelOutput.from_content(
            self._call["model"],
            self._call["text"],
            stop_reason="max_tokens" if charge["finish"] == "length" else "stop",
        )
        output.usage = ModelUsage(
            input_tokens=charge["input_tokens"] - charge["cached_tokens"],
            output_tokens=charge["output_tokens"],
            total_tokens=charge["input_tokens"] + charge["output_tokens"],
            input_tokens_cache_read=charge["cached_tokens"],
            reasoning_tokens=charge["reasoning_tokens"],
        )
        output.time = charge["seconds"]
        return output


async def show_outcome(outcome: Outcome, state: TaskState) -> None:
    """Write an outcome into a sample: its calls and last messages, plan and budgets, the report."""
    for call in outcome.calls:
        step = call["charge"]["step"]
        async with span(call["charge"]["node"] + ("" if step is None else f" step {step + 1}")):
            model = get_model(f"{PROVIDER}/{call['model']}", memoize=False, call=call)
            config = GenerateConfig(max_tokens=call["charge"]["cap"])
            await model.generate(_messages(call["messages"]), config=config)
    report = outcome.report
    state.store.set("report", report)
    state.store.set("error", outcome.error)
    overview: dict[str, Any] = {name: value for name, value in report.items() if name in _OVERVIEW}
    transcript().info(overview, source="plan and budgets")
    solving = [call for call in outcome.calls if call["charge"]["node"] not in PLANNING]
    if solving:
        state.messages = _messages(solving[-1]["messages"])
        state.messages.append(ChatMessageAssistant(content=solving[-1]["text"]))
    else:  # Inspect's own model has noted its calls itself
        state.messages.append(ChatMessageAssistant(content=report["answer"]))
    state.output = ModelOutput.from_content(state.model.name, report["answer"])


def _messages(messages: Sequence[Message]) -> list[ChatMessage]:
    return [KINDS[message["role"]](content=message["content"]) for message in messages]
