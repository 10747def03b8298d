"""The policy for any LangChain chat model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pb_graph.models.caps.limits import policy

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from pb_graph.models.options import CallOptions

_CAP_FIELDS = ("max_tokens", "max_output_tokens", "num_predict", "max_new_tokens")


@policy()
def generic(model: BaseChatModel, limits: CallOptions) -> dict[str, Any]:
    """Any LangChain chat model: the output cap under the name of the field it declares.

    Nothing is known of how it thinks; the prompt has the budget in words.
    """
    fields = type(model).model_fields
    name = next((name for name in _CAP_FIELDS if name in fields), "max_tokens")
    return {name: limits.cap}
