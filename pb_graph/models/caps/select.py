"""Which policy fits a chat model, told by its class and its server's address."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pb_graph.local import server
from pb_graph.models.caps.compatible import address_of, host_of, is_openai_like, openai_compatible
from pb_graph.models.caps.generic import generic
from pb_graph.models.caps.limits import BY_CLASS, BY_DOMAIN, CHANGES, CONTINUING
from pb_graph.models.caps.openai import openai
from pb_graph.models.caps.probed import ProbedPolicy
from pb_graph.models.caps.self_hosted import llama_cpp

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from pb_graph.models.caps.limits import CapPolicy, Continuation


def policy_for(model: BaseChatModel) -> CapPolicy:
    """The policy that fits a chat model object.

    By the names of its classes, so that no provider's package is imported; those that speak
    OpenAI's protocol are told apart by their address.
    """
    kinds = [f"{kind.__module__.split('.')[0]}.{kind.__name__}" for kind in type(model).__mro__]
    if is_openai_like(model):
        is_azure = "langchain_openai.AzureChatOpenAI" in kinds
        return openai if is_azure else _by_address(model)
    return next((BY_CLASS[kind] for kind in kinds if kind in BY_CLASS), generic)


def constructor_overrides(model: BaseChatModel, policy: CapPolicy) -> dict[str, Any]:
    """Fields to change in a copy of a model, so that a policy's arguments have the last word.

    A foreign policy may count on these, so nothing changes for it.
    """
    base = _base(policy)
    return next((change(model) for known, change in CHANGES if known is base), {})


def continuation(policy: CapPolicy) -> Continuation | None:
    """What its servers make of an unfinished reply that ends the messages."""
    base = _base(policy)
    return next((how for known, how in CONTINUING if known is base), None)


def _base(policy: CapPolicy) -> CapPolicy:
    return policy.base if isinstance(policy, ProbedPolicy) else policy


def _by_address(model: BaseChatModel) -> CapPolicy:
    host = host_of(model)
    if not host:
        return openai
    for domain, found in BY_DOMAIN.items():
        if host == domain or host.endswith(f".{domain}"):
            return found
    return llama_cpp if server.is_served(address_of(model)) else openai_compatible
