"""A server as strict as the providers' own, for each protocol that budgets are sent in.

It refuses fields that its provider does not know, honours the largest cap anywhere in the body, and
ends and counts a reply as it is told. A token is a word.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partialmethod
from typing import Any

from tests.support.fault_server import LoopbackServer, Request, response

FRAGMENT, ANSWER = "one " * 20, "Final answer: 42"
CAPS = {
    *("max_tokens", "max_completion_tokens", "max_output_tokens", "maxOutputTokens"),
    *("maxTokens", "num_predict", "n_predict", "max_new_tokens"),
}
PROMPT = 30

_CHAT = "model messages stream tools tool_choice response_format stop temperature"
_OWN = f"{_CHAT} stream_options max_tokens"
ALLOWED = {
    "openai": f"{_CHAT} stream_options max_completion_tokens reasoning_effort",
    "strict": f"{_CHAT} max_tokens",  # as Mistral's, which takes no stream_options
    "deepseek": f"{_OWN} thinking reasoning_effort",
    "vllm": f"{_OWN} thinking_token_budget chat_template_kwargs continue_final_message"
    " add_generation_prompt",
    "llama_cpp": f"{_OWN} reasoning_budget_tokens chat_template_kwargs",
    "responses": "model input stream tools max_output_tokens reasoning text store",
    "anthropic": "model messages stream system max_tokens thinking output_config tools",
    "gemini": "contents generationConfig systemInstruction safetySettings tools toolConfig",
    "ollama": "model messages stream options think format keep_alive tools logprobs top_logprobs",
    "bedrock": "modelId messages system inferenceConfig additionalModelRequestFields toolConfig",
}
"""The fields of a body that each provider takes; all others are refused."""


@dataclass
class StrictServer(LoopbackServer):
    """The server, and the double of a client for Bedrock.

    Attributes:
        dialect: Which fields are taken, and how replies look.
        reason: How the next reply ends; the replies after it end well. "" for none at all.
        usage: How usage is reported: ``last`` (true), ``every`` chunk so far, ``twice``,
            ``missing``, ``null``, ``text``, ``fraction``, ``nan``, ``zero``, ``beside`` (reasoning
            that is not among the completion tokens), ``lone`` (without the prompt).
        bodies: The bodies that were taken.
        billed: Words that were written.
    """

    base = ""
    dialect: str
    reason: str | None = None
    usage: str = "last"
    bodies: list[dict[str, Any]] = field(default_factory=list)
    billed: int = 0

    def __post_init__(self) -> None:
        super().__init__()

    async def _answered(self, request: Request, writer: asyncio.StreamWriter) -> bool:
        refused, is_lines = self.refusal(request.body), self.dialect == "ollama"
        streams = bool(request.body.get("stream") or "streamGenerateContent" in request.path)
        parts = [{"error": {"message": refused}}] if refused else self.reply(request.body, streams)
        is_events = streams and not refused and not is_lines
        frames = [
            f"data: {json.dumps(part)}\n\n" if is_events else f"{json.dumps(part)}\n"
            for part in parts
        ]
        if self.dialect == "anthropic" and is_events:
            frames = [
                f"event: {part['type']}\n{text}" for part, text in zip(parts, frames, strict=True)
            ]
        kind = {"Content-Type": "text/event-stream" if is_events else "application/json"}
        raw = "".join(frames).encode()
        writer.write(response(400 if refused else 200, raw, Connection="close", **kind))
        await writer.drain()
        return False

    def tell(self, reason: str | None, usage: str = "last") -> None:
        """Forget what was; say how the next reply ends, and how usage is reported."""
        self.reason, self.usage, self.billed = reason, usage, 0
        self.bodies.clear()

    def refusal(self, body: Mapping[str, Any]) -> str:
        unknown = body.keys() - set(ALLOWED[self.dialect].split())
        if unknown:
            return f"unknown or deprecated fields: {', '.join(sorted(unknown))}"
        return "" if caps_in(body) else "no cap"

    def reply(self, body: dict[str, Any], streams: bool) -> list[dict[str, Any]]:
        """Return the events of a stream, or the one document."""
        is_first, cap = not self.bodies, max(caps_in(body))
        self.bodies.append(body)
        reason = self.reason if is_first else None
        text = ANSWER if reason is None else FRAGMENT
        words = text.split()[:cap]
        thought = 5 if self.usage == "beside" else 0
        self.billed += len(words) + thought
        if len(words) < len(text.split()) and reason is None:
            reason = CUT[self.dialect]
        reason = STOP[self.dialect] if reason is None else reason
        return [*getattr(self, f"_{SHAPE.get(self.dialect, 'chat')}")(words, reason, streams)]

    # Bedrock's client.
    def converse(self, *, streams: bool = False, **body: Any) -> dict[str, Any]:  # noqa: ANN401
        if refused := self.refusal(body):
            raise ValueError(refused)
        parts = self.reply(body, streams)
        return {"stream": parts} if streams else parts[0]

    converse_stream = partialmethod(converse, streams=True)

    def _counts(self, names: tuple[str, str, str], written: int) -> dict[str, Any] | None:
        """Return usage under a provider's names, in the shape that was told."""
        if self.usage in ("missing", "null"):
            return None
        odd: dict[str, Any] = {"text": "many", "fraction": 4.5, "nan": float("nan"), "zero": 0}
        counts = dict(zip(names, (PROMPT, written, PROMPT + written), strict=True))
        if self.usage == "lone":
            del counts[names[0]], counts[names[2]]
        return dict.fromkeys(names, odd[self.usage]) if self.usage in odd else counts

    def _chat(self, words: list[str], reason: str, streams: bool) -> Iterator[dict[str, Any]]:
        names = "prompt_tokens", "completion_tokens", "total_tokens"
        base = {"id": "c", "object": "chat.completion", "created": 1, "model": "m"}
        usage = self._counts(names, len(words))
        if usage and self.usage == "beside":
            usage["completion_tokens_details"] = {"reasoning_tokens": 5 + len(words)}
            self.billed += len(words)
        if not streams:
            message = {"role": "assistant", "content": " ".join(words)}
            choice = {"index": 0, "finish_reason": reason or None, "message": message}
            told = {} if self.usage == "missing" else {"usage": usage}
            yield {**base, "choices": [choice]} | told
            return
        base["object"] += ".chunk"
        for number, word in enumerate(words, 1):
            delta = {"role": "assistant", "content": f"{word} "}
            sofar = {"usage": self._counts(names, number)} if self.usage == "every" else {}
            yield {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} | sofar
        told = {"usage": usage} if self.usage in ("every", "twice", "null") else {}
        if reason:
            yield {**base, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]} | told
            is_apart = self.usage not in ("every", "missing", "null")
            if is_apart and "stream_options" in self.bodies[-1]:
                yield {**base, "choices": [], "usage": usage}

    def _responses(self, words: list[str], reason: str, streams: bool) -> Iterator[dict[str, Any]]:
        text = " ".join(words)
        part = {"type": "output_text", "text": text, "annotations": []}
        item = {"type": "message", "id": "m", "role": "assistant"}
        status = "completed" if reason == "completed" else "incomplete"
        whole: dict[str, Any] = {
            "id": "resp_1",
            "object": "response",
            "created_at": 1,
            "model": "m",
            "tools": [],
            "output": [item | {"content": [part], "status": "completed"}],
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "status": status,
            "incomplete_details": None if status == "completed" else {"reason": reason},
            "usage": self._counts(("input_tokens", "output_tokens", "total_tokens"), len(words)),
        }
        if whole["usage"]:
            details = {"input_tokens_details": {"cached_tokens": 0}}
            whole["usage"] |= details | {"output_tokens_details": {"reasoning_tokens": 0}}
        if not streams:
            yield whole
            return
        at = {"output_index": 0, "content_index": 0, "item_id": "m"}
        empty = item | {"content": [], "status": "in_progress"}
        events: list[tuple[str, dict[str, Any]]] = [
            ("created", {"response": {**whole, "output": [], "usage": None}}),
            ("output_item.added", {"item": empty, **at}),
            ("output_text.delta", {"delta": text, "logprobs": [], **at}),
        ]
        if reason:
            events.append((status, {"response": whole}))
        for number, (kind, said) in enumerate(events):
            yield {"type": f"response.{kind}", "sequence_number": number, **said}

    def _anthropic(self, words: list[str], reason: str, streams: bool) -> Iterator[dict[str, Any]]:
        text = " ".join(words)
        names = "input_tokens", "output_tokens", "total"
        usage = self._counts(names, len(words)) or dict.fromkeys(names, 0)
        usage = {name: usage[name] for name in names[:2]}
        base = {"id": "m", "type": "message", "role": "assistant", "model": "c"}
        block = {"type": "text", "text": text}
        if not streams:
            yield {**base, "content": [block], "stop_reason": reason or None, "usage": usage}
            return
        start = {**base, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}}
        yield {"type": "message_start", "message": start}
        yield {"type": "content_block_start", "index": 0, "content_block": {**block, "text": ""}}
        said = {"type": "text_delta", "text": text}
        yield {"type": "content_block_delta", "index": 0, "delta": said}
        if reason:
            yield {"type": "content_block_stop", "index": 0}
            for _ in range(2 if self.usage == "twice" else 1):  # the counts are cumulative
                yield {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage}
            yield {"type": "message_stop"}

    def _gemini(self, words: list[str], reason: str, streams: bool) -> Iterator[dict[str, Any]]:
        names = "promptTokenCount", "candidatesTokenCount", "totalTokenCount"
        half = len(words) // 2 if streams else 0
        for start, stop, end in ((0, half, ""), (half, len(words), reason)):
            if start == stop:
                continue
            content = {"role": "model", "parts": [{"text": " ".join([*words[start:stop], ""])}]}
            candidate = {"index": 0, "content": content} | ({"finishReason": end} if end else {})
            usage = self._counts(names, stop)
            yield {"candidates": [candidate], "modelVersion": "g"} | (
                {"usageMetadata": usage} if usage else {}
            )

    def _ollama(self, words: list[str], reason: str, _: bool) -> Iterator[dict[str, Any]]:
        base = {"model": "m", "created_at": "2026-01-01T00:00:00Z"}
        for word in words:
            yield {**base, "message": {"role": "assistant", "content": f"{word} "}, "done": False}
        if reason:
            counts = self._counts(("prompt_eval_count", "eval_count", "total"), len(words)) or {}
            last = {"message": {"role": "assistant", "content": ""}, "done": True}
            yield {**base, **last, "done_reason": reason, **counts}

    def _bedrock(self, words: list[str], reason: str, streams: bool) -> Iterator[dict[str, Any]]:
        names, text = ("inputTokens", "outputTokens", "totalTokens"), " ".join(words)
        usage = self._counts(names, len(words))
        said = {"usage": usage, "metrics": {"latencyMs": 1}}
        if not streams:
            message = {"role": "assistant", "content": [{"text": text}]}
            yield {"output": {"message": message}, "stopReason": reason or None, **said}
            return
        yield {"messageStart": {"role": "assistant"}}
        yield {"contentBlockDelta": {"delta": {"text": text}, "contentBlockIndex": 0}}
        if reason:
            yield {"contentBlockStop": {"contentBlockIndex": 0}}
            yield {"messageStop": {"stopReason": reason}}
            yield {"metadata": said}


SHAPE = {name: name for name in ("responses", "anthropic", "gemini", "ollama", "bedrock")}
STOP = dict.fromkeys(ALLOWED, "stop") | {"responses": "completed", "gemini": "STOP"}
STOP |= dict.fromkeys(("anthropic", "bedrock"), "end_turn")
CUT = dict.fromkeys(ALLOWED, "length") | {"responses": "max_output_tokens", "gemini": "MAX_TOKENS"}
CUT |= dict.fromkeys(("anthropic", "bedrock"), "max_tokens")


def caps_in(body: object) -> list[int]:
    """Return every cap in a body, however deep."""
    if isinstance(body, list):
        return [cap for part in body for cap in caps_in(part)]
    if not isinstance(body, Mapping):
        return []
    own = [value for name, value in body.items() if name in CAPS and isinstance(value, int)]
    return own + [cap for value in body.values() for cap in caps_in(value)]
