"""``pb-graph probe``: a table or JSON, a file, and an exit code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from pb_graph import build_graph
from pb_graph.cli.app import app
from pb_graph.cli.options import FAILED, USAGE
from tests.support.chat_model import ScriptedChat, runs_on


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """How the scripted model behaves."""
    behaviour: dict[str, Any] = {"solve": runs_on}
    monkeypatch.setattr("pb_graph.probe.resolve", lambda *_: ScriptedChat(**behaviour))
    return behaviour


def probe(folder: Path, *options: str) -> Result:
    given = ["probe", "fake:scripted", "--out", str(folder / "caps.json"), *options]
    return CliRunner().invoke(app, given)


@pytest.mark.usefixtures("model")
def test_it_prints_a_table_and_writes_what_build_graph_reads(tmp_path: Path) -> None:
    assert "passed" in probe(tmp_path).stdout
    assert build_graph(ScriptedChat(), cap_policy=tmp_path / "caps.json")
    printed = probe(tmp_path, "--json").stdout
    assert json.loads(printed) == json.loads((tmp_path / "caps.json").read_text())


def test_a_failed_check_is_an_exit_code_and_named(tmp_path: Path, model: dict[str, Any]) -> None:
    model["obeys_cap"] = False
    result = probe(tmp_path)
    assert result.exit_code == FAILED
    assert "output_cap" in result.stderr


@pytest.mark.parametrize("name", ["gpt-5", "nosuch:model"])
def test_a_model_that_nobody_knows_is_wrong_use(name: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["probe", name, "--out", str(tmp_path / "caps.json")])
    assert (result.exit_code, result.stdout) == (USAGE, "")
    assert name.partition(":")[0] in result.stderr


@pytest.mark.usefixtures("model")
def test_a_folder_that_is_not_there_is_said_to_be_so_and_what_was_paid_for_is_shown(
    tmp_path: Path,
) -> None:
    result = probe(tmp_path / "none", "--json")
    assert result.exit_code == FAILED
    assert "cannot write" in result.stderr
    assert json.loads(result.stdout)["verdicts"]["output_cap"] == "passed"
