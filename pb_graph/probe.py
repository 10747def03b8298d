"""Probe the features of an endpoint that budgets rely on: caps, finish reasons, usage, thinking."""

from __future__ import annotations

from contextlib import suppress
from typing import Literal, NamedTuple

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage

from pb_graph.errors import ModelCallError
from pb_graph.models.caps import POLICIES, policy_for
from pb_graph.models.client import ChatClient, RetryPolicy
from pb_graph.models.options import CallOptions, name_of
from pb_graph.models.reply import BLOCKING, Reply, run_sync
from pb_graph.models.resolve import model_name, resolve
from pb_graph.settings import Settings

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
_THINKS_FROM = 32  # a model with at least this many hidden tokens counts as thinking
_LIMIT = 1700  # tokens after which no other call of 64 and its prompt is made
_LONG_TOKEN = 8  # characters of a token of numbers and commas, with room to spare


class Finding(NamedTuple):
    """The verdict and the observation of a check."""

    verdict: Verdict
    observed: str


class Probe:
    """The calls of a probe, their findings, and the name of the policy that fits the model best."""

    def __init__(self, model: BaseChatModel) -> None:
        self._chat, self.model, self.policy = model, name_of(model), policy_for(model).__name__
        self.findings, self.calls, self.tokens = dict[str, Finding](), 0, 0

    @property
    def failed(self) -> list[str]:
        """Return the names of the checks that failed."""
        return [name for name, finding in self.findings.items() if finding.verdict == "failed"]

    def ask(self, prompt: str, options: CallOptions, policy: str = "") -> Reply:
        """Make one call as the graph makes it, without retries, and count it."""
        self.calls += 1
        client = ChatClient(self._chat, POLICIES[policy or self.policy], RetryPolicy(max_retries=0))
        reply = run_sync(client.call([HumanMessage(prompt)], options, BLOCKING))
        self.tokens += reply.charge["usage"]["input_tokens"] + reply.tokens
        return reply

    def check_thinking(self, free: Reply) -> Finding:
        """Find the first policy that switches thinking off."""
        if _hidden(free) < _THINKS_FROM:
            return Finding("unsupported", "it does not think: nothing to switch off")
        finding = Finding("failed", "nothing that is sent switches it off")
        off, unbounded = (CallOptions(64, thinking=mode) for mode in ("off", "free"))
        others = ("vllm", "llama_cpp") if self.policy == "openai_compatible" else ()
        for policy in (self.policy, *others):
            if POLICIES[policy](self._chat, off) == POLICIES[policy](self._chat, unbounded):
                continue
            if self.tokens > _LIMIT:
                return Finding("inconclusive", f"{self.tokens} tokens are spent")
            with suppress(ModelCallError):  # the server does not know the argument
                reply = self.ask(PUZZLE, off, policy)
                finding = Finding("failed", f"{_hidden(reply)} tokens hidden")
                if reply.text and _hidden(reply) < _THINKS_FROM:
                    self.policy = policy
                    return finding._replace(verdict="passed")
        return finding


def probe(model: str | BaseChatModel | None = None) -> Probe:
    """Probe a model's endpoint, given as for `build_graph`, with at most 6 calls and 2,000 tokens.

    Raises:
        ModelSetupError: If no model has this name.
        ModelCallError: If the endpoint refuses a plain call.
    """
    chat = resolve(model_name(model), Settings()) if isinstance(model, str | None) else model
    result = Probe(chat)
    reply = result.ask(COUNT, CallOptions(24, thinking="off"))  # has to be cut off
    cap, tokens, length = reply.charge["cap"], reply.tokens, len(reply.text)
    is_over = tokens > cap or length > cap * _LONG_TOKEN
    is_cut, is_said = tokens == cap, reply.finish == "length"
    capped: Verdict = "passed" if is_cut or is_said else "inconclusive"
    told: Verdict = "passed" if is_said else "failed"
    is_plausible = reply.charge["measured"] and tokens * _LONG_TOKEN >= length
    sizes = f"{tokens} tokens, {length} characters, for a cap of {cap}"
    result.findings = {
        "output_cap": Finding("failed" if is_over else capped, sizes),
        "cut_is_said": Finding(told if is_cut else "inconclusive", f"said: {reply.finish}"),
        "usage": Finding("passed" if is_plausible else "failed", sizes),
        "thinking_off": Finding("inconclusive", "not asked: no cap is kept"),
    }
    if not is_over:
        free = result.ask(PUZZLE, CallOptions(512, thinking="free"))
        if free.warnings:
            result.findings["output_cap"] = Finding("failed", free.warnings[0]["message"])
        else:
            result.findings["thinking_off"] = result.check_thinking(free)
    return result


def _hidden(reply: Reply) -> int:
    """Return the minimum number of thinking tokens: as reported, or more than the text can have."""
    reasoning = reply.charge["usage"]["output_token_details"]["reasoning"]
    return max(reasoning, reply.tokens - len(reply.text), 0)
