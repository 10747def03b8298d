"""Probe an endpoint for what budgets rely on: caps, finish reasons, usage and thinking."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from langchain_core.messages import AIMessage, HumanMessage

from pb_graph.errors import ModelSetupError
from pb_graph.models.caps import (
    CapPolicy,
    constructor_overrides,
    llama_cpp,
    openai_compatible,
    policy_for,
    vllm,
)
from pb_graph.models.chat_models import name_of, without_sdk_retries
from pb_graph.models.options import CallOptions
from pb_graph.models.provider_errors import to_model_call_error
from pb_graph.models.reply import Tokens, finish_of, tokens_of, visible_text
from pb_graph.models.resolve import model_name, resolve
from pb_graph.settings import Settings

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

Verdict = Literal["passed", "failed", "unsupported", "inconclusive"]

COUNT = "Write the numbers from 1 to 100 with a comma after each. Write nothing else."
PUZZLE = (
    "How many of the numbers from 100 to 200 are prime? Check each of them in your mind, and reply "
    "with the number of primes only."
)
CHECKS = {
    "output_cap": "a reply ends at its cap",
    "cut_is_said": "a reply that was cut off says so",
    "usage": "a reply reports its tokens",
    "thinking_off": "thinking can be switched off",
}
_THINKS_FROM = 32  # hidden tokens from which on a model is taken to think
_LONG_TOKEN = 8  # characters of a token of numbers and commas, with room to spare


class Finding(NamedTuple):
    """The verdict and the observation of a check."""

    verdict: Verdict
    observed: str


@dataclass
class Probe:
    """The findings of a probe.

    Attributes:
        model: Name of the model.
        policy: Name of the cap policy that fits it best, for ``build_graph(cap_policy=…)``.
        findings: The finding of each check.
        calls: Number of calls made.
        tokens: Tokens of all prompts and replies.
    """

    model: str
    policy: str
    findings: dict[str, Finding] = field(default_factory=dict)
    calls: int = 0
    tokens: int = 0

    @property
    def failed(self) -> list[str]:
        """Return the names of the checks that failed."""
        return [name for name, found in self.findings.items() if found.verdict == "failed"]


def probe(model: str | BaseChatModel | None = None) -> Probe:
    """Probe a model's endpoint with at most 6 calls and 2,000 tokens.

    Args:
        model: As for `build_graph`.

    Raises:
        ModelSetupError: There is no such model, or not one call got a reply.
    """
    chat = resolve(model_name(model), Settings()) if isinstance(model, str | None) else model
    change = constructor_overrides(chat) | {"disable_streaming": True}
    chat = without_sdk_retries(chat).model_copy(update=change)
    policy = policy_for(chat)
    found = Probe(name_of(chat), policy.__name__)
    free = _ask(found, chat, policy, PUZZLE, CallOptions(512, thinking="free"))
    policy, thinking_off = _check_thinking_off(found, chat, policy, free)
    counted = _ask(found, chat, policy, COUNT, CallOptions(24, thinking="off"))
    if isinstance(free, Finding) and isinstance(counted, Finding):
        msg = f"No call to {found.model} got a reply. {counted.observed}"
        raise ModelSetupError(msg)
    found.policy = policy.__name__
    found.findings = {**_check_count(counted), "thinking_off": thinking_off}
    return found


class _Reply(NamedTuple):
    """The reply to one call."""

    cap: int
    message: AIMessage
    tokens: Tokens

    @property
    def hidden(self) -> int:
        """Return the minimum of thinking tokens: reported, or above what the text can hold."""
        return max(self.tokens.reasoning, self.tokens.output - len(visible_text(self.message)), 0)


def _ask(
    found: Probe, model: BaseChatModel, policy: CapPolicy, prompt: str, options: CallOptions
) -> _Reply | Finding:
    """Make one call as the graph makes it, and count it; return the finding of a failed call."""
    found.calls += 1
    try:
        message = model.invoke([HumanMessage(prompt)], **policy(model, options))
    except Exception as error:  # noqa: BLE001 -- a finding, whatever it is
        return Finding("inconclusive", str(to_model_call_error(error)))
    tokens = tokens_of(message, [HumanMessage(prompt)])
    found.tokens += tokens.input + tokens.output
    return _Reply(options.cap, message, tokens)


def _check_thinking_off(
    found: Probe, model: BaseChatModel, policy: CapPolicy, free: _Reply | Finding
) -> tuple[CapPolicy, Finding]:
    """Return the first policy that switches thinking off, or the given one, and the finding."""
    if isinstance(free, Finding):
        return policy, free
    if free.hidden < _THINKS_FROM:
        return policy, Finding("unsupported", "it does not think: nothing to switch off")
    finding = Finding("failed", "nothing that is sent switches it off")
    others = (vllm, llama_cpp) if policy is openai_compatible else ()
    off, unbounded = (CallOptions(64, thinking=mode) for mode in ("off", "free"))
    for candidate in (policy, *others):
        if candidate(model, off) == candidate(model, unbounded):
            continue
        reply = _ask(found, model, candidate, PUZZLE, off)
        if isinstance(reply, Finding):
            continue
        finding = Finding("failed", f"{reply.hidden} tokens hidden")
        if visible_text(reply.message) and reply.hidden < _THINKS_FROM:
            return candidate, finding._replace(verdict="passed")
    return policy, finding


def _check_count(counted: _Reply | Finding) -> dict[str, Finding]:
    """Check the cap, the finish reason and the usage of a reply that has to be cut off."""
    if isinstance(counted, Finding):
        return dict.fromkeys(("output_cap", "cut_is_said", "usage"), counted)
    cap, message, tokens = counted
    is_over = tokens.output > cap or len(message.text) > cap * _LONG_TOKEN
    is_cut, is_said = tokens.output == cap, finish_of(message) == "length"
    capped: Verdict = "passed" if is_cut or is_said else "inconclusive"
    said: Verdict = "passed" if is_said else "failed"
    sizes = f"{tokens.output} tokens, {len(message.text)} characters, for a cap of {cap}"
    return {
        "output_cap": Finding("failed" if is_over else capped, sizes),
        "cut_is_said": Finding(said if is_cut else "inconclusive", f"said: {finish_of(message)}"),
        "usage": _check_usage(message),
    }


def _check_usage(message: AIMessage) -> Finding:
    """Check that the reported tokens can hold the text, and that none stand in the total only."""
    usage: Any = message.usage_metadata
    if not usage:
        return Finding("failed", "not reported")
    extra = usage["total_tokens"] - usage["input_tokens"] - usage["output_tokens"]
    is_wrong = extra > 0 or usage["output_tokens"] * _LONG_TOKEN < len(message.text)
    told = f"{usage['output_tokens']} tokens for {len(message.text)} characters"
    return Finding("failed" if is_wrong else "passed", f"{told}, {extra} in the total only")
