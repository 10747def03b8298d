"""A scripted chat model that plans and answers as a test says, and keeps to its cap.

A token is a word here. What a call was given and what it cost is in ``model.calls``.
"""
# ruff: noqa: ANN401, ARG002 -- inherited signatures, and grades that no planner should write

from __future__ import annotations

import asyncio
import itertools
import json
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Literal

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolCall
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import Field

from pb_graph.models.caps import CONTINUING
from pb_graph.models.options import CallOptions
from pb_graph.planner.requests import LEVEL_FORM
from pb_graph.prompts import FORCE_FINAL, FORCE_STEP

Role = Literal["decompose", "estimate", "fused", "solve"]


@dataclass(frozen=True, slots=True)
class Reply:
    """What the model says; hidden reasoning is paid for first, as a thinking model's is."""

    text: str = ""
    reasoning: int = 0
    tool_calls: Sequence[ToolCall] = ()


@dataclass(slots=True)
class Call:
    """One call as the model saw it, and what it cost."""

    role: Role
    messages: list[BaseMessage]
    cap: int | None
    schema: dict[str, Any] | None
    node: str | None
    """The graph's node that made the call."""
    arguments: dict[str, Any] = field(repr=False)
    output_tokens: int = 0
    finish: str | None = None

    @property
    def ask(self) -> str:
        """What was said last."""
        return str(self.messages[-1].text)

    @property
    def brief(self) -> bool:
        """Whether the level alone is asked for, in one token."""
        return LEVEL_FORM in str(self.messages[0].text)

    @property
    def forced(self) -> bool:
        """Whether an unfinished answer is being asked for its result only."""
        return self.ask.startswith((FORCE_STEP, FORCE_FINAL))


Said = str | Reply | Exception
Script = Said | Callable[[Call], Said]


def runs_on(_: Call) -> Said:
    """Never ends by itself: every call runs into its cap."""
    return "and so on " * 3000


def says_nothing(_: Call) -> Said:
    """Is empty and free."""
    return ""


def thinks_in_vain(_: Call) -> Said:
    """Is empty, but paid to the last token of the cap: reasoning ate it."""
    return Reply(reasoning=1_000_000)


def until_forced(call: Call) -> Said:
    """Thinks up to the cap, unless told to stop thinking and to state a result."""
    return "Final answer: 42" if call.forced else thinks_in_vain(call)


def in_turn(*said: Said) -> Callable[[Call], Said]:
    """Say these one after another, the last one for ever."""
    script = itertools.chain(said, itertools.repeat(said[-1]))
    return lambda _: next(script)


class HTTPError(Exception):
    """A provider's failure with a status, as SDKs raise it."""

    def __init__(self, status_code: int, message: str = "refused") -> None:
        super().__init__(message)
        self.status_code = status_code


class CutOffError(ConnectionError):
    """A reply that its client refused to hand over, although it was paid for."""

    def __init__(self, tokens: int) -> None:
        super().__init__("cut off")
        usage = SimpleNamespace(prompt_tokens=9, completion_tokens=tokens)
        self.completion = SimpleNamespace(usage=usage)


def with_schema(_: BaseChatModel, limits: CallOptions) -> dict[str, Any]:
    """Cap policy of a server that can constrain decoding: the model sees the JSON schema, too."""
    return {"max_tokens": limits.cap, "schema": limits.schema}


CONTINUING.add(with_schema)


class Record:
    """What happened; shared by the copies that the package makes of a model."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.most_at_once = 0
        self._open = 0
        self._lock = threading.Lock()

    @contextmanager
    def opened(self, call: Call) -> Iterator[None]:
        with self._lock:
            self.calls.append(call)
            self._open += 1
            self.most_at_once = max(self.most_at_once, self._open)
        try:
            yield
        finally:
            with self._lock:
                self._open -= 1


class ScriptedChat(BaseChatModel):
    """Plays planner and solver.

    Args:
        plan: Sub-questions as a planner writes them: ``question | hint | after 1``.
        level: Estimated level of the question.
        levels: Estimated levels of the sub-questions; all 3 when not given.
        credits: Estimated credits; equal when not given.
        planner: Answers planner calls instead of the four above.
        solve: Answers everything else.
        reports_usage: Whether responses carry their tokens.
        obeys_cap: Whether it stops at ``max_tokens``.
        seconds: How long a solver's call takes.
        max_retries: The SDK's own setting, which the package sets to 0.
        model_name: What accounts and errors call it.
        profile: LangChain's profile, which tells its class.
    """

    plan: Sequence[str] = ("What is given?", "What follows? | from the first")
    level: Any = 3
    levels: Any = None
    credits: Any = None
    planner: Any = None
    solve: Any = "Final answer: 42"
    reports_usage: bool = True
    obeys_cap: bool = True
    seconds: float = 0.0
    max_retries: int = 1
    model_name: str = "scripted-1"
    profile: Any = Field(default={"reasoning_output": False})
    record: Record = Field(default_factory=Record, repr=False)

    @property
    def calls(self) -> list[Call]:
        """Every call, in order of its beginning."""
        return self.record.calls

    @property
    def output_tokens(self) -> int:
        """Completion tokens of all calls."""
        return sum(call.output_tokens for call in self.calls)

    def solving(self) -> list[Call]:
        """The calls that were not the planner's."""
        return [call for call in self.calls if call.role == "solve"]

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Any:
        return self.bind(tools=[convert_to_openai_tool(made) for made in tools], **kwargs)

    def _generate(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        call = call_of(messages, run_manager, kwargs)
        with self.record.opened(call):
            if self.seconds and call.role == "solve":
                time.sleep(self.seconds)
            return self._result(call)

    async def _agenerate(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        call = call_of(messages, run_manager, kwargs)
        with self.record.opened(call):
            await asyncio.sleep(self.seconds if call.role == "solve" else 0)
            return self._result(call)

    def _stream(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> Iterator[ChatGenerationChunk]:
        whole: Any = self._generate(messages, stop, run_manager, **kwargs).generations[0].message
        for word in _words(str(whole.text)):
            yield ChatGenerationChunk(message=AIMessageChunk(content=word))
        last = AIMessageChunk(
            content="",
            usage_metadata=whole.usage_metadata,
            response_metadata=whole.response_metadata,
        )
        yield ChatGenerationChunk(message=last)

    def _result(self, call: Call) -> ChatResult:
        said = self._said(call)
        if isinstance(said, Exception):
            raise said
        reply = Reply(said) if isinstance(said, str) else said
        room = call.cap if self.obeys_cap and call.cap is not None else 10**9
        words = _words(reply.text)
        reasoning = min(reply.reasoning, room)
        written = words[: room - reasoning]
        cut = reply.reasoning + len(words) > room
        call.output_tokens = reasoning + len(written)
        call.finish = "length" if cut else "stop"
        message = AIMessage(
            "".join(written),
            tool_calls=list(reply.tool_calls),
            usage_metadata=_usage(call, reasoning) if self.reports_usage else None,
            response_metadata={"model_name": self.model_name, "finish_reason": call.finish},
        )
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _said(self, call: Call) -> Said:
        planner = self._planned if self.planner is None else self.planner
        script = self.solve if call.role == "solve" else planner
        said: Said = script(call) if callable(script) else script
        return said

    def _planned(self, call: Call) -> str:
        return planned(call, self.plan, self.level, self.levels, self.credits)


def planned(
    call: Call, plan: Sequence[str], level: Any = 3, levels: Any = None, shares: Any = None
) -> str:
    """Return what a planner replies to a call, in the form that it asks for."""
    if call.role == "decompose":
        return json.dumps({"steps": list(plan)})
    if call.brief:
        return str(level)
    count = len(plan)
    if call.role == "estimate" and call.schema is not None:
        count = int(call.schema["properties"].get("levels", {}).get("minItems", 0))
    if not count:
        return json.dumps({"level": level})
    levels = [3] * count if levels is None else levels
    shares = [100 // count] * count if shares is None else shares
    if call.role == "estimate":
        return json.dumps({"level": level, "levels": levels, "credits": shares})
    rows = zip(plan, levels, shares, strict=True)
    steps = [{"question": text, "level": level, "credit": worth} for text, level, worth in rows]
    return json.dumps({"level": level, "steps": steps})


def call_of(messages: Sequence[BaseMessage], run_manager: Any, kwargs: dict[str, Any]) -> Call:
    """Return a call of a model with these arguments."""
    node = (getattr(run_manager, "metadata", None) or {}).get("langgraph_node")
    schema = kwargs.get("schema")
    judges = LEVEL_FORM in "".join(str(message.text) for message in messages[:1])
    return Call(
        role="estimate" if judges else _role(schema, node),
        messages=[*messages],
        cap=kwargs.get("max_tokens"),
        schema=schema,
        node=node,
        arguments=kwargs,
    )


def _role(schema: dict[str, Any] | None, node: str | None) -> Role:
    """By the schema, if the server gets to see it; else by the node, fused, as both can be read."""
    if schema is None:
        roles: dict[str | None, Role] = {"plan": "fused", "estimate": "estimate"}
        return roles.get(node, "solve")
    if "steps" not in schema["properties"]:
        return "solve" if node in ("answer", "solve", "synthesize") else "estimate"
    items = schema["properties"]["steps"]["items"]
    return "fused" if items["type"] == "object" else "decompose"


CORRECTION = "Your last reply could not be used"


def fumbling_script(given: dict[str, Any]) -> dict[str, Any]:
    """Return what a model says: with ``fumbles``, every node needs a second call."""
    plays: dict[str, Any] = {"plan": given["plan"]}
    if not given.get("fumbles"):
        return plays
    well = ScriptedChat(**plays)
    return plays | {
        "planner": lambda call: well._planned(call) if CORRECTION in call.ask else "...",
        "solve": lambda call: "Final answer: 42" if call.forced else runs_on(call),
    }


def _words(text: str) -> list[str]:
    return re.findall(r"\s*\S+", text)


def _usage(call: Call, reasoning: int) -> UsageMetadata:
    prompt = sum(len(str(message.text).split()) for message in call.messages)
    return UsageMetadata(
        input_tokens=prompt,
        output_tokens=call.output_tokens,
        total_tokens=prompt + call.output_tokens,
        output_token_details={"reasoning": reasoning},
    )
