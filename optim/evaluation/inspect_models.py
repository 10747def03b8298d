"""Adapt Inspect's models to LangChain's, and LangChain's to Inspect's.

`pb-optim eval` asks LangChain models, which Inspect does not know: `show_call` has an Inspect model
repeat each call, so the viewer shows prompts, replies, tokens and seconds as for its own models.
With `inspect eval`, the graph calls Inspect's model through `InspectChat`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.messages.ai import InputTokenDetails, OutputTokenDetails, UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatResult

from pb_graph.budget.bill import Bill

if TYPE_CHECKING:
    from collections.abc import Sequence

    from inspect_ai.model import ChatMessage

    from optim.evaluation.store import Call

PROVIDER = "recorded"
_KINDS = {"system": ChatMessageSystem, "human": ChatMessageUser, "ai": ChatMessageAssistant}


def to_inspect(messages: Sequence[BaseMessage]) -> list[ChatMessage]:
    """Return LangChain's messages as Inspect's."""
    return [_KINDS[message.type](content=str(message.text)) for message in messages]


async def show_call(call: Call) -> None:
    """Write a call into the transcript of the running sample, under its node and step."""
    charge = call.charge
    output = ModelOutput.from_content(
        call.model, call.text, stop_reason="max_tokens" if charge["finish"] == "length" else "stop"
    )
    bill = Bill.of(call.model, charge["usage"])
    output.usage = ModelUsage(
        input_tokens=bill.input - bill.cached,
        output_tokens=bill.output,
        total_tokens=bill.input + bill.output,
        input_tokens_cache_read=bill.cached,
        reasoning_tokens=bill.reasoning,
    )
    output.time = charge["seconds"]
    step = "" if charge["step"] is None else f" step {charge['step'] + 1}"
    async with span(f"{charge['node']}{step}"):
        model = get_model(f"{PROVIDER}/{call.model}", memoize=False, output=output)
        config = GenerateConfig(max_tokens=charge["cap"])
        await model.generate(to_inspect(call.messages), config=config)


@modelapi(name=PROVIDER)
class RecordedModel(ModelAPI):
    """Returns one recorded call again."""

    def __init__(self, model_name: str, output: ModelOutput | None = None, **_: Any) -> None:  # noqa: ANN401
        super().__init__(model_name)
        self._output = output

    def max_connections(self) -> int:
        """Return a limit that no run reaches, because this model makes no request."""
        return 10_000

    async def generate(self, *_: Any, **__: Any) -> ModelOutput:  # noqa: ANN401 -- inherited
        """Return the reply with its tokens and seconds."""
        if self._output is None:
            msg = "a scorer that asks a model needs one of its own: model_graded_qa(model=...)"
            raise RuntimeError(msg)
        return self._output


class InspectChat(BaseChatModel):
    """Asks the model that Inspect evaluates, or the model of a role, in an event loop.

    Attributes:
        role: Role of ``--model-role``; None, or a role without a model, means ``--model``.
        max_tokens: Declares that calls take a cap under this name.
        timeout: Seconds. Long, as Inspect keeps the time and waits for connections within a call.
    """

    role: str | None = None
    max_tokens: int | None = None
    timeout: float = 86_400.0

    @property
    def _llm_type(self) -> str:
        return "inspect"

    def _generate(self, *_: Any, **__: Any) -> ChatResult:  # noqa: ANN401 -- inherited
        raise NotImplementedError

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: object = None,  # noqa: ARG002 -- inherited
        **given: Any,  # noqa: ANN401
    ) -> ChatResult:
        model = get_model(role=self.role) if self.role else get_model()
        options = {name: given[name] for name in ("max_tokens", "temperature") if name in given}
        config = GenerateConfig(stop_seqs=stop, **options)
        output = await model.generate(to_inspect(messages), config=config)
        return ChatResult(generations=[ChatGeneration(message=_to_langchain(output))])


def _to_langchain(output: ModelOutput) -> AIMessage:
    """Return the reply with its tokens in LangChain's terms, where input includes cached tokens."""
    usage, tokens = output.usage, None
    if usage is not None:
        cached = usage.input_tokens_cache_read or 0
        input_tokens = usage.input_tokens + cached + (usage.input_tokens_cache_write or 0)
        tokens = UsageMetadata(
            input_tokens=input_tokens,
            output_tokens=usage.output_tokens,
            total_tokens=input_tokens + usage.output_tokens,
            input_token_details=InputTokenDetails(cache_read=cached),
            output_token_details=OutputTokenDetails(reasoning=usage.reasoning_tokens or 0),
        )
    about = {"finish_reason": output.stop_reason, "model_name": output.model}
    return AIMessage(output.completion, response_metadata=about, usage_metadata=tokens)
