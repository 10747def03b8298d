"""Answers in Inspect's viewer: each call as a model event when it happens, plans as tables.

The graph asks LangChain models, which Inspect does not know. So an Inspect model repeats each call
as soon as its reply is there: the viewer shows prompts, replies, tokens and seconds as for its own
models, also of replies that an earlier run paid for.
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

    from inspect_ai.model import ChatMessage, StopReason
    from inspect_ai.solver import TaskState
    from inspect_ai.tool import ToolChoice, ToolInfo

    from optim.evaluation.cache import Call, Message
    from optim.evaluation.runner import Outcome
    from pb_graph.types import Report, StepReport

PROVIDER = "recorded"
_MANY = 10_000
KINDS = {"system": ChatMessageSystem, "human": ChatMessageUser, "ai": ChatMessageAssistant}
"""Inspect's messages by LangChain's names of their roles."""


@modelapi(name=PROVIDER)
class RecordedModel(ModelAPI):
    """Repeats one call."""

    def __init__(self, model_name: str, call: Call | None = None, **_: Any) -> None:  # noqa: ANN401
        super().__init__(model_name)
        self._call = call

    def max_connections(self) -> int:
        """Return a limit that no run reaches: nothing is asked here."""
        return _MANY

    async def generate(
        self,
        input: list[ChatMessage],  # noqa: A002, ARG002 -- inherited
        tools: list[ToolInfo],  # noqa: ARG002
        tool_choice: ToolChoice,  # noqa: ARG002
        config: GenerateConfig,  # noqa: ARG002
    ) -> ModelOutput:
        """Return the reply with its tokens and seconds."""
        if self._call is None:
            msg = (
                "this model only repeats the calls of LangChain models. A scorer that asks a model "
                "needs one of its own: model_graded_qa(model=...)"
            )
            raise RuntimeError(msg)
        return _output(self._call)


async def show_call(call: Call, cap: int) -> None:
    """Write a call into the transcript of the running sample, as an event of its model.

    Args:
        call: The call with its reply.
        cap: Completion tokens that it was allowed.
    """
    step = call["charge"]["step"]
    async with span(call["charge"]["node"] + ("" if step is None else f" step {step + 1}")):
        model = get_model(f"{PROVIDER}/{call['model']}", memoize=False, call=call)
        config = GenerateConfig(max_tokens=cap)
        await model.generate(_messages(call["messages"]), config=config)


def show_outcome(outcome: Outcome, state: TaskState) -> None:
    """Write an outcome into a sample: last messages, plan and budgets, and the report."""
    report = outcome.report
    state.store.set("report", report)
    state.store.set("error", outcome.error)
    transcript().info(_overview(report), source="plan and budgets")
    solving = [call for call in outcome.calls if call["charge"]["node"] not in PLANNING]
    if solving:
        state.messages = _messages(solving[-1]["messages"])
        state.messages.append(ChatMessageAssistant(content=solving[-1]["text"]))
    else:  # Inspect's own model has noted its calls itself
        state.messages.append(ChatMessageAssistant(content=report["answer"]))
    state.output = ModelOutput.from_content(state.model.name, report["answer"])


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
    """Return the plan with its budgets, and the tokens of each node, as Markdown."""
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
    """Return a cell; a model's text must not end it or the row."""
    if value is None or value == "":
        return "-"
    return " ".join(str(value).replace("|", "\\|").split())
