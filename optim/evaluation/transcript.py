"""Shows a finished answer in Inspect: its calls as model events, its plan and budgets as tables.

The graph talks to LangChain models, which Inspect does not know. So each call is said again to an
Inspect model that repeats what was recorded: the viewer then shows prompts, replies, tokens and
seconds as it does for its own models, also of answers that an earlier run paid for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from inspect_ai.log import transcript
from inspect_ai.model import (
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageUser,
    ModelAPI,
    ModelOutput,
    ModelUsage,
    get_model,
    modelapi,
)
from inspect_ai.util import span

from optim.records import PLANNING
from optim.report.formatting import NOTHING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from inspect_ai.model import ChatMessage, GenerateConfig, StopReason
    from inspect_ai.solver import TaskState
    from inspect_ai.tool import ToolChoice, ToolInfo

    from optim.evaluation.cache import Call, Message
    from optim.evaluation.runner import Outcome
    from pb_graph.types import Report, StepReport

PROVIDER = "recorded"
KINDS = {"system": ChatMessageSystem, "human": ChatMessageUser, "ai": ChatMessageAssistant}
"""Inspect's messages by LangChain's names of their roles."""


@modelapi(name=PROVIDER)
class RecordedModel(ModelAPI):
    """Repeats one recorded call."""

    def __init__(self, model_name: str, call: Call | None = None, **_: Any) -> None:  # noqa: ANN401
        super().__init__(model_name)
        self._call = call

    async def generate(
        self,
        input: list[ChatMessage],  # noqa: A002, ARG002 -- inherited
        tools: list[ToolInfo],  # noqa: ARG002
        tool_choice: ToolChoice,  # noqa: ARG002
        config: GenerateConfig,  # noqa: ARG002
    ) -> ModelOutput:
        """Give the recorded reply with its tokens and seconds."""
        if self._call is None:
            msg = (
                "a recorded model only repeats; solving is done by LangChain models, and a scorer "
                "that asks a model needs one of its own: model_graded_qa(model=...)"
            )
            raise RuntimeError(msg)
        return _output(self._call)


async def show(outcome: Outcome, state: TaskState) -> None:
    """Write an outcome into a sample: messages, transcript, and the report in the store."""
    report = outcome.report
    state.store.set("report", report)
    state.store.set("error", outcome.error)
    transcript().info(_overview(report), source="plan and budgets")
    for name, calls in _by_stage(outcome.calls).items():
        async with span(name):
            for call in calls:
                model = get_model(f"{PROVIDER}/{call['model']}", memoize=False, call=call)
                await model.generate(_messages(call["messages"]))
    solving = [call for call in outcome.calls if call["charge"]["node"] not in PLANNING]
    if solving:
        state.messages = _messages(solving[-1]["messages"])
        state.messages.append(ChatMessageAssistant(content=solving[-1]["text"]))
    else:  # Inspect's own model has noted its calls itself
        state.messages.append(ChatMessageAssistant(content=report["answer"]))
    state.output = ModelOutput.from_content(state.model.name, report["answer"])


def _by_stage(calls: Sequence[Call]) -> dict[str, list[Call]]:
    """Calls by node and step; steps that were solved at the same time are told apart."""
    stages: dict[str, list[Call]] = {}
    for call in calls:
        step = call["charge"]["step"]
        name = call["charge"]["node"] + ("" if step is None else f" step {step + 1}")
        stages.setdefault(name, []).append(call)
    return stages


def _messages(messages: Sequence[Message]) -> list[ChatMessage]:
    return [KINDS[message["role"]](content=message["content"]) for message in messages]


def _output(call: Call) -> ModelOutput:
    charge = call["charge"]
    reason: StopReason = "max_tokens" if charge["finish"] == "length" else "stop"
    output = ModelOutput.from_content(call["model"], call["text"], stop_reason=reason)
    output.usage = ModelUsage(
        input_tokens=charge["input_tokens"] - charge["cached_tokens"],
        output_tokens=charge["output_tokens"],
        total_tokens=charge["input_tokens"] + charge["output_tokens"],
        input_tokens_cache_read=charge["cached_tokens"],
        reasoning_tokens=charge["reasoning_tokens"],
    )
    output.time = charge["seconds"]
    return output


def _overview(report: Report) -> str:
    """The plan with its budgets, and where the tokens went, as Markdown."""
    known = (f"{name} {_or_dash(report[name])}" for name in ("level", "budget", "ceiling"))
    lines = [f"{', '.join(known)}, completion tokens **{report['usage']['output_tokens']}**"]
    if report["steps"]:
        head = ("#", "sub-question", "hint", "level", "credit", "budget", "cap", "spent", "ended")
        lines += ["", _row(head), _row(["---"] * len(head)), *map(_step_row, report["steps"])]
    lines += ["", _row(("node", "calls", "input", "output", "seconds")), _row(["---"] * 5)]
    lines += [
        _row((name, part["calls"], part["input_tokens"], part["output_tokens"], part["seconds"]))
        for name, part in report["usage"]["by_node"].items()
    ]
    lines += ["", *(f"- {warning}" for warning in report["warnings"])]
    return "\n".join(lines)


def _step_row(step: StepReport) -> str:
    after = "".join(f" (after {index + 1})" for index in step["depends_on"])
    cells = (step["index"] + 1, step["question"] + after, step["hint"], step["level"])
    spent = (step["credit"], step["budget"], step["cap"], step["tokens"], step["finish"])
    return _row(cells + spent)


def _row(cells: Sequence[object]) -> str:
    return f"| {' | '.join(map(_or_dash, cells))} |"


def _or_dash(value: object) -> str:
    """A cell; model text must not end it or the row."""
    if value is None or value == "":
        return NOTHING
    return " ".join(str(value).replace("|", "\\|").split())
