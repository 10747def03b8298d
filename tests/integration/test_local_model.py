"""The smallest real model, really served: fetched once, loaded once, called over loopback."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator

import httpx
import pytest
from langchain_openai import ChatOpenAI

from pb_graph.errors import WeightsError
from pb_graph.local import server as local
from pb_graph.probe import probe

pytestmark = pytest.mark.integration

NAME = "smollm2-135m"


@pytest.fixture(scope="module")
def server() -> Iterator[local.LocalServer]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PB_THREADS", "1")  # beside other tests, more threads are slower
        try:
            running = local.serve(NAME)
        except WeightsError as error:
            pytest.skip(f"neither the cache nor an index delivers {NAME}: {error}")
    yield running
    running.close()


@pytest.fixture
def chat(server: local.LocalServer) -> ChatOpenAI:
    assert local.serve(NAME) is server
    return local.local_chat_model(NAME)


def test_a_call_without_the_key_is_refused(server: local.LocalServer) -> None:
    def status(headers: dict[str, str]) -> int:
        return httpx.get(f"{server.url}/models", headers=headers, trust_env=False).status_code

    assert status({}) == status({"Authorization": "Bearer guess"}) == 401
    assert status({"Authorization": f"Bearer {server.key}"}) == 200


def test_the_cap_holds_and_usage_is_reported(chat: ChatOpenAI) -> None:
    reply = chat.invoke("Count from one to fifty.", max_tokens=6)
    assert reply.usage_metadata
    assert reply.usage_metadata["output_tokens"] == 6
    assert reply.usage_metadata["input_tokens"] > 0
    assert reply.response_metadata["finish_reason"] == "length"
    assert reply.response_metadata["model_name"] == NAME


def test_a_probe_of_it_raises_no_false_alarm(chat: ChatOpenAI) -> None:
    found = probe(chat)
    assert found.failed == [], found.findings
    assert found.policy == "llama_cpp"


async def test_more_calls_than_slots_are_all_answered(chat: ChatOpenAI) -> None:
    calls = [chat.ainvoke(f"Say {i}.", max_tokens=2) for i in range(2 * local.SLOTS)]
    replies = await asyncio.gather(*calls)
    assert [r.usage_metadata["output_tokens"] for r in replies if r.usage_metadata] == [2] * 8


@pytest.mark.usefixtures("server")
def test_a_process_ends_cleanly_and_silently_although_a_call_is_under_way() -> None:
    script = f"""
import threading, time
from pb_graph.local import server as local
model = local.local_chat_model({NAME!r})
call = lambda: model.invoke("Count to five thousand.", max_tokens=900)
threading.excepthook = lambda _: None
threading.Thread(target=call, daemon=True).start()
time.sleep(1)
"""
    done = subprocess.run(  # noqa: S603 -- our own code
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
