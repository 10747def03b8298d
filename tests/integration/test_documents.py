"""Every Python snippet of the documents, run alone as it stands there against served models."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, chdir
from pathlib import Path
from tempfile import mkdtemp
from typing import Any
from unittest.mock import patch

import dspy
import pytest

import optim.tuning.options
from optim.datasets import DATASETS, load
from optim.scorers.scorer import SCORERS
from pb_graph.methods import METHODS
from tests.support.documents import ENDPOINT, PAGES, ROOT, SERVER, name_of, snippets
from tests.support.endpoints import client_to, endpoint_of
from tests.support.evaluations import leaks_collected, tolerates_inspect
from tests.support.fault_server import FaultServer, Request

__all__ = ["leaks_collected"]

pytestmark = [
    *tolerates_inspect,
    # The supervisor package builds on what LangGraph has since moved to LangChain.
    pytest.mark.filterwarnings("ignore::langgraph.warnings.LangGraphDeprecatedSinceV10"),
    # A page asks by a model of DSPy's own, which leaves an event loop and its sockets open.
    pytest.mark.filterwarnings("ignore:unclosed event loop:ResourceWarning"),
    pytest.mark.filterwarnings(r"ignore:unclosed <socket.socket fd=\d+, family=1:ResourceWarning"),
    pytest.mark.integration,
]

SHOWING = [page for page in PAGES if any(snippets(page, "python"))]
REGISTRIES: list[Any] = [METHODS, DATASETS, SCORERS, optim.tuning.options.OPTIMIZERS]


RIGHT = {question.question: question.targets[0] for question in load("arithmetic", limit=60)}


class Solver(FaultServer):
    """Answers our own word problems rightly, plans for DSPy, and all else as the other does."""

    def _text(self, request: Request) -> str:
        if not request.plans and "Plan how" in str(request.body["messages"][0]["content"]):
            return '{"steps": ["What is given?", "What follows?"]}'
        found = [answer for question, answer in RIGHT.items() if question in request.text]
        return rf"\boxed{{{found[0]}}}" if found and not request.plans else super()._text(request)


@pytest.fixture(scope="module")
def model() -> Iterator[FaultServer]:
    dspy.configure_cache(enable_disk_cache=False, enable_memory_cache=False)
    with Solver() as server:
        yield server


@pytest.fixture(scope="module")
def endpoint(model: FaultServer) -> Iterator[str]:
    with endpoint_of(client_to(model), api_key="secret") as served:
        yield served.removesuffix("/v1")


@pytest.fixture(autouse=True)
def served(model: FaultServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Give a folder, keys and models; drop afterwards what a page registers."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    monkeypatch.setenv("OPENAI_BASE_URL", model.url)
    monkeypatch.setenv("DEEPSEEK_API_KEY", "sk-test")
    monkeypatch.setenv("DEEPSEEK_API_BASE", model.url)
    monkeypatch.setenv("PB_MODEL", "openai:gpt-5-mini")
    with ExitStack() as stack:
        for registry in REGISTRIES:
            stack.enter_context(patch.dict(registry))
        yield


@pytest.mark.parametrize("page", SHOWING, ids=name_of)
def test_the_python_of_a_page_runs(page: Path, model: FaultServer, endpoint: str) -> None:
    asked, ran = model.served, False
    for snippet in snippets(page, "python"):
        if SERVER not in snippet.code:  # those run beside LangGraph Server: test_server.py
            with chdir(mkdtemp(dir=".")):
                snippet.run({"__name__": "page"}, {ENDPOINT: endpoint})
            ran = ran or "invoke(" in snippet.code
    assert model.served > asked or not ran


async def test_the_mcp_servers_tool_answers() -> None:
    names: dict[str, Any] = {"__name__": "page"}
    for snippet in snippets(ROOT / "docs" / "recipes" / "serve.md", "python"):
        if "FastMCP" not in snippet.code:
            continue
        snippet.run(names, {})
    (tool,) = await names["server"].list_tools()
    assert "within a token budget" in tool.description
    assert tool.inputSchema["required"] == ["question"]
    said = await names["server"].call_tool(tool.name, {"question": "What is 6 * 7?"})
    assert "Final answer: 42" in str(said)
