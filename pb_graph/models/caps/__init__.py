"""A budget in each provider's own words: the arguments that bound one model call.

One small policy per provider; `policy_for` chooses by the model object, and a ``cap_policy`` of the
caller's takes its place. What was set on the model object is only ever lowered, and only where it
cannot fit into the cap. No provider's package is imported here.
"""

from pb_graph.models.caps.anthropic import anthropic
from pb_graph.models.caps.compatible import openai_compatible
from pb_graph.models.caps.deepseek import deepseek
from pb_graph.models.caps.gemini import gemini
from pb_graph.models.caps.generic import generic
from pb_graph.models.caps.limits import BY_NAME, CAP_NAMES, CapPolicy
from pb_graph.models.caps.ollama import ollama
from pb_graph.models.caps.openai import openai
from pb_graph.models.caps.probed import ProbedPolicy, Verdict, load_caps
from pb_graph.models.caps.select import constructor_overrides, policy_for
from pb_graph.models.caps.self_hosted import llama_cpp, sglang, vllm

__all__ = [
    "BY_NAME",
    "CAP_NAMES",
    "CapPolicy",
    "ProbedPolicy",
    "Verdict",
    "anthropic",
    "constructor_overrides",
    "deepseek",
    "gemini",
    "generic",
    "llama_cpp",
    "load_caps",
    "ollama",
    "openai",
    "openai_compatible",
    "policy_for",
    "sglang",
    "vllm",
]
