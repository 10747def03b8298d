"""Inspect's model as a LangChain chat model, so that ``inspect eval --model`` says who answers.

Its retries, time limits, cache, connections and log stay Inspect's. A call's cap goes with it as
``max_tokens``; whatever else the user has set on Inspect's command line stands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from inspect_ai.model import (
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageUser,
    GenerateConfig,
    get_model,
)
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.messages.ai import InputTokenDetails, OutputTokenDetails, UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatResult

if TYPE_CHECKING:
    from inspect_ai.model import ChatMessage, ModelOutput, ModelUsage

_KINDS = {"system": ChatMessageSystem, "human": ChatMessageUser, "ai": ChatMessageAssistant}
_DAYS = 86_400.0


class InspectChat(BaseChatModel):
    """Asks the model that Inspect evaluates, or the one of a role; within an event loop only.

    Attributes:
        role: Of ``--model-role``; without such a model, and for None, it is that of ``--model``.
        max_tokens: Declares that calls take a cap under this name.
        timeout: Seconds; long, as Inspect keeps time, and waits for connections within a call.
    """

    role: str | None = None
    max_tokens: int | None = None
    timeout: float = _DAYS

    @property
    def _llm_type(self) -> str:
        return "inspect"

    def _generate(self, *_: Any, **__: Any) -> ChatResult:  # noqa: ANN401 -- inherited
        msg = "Inspect's models are asked within its event loop: use ainvoke"
        raise NotImplementedError(msg)

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: object = None,  # noqa: ARG002 -- inherited
        **given: Any,  # noqa: ANN401
    ) -> ChatResult:
        model = get_model(role=self.role) if self.role else get_model()
        options = {name: given[name] for name in ("max_tokens", "temperature") if name in given}
        output = await model.generate(
            [_theirs(message) for message in messages],
            config=GenerateConfig(stop_seqs=stop, **options),
        )
        return ChatResult(generations=[ChatGeneration(message=_ours(output))])


def _theirs(message: BaseMessage) -> ChatMessage:
    made: ChatMessage = _KINDS[message.type](content=str(message.text))
    return made


def _ours(output: ModelOutput) -> AIMessage:
    about = {"finish_reason": output.stop_reason, "model_name": output.model}
    usage = None if output.usage is None else _usage(output.usage)
    return AIMessage(output.completion, response_metadata=about, usage_metadata=usage)


def _usage(usage: ModelUsage) -> UsageMetadata:
    """The tokens in LangChain's terms, where ``input`` includes what was cached."""
    cached = usage.input_tokens_cache_read or 0
    asked = usage.input_tokens + cached + (usage.input_tokens_cache_write or 0)
    return UsageMetadata(
        input_tokens=asked,
        output_tokens=usage.output_tokens,
        total_tokens=asked + usage.output_tokens,
        input_token_details=InputTokenDetails(cache_read=cached),
        output_token_details=OutputTokenDetails(reasoning=usage.reasoning_tokens or 0),
    )
