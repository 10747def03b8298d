"""An OpenAI-compatible server that does all that budgets rest on, but for one misdeed.

It thinks, as vLLM's models do, unless its chat template is told not to. A token is a word here.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

from pb_graph.probe import COUNT

Misdeed = Literal[
    "ignores_cap",
    "calls_cut_replies_finished",
    "tells_no_usage",
    "counts_too_little",
    "thinks_when_told_not_to",
    "ignores_schema",
]
_THOUGHT = 250


@dataclass
class PromiseServer:
    """What the server does.

    Attributes:
        thinks: Whether it does, unasked.
        misdeed: What it does wrong.
        refuses: Field of a body that it answers with a 400.
        bodies: What it was sent.
    """

    thinks: bool = True
    misdeed: Misdeed | None = None
    refuses: str = ""
    bodies: list[dict[str, Any]] = field(default_factory=list)
    url: str = ""

    def reply(self, body: dict[str, Any]) -> dict[str, Any]:
        """The completion."""
        told_not_to = not (body.get("chat_template_kwargs") or {}).get("enable_thinking", True)
        obeys = told_not_to and self.misdeed != "thinks_when_told_not_to"
        thought, words = 0 if obeys or not self.thinks else _THOUGHT, self._words(body)
        cap = 10**6 if self.misdeed == "ignores_cap" else body["max_tokens"]
        cut = thought + len(words) > cap and self.misdeed != "calls_cut_replies_finished"
        thought = min(thought, cap)
        words = words[: cap - thought]
        choice = {
            "index": 0,
            "message": {"role": "assistant", "content": "".join(words)},
            "finish_reason": "length" if cut else "stop",
        }
        told = 1 if self.misdeed == "counts_too_little" else thought + len(words)
        usage = {
            "prompt_tokens": 9,
            "completion_tokens": told,
            "total_tokens": 9 + told,
            "completion_tokens_details": {"reasoning_tokens": thought},
        }
        reply = {"id": "1", "object": "chat.completion", "created": 0, "model": "m"}
        silent = self.misdeed == "tells_no_usage"
        return reply | {"choices": [choice]} | ({} if silent else {"usage": usage})

    def _words(self, body: dict[str, Any]) -> list[str]:
        text = "21"
        if body.get("response_format") and self.misdeed != "ignores_schema":
            text = '{"colour": "teal", "number": 3}'
        elif body["messages"][-1]["content"] == COUNT:
            text = " ".join(f"{number}," for number in range(1, 101))
        return re.findall(r"\s*\S+", text)


@contextmanager
def promising(server: PromiseServer) -> Iterator[PromiseServer]:
    """Serve on loopback for as long as the context lasts."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            server.bodies.append(body)
            if body.get(server.refuses):
                self._send(400, {"error": {"message": f"{server.refuses} is not supported"}})
            else:
                self._send(200, server.reply(body))

        def _send(self, status: int, content: object) -> None:
            text = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            """Stay silent."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        thread = threading.Thread(target=listening.serve_forever, daemon=True)
        thread.start()
        server.url = f"http://127.0.0.1:{listening.server_port}/v1"
        yield server
        listening.shutdown()
        thread.join()
