"""Connections that belong to one event loop and one process.

A client for OpenAI's protocol keeps its connections open, and LangChain shares them between all
models of an address. One that was opened in an event loop that is gone is dead: a call on it may be
paid, and is made again. One that was opened before a fork is used by both processes, and may bring
either the other's answer. One whose call was cancelled while it was being put away is neither free
nor closed, and takes a descriptor and a place in the pool for as long as the loop runs.
"""

from __future__ import annotations

import asyncio
import functools
import importlib
import os
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import TYPE_CHECKING, Any

from pb_graph.models.caps.openai import is_openai_like, sdk_options

if TYPE_CHECKING:
    import ssl

    from langchain_core.language_models import BaseChatModel

    Models = tuple[BaseChatModel, ...]

_forks = 0


def _forked() -> None:
    global _forks  # noqa: PLW0603 -- counts the forks that led to this process
    _forks += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


class Connections:
    """Copies of chat models that keep to the connections of where they are used.

    The copies of one place share theirs. Models of another protocol, and those that were given an
    HTTP client, are used as they are.
    """

    def __init__(self, *models: BaseChatModel) -> None:
        self._models = models
        self._built = _forks
        self._blocking: dict[int, Models] = {}
        self._of_loop: dict[tuple[int, asyncio.AbstractEventLoop], tuple[Models, object]] = {}

    def blocking(self) -> Models:
        """The models for a call that blocks, from any thread of this process."""
        if _forks == self._built or not _shares(self._models[0], "root_client", "http_client"):
            return self._models
        if _forks not in self._blocking:
            self._blocking = {_forks: tuple(_own_blocking(model) for model in self._models)}
        return self._blocking[_forks]

    async def awaited(self) -> Models:
        """The models for a call in the running event loop."""
        if not _shares(self._models[0], "root_async_client", "http_async_client"):
            return self._models
        here = (_forks, asyncio.get_running_loop())
        if here not in self._of_loop:
            for place in list(self._of_loop):  # at once: other threads add loops of theirs
                if place[1].is_closed():
                    self._of_loop.pop(place, None)
            # Held until the loop ends, which then closes the connections.
            opened = _own_awaited(self._models)
            self._of_loop[here] = (await anext(opened), opened)
        return self._of_loop[here][0]


def _shares(model: BaseChatModel, sdk: str, given: str) -> bool:
    """Whether a model's connections are those that LangChain shares, and not the caller's own."""
    return (
        is_openai_like(model)
        and getattr(model, sdk, None) is not None
        and getattr(model, given, None) is None
    )


def _own_blocking(model: Any) -> BaseChatModel:  # noqa: ANN401 -- of LangChain's package for OpenAI
    import openai  # noqa: PLC0415 -- costs a second, and is there with the model

    own = openai.DefaultHttpxClient(verify=_certificates())
    copied: BaseChatModel = model.model_copy(update=sdk_options(model, "client", http_client=own))
    return copied


async def _own_awaited(models: tuple[Any, ...]) -> AsyncGenerator[Models]:
    """Copies with connections that are closed at the end of the event loop, as generators are."""
    async with _cancellable()(verify=_certificates()) as own:
        change = functools.partial(sdk_options, side="async_client", http_client=own)
        yield tuple(model.model_copy(update=change(model)) for model in models)


@functools.cache
def _cancellable() -> Any:  # noqa: ANN401 -- httpx's, and from the SDK's 3.0 on httpx2's
    """The SDK's HTTP client, but one that loses no connection when a call is cancelled."""
    import openai  # noqa: PLC0415

    class Cancellable(openai.DefaultAsyncHttpxClient):
        async def send(self, request: Any, *, stream: bool = False, **options: Any) -> Any:  # noqa: ANN401
            sending = functools.partial(super().send, request, stream=stream, **options)
            response = await _in_a_scope(sending)
            if stream:  # whoever reads it puts the connection away

                async def closing() -> None:
                    # Else it leads back to itself, and what is left of a stream that is read no
                    # further waits for the collector, or for the loop's end, which complains of it.
                    del response.aclose
                    await _in_a_scope(response.aclose)

                response.aclose = closing
            return response

    return Cancellable


async def _in_a_scope(work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:  # noqa: ANN401
    """Await what puts connections away, so that a cancellation ends it and does not break it.

    httpcore shields these steps from anyio's cancellation and from no other: ``cancel`` of a task,
    which is what our time limits and hosts use, ends them halfway. So the work has a task of its
    own, and is cancelled in anyio's way.
    """
    import anyio  # noqa: PLC0415 -- is there with the SDK

    scope = anyio.CancelScope()

    async def working() -> Any:  # noqa: ANN401
        with scope:
            return await work()
        return None  # cancelled

    task = asyncio.create_task(working())
    try:
        await asyncio.wait([task])
        return task.result()
    except asyncio.CancelledError:
        scope.cancel()
        await asyncio.wait([task])
        if not task.exception() and task.result() is not None:  # it came all the same
            await _in_a_scope(task.result().aclose)
        raise
    finally:
        del task  # an error of it leads back here, and both would wait for the collector


@functools.cache
def _certificates() -> ssl.SSLContext:
    """Whom the SDK's own clients trust: before its 3.0 certifi's list, then the system's."""
    import openai  # noqa: PLC0415

    library = importlib.import_module(openai.DefaultHttpxClient.__mro__[1].__module__)
    context: ssl.SSLContext = library.create_ssl_context()  # 0.1 s, which each client would spend
    return context
