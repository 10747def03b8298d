"""Call the model that writes new instructions; every reply is paid once."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from langchain_core.messages import HumanMessage

from optim.evaluation.models import model_identity
from optim.evaluation.store import CachedClient, Recording, recording
from pb_graph.errors import PlanAndBudgetError
from pb_graph.models.client import ChatClient, RetryPolicy
from pb_graph.models.options import TIMEOUT, CallOptions
from pb_graph.models.reply import ASYNC
from pb_graph.models.resolve import model_name, resolve
from pb_graph.types import Purpose

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from optim.tuning.evaluator import Evaluator

_CAP = 2048  # completion tokens of a reflection
_TEMPERATURE = 1.0  # the same prompt is asked several times, for different ideas
_MARKED = re.compile(r"```[\w-]*\n(.*?)```|<instruction>(.*?)(?:</instruction>|\Z)", re.DOTALL)


class Reflector:
    """Asks the reflection model through the evaluator's cache and budget, from any thread.

    The n-th identical prompt of a run gets the n-th stored reply, so a restarted run makes the same
    decisions.

    Args:
        model: As for `build_graph`. A model made from a name is asked at temperature 1, if it
            would be asked at 0.
        evaluator: Evaluator that makes the calls and stores the replies.

    Attributes:
        label: The model's name, for the record.
        model: The model that is asked.
    """

    def __init__(self, model: BaseChatModel | str, evaluator: Evaluator) -> None:
        settings, name = evaluator.program.settings, model if isinstance(model, str) else None
        if isinstance(model, str):
            model = resolve(model_name(model), settings)
            if getattr(model, "temperature", None) == 0.0:
                model = model.model_copy(update={"temperature": _TEMPERATURE})
        self.model, self.label = model, name or type(model).__name__
        policy, retries = evaluator.program.graph.cap_policy, RetryPolicy(settings.max_retries)
        self._client = CachedClient(
            ChatClient(model, policy, retries),
            self.label,
            model_identity(model, name),
            evaluator.replies,
            before=evaluator.check,
        )
        self._options = CallOptions(_CAP, settings.timeout or TIMEOUT, purpose=Purpose("reflect"))
        self._evaluator, self._recording = evaluator, Recording()

    def ask(self, prompt: str) -> str:
        """Return the reply to a prompt.

        An error ends the search, because an optimizer would continue and ask again.

        Raises:
            SearchEndedError: The budget is spent.
            ModelCallError: The model could not be called.
            StorageError: The disk is full.
        """
        try:
            return self._evaluator.run(self._asked, prompt)
        except PlanAndBudgetError as error:
            self._evaluator.refusal = error
            raise

    async def _asked(self, prompt: str) -> str:
        with recording(self._recording):
            reply = await self._client.call([HumanMessage(prompt)], self._options, ASYNC)
        return reply.text


def instruction_in(reply: str) -> str:
    """Return the instruction in a reply: its only marked part, else the whole reply."""
    marked = _MARKED.findall(reply)
    text = "".join(marked[0]) if len(marked) == 1 else reply
    return text.strip().strip("\"'`").strip()
