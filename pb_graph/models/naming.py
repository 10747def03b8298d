"""What a chat model object is called, and where its server is: for errors, accounts and prices."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pb_graph.models.caps.openai import address_of, is_openai_like

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

_NAMES = ("model_name", "model", "model_id", "deployment_name")
_ADDRESSES = ("base_url", "anthropic_api_url", "azure_endpoint", "endpoint_url", "endpoint")


def name_of(model: BaseChatModel) -> str:
    """The model's name as its provider knows it, else that of its class."""
    named = (getattr(model, name, None) for name in _NAMES)
    return next((name for name in named if isinstance(name, str) and name), type(model).__name__)


def described(model: BaseChatModel) -> str:
    """The name of a model, and where its server is: without user, password and query."""
    named = [getattr(model, name, None) for name in _ADDRESSES]
    found = [address_of(model)] if is_openai_like(model) else [text for text in named if text]
    parts = urlsplit(found[0] if found and isinstance(found[0], str) else "")
    host = parts.netloc.rpartition("@")[2]
    return f"{name_of(model)} at {parts.scheme}://{host}{parts.path}" if host else name_of(model)
