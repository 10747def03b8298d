"""HTTP connections that belong to one event loop.

LangChain's client for OpenAI's protocol keeps its async connections open and shares them between
all models of an address. A connection that was opened in an event loop that has ended is dead: a
call on it may be paid for, and is made again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any

from pb_graph.models.caps.openai import is_openai_like, sdk_options

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel


class Connections:
    """Chat models, and copies of them for each event loop that calls them.

    Models of another protocol, and models that were given an HTTP client, are used as they are.
    """

    def __init__(self, *models: BaseChatModel) -> None:
        self._models = models
        first: Any = models[0]
        self._shares = is_openai_like(first) and first.root_async_client is not None
        self._shares = self._shares and first.http_async_client is None
        self._of_loop: dict[asyncio.AbstractEventLoop, Any] = {}

    def blocking(self) -> tuple[BaseChatModel, ...]:
        """Return the models for calls that block."""
        return self._models

    async def in_running_loop(self) -> tuple[BaseChatModel, ...]:
        """Return copies of the models with connections of the running event loop."""
        if not self._shares:
            return self._models
        loop = asyncio.get_running_loop()
        if loop not in self._of_loop:
            for other in [other for other in list(self._of_loop) if other.is_closed()]:
                self._of_loop.pop(other, None)
            opened = _copies(self._models)
            self._of_loop[loop] = (await anext(opened), opened)  # open until the loop ends
        copies: tuple[BaseChatModel, ...] = self._of_loop[loop][0]
        return copies


async def _copies(models: tuple[Any, ...]) -> AsyncGenerator[tuple[BaseChatModel, ...]]:
    """Yield copies whose connections are closed with the event loop, which ends its generators."""
    import openai  # noqa: PLC0415 -- costs a second, and is there with the model

    async with openai.DefaultAsyncHttpxClient() as http:
        yield tuple(
            model.model_copy(update=sdk_options(model, "async_client", http_client=http))
            for model in models
        )
