"""An OpenAI-compatible server that keeps all promises of its kind, but for those it is to break.

It thinks, as vLLM's models do: within ``thinking_token_budget``, less with a low effort, and not at
all when its chat template is told so. A token is a word here.
"""

from __future__ import annotations

import json
import math
import random
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

from pb_graph.probe.checks import _BEGUN, _KNOWN
from pb_graph.probe.session import COUNT, PUZZLE

Misdeed = Literal[
    "ignores_cap",
    "ignores_cap_in_streams",
    "calls_cut_replies_finished",
    "tells_no_usage",
    "tells_no_usage_in_streams",
    "counts_too_little",
    "hides_thinking_in_the_total",
    "streams_in_one_piece",
    "ignores_thinking_budget",
    "thinks_when_told_not_to",
    "ignores_effort",
    "ignores_stop",
    "ignores_schema",
    "ignores_seed",
    "invents_logprobs",
]
EXTRAS = frozenset({"stop", "response_format", "logprobs", "seed", "reasoning_effort", "stream"})
_EFFORTS = {"low": 90, "high": 300}
_UNASKED = 250


@dataclass
class PromiseServer:
    """What the server does.

    Attributes:
        thinks: Whether it does, unasked.
        misdeeds: What it does wrong.
        refuses: Fields of a body that it answers with a 400.
        bodies: What it was sent.
    """

    thinks: bool = True
    misdeeds: frozenset[Misdeed] = frozenset()
    refuses: frozenset[str] = frozenset()
    bodies: list[dict[str, Any]] = field(default_factory=list)
    url: str = ""

    def does(self, misdeed: Misdeed) -> bool:
        return misdeed in self.misdeeds

    def reply(self, body: dict[str, Any]) -> dict[str, Any]:
        """The completion."""
        thought, words = self._thinking(body), self._words(body)
        lifted = "ignores_cap_in_streams" if body.get("stream") else "ignores_cap"
        cap = body.get("max_tokens") or body.get("max_completion_tokens") or 10**6
        cap = 10**6 if self.does("ignores_cap") or self.does(lifted) else cap
        cut = thought + len(words) > cap
        thought = min(thought, cap)
        words = words[: cap - thought]
        reason = "length" if cut and not self.does("calls_cut_replies_finished") else "stop"
        choice: dict[str, Any] = {
            "index": 0,
            "message": {"role": "assistant", "content": "".join(words)},
            "finish_reason": reason,
        }
        if body.get("logprobs"):
            choice["logprobs"] = {"content": [self._logprob(word) for word in words]}
        reply = {"id": "1", "object": "chat.completion", "created": 0, "model": "m"}
        usage = self._usage(body, thought, len(words))
        silent = self.does("tells_no_usage") and not body.get("stream")
        return reply | {"choices": [choice]} | ({} if silent else {"usage": usage})

    def _thinking(self, body: dict[str, Any]) -> int:
        if not self.thinks:
            return 0
        if not (body.get("chat_template_kwargs") or {}).get("enable_thinking", True):
            return 100 if self.does("thinks_when_told_not_to") else 0
        effort = body.get("reasoning_effort")
        wanted = _UNASKED if self.does("ignores_effort") else _EFFORTS.get(effort, _UNASKED)
        budget = body.get("thinking_token_budget", 10**6)
        return wanted if self.does("ignores_thinking_budget") else min(wanted, budget)

    def _words(self, body: dict[str, Any]) -> list[str]:
        last = body["messages"][-1]
        text = "Hello there, nice to meet you."
        if last["role"] == "assistant":
            text = _KNOWN.removeprefix(_BEGUN).lstrip()
        elif body.get("response_format") and not self.does("ignores_schema"):
            text = '{"colour": "teal", "number": 3}'
        elif last["content"] == COUNT:
            text = " ".join(f"{number}," for number in range(1, 101))
        elif last["content"] == PUZZLE:
            text = "21"
        elif "seed" in body:
            seed = None if self.does("ignores_seed") else body["seed"]
            chance = random.Random(seed)  # noqa: S311 -- not secret
            text = " ".join(str(chance.randrange(10**6)) for _ in range(10))
        if (stop := body.get("stop")) and not self.does("ignores_stop"):
            text = text.partition(stop[0])[0]
        return re.findall(r"\s*\S+", text)

    def _logprob(self, word: str) -> dict[str, Any]:
        value = 0.0 if self.does("invents_logprobs") else math.log(0.4)
        one = {"token": word, "logprob": value, "bytes": None}
        return one | {"top_logprobs": [one, one]}

    def _usage(self, body: dict[str, Any], thought: int, written: int) -> dict[str, Any]:
        prompt = sum(len(str(message["content"]).split()) for message in body["messages"])
        told = thought + written
        if self.does("hides_thinking_in_the_total"):
            told = written
        if self.does("counts_too_little"):
            told = 1
        total = prompt + (told if self.does("counts_too_little") else thought + written)
        return {
            "prompt_tokens": prompt,
            "completion_tokens": told,
            "total_tokens": total,
            "completion_tokens_details": {"reasoning_tokens": thought},
        }

    def events(self, body: dict[str, Any], reply: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """The same completion as chunks, a word in each."""
        frame = {name: reply[name] for name in ("id", "created", "model")}
        frame["object"] = "chat.completion.chunk"
        (choice,) = reply["choices"]
        text = choice["message"]["content"]
        words = [text] if self.does("streams_in_one_piece") else re.findall(r"\s*\S+", text)
        for word in words:
            yield frame | {"choices": [{"index": 0, "delta": {"content": word}}]}
        last = {"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}
        yield frame | {"choices": [last]}
        wanted = (body.get("stream_options") or {}).get("include_usage")
        if wanted and not self.does("tells_no_usage_in_streams"):
            yield frame | {"choices": [], "usage": reply["usage"]}


@contextmanager
def promising(server: PromiseServer) -> Iterator[PromiseServer]:
    """Serve on loopback for as long as the context lasts."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            server.bodies.append(body)
            if refused := sorted(server.refuses & {name for name in body if body[name]}):
                error = {"message": f"{refused[0]} is not supported", "type": "bad", "code": None}
                self._send(400, "application/json", json.dumps({"error": error}))
                return
            reply = server.reply(body)
            if not body.get("stream"):
                self._send(200, "application/json", json.dumps(reply))
                return
            events = [f"data: {json.dumps(event)}\n\n" for event in server.events(body, reply)]
            self._send(200, "text/event-stream", "".join([*events, "data: [DONE]\n\n"]))

        def _send(self, status: int, kind: str, text: str) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            """Stay silent."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        thread = threading.Thread(target=listening.serve_forever, daemon=True)
        thread.start()
        server.url = f"http://127.0.0.1:{listening.server_port}/v1"
        yield server
        listening.shutdown()
        thread.join()
