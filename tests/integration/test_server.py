"""On LangGraph's own server: run, streamed, paused and resumed, and as a remote graph."""
# ruff: noqa: ANN401 -- the SDK's clients and what a server sends have no types worth repeating

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.documents import PAGES, name_of, snippets
from tests.support.documents import SERVER as DOCUMENTED
from tests.support.fault_server import CHAIN, FaultServer
from tests.support.graphs import QUESTION, checked

pytest.importorskip("langgraph_api", reason="needs langgraph-cli[inmem]")
sdk = pytest.importorskip("langgraph_sdk")

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
GRAPH = "plan_and_budget"
KEY = "sk-only-the-server-knows"
PATIENCE = 120


@dataclass
class Server:
    """`langgraph dev` in a folder of its own, and the model behind it."""

    url: str
    log: Path
    model: FaultServer
    client: Any

    def assistant(self, **settings: Any) -> str:
        made = self.client.assistants.create(GRAPH, context={"settings": settings})
        return str(made["assistant_id"])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("server")
    (folder / "pb_graph").symlink_to(ROOT / "pb_graph")  # paths count from where it is started
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    with FaultServer(key=KEY) as model, sdk.get_sync_client(url=url) as client:
        found = Server(url, folder / "server.log", model, client)
        process = _start(folder, port, model, found.log)
        try:
            _wait_for(found, process)
            yield found
        finally:
            process.terminate()
            process.wait(PATIENCE)


def _start(folder: Path, port: int, model: FaultServer, log: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "langgraph_cli", "dev", "--no-browser", "--no-reload"]
    command += ["--config", str(ROOT / "langgraph.json"), "--port", str(port)]
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "PB_MODEL": "openai:scripted-1",
        "OPENAI_API_KEY": KEY,
        "OPENAI_BASE_URL": model.url,
        "LANGSMITH_TRACING": "false",
        "LANGGRAPH_CLI_NO_ANALYTICS": "1",
        "LANGGRAPH_STRICT_MSGPACK": "true",
    }
    with log.open("wb") as out:
        return subprocess.Popen(  # noqa: S603 -- our own code
            command, cwd=folder, env=environment, stdout=out, stderr=subprocess.STDOUT
        )


def _wait_for(server: Server, process: subprocess.Popen[bytes]) -> None:
    given_up = time.monotonic() + PATIENCE
    while time.monotonic() < given_up:
        assert process.poll() is None, server.log.read_text()
        with suppress(httpx.TransportError):
            if httpx.get(f"{server.url}/ok", trust_env=False).is_success:
                return
        time.sleep(0.1)
    pytest.fail(server.log.read_text())


SHOWING = [
    page for page in PAGES if any(DOCUMENTED in one.code for one in snippets(page, "python"))
]


@pytest.mark.parametrize("page", SHOWING, ids=name_of)
def test_the_snippets_of_a_page_run_on_the_server(page: Path, server: Server) -> None:
    for snippet in snippets(page, "python"):
        if DOCUMENTED in snippet.code:
            names: dict[str, Any] = {}
            snippet.run(names, {DOCUMENTED: server.url})
            assert names["out"]["answer"] == "Final answer: 42"
            names["client"].close()


def test_a_run_is_streamed(server: Server) -> None:
    modes = ["updates", "custom", "messages-tuple"]
    assistant = server.assistant(execution="stepwise", plan_from=1)
    parts = list(server.client.runs.stream(None, assistant, input=QUESTION, stream_mode=modes))
    assert {part.event for part in parts} == {"metadata", "updates", "custom", "messages"}
    events = [part.data["event"] for part in parts if part.event == "custom"]
    assert [events[0], events[-1]] == ["intake", "answer"]
    assert events.count("step_done") == len(CHAIN)
    said = [part.data[0] for part in parts if part.event == "messages"]
    assert "".join(message["content"] for message in said) == "Final answer: 42"
    (last,) = [part.data["finish"] for part in parts if "finish" in str(part.data)[:12]]
    assert checked(last["report"])["usage"]["measured"]


def test_a_review_pauses_a_thread_and_is_answered_by_its_resumption(server: Server) -> None:
    client = server.client
    assistant = server.assistant(review_plan=True, schedule="uniform", plan_from=1)
    thread = client.threads.create()["thread_id"]
    paused = client.runs.wait(thread, assistant, input=QUESTION)
    asked = paused["__interrupt__"][0]["value"]
    assert [step["question"] for step in asked["plan"]] == list(CHAIN)
    edit = {"plan": [asked["plan"][0], {"question": "What else?"}], "budget": 300}
    out = client.runs.wait(thread, assistant, command={"resume": edit})
    report = checked(out["report"])
    assert [step["question"] for step in report["steps"]] == [CHAIN[0], "What else?"]
    assert report["budget"] == 300


async def test_it_is_a_graph_like_any_other_from_afar(server: Server) -> None:
    from langgraph.pregel.remote import RemoteGraph  # noqa: PLC0415 -- after the import above

    async with sdk.get_client(url=server.url) as client:
        remote = RemoteGraph(GRAPH, client=client, sync_client=server.client)
        assert checked(remote.invoke(QUESTION)["report"])["answer"] == "Final answer: 42"
        parts = [part async for part in remote.astream(QUESTION, stream_mode="custom")]
        assert parts[-1]["event"] == "answer"


def test_nothing_blocked_the_servers_event_loop_and_no_key_was_logged(server: Server) -> None:
    server.client.runs.wait(None, GRAPH, input=QUESTION)
    log = server.log.read_text()
    assert "locking call" not in log
    assert KEY not in log
    assert server.model.served
