"""Call the model that writes new instructions; every reply is paid once."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from langchain_core.messages import HumanMessage

from optim.bench.bench import model_identity
from optim.bench.store import CachedClient, Recording, recording
from optim.tuning.evaluator import SearchEndedError
from pb_graph.errors import PlanAndBudgetError
from pb_graph.models.client import RetryPolicy
from pb_graph.models.options import TIMEOUT, CallOptions
from pb_graph.models.reply import ASYNC, IO, Reply
from pb_graph.models.resolve import client_of, model_name, resolve
from pb_graph.planner.planner import language_model
from pb_graph.types import Purpose

if TYPE_CHECKING:
    from collections.abc import Sequence

    import dspy
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import BaseMessage

    from optim.tuning.evaluator import Evaluator

_CAP = 2048  # completion tokens of a reflection
_TEMPERATURE = 1.0  # the same prompt is asked several times, for different ideas
_MARKED = re.compile(r"```[\w-]*\n(.*?)```|<instruction>(.*?)(?:</instruction>|\Z)", re.DOTALL)


class Reflector:
    """Asks the reflection model through the evaluator's cache and budget, from any thread.

    The n-th identical prompt of a run gets the n-th stored reply, so a restarted run makes the same
    decisions.
    """

    def __init__(self, model: BaseChatModel | str, evaluator: Evaluator) -> None:
        settings, name = evaluator.program.settings, model if isinstance(model, str) else None
        if isinstance(model, str):
            model = resolve(model_name(model), settings)
            if getattr(model, "temperature", None) == 0.0:
                model = model.model_copy(update={"temperature": _TEMPERATURE})
        self.model, self.name = model, name or type(model).__name__
        policy, retries = evaluator.program.graph.cap_policy, RetryPolicy(settings.max_retries)
        self._client = CachedClient(
            client_of(model, policy, retries),
            self.name,
            model_identity(model, name),
            evaluator.replies,
            before=evaluator.check,
        )
        self._options = CallOptions(_CAP, settings.timeout or TIMEOUT, purpose=Purpose("reflect"))
        self._evaluator, self._recording = evaluator, Recording()

    def ask(self, prompt: str) -> str:
        """Return the reply to a prompt.

        An error ends the search, because an optimizer would continue and ask again.
        """
        return self._reply([HumanMessage(prompt)]).text

    def language_model(self) -> dspy.LM:
        """Return the model for the optimizers of DSPy that write instructions themselves."""
        return language_model(self._call, self._options)

    async def _call(self, messages: Sequence[BaseMessage], options: CallOptions, io: IO) -> Reply:  # noqa: ARG002 -- a client's signature
        """Answer a request of `language_model`."""
        return self._reply(messages)

    def _reply(self, messages: Sequence[BaseMessage]) -> Reply:
        try:
            return self._evaluator.run(self._asked, messages)
        except PlanAndBudgetError as error:
            self._evaluator.refusal = error
            raise

    async def _asked(self, messages: Sequence[BaseMessage]) -> Reply:
        with recording(self._recording):
            reply = await self._client.call(messages, self._options, ASYNC)
        if not reply.text or reply.finish == "length":
            msg = f"{self.name} wrote no whole instruction in {_CAP} tokens. Choose another "
            msg += "model to write instructions (--reflection-model)"
            raise SearchEndedError(msg)
        return reply


def instruction_in(reply: str) -> str:
    """Return the instruction in a reply: its only marked part, else the whole reply."""
    marked = _MARKED.findall(reply)
    text = ("".join(marked[0]) if len(marked) == 1 else reply).strip()
    is_quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "\"'`"
    return text[1:-1].strip() if is_quoted else text
