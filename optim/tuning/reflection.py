"""The model that writes new instructions: every reply is paid for once."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from langchain_core.messages import HumanMessage

from optim.evaluation.models import model_identity
from optim.evaluation.store import CachedClient, Recording, recording
from optim.tuning.evaluator import SearchEndedError
from pb_graph.errors import PlanAndBudgetError
from pb_graph.models.client import (
    IO,
    AsyncIO,
    BlockingIO,
    ChatClient,
    RetryPolicy,
    WrapperClient,
    run_sync,
)
from pb_graph.models.options import TIMEOUT, CallOptions
from pb_graph.models.resolve import model_name, resolve
from pb_graph.planner.engine import LangChainEngine, language_model
from pb_graph.types import Purpose

if TYPE_CHECKING:
    import dspy
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import BaseMessage

    from optim.tuning.evaluator import Evaluator
    from pb_graph.models.reply import Reply

_CAP = 2048  # completion tokens of a reflection
_TEMPERATURE = 1.0  # the same prompt is asked several times, for different ideas
_EMPTY_REPLIES = 3  # in a row, that end a search
_MARKED = re.compile(r"```[\w-]*\n(.*?)```|<instruction>(.*?)(?:</instruction>|\Z)", re.DOTALL)


class Reflector(WrapperClient):
    """Asks the reflection model through the evaluator's cache and budget, from any thread.

    The n-th identical request of a run gets the n-th reply that was ever given to it, so a run
    that is started again takes the same decisions. Requests of several threads run at once.

    Args:
        model: As for `build_graph`. A model made from a name is asked at temperature 1, if it
            would be asked at 0.
        evaluator: Its event loop makes the calls; its cache keeps the replies.

    Attributes:
        label: The model's name, for the record.
    """

    def __init__(self, model: BaseChatModel | str, evaluator: Evaluator) -> None:
        settings, chat, name = evaluator.program.settings, model, None
        if isinstance(chat, str):
            name = chat
            chat = resolve(model_name(name), settings)
            if getattr(chat, "temperature", None) == 0.0:
                chat = chat.model_copy(update={"temperature": _TEMPERATURE})
        self.label, identity = name or type(chat).__name__, model_identity(chat, name)
        cap_policy = evaluator.program.graph.cap_policy
        client = ChatClient(chat, cap_policy, RetryPolicy(settings.max_retries))
        cache, check = evaluator.replies, evaluator.check
        super().__init__(CachedClient(client, self.label, identity, cache, before=check))
        self._options = CallOptions(_CAP, settings.timeout or TIMEOUT, purpose=Purpose("reflect"))
        self._evaluator, self._recording, self._empty = evaluator, Recording(), 0

    def ask(self, prompt: str) -> str:
        """Return the reply to a prompt. Raises as `call`."""
        return run_sync(self.call([HumanMessage(prompt)], self._options, BlockingIO())).text

    def language_model(self) -> dspy.LM:
        """Return the model as DSPy's optimizers want it."""
        return language_model(LangChainEngine(self, self._options))

    async def call(self, messages: Sequence[BaseMessage], options: CallOptions, io: IO) -> Reply:  # noqa: ARG002 -- the evaluator's loop awaits
        """Make one call, or return the reply that an earlier start paid for.

        An error ends the search: optimizers would go on, and ask again.

        Raises:
            SearchEndedError: The budget is spent, or several replies in a row were empty.
            ModelCallError: The model could not be called.
            StorageError: The disk is full.
        """
        try:
            return self._evaluator.run(self._asked, messages, options)
        except PlanAndBudgetError as error:
            self._evaluator.refusal = error
            raise

    async def _asked(self, messages: Sequence[BaseMessage], options: CallOptions) -> Reply:
        with recording(self._recording):
            reply = await self.wrapped.call(messages, options, AsyncIO())
        self._empty = 0 if reply.text.strip() else self._empty + 1
        if self._empty >= _EMPTY_REPLIES:
            raise self.unusable()
        return reply

    def unusable(self) -> SearchEndedError:
        """Return the error for a model whose replies hold no instruction."""
        return SearchEndedError(
            f"the reflection model {self.label} returned nothing that could be used: choose "
            "another --reflection-model, or --optimizer candidates, which needs none"
        )


def instruction_in(reply: str) -> str:
    """Return the instruction in a reply: its one marked part, else all of it, unquoted."""
    marked = _MARKED.findall(reply)
    text = "".join(marked[0]) if len(marked) == 1 else reply
    return text.strip().strip("\"'`").strip()
