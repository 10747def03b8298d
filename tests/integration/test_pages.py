"""The documents: each Python snippet and each notebook runs as it stands there."""

from __future__ import annotations

import json
import re
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
from tests.support.clients import client_to, endpoint_of
from tests.support.documents import (
    ENDPOINT,
    KEPT,
    NOTEBOOKS,
    PAGES,
    ROOT,
    SERVER,
    name_of,
    printed,
    run_notebooks,
    snippets,
)
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


@pytest.fixture
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


@pytest.mark.usefixtures("served")
@pytest.mark.parametrize("page", SHOWING, ids=name_of)
def test_the_python_of_a_page_runs(page: Path, model: FaultServer, endpoint: str) -> None:
    asked, ran = model.served, False
    for snippet in snippets(page, "python"):
        if SERVER not in snippet.code:  # those run beside LangGraph Server: test_server.py
            with chdir(mkdtemp(dir=".")):
                snippet.run({"__name__": "page"}, {ENDPOINT: endpoint})
            ran = ran or "invoke(" in snippet.code
    assert model.served > asked or not ran


@pytest.mark.usefixtures("served")
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


def outputs_of(path: Path) -> list[list[dict[str, Any]]]:
    """Return the stored outputs of each cell of a notebook."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [cell.get("outputs", []) for cell in cells]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_shows_a_drawing_and_nothing_of_a_machine(path: Path) -> None:
    stored = [output for outputs in outputs_of(path) for output in outputs]
    text = path.read_text(encoding="utf-8")
    assert any(KEPT[0] in output.get("data", {}) for output in stored)
    assert not [word for word in ("/root", "/home", "/tmp", "<script") if word in text]  # noqa: S108
    assert len(text) < 300_000


def test_the_notebooks_run_and_print_what_is_stored() -> None:
    for path, cells in run_notebooks(NOTEBOOKS).items():
        raised = [output for outputs in cells for output in outputs if "ename" in output]
        assert not raised, f"{path.name}: {raised}"
        told = f"{path.name}: python -m tests.support.documents {path.stem}"
        assert [*map(printed, cells)] == [*map(printed, outputs_of(path))], told


README = ROOT / "README.md"


def test_the_front_page_and_its_snippets_are_short() -> None:
    lines = README.read_text("utf-8").splitlines()
    assert len(lines) <= 120
    assert max(map(len, lines)) <= 110
    assert all(len(one.code.splitlines()) <= 12 for one in snippets(README, "python"))


def test_the_front_page_and_the_index_show_one_run() -> None:
    first, second = (
        re.findall(r"```text\n(At most .*?)```", page.read_text("utf-8"), re.DOTALL)
        for page in (README, ROOT / "docs" / "index.md")
    )
    assert first == second


def test_the_snippet_of_an_agent_prints_what_stands_below_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    capped = "Budget(usd=0.05)"
    (snippet,) = [one for one in snippets(README, "python") if capped in one.code]
    printed = README.read_text("utf-8").split("it prints:\n\n```text\n")[1].split("```")[0]
    with FaultServer(answer=printed.partition(" $")[0]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
        priced = 'Budget(usd=0.05, prices={"gpt-5-mini": (0.25, 2.0)})'
        snippet.run({"__name__": "page"}, {capped: priced})
    assert capsys.readouterr().out == printed
