"""The model of the notebooks, by its recorded replies where there are any, and recorded answers.

``from recorded import MODEL`` gives `local:qwen2.5-coder-1.5b`. A request whose reply is in
``replies.jsonl`` gets that reply at once, so that a notebook runs in seconds and without the model.
Every other request, such as one that you changed, goes to the model: `pb-graph pull` fetches it
(1.1 GB). With ``PB_RECORD=1`` its replies are added to the file.
"""

from __future__ import annotations

import hashlib
import json
import os
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
from langchain_core.messages import AIMessage, BaseMessage, convert_to_openai_messages
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_openai import ChatOpenAI

from pb_graph.local.server import TIMEOUT, local_chat_model
from pb_graph.local.weights import installed

NAME = "qwen2.5-coder-1.5b"
ANSWERS = Path(__file__).parents[1] / "tests" / "benchmarks" / "answers.csv"
FILE = Path(__file__).with_name("replies.jsonl")
REPLIES: dict[str, Any] = {}
if FILE.exists():
    REPLIES = dict(map(json.loads, FILE.read_text(encoding="utf-8").splitlines()))


class Recorded(ChatOpenAI):
    """Gives the recorded reply to a request, or asks the local model."""

    def _generate(self, messages: list[BaseMessage], *_: object, **arguments: Any) -> ChatResult:
        cap = (arguments.get("extra_body") or arguments).get("max_tokens")
        request = json.dumps([convert_to_openai_messages(messages), cap])
        key = hashlib.sha256(request.encode()).hexdigest()[:20]
        reply = REPLIES[key] if key in REPLIES else _asked(key, messages, arguments)
        return ChatResult(generations=[ChatGeneration(message=AIMessage(**reply))])

    async def _agenerate(
        self, messages: list[BaseMessage], *_: object, **arguments: Any
    ) -> ChatResult:
        return self._generate(messages, **arguments)


def _asked(key: str, messages: list[BaseMessage], arguments: dict[str, Any]) -> dict[str, Any]:
    """Ask the local model; with ``PB_RECORD=1`` record the reply."""
    if installed(NAME) is None:
        msg = (
            "This request is not recorded, and the local model is not installed. Run: pb-graph pull"
        )
        raise RuntimeError(msg)
    found = _model().invoke(messages, **arguments)
    names = ("input_tokens", "output_tokens", "total_tokens")
    usage: Any = found.usage_metadata
    reply = {
        "content": found.text,
        "usage_metadata": {name: usage[name] for name in names},
        "response_metadata": {"finish_reason": found.response_metadata["finish_reason"]},
    }
    if "PB_RECORD" in os.environ:
        REPLIES[key] = reply
        with FILE.open("a", encoding="utf-8") as file:
            file.write(json.dumps([key, reply], ensure_ascii=False) + "\n")
    return reply


@cache
def _model() -> ChatOpenAI:
    return local_chat_model(NAME)


def answers_of(dataset: str, *, day: str, places: range) -> pd.DataFrame:
    """Return recorded answers as `optim.reporting.answers` does, with money in units.

    Args:
        dataset: Such as ``reasoning_gym``.
        day: When they were measured, such as ``2026-11-28``.
        places: The positions of the questions in their draw.
    """
    rows = pd.read_csv(ANSWERS)
    chosen = (rows.dataset == dataset) & (rows.day == day) & rows.place.isin(places)
    found = rows[chosen].rename(
        columns={"row": "method", "place": "question", "prompt_tokens": "input_tokens"}
    )
    return found.assign(
        question=found.question.astype(str),
        model=NAME,
        planner=NAME,
        epoch=1,
        level_source=None,
        solving_tokens=found.tokens,
        cached_tokens=0,
        seconds=0.0,
        money=found.input_tokens + 4 * found.tokens,
        money_unit="units",
        is_measured=True,
        is_planned=None,
        made_by=[{}] * len(found),
    )


MODEL = Recorded(
    model=NAME,
    base_url="http://localhost/v1",
    api_key="none",
    temperature=0,
    timeout=TIMEOUT,  # as a local model has it
)
