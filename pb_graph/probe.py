"""Probe an endpoint for what budgets rest on: caps, finish reasons, usage and thinking."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from langchain_core.messages import AIMessage, HumanMessage

from pb_graph.errors import ModelSetupError
from pb_graph.models.caps import (
    POLICIES,
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
from pb_graph.models.reply import finish_of, tokens_of, visible_text
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
_TIMEOUT = 120.0
_THINKS_FROM = 32  # hidden tokens from which on a model is taken to think
_LONG_TOKEN = 8  # characters of a token of numbers and commas, with room to spare


class Finding(NamedTuple):
    """The verdict of a check, and what was observed."""

    verdict: Verdict
    observed: str


@dataclass
class Probe:
    """The findings of a probe.

    Attributes:
        model: Name of the model.
        policy: Name of the cap policy that fits it best.
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

    def save(self, path: str | Path) -> None:
        """Write the JSON file that ``build_graph(cap_policy=path)`` reads.

        Raises:
            ModelSetupError: The file cannot be written.
        """
        try:
            Path(path).write_text(json.dumps(asdict(self), indent=2) + "\n", encoding="utf-8")
        except OSError as error:
            msg = f"Cannot write {path}: {error.strerror}."
            raise ModelSetupError(msg) from error


def load_caps(path: str | Path) -> CapPolicy:
    """Return the cap policy that a probe found.

    Raises:
        ModelSetupError: The file cannot be read, or says that the server ignores its cap.
    """
    try:
        found = json.loads(Path(path).read_text("utf-8"))
        policy = POLICIES[found["policy"]]
        verdict, _ = found["findings"]["output_cap"]
    except OSError as error:
        msg = f"Cannot read {path}: {error.strerror}. `pb-graph probe MODEL` writes such a file."
        raise ModelSetupError(msg) from error
    except (ValueError, KeyError, TypeError) as error:
        msg = f"{path} was not written by `pb-graph probe`: probe the model again."
        raise ModelSetupError(msg) from error
    if verdict == "failed":
        msg = f"By {path}, the server ignores its output cap, so no budget holds there. "
        raise ModelSetupError(msg + "Mend the server, and probe it again.")
    return policy


def probe(model: str | BaseChatModel | None = None) -> Probe:
    """Probe a model's endpoint with at most 6 calls and 2,000 tokens.

    Args:
        model: As for `build_graph`.

    Raises:
        ModelSetupError: There is no such model, or not one call got a reply.
    """
    chat = resolve(model_name(model), Settings()) if isinstance(model, str | None) else model
    policy = policy_for(chat)
    found = Probe(name_of(chat), policy.__name__)
    free = _ask(found, chat, policy, PUZZLE, CallOptions(512, _TIMEOUT, thinking="free"))
    policy, thinking_off = _check_thinking_off(found, chat, policy, free)
    counted = _ask(found, chat, policy, COUNT, CallOptions(24, _TIMEOUT, thinking="off"))
    if free.failure and counted.failure:
        msg = f"Not one call to {found.model} got a reply. {counted.failure.observed}"
        raise ModelSetupError(msg)
    found.policy = policy.__name__
    found.findings = {**_check_count(counted, free), "thinking_off": thinking_off}
    return found


class _Reply(NamedTuple):
    """The reply to one call; empty, with the error, where there was none."""

    cap: int
    message: AIMessage = AIMessage("")
    text: str = ""
    """The answer without thinking."""
    tokens: int = 0
    hidden: int = 0
    """The least tokens of thinking: those reported, or more than the text can hold."""
    error: Exception | None = None

    @property
    def failure(self) -> Finding | None:
        """Return the finding of a call that failed."""
        if self.error is None:
            return None
        return Finding("inconclusive", str(to_model_call_error(self.error)))


def _ask(
    found: Probe, model: BaseChatModel, policy: CapPolicy, prompt: str, options: CallOptions
) -> _Reply:
    """Make one call as the graph makes it, and count it."""
    change = constructor_overrides(model) | {"disable_streaming": True}
    chat = without_sdk_retries(model).model_copy(update=change)
    found.calls += 1
    try:
        message = chat.invoke([HumanMessage(prompt)], **policy(chat, options))
    except Exception as error:  # noqa: BLE001 -- a finding, whatever it is
        return _Reply(options.cap, error=error)
    tokens, text = tokens_of(message, [HumanMessage(prompt)]), visible_text(message)
    found.tokens += tokens.input + tokens.output
    hidden = max(tokens.reasoning, tokens.output - len(text), 0)
    return _Reply(options.cap, message, text, tokens.output, hidden)


def _check_thinking_off(
    found: Probe, model: BaseChatModel, policy: CapPolicy, free: _Reply
) -> tuple[CapPolicy, Finding]:
    """Return the first policy that switches thinking off, or the given one, and the finding."""
    if free.failure:
        return policy, free.failure
    if free.hidden < _THINKS_FROM:
        return policy, Finding("unsupported", "it does not think: nothing to switch off")
    finding = Finding("failed", "nothing that is sent switches it off")
    others = (vllm, llama_cpp) if policy is openai_compatible else ()
    off, unbounded = (CallOptions(64, _TIMEOUT, thinking=mode) for mode in ("off", "free"))
    for candidate in (policy, *others):
        if candidate(model, off) == candidate(model, unbounded):
            continue
        reply = _ask(found, model, candidate, PUZZLE, off)
        finding = Finding("failed", f"{reply.hidden} tokens hidden")
        if reply.text and reply.hidden < _THINKS_FROM:
            return candidate, finding._replace(verdict="passed")
    return policy, finding


def _check_count(counted: _Reply, free: _Reply) -> dict[str, Finding]:
    """Check the cap, the finish reason and the usage of a reply that has to be cut off."""
    if counted.failure:
        return dict.fromkeys(("output_cap", "cut_is_said", "usage"), counted.failure)
    worst = max(counted, free, key=lambda one: one.tokens - one.cap)
    is_over = worst.tokens > worst.cap or len(worst.message.text) > worst.cap * _LONG_TOKEN
    is_cut, finish = counted.tokens == counted.cap, finish_of(counted.message)
    capped: Verdict = "passed" if is_cut or finish == "length" else "inconclusive"
    said: Verdict = "passed" if finish == "length" else "failed"
    sizes = f"{worst.tokens} tokens, {len(worst.text)} characters, for a cap of {worst.cap}"
    return {
        "output_cap": Finding("failed" if is_over else capped, sizes),
        "cut_is_said": Finding(said if is_cut else "inconclusive", f"said: {finish}"),
        "usage": _check_usage(counted.message),
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
