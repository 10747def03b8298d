"""Probe an endpoint for what budgets rest on: caps, their reports, thinking and schemas."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from langchain_core.messages import AIMessage, HumanMessage

from pb_graph.errors import ModelSetupError, did_you_mean
from pb_graph.models.caps import (
    BY_NAME,
    CapPolicy,
    constructor_overrides,
    llama_cpp,
    openai_compatible,
    policy_for,
    sglang,
    vllm,
)
from pb_graph.models.chat_models import name_of, without_sdk_retries
from pb_graph.models.options import CallOptions
from pb_graph.models.provider_errors import status_of, to_model_call_error
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
    "schema": "a reply follows a JSON schema",
}
_TIMEOUT = 120.0
_REFUSED = frozenset({400, 422, 501})
_THINKS_FROM = 32  # hidden tokens from which on a model is taken to think
_LONG_TOKEN = 8  # characters of a token of numbers and commas, with room to spare
_SCHEMA = {
    "type": "object",
    "properties": {"colour": {"type": "string", "enum": ["teal"]}, "number": {"type": "integer"}},
    "required": ["colour", "number"],
    "additionalProperties": False,
}


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

    def to_dict(self) -> dict[str, Any]:
        """Return what ``build_graph(cap_policy="caps.json")`` reads, as plain JSON."""
        return {
            "model": self.model,
            "policy": self.policy,
            "verdicts": {name: found.verdict for name, found in self.findings.items()},
            "observed": {name: found.observed for name, found in self.findings.items()},
        }


@dataclass(frozen=True, slots=True)
class ProbedPolicy:
    """A cap policy that sends no schema to a server that does not follow it.

    Attributes:
        base: The policy that was probed.
        verdicts: The verdict of each check, by its name.
    """

    base: CapPolicy
    verdicts: Mapping[str, Verdict]

    def __call__(self, model: BaseChatModel, options: CallOptions) -> dict[str, Any]:
        """Return the arguments of a call."""
        if self.verdicts.get("schema") in ("failed", "unsupported"):
            options = replace(options, schema=None)
        return self.base(model, options)


def load_caps(path: str | Path) -> ProbedPolicy:
    """Read the file that a probe has written.

    Raises:
        ModelSetupError: If the file cannot be read, or says that the server ignores its cap.
    """
    try:
        found = json.loads(Path(path).read_text("utf-8"))
        policy = ProbedPolicy(BY_NAME[found["policy"]], dict(found["verdicts"]))
    except OSError as error:
        msg = f"Cannot read {path}: {error.strerror}. `pb-graph probe MODEL` writes such a file."
        raise ModelSetupError(msg) from error
    except (ValueError, KeyError, TypeError) as error:
        msg = f"{path} was not written by `pb-graph probe`: probe the model again."
        raise ModelSetupError(msg) from error
    if policy.verdicts.get("output_cap") == "failed":
        msg = f"By {path}, the server of {found.get('model')} ignores its output cap: no budget "
        raise ModelSetupError(msg + "holds there. Mend the server, and probe it again.")
    return policy


def probe(model: str | BaseChatModel | None = None, policy: str | None = None) -> Probe:
    """Probe a model's endpoint with at most 8 calls and 2,000 tokens.

    Args:
        model: As for `build_graph`.
        policy: Name of the cap policy to probe with; None for the one the graph would choose.

    Raises:
        ModelSetupError: If there is no such model or policy, or not one call got a reply.
    """
    chat = resolve(model_name(model), Settings()) if isinstance(model, str | None) else model
    if policy is not None and policy not in BY_NAME:
        msg = f"there is no cap policy {policy!r}; there are: {', '.join(sorted(BY_NAME))}"
        raise ModelSetupError(msg + did_you_mean(policy, BY_NAME))
    chosen = BY_NAME[policy] if policy else policy_for(chat)
    found = Probe(name_of(chat), chosen.__name__)
    free = _ask(found, chat, chosen, PUZZLE, CallOptions(512, _TIMEOUT, thinking="free"))
    chosen, thinking_off = _check_thinking_off(found, chat, chosen, free)
    counted = _ask(found, chat, chosen, COUNT, CallOptions(24, _TIMEOUT, thinking="off"))
    if free.error and counted.error:
        msg = f"Not one call to {found.model} got a reply. {to_model_call_error(counted.error)}"
        raise ModelSetupError(msg)
    found.policy = chosen.__name__
    found.findings = _check_count(counted, free)
    found.findings["thinking_off"] = thinking_off
    found.findings["schema"] = _check_schema(found, chat, chosen)
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

    def describe_error(self) -> Finding:
        """Return the finding of a call that was refused, or failed otherwise."""
        status = self.error and status_of(self.error)
        is_refused = status in _REFUSED or isinstance(self.error, TypeError)
        told = f"HTTP {status}" if status else type(self.error).__name__
        return Finding("unsupported" if is_refused else "inconclusive", f"no reply ({told})")


def _ask(
    found: Probe, model: BaseChatModel, policy: CapPolicy, prompt: str, options: CallOptions
) -> _Reply:
    """Make one call as the graph makes it, and count it."""
    change = constructor_overrides(model, policy) | {"disable_streaming": True}
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


def _check_count(counted: _Reply, free: _Reply) -> dict[str, Finding]:
    """Check the cap, the finish reason and the usage of a reply that has to be cut off."""
    if counted.error:
        return dict.fromkeys(("output_cap", "cut_is_said", "usage"), counted.describe_error())
    worst = max(counted, free, key=lambda one: one.tokens - one.cap)
    is_over = worst.tokens > worst.cap or len(worst.message.text) > worst.cap * _LONG_TOKEN
    is_cut, finish = counted.tokens == counted.cap, finish_of(counted.message)
    capped: Verdict = "passed" if is_cut or finish == "length" else "inconclusive"
    said: Verdict = "passed" if finish == "length" else "failed"
    report, length = counted.message.usage_metadata, len(counted.message.text)
    usage = Finding("failed", "not reported")
    if report:
        output = report["output_tokens"]
        extra = report["total_tokens"] - report["input_tokens"] - output
        is_wrong = extra > 0 or output * _LONG_TOKEN < length
        told = f"{output} tokens for {length} characters, {extra} in the total only"
        usage = Finding("failed" if is_wrong else "passed", told)
    sizes = f"{worst.tokens} tokens, {len(worst.text)} characters, for a cap of {worst.cap}"
    return {
        "output_cap": Finding("failed" if is_over else capped, sizes),
        "cut_is_said": Finding(said if is_cut else "inconclusive", f"said: {finish}"),
        "usage": usage,
    }


def _check_thinking_off(
    found: Probe, model: BaseChatModel, policy: CapPolicy, free: _Reply
) -> tuple[CapPolicy, Finding]:
    """Return the first policy that switches thinking off, or the given one, and the finding."""
    if free.error:
        return policy, free.describe_error()
    if free.hidden < _THINKS_FROM:
        return policy, Finding("unsupported", "it does not think: nothing to switch off")
    finding = Finding("failed", "nothing that is sent switches it off")
    others = (vllm, sglang, llama_cpp) if policy is openai_compatible else ()
    off, unbounded = (CallOptions(64, _TIMEOUT, thinking=mode) for mode in ("off", "free"))
    for candidate in (policy, *others):
        if candidate(model, off) == candidate(model, unbounded):
            continue
        reply = _ask(found, model, candidate, PUZZLE, off)
        finding = Finding("failed", f"{reply.hidden} tokens hidden")
        if reply.text and reply.hidden < _THINKS_FROM:
            return candidate, finding._replace(verdict="passed")
    return policy, finding


def _check_schema(found: Probe, model: BaseChatModel, policy: CapPolicy) -> Finding:
    """Ask for a greeting in a form that nobody would choose."""
    options = CallOptions(128, _TIMEOUT, thinking="off")
    asked = replace(options, schema=_SCHEMA)
    if policy(model, options) == policy(model, asked):
        return Finding("unsupported", "this policy sends none")
    reply = _ask(found, model, policy, "Say hello.", asked)
    if reply.error:
        return reply.describe_error()
    if finish_of(reply.message) == "length":
        return Finding("inconclusive", "the reply was cut off")
    try:
        said = json.loads(reply.text)
    except ValueError:
        return Finding("failed", "no JSON")
    is_right = isinstance(said, dict) and said.keys() == {"colour", "number"}
    is_right = is_right and said["colour"] == "teal" and isinstance(said["number"], int)
    return Finding("passed" if is_right else "failed", "as asked" if is_right else "another form")
