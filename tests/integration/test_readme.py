"""The front page: short, with Python that runs as it stands."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from tests.support.fault_server import FaultServer

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
SECTION = re.compile(r"^## ([^\n]+)\n(?:(?!^## ).)*?```python\n(.*?)```", re.DOTALL | re.MULTILINE)
SNIPPETS = dict(SECTION.findall(README))


def run(title: str, tmp_path: Path, **changes: str) -> None:
    """Run a snippet as a program."""
    program = SNIPPETS[title]
    for old, new in changes.items():
        assert old in program
        program = program.replace(old, new)
    file = tmp_path / "snippet.py"
    file.write_text(program, encoding="utf-8")
    runpy.run_path(str(file))


def test_the_front_page_and_its_snippets_are_short() -> None:
    assert len(README.splitlines()) <= 120
    assert max(map(len, README.splitlines())) <= 110
    assert all(len(snippet.splitlines()) <= 12 for snippet in SNIPPETS.values())


def test_the_front_page_and_the_index_show_one_run() -> None:
    pages = [README, (ROOT / "docs" / "index.md").read_text("utf-8")]
    first, second = (re.findall(r"```text\n(At most .*?)```", page, re.DOTALL) for page in pages)
    assert first == second


@pytest.mark.integration
def test_the_snippet_of_an_agent_prints_what_stands_below_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    printed = README.split("it prints:\n\n```text\n")[1].split("```")[0]
    with FaultServer(answer=printed.partition(" $")[0]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
        priced = 'Budget(usd=0.05, prices={"gpt-5-mini": (0.25, 2.0)})'
        run("Cap an agent and its sub-agents", tmp_path, **{"Budget(usd=0.05)": priced})
    assert capsys.readouterr().out == printed
