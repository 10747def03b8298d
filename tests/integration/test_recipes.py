"""The recipes of the documentation, run as they stand there."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from tests.support.fault_server import FaultServer

pytest.importorskip("langchain_mcp_adapters", reason="needs langchain-mcp-adapters")

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
RECIPES = ROOT / "docs" / "recipes"


def snippet(recipe: str) -> str:
    """The Python of a recipe."""
    text = (RECIPES / recipe).read_text(encoding="utf-8")
    return "\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL))


async def test_an_mcp_client_finds_the_tool_and_gets_an_answer(tmp_path: Path) -> None:
    from mcp import ClientSession, StdioServerParameters  # noqa: PLC0415 -- only if it is here
    from mcp.client.stdio import stdio_client  # noqa: PLC0415

    program = tmp_path / "solver.py"
    program.write_text(snippet("mcp.md"), encoding="utf-8")
    with FaultServer() as model:
        environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(ROOT),
            "PB_MODEL": "openai:m",
            "OPENAI_API_KEY": "sk-test",
            "OPENAI_BASE_URL": model.url,
        }
        server = StdioServerParameters(
            command=sys.executable, args=[str(program)], env=environment, cwd=tmp_path
        )
        async with stdio_client(server) as streams, ClientSession(*streams) as session:
            await session.initialize()
            (tool,) = (await session.list_tools()).tools
            said = await session.call_tool(tool.name, {"question": "What is 6 * 7?"})
    assert tool.name == "plan_and_budget"
    assert "within a token budget" in (tool.description or "")
    assert tool.inputSchema["required"] == ["question"]
    assert not said.isError
    assert [block.text for block in said.content if block.type == "text"] == ["Final answer: 42"]
