"""The table of what providers are sent: ``python -m tests.support.models_table`` prints it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from langchain.chat_models import init_chat_model

from pb_graph.models.caps import policy_for
from pb_graph.models.options import CallOptions, Thinking, is_cap

CAPS = (300, 2_000, 16_000)
NAMES = (
    "openai:gpt-5-mini",
    "openai:gpt-5.1",
    "openai:o3",
    "anthropic:claude-sonnet-4-5",
    "anthropic:claude-opus-4-5",
    "anthropic:claude-sonnet-5",
    "google_genai:gemini-3.5-flash",
    "google_genai:gemini-3.1-pro-preview",
    "deepseek:deepseek-v4-flash",
    "ollama:qwen3",
    "ollama:gpt-oss",
)


def table() -> str:
    """Return the table: a row for each model, a column for each cap, and one for no thinking."""
    head = ["model", *(f"cap {cap:,}" for cap in CAPS), "forced ending"]
    rows = [head, ["---"] * len(head)]
    for name in NAMES:
        cells = [_sent(name, cap, "bounded") for cap in CAPS]
        rows.append([f"`{name}`", *cells, _sent(name, 48, "off")])
    return "".join("| " + " | ".join(row) + " |\n" for row in rows)


def _sent(name: str, cap: int, thinking: Thinking) -> str:
    model: Any = init_chat_model(name, **({} if name.startswith("ollama") else {"api_key": "none"}))
    sent = policy_for(model)(model, CallOptions(cap, thinking=thinking))
    return ", ".join(f"`{word}`" for word in _words(sent)) or "nothing"


def _words(sent: Mapping[str, Any]) -> Iterator[str]:
    """Yield what the arguments of a call say about thinking."""
    for name, value in sent.items():
        if name in {"extra_body", "output_config", "options"}:
            yield from _words(value)
        elif isinstance(value, dict):
            yield f"{name}: {value['type']}"
        elif name != "timeout" and not is_cap(name):
            yield f"{name}: {value}"


if __name__ == "__main__":
    print(table(), end="")  # noqa: T201 -- what it is for
