"""The front page: short, with Python that runs as it stands."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path

import pytest

from optim.reporting.charts import spending, to_svg
from tests.support.chat_model import ScriptedChat, in_turn

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
SECTION = re.compile(r"^## ([^\n]+)\n(?:(?!^## ).)*?```python\n(.*?)```", re.DOTALL | re.MULTILINE)
SNIPPETS = dict(SECTION.findall(README))
PICTURES = ROOT / "docs" / "pictures"


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


def test_the_picture_is_that_of_the_run_beside_it() -> None:
    report = json.loads((PICTURES / "run.json").read_text("utf-8"))
    picture = (PICTURES / "run.svg").read_text("utf-8")
    assert picture == to_svg(spending(report)) + "\n"
    assert all(f"{step['question']}</text>" in picture for step in report["steps"])


def test_the_front_page_and_the_index_show_one_run() -> None:
    pages = [README, (ROOT / "docs" / "index.md").read_text("utf-8")]
    first, second = (re.findall(r"```text\n(At most .*?)```", page, re.DOTALL) for page in pages)
    assert first == second


def test_the_snippet_of_an_agent_runs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = ScriptedChat(solve=in_turn("8 of them"))
    monkeypatch.setattr("langchain.agents.factory.init_chat_model", lambda *_, **__: model)
    monkeypatch.setattr("pb_graph.run.models.resolve", lambda *_, **__: model)
    priced = 'Budget(usd=0.05, prices={"scripted-1": (0.25, 2.0)})'
    run("Cap an agent and its sub-agents", tmp_path, **{"Budget(usd=0.05)": priced})
    assert capsys.readouterr().out.startswith("8 of them $0.00")
