"""Which policy fits a chat model, told by its class and its server's address."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pb_graph.models import local
from pb_graph.models.caps.anthropic_api import anthropic
from pb_graph.models.caps.anything import plain
from pb_graph.models.caps.compatible import address_of, host_of, openai_compatible
from pb_graph.models.caps.deepseek_api import deepseek
from pb_graph.models.caps.gemini_api import gemini
from pb_graph.models.caps.ollama_api import ollama
from pb_graph.models.caps.openai_api import openai
from pb_graph.models.caps.self_hosted import llama_cpp, sglang, vllm

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from pb_graph.models.caps.limits import CapPolicy

_BY_CLASS: dict[str, CapPolicy] = {
    "langchain_anthropic.ChatAnthropic": anthropic,
    "langchain_google_genai.ChatGoogleGenerativeAI": gemini,
    "langchain_ollama.ChatOllama": ollama,
}
_OPENAI_LIKE = "langchain_openai.BaseChatOpenAI"
_AZURE = "langchain_openai.AzureChatOpenAI"
_OPENAI_HOSTS = ("api.openai.com", "openai.azure.com")
_DEEPSEEK_HOSTS = ("deepseek.com",)
_OLD_NAMES: tuple[CapPolicy, ...] = (openai_compatible, deepseek, vllm, sglang, llama_cpp)


def policy_for(model: BaseChatModel) -> CapPolicy:
    """The policy that fits a chat model object.

    By the names of its classes, so that no provider's package is imported; those that speak
    OpenAI's protocol are told apart by their address.
    """
    kinds = [f"{kind.__module__.split('.')[0]}.{kind.__name__}" for kind in type(model).__mro__]
    if _OPENAI_LIKE in kinds:
        return openai if _AZURE in kinds else _by_address(model)
    return next((_BY_CLASS[kind] for kind in kinds if kind in _BY_CLASS), plain)


def pliant(model: BaseChatModel, policy: CapPolicy) -> dict[str, Any]:
    """Fields to change in a copy of a model, so that a policy's arguments have the last word.

    LangChain sends some of what a constructor was given beside, or instead of, what a call says:
    a cap of the caller's under a second name, Claude's ``thinking``. A foreign policy may count on
    these, so nothing changes for it.
    """
    settings: Any = model
    if policy is anthropic and settings.thinking is not None:
        own = {"thinking": settings.thinking}
        return {"thinking": None, "model_kwargs": settings.model_kwargs | own}
    if policy in _OLD_NAMES:
        return {"max_tokens": None}
    return {}


def _by_address(model: BaseChatModel) -> CapPolicy:
    host = host_of(model)
    if not host or _within(host, _OPENAI_HOSTS):
        return openai
    if _within(host, _DEEPSEEK_HOSTS):
        return deepseek
    return llama_cpp if local.is_served(address_of(model)) else openai_compatible


def _within(host: str, domains: tuple[str, ...]) -> bool:
    return any(host == domain or host.endswith(f".{domain}") for domain in domains)
