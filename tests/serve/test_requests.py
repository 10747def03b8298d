"""What all requests have in common, without a server."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pb_graph.serve.chat import ChatRequest


@pytest.mark.parametrize(
    ("fields", "headers", "total"),
    [
        ({}, {}, None),
        ({"max_tokens": 50}, {}, 50),
        ({"max_tokens": 50, "max_completion_tokens": 80}, {}, 50),
        ({"max_completion_tokens": 80}, {"x-pb-budget": "90"}, 80),
        ({"max_completion_tokens": 80}, {"x-pb-budget": "60"}, 60),
    ],
)
def test_of_several_totals_the_smallest_holds(
    fields: dict[str, Any], headers: dict[str, str], total: int | None
) -> None:
    body = {"model": "vanilla", "messages": [{"role": "user", "content": "6 * 7?"}], **fields}
    assert ChatRequest.read(json.dumps(body).encode(), headers).total == total
