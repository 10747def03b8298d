"""The compiled graph, which does not take keys that it does not know.

LangGraph drops them without a word, so that a mistyped ``{"levle": 2}`` would do nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langchain_core.runnables import RunnableConfig, ensure_config
from langchain_core.runnables.config import merge_configs
from langgraph.errors import EmptyInputError
from langgraph.graph.state import CompiledStateGraph

from pb_graph.errors import InputError, did_you_mean
from pb_graph.runtime.drawing import svg_of
from pb_graph.runtime.langgraph_internals import host_has
from pb_graph.settings import Context, Settings
from pb_graph.state import Input, Output, State

_NOTHING_TO_RESUME = (
    "There is nothing to go on with: this thread has no checkpoint, for instance because the first "
    "one could not be written. Nothing was paid for; ask the question again."
)
_KEYS = tuple(Input.__annotations__)
# Hosts put what they like into a config; but who gives one of these there means the input.
_OF_THE_QUESTION = tuple(key for key in _KEYS if key != "messages")


class CheckedGraph(CompiledStateGraph[State, Context, Input, Output]):
    """A graph that refuses unknown keys, and says in our words when there is no input at all.

    Every way to run one goes through `stream` or `astream`. Within a host's graph it is handed the
    host's whole state, of which it takes what is its own.
    """

    def invoke(self, *given: Any, **options: Any) -> Any:  # noqa: ANN401 -- LangGraph's
        """`CompiledStateGraph.invoke`, in our words."""
        try:
            return super().invoke(*given, **options)
        except EmptyInputError as error:
            raise InputError(_NOTHING_TO_RESUME) from error

    async def ainvoke(self, *given: Any, **options: Any) -> Any:  # noqa: ANN401
        """`CompiledStateGraph.ainvoke`, in our words."""
        try:
            return await super().ainvoke(*given, **options)
        except EmptyInputError as error:
            raise InputError(_NOTHING_TO_RESUME) from error

    def stream(self, input: Any, config: RunnableConfig | None = None, **options: Any) -> Any:  # noqa: A002, ANN401
        """`CompiledStateGraph.stream`, of known keys."""
        _check(input, config, self.config)
        return super().stream(input, config, **options)

    def astream(self, input: Any, config: RunnableConfig | None = None, **options: Any) -> Any:  # noqa: A002, ANN401
        """`CompiledStateGraph.astream`, of known keys."""
        _check(input, config, self.config)
        return super().astream(input, config, **options)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:  # noqa: ANN401
        """What a notebook shows; LangGraph's own sends the graph to a server that draws it."""
        return {"text/plain": repr(self), "image/svg+xml": svg_of(self.get_graph())}


def _check(given: object, config: RunnableConfig | None, own: RunnableConfig | None) -> None:
    """Raise InputError for a key that means nothing here, and for text without a key.

    A host hands its state on: as a node's input, from a function or from a tool. So a key of its
    state may be there; one that neither knows was written for us, and wrongly.
    """
    merged = ensure_config(merge_configs(own, config))
    # The config of a graph's node, or of what is called there, says so.
    configs = (ensure_config(), merged)
    host = next((one for one in configs if "langgraph_node" in (one.get("metadata") or {})), None)
    if host is None:
        _check_alone(given, merged.get("configurable") or {})
    if not isinstance(given, Mapping):
        return
    unknown = [key for key in given if key not in _KEYS and not (host and host_has(key, host))]
    if not unknown:
        return
    key = str(unknown[0])
    if key in Settings.model_fields or key == "settings":
        way = 'a setting: give it to build_graph, or as context={"settings": {...}}'
    else:
        way = f"no key of the input; there are: {', '.join(_KEYS)}{did_you_mean(key, _KEYS)}"
    msg = f"{key!r} is {way}"
    raise InputError(msg)


def _check_alone(given: object, chosen: Mapping[str, Any]) -> None:
    """What a host may do, and nobody else: put our keys into its config, and have text as state."""
    if misplaced := [key for key in _OF_THE_QUESTION if chosen.get(key) is not None]:
        key = misplaced[0]
        msg = f"{key!r} in config['configurable'] would do nothing: give it in the input, as in "
        raise InputError(msg + f'{{"question": ..., "{key}": {chosen[key]!r:.100}}}')
    if isinstance(given, str):
        msg = 'text alone is no input: give {"question": "..."}'
        raise InputError(msg)
