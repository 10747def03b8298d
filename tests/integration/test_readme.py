"""The front page: short, with links that lead somewhere, and Python that runs as it stands."""

from __future__ import annotations

import json
import re
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

from optim.reporting.charts import spending, to_svg
from tests.support.chat_model import Reply, ScriptedChat, in_turn
from tests.support.endpoints import endpoint_of

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


def test_it_is_read_in_a_minute() -> None:
    lines = README.splitlines()
    assert len(lines) <= 150
    commands = [n for n, line in enumerate(lines) if line.startswith("python3 -m venv .venv")]
    assert len(commands) == 2
    assert max(commands) < 20
    assert all(len(snippet.splitlines()) <= 10 for snippet in SNIPPETS.values())


def test_its_links_lead_to_files() -> None:
    links = re.findall(r"\]\(([^)#]+)", README)
    assert not [link for link in links if "://" not in link and not (ROOT / link).exists()]


def test_its_picture_is_that_of_the_run_beside_it() -> None:
    report = json.loads((PICTURES / "run.json").read_text("utf-8"))
    assert (PICTURES / "run.svg").read_text("utf-8") == to_svg(spending(report)) + "\n"


def test_a_question(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = ScriptedChat()
    monkeypatch.setattr("pb_graph.run.models.resolve", lambda *_, **__: model)
    run("A question", tmp_path)
    answer, account = capsys.readouterr().out.splitlines()
    assert answer == "Final answer: 42"
    assert account.startswith(f"{model.output_tokens} of at most 6")


def test_a_tree_of_agents(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("deepagents", reason="needs deepagents")
    asked = {"description": "Do it.", "subagent_type": "general-purpose"}
    made: Any = {"name": "task", "args": asked, "id": "c"}
    # The sub-agent that deepagents has anyway is within the budget, too.
    model = ScriptedChat(
        solve=in_turn(Reply("go", tool_calls=[made]), "so on " * 9000, "ended", "done")
    )
    monkeypatch.setattr("deepagents.graph.resolve_model", lambda _: model)
    run("A tree of agents under one budget", tmp_path)
    assert capsys.readouterr().out == f"{model.output_tokens} spent of 4000\n"
    assert len(model.calls) == 4


@pytest.mark.integration
def test_the_endpoint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = ScriptedChat()
    with endpoint_of(model, api_key="secret") as url:
        run("The endpoint", tmp_path, **{"http://127.0.0.1:8000/v1": url})
    assert capsys.readouterr().out == f"Final answer: 42 {model.output_tokens}\n"


def test_the_table_is_made_of_any_logs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    logs = ROOT / "tests" / "golden" / "logs"
    given = ["front_page.py", "table", str(logs), "--methods", "cosine,global_budget"]
    monkeypatch.setattr(sys, "argv", given)
    runpy.run_path(str(ROOT / "tests" / "benchmarks" / "front_page.py"), run_name="__main__")
    *head, first, second = capsys.readouterr().out.splitlines()
    assert head[0] in README
    assert first == "| 10 of arithmetic | cosine | 50.0 (20 to 80) | 54 | 46.6 | 312 of 312 | 0 |"
    assert second.startswith("| 10 of arithmetic | global_budget | 88.9 (50 to 100) | 27 | 293 |")
