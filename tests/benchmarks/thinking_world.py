"""A model that thinks before each reply, behind OpenAI's protocol and without a socket.

It writes its thought in one of four forms, keeps the bill, and can continue an unfinished message
or stop thinking where the server that it stands for can. A token is a word here.
"""
# ruff: noqa: ANN401 -- OpenAI's JSON

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import httpx
from langchain_core.messages import HumanMessage
from langchain_openai import ChatOpenAI

from tests.support.chat_model import Call, call_of, planned
from tests.support.clients import ELSEWHERE, completion, over

Form = Literal["reasoning_content", "reasoning", "tags", "closing_tag"]
FORMS = get_args(Form)
_FREE = 10**6


@dataclass(slots=True)
class Sent:
    """One request as it arrived, and what it cost."""

    body: dict[str, Any] = field(repr=False)
    call: Call = field(repr=False)
    cap: int
    thought: int
    written: int

    @property
    def last(self) -> str:
        """The text of the last message."""
        return str(self.body["messages"][-1]["content"])


@dataclass(kw_only=True)
class ThinkingWorld:
    """The model and its server.

    Attributes:
        form: Where the thought stands: in a field of the message, between tags in the text, or
            before a closing tag whose opening tag is in the chat template.
        think: Tokens of thought before a reply: a number, or by the request.
        answer: What the solver says in the end.
        plan: The sub-questions of its plans.
        level: The level that it gives a question.
        continues: Whether it continues an unfinished last message.
        stops: Whether it stops thinking when it is asked to (``enable_thinking``).
        log: The requests so far.
    """

    form: Form = "reasoning_content"
    think: int | Callable[[dict[str, Any]], int] = 300
    answer: str = "Seven times twelve is 84.\nFinal answer: 84"
    plan: Sequence[str] = ("What is 7 times 10? | multiply", "What is 7 times 12? | add 7 times 2")
    level: int = 4
    continues: bool = False
    stops: bool = False
    log: list[Sent] = field(default_factory=list)

    @property
    def billed(self) -> int:
        """Completion tokens of all calls."""
        return sum(sent.thought + sent.written for sent in self.log)

    def solving(self) -> list[Sent]:
        """Return the requests that were not the planner's."""
        return [sent for sent in self.log if sent.call.role == "solve"]

    def model(self, name: str = "r1", kind: Any = ChatOpenAI, **options: Any) -> Any:
        """Return a chat model that talks to this world.

        Args:
            name: Name of the model.
            kind: LangChain's class.
            **options: Further arguments of the class.
        """
        return kind(**{"model": name, "base_url": ELSEWHERE, **over(self._reply), **options})

    def _reply(self, request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content)
        cap = body.get("max_completion_tokens") or body.get("max_tokens") or _FREE
        kwargs = body.get("chat_template_kwargs") or {}
        schema = ((body.get("response_format") or {}).get("json_schema") or {}).get("schema")
        asked = [HumanMessage(str(message["content"])) for message in body["messages"]]
        call = call_of(asked, None, {"max_tokens": cap, "schema": schema})
        begun = body["messages"][-1]["role"] == "assistant"
        if begun and not self.continues:
            return httpx.Response(400, json={"error": {"message": "no prefill"}})
        think = self.think(body) if callable(self.think) else self.think
        if (self.stops and kwargs.get("enable_thinking") is False) or (
            begun and "</think>" in asked[-1].text
        ):
            think = 0
        text = self._says(call, asked[-1].text if begun else "")
        words = text.split(" ")
        thought = min(think, cap)
        written = words[: cap - thought]
        finish = "stop" if thought + len(words) <= cap else "length"
        self.log.append(Sent(body, call, cap, thought, len(written)))
        message = self._message(thought, " ".join(written), is_over=thought == think)
        usage: dict[str, Any] = {"prompt_tokens": 9, "completion_tokens": thought + len(written)}
        usage["total_tokens"] = sum(usage.values())
        if self.form in {"reasoning_content", "reasoning"}:
            usage["completion_tokens_details"] = {"reasoning_tokens": thought}
        choice = {"index": 0, "message": message, "finish_reason": finish}
        return completion(None, choices=[choice], usage=usage, model=body["model"])

    def _says(self, call: Call, begun: str) -> str:
        if call.role != "solve":
            return planned(call, self.plan, f"L{self.level}" if call.brief else self.level)
        if begun:
            return self.answer.rpartition(":")[2]
        return self.answer.rpartition("\n")[2] if call.forced else self.answer

    def _message(self, thought: int, text: str, *, is_over: bool) -> dict[str, Any]:
        thinking = " ".join(["hmm"] * thought)
        if self.form in {"reasoning_content", "reasoning"}:
            return {"role": "assistant", "content": text, self.form: thinking}
        opening = "<think>\n" if self.form == "tags" and thought else ""
        closing = "\n</think>\n\n" if is_over and thought else ""
        return {"role": "assistant", "content": f"{opening}{thinking}{closing}{text}"}
