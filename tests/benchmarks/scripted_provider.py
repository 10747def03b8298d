"""A provider of OpenAI's protocol inside the process, which writes down what each call costs.

Every client gets `http_clients(provider)`, so that its SDK, its retries and its streams are the
real ones, and the books of the provider are the truth about what was paid.
"""
# ruff: noqa: ANN401 -- OpenAI's JSON

import asyncio
import json
import os
import random
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import tiktoken

MODEL = "gpt-4.1-mini"
PRICE = (0.4, 1.6, 0.1)  # dollars per million tokens: input, output, cached input
PER_CALL, LONGEST = 300, 400  # the cap that all callers set, and the most that the model writes
LEAST = 20  # completion tokens below which a reply is cut off
HISTORY = 20_000  # tokens of the conversation that the server keeps
ANSWER = "The answer is 42."
_SCRIPT = re.compile(r"SCRIPT (\[.*\])")
_RETRY_NOW = {"retry-after-ms": "1"}
if (litellm := find_spec("litellm")) and litellm.origin:  # it brings the tokenizer's file
    tokenizers = Path(litellm.origin).parent / "litellm_core_utils/tokenizers"
    os.environ.setdefault("TIKTOKEN_CACHE_DIR", str(tokenizers))
_ENCODING = tiktoken.get_encoding("o200k_base")
_ANSWER_TOKENS = len(_ENCODING.encode(ANSWER))


class Bill(NamedTuple):
    """What a call cost in tokens; `cached` are part of `input`."""

    output: int
    input: int
    cached: int

    def units(self, unit: str) -> int:
        """Return completion tokens, all tokens, or pico-dollars."""
        fresh, output, cached = (round(price * 1e6) for price in PRICE)
        if unit == "usd":
            new = self.input - self.cached
            return new * fresh + self.cached * cached + self.output * output
        return self.output + (self.input if unit == "total" else 0)


@dataclass
class Provider:
    """Answers by the script in the system prompt, and fails as it is told."""

    seed: int = 1
    share: float = 0  # of the calls that are refused, or lost after they were paid
    paid_failures: int = 0  # attempts of each call that are paid, and whose replies are lost
    cached: float | None = None  # share of the input that is read from a cache; else it is drawn
    has_usage: bool = True  # whether a stream ends with its usage
    seconds: float = 0  # that a call takes after it was paid

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)  # noqa: S311 -- no secret
        self.clients: dict[str, Any] = {}  # making one takes a moment: those of all runs
        self.reset()

    def reset(self) -> None:
        """Open new books: the bills that a caller was told of, and the lost ones."""
        self.known, self.lost = list[Bill](), list[Bill]()
        self.calls = 0

    async def answer(self, request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content)
        self.calls += 1
        await asyncio.sleep(0)
        bill = self._bill(body)
        fails = self.paid_failures and self.calls % (self.paid_failures + 1)
        fault = self.chance.choice(["refused", "lost"]) if self.chance.random() < self.share else ""
        if fails or fault == "lost":
            self.lost.append(bill)
            msg = "the connection broke"
            raise httpx.ReadError(msg)
        if fault:
            error = {"error": {"message": "slow down", "code": "rate_limit_exceeded"}}
            return httpx.Response(429, json=error, headers=_RETRY_NOW)
        try:
            await asyncio.sleep(self.seconds)
        except asyncio.CancelledError:  # paid, and nobody is told
            self.lost.append(bill)
            raise
        self.known.append(bill)
        if request.url.path.endswith("/responses"):
            return httpx.Response(200, json=_response(bill))
        message, finish = _message(body, bill)
        if body.get("stream"):
            if message["content"] and not self.has_usage:  # whoever counts the words can know
                message["content"] += " so" * (bill.output - _ANSWER_TOKENS)
            return httpx.Response(200, content=self._stream(message, finish, bill))
        return httpx.Response(200, json=_completion("message", message, finish, bill))

    def _bill(self, body: dict[str, Any]) -> Bill:
        caps = (body.get(f"max_{kind}tokens") for kind in ("completion_", "output_", ""))
        cap = min([most for most in caps if most], default=LONGEST)
        said = body.get("messages") or body["input"]
        texts = [json.dumps(one.get("tool_calls") or one.get("content")) for one in said]
        texts += [json.dumps(body["tools"])] if body.get("tools") else []
        given = sum(map(len, _ENCODING.encode_batch(texts))) + 4 * len(said)
        given += HISTORY if body.get("previous_response_id") else 0
        cached = self.chance.random() if self.cached is None else self.cached
        return Bill(min(cap, self.chance.randrange(LEAST, LONGEST)), given, int(given * cached))

    async def _stream(self, message: Any, finish: str, bill: Bill) -> AsyncIterator[bytes]:
        calls = [{"index": n, **one} for n, one in enumerate(message["tool_calls"])]
        first = _completion("delta", message | {"tool_calls": calls}, None, None)
        last = _completion("delta", {}, finish, bill if self.has_usage else None)
        for chunk in (first, last):
            yield f"data: {json.dumps(chunk)}\n\n".encode()
        yield b"data: [DONE]\n\n"


def http_clients(provider: Provider) -> tuple[httpx.Client, httpx.AsyncClient]:
    """Return clients, for calls that block and that are awaited, of which the latter is used."""
    transport = httpx.MockTransport(provider.answer)
    return httpx.Client(transport=transport), httpx.AsyncClient(transport=transport)


def script(*rounds: tuple[str, int, dict[str, Any]]) -> str:
    """Return a system prompt: in each round call a tool so many times, then answer."""
    return f"You lead a team. SCRIPT {json.dumps(rounds)}"


def _message(body: dict[str, Any], bill: Bill) -> tuple[dict[str, Any], str]:
    """Return the reply: the script's next tool calls, else the answer; and why it ended."""
    reply: dict[str, Any] = {"role": "assistant", "content": "The", "tool_calls": []}
    if bill.output < LEAST:
        return reply, "length"
    said = body["messages"]
    prompts = [str(one["content"]) for one in said if one["role"] in ("system", "developer")]
    found = _SCRIPT.search("".join(prompts))
    rounds = json.loads(found[1]) if found else []
    own = {name for name, _, _ in rounds}
    calls = [one.get("tool_calls") or [] for one in said]
    done = sum(bool(some) and some[0]["function"]["name"] in own for some in calls)
    bound = {tool["function"]["name"] for tool in body.get("tools") or []}
    if done >= len(rounds) or rounds[done][0] not in bound:
        return reply | {"content": ANSWER}, "stop"
    name, times, arguments = rounds[done]
    call = {"type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
    asked = [{"id": f"{name}-{done}-{number}", **call} for number in range(times)]
    return reply | {"content": "", "tool_calls": asked}, "tool_calls"


def _completion(kind: str, message: Any, finish: str | None, bill: Bill | None) -> dict[str, Any]:
    made = {key: value for key, value in message.items() if value != []}
    name = "chat.completion" + (".chunk" if kind == "delta" else "")
    choice = {"index": 0, kind: made, "finish_reason": finish}
    told = {"id": "1", "object": name, "created": 1, "model": MODEL, "choices": [choice]}
    return told | ({"usage": _usage(bill, "prompt", "completion")} if bill else {})


def _response(bill: Bill) -> dict[str, Any]:
    """Return a reply of the Responses API."""
    text = {"type": "output_text", "text": ANSWER, "annotations": []}
    message = {"type": "message", "id": "1", "role": "assistant", "status": "completed"}
    output = [message | {"content": [text]}]
    told = {"id": "resp_2", "object": "response", "created_at": 1, "model": MODEL, "tools": []}
    told |= {"status": "completed", "parallel_tool_calls": True, "tool_choice": "auto"}
    return told | {"output": output, "usage": _usage(bill, "input", "output")}


def _usage(bill: Bill, given: str, made: str) -> dict[str, Any]:
    return {
        f"{given}_tokens": bill.input,
        f"{made}_tokens": bill.output,
        "total_tokens": bill.input + bill.output,
        f"{given}_tokens_details": {"cached_tokens": bill.cached},
        f"{made}_tokens_details": {"reasoning_tokens": 0},
    }
