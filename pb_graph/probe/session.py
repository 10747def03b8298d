"""The calls of one probe: made as the graph makes them, counted, and seen from behind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from pb_graph.errors import ModelCallError
from pb_graph.models.caps import constructor_overrides, continuation
from pb_graph.models.client import ChatClient
from pb_graph.models.options import CallOptions
from pb_graph.models.provider_errors import status_of
from pb_graph.models.reply import Reply
from pb_graph.models.retry import RetryPolicy
from pb_graph.models.usage import tokens_of
from pb_graph.types import Purpose

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.outputs import LLMResult

    from pb_graph.models.caps import CapPolicy
    from pb_graph.models.options import Thinking

MOST_CALLS, MOST_TOKENS = 20, 4000
"""Of a whole probe; tokens of prompts and replies together."""

THINKS_FROM = 32
"""Hidden tokens from which on a model is taken to think."""

COUNT = "Write the numbers from 1 to 100 with a comma after each. Write nothing else."
PUZZLE = (
    "How many of the numbers from 100 to 200 are prime? Check each of them in your mind, and reply "
    "with the number of primes only."
)
_AT_ONCE = 2  # attempts that one call can take: a second one without what the first was refused for
_TIMEOUT = 120.0
_REFUSED = frozenset({400, 422, 501})


class UsedUpError(Exception):
    """The probe's own limit of calls or tokens leaves no room for another call."""


class _Watch(BaseCallbackHandler):
    """Sees what LangChain hears from the server."""

    def __init__(self) -> None:
        self.calls = 0
        self.messages: list[AIMessage] = []
        self.errors: list[Exception] = []

    def on_chat_model_start(self, *_: Any, **__: Any) -> None:  # noqa: ANN401 -- not looked at
        self.calls += 1

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **_: Any) -> None:  # noqa: ANN401, ARG002
        message: Any = getattr(response.generations[0][0], "message", None)
        self.messages.append(message)

    def on_llm_error(self, error: BaseException, **_: Any) -> None:  # noqa: ANN401
        if isinstance(error, Exception):
            self.errors.append(error)

    def refusals(self) -> tuple[str, str]:
        """How an attempt was refused, and how the last one failed otherwise; mostly neither."""
        refused = failed = ""
        for error in self.errors:
            status = status_of(error)
            if status in _REFUSED or isinstance(error, TypeError):  # an argument nobody knows
                refused = f"HTTP {status}" if status else "by its client"
            else:
                failed = f"HTTP {status}" if status else type(error).__name__
        return refused, failed


@dataclass(frozen=True, slots=True)
class Seen:
    """What came of one call.

    Attributes:
        cap: Tokens that it was allowed.
        reply: As the graph would read it; None when the call failed.
        message: As the server said it.
        refused: How an attempt was refused, if one was: what it asked for is not to be had.
        failed: What else went wrong with the last attempt.
        pieces: How many pieces of text a stream came in.
    """

    cap: int
    reply: Reply | None
    message: AIMessage
    refused: str = ""
    failed: str = ""
    pieces: int = 0

    @property
    def text(self) -> str:
        """What there is of an answer; thinking is none."""
        return self.reply.text if self.reply else ""

    @property
    def tokens(self) -> int:
        """Completion tokens, by the server's account or by ours."""
        return self.reply.tokens if self.reply else 0

    @property
    def ended(self) -> str:
        """Why it ended."""
        return self.reply.finish if self.reply else "error"

    @property
    def hidden(self) -> int:
        """Tokens of thinking at least: those reported, or more than the text has characters."""
        reported = self.reply.charge["reasoning_tokens"] if self.reply else 0
        return max(reported, self.tokens - len(self.text), 0)


@dataclass
class Session:
    """One probe of one model.

    Attributes:
        model: What is probed.
        policy: How caps are said to it; a check may find one that fits better.
        calls: Made so far, refused ones included.
        tokens: Of prompts and replies.
        replies: Calls that got one.
        failure: Why the last one without a reply got none.
        overrun: One that took more than its cap.
    """

    model: BaseChatModel
    policy: CapPolicy
    calls: int = 0
    tokens: int = 0
    replies: int = 0
    failure: str = ""
    overrun: Seen | None = None

    @cached_property
    def counted(self) -> Seen:
        """A reply that runs into its cap."""
        return self.ask(COUNT, 24, thinking="off")

    @cached_property
    def streamed(self) -> Seen:
        """The same as a stream."""
        return self.ask(COUNT, 24, thinking="off", stream=True)

    @cached_property
    def free(self) -> Seen:
        """A question that takes thought, and nothing said about how much."""
        return self.ask(PUZZLE, 512)

    @property
    def thinks(self) -> bool:
        """Whether the model thinks unasked before it answers."""
        return self.free.hidden >= THINKS_FROM

    def ask(  # noqa: PLR0913 -- what a request consists of
        self,
        asked: str | Sequence[BaseMessage],
        cap: int,
        *,
        thinking: Thinking = "free",
        schema: dict[str, Any] | None = None,
        stream: bool = False,
        continues: bool = False,
        policy: CapPolicy | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> Seen:
        """Make one call as the graph makes it, and with ``extra`` arguments beside the policy's.

        Raises:
            UsedUpError: The limits of the probe do not allow it.
        """
        messages = [HumanMessage(asked)] if isinstance(asked, str) else list(asked)
        prompt = tokens_of(AIMessage(""), messages).input
        if self.calls + _AT_ONCE > MOST_CALLS or self.tokens + prompt + cap > MOST_TOKENS:
            raise UsedUpError
        watch, pieces = _Watch(), list[str | None]()
        client = self._client(watch, policy or self.policy, extra or {})
        continues = continues and client.continues is not None
        limits = CallOptions(cap, _TIMEOUT, schema, thinking, continue_last=continues)
        hears = pieces.append if stream else None
        reply: Reply | None = None
        try:
            reply = client.call(messages, limits, Purpose("probe"), hears)
            self.replies += 1
        except ModelCallError as error:
            self.failure = str(error)
        self.calls += watch.calls
        self.tokens += (reply.tokens + reply.charge["input_tokens"]) if reply else 0
        message = watch.messages[-1] if watch.messages else AIMessage("")
        written = sum(piece is not None for piece in pieces)
        seen = Seen(cap, reply, message, *watch.refusals(), written)
        if seen.tokens > cap and not stream:
            self.overrun = seen
        return seen

    def _client(self, watch: _Watch, policy: CapPolicy, extra: Mapping[str, Any]) -> ChatClient:
        changed = {"callbacks": [watch]} | constructor_overrides(self.model, policy)

        def asks(model: BaseChatModel, limits: CallOptions) -> dict[str, Any]:
            return {**policy(model, limits), **extra}

        model = self.model.model_copy(update=changed)
        client = ChatClient(model, asks, RetryPolicy(max_retries=0))
        client.continues = continuation(policy)
        return client
