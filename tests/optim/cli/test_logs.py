"""``pb-optim levels`` and ``latency``: tables from logs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from optim import cli
from tests.optim.report.samples import records


def pb_optim(*arguments: object) -> Result:
    return CliRunner().invoke(cli.app, [str(argument) for argument in arguments])


@pytest.mark.parametrize("table", ["levels", "latency"])
def test_tables_from_logs(table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("optim.records.read_records", lambda _: records(["vanilla", "cosine"]))
    done = pb_optim(table, "logs")
    assert done.exit_code == 0, done.output
    assert "vanilla" in done.stdout
    rows: Any = json.loads(pb_optim(table, "logs", "--json").stdout)
    assert rows[0]["method"] == "vanilla"
    monkeypatch.setattr("optim.records.read_records", lambda _: [])
    assert "Nothing has been answered yet." in pb_optim(table, "logs").stdout
    assert json.loads(pb_optim(table, "logs", "--json").stdout) == []


@pytest.mark.parametrize("command", ["levels", "latency", "report", "certify"])
def test_the_logs_of_parts_are_pooled_by_every_command(
    command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    monkeypatch.setattr("optim.records.read_records", lambda logs, **_: asked.append(logs) or [])
    pb_optim(command, "logs/part-1", "logs/part-2")
    assert asked == [["logs/part-1", "logs/part-2"]]


def test_levels_shows_estimates_against_labels_and_credits_by_position(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("optim.records.read_records", lambda _: records(["cosine"]))
    estimates = [{"method": "default_estimated", "agreement_%": 62.5}]
    monkeypatch.setattr("optim.report.tables.level_estimates", lambda _: estimates, raising=False)
    places = [{"steps": 3, "step_1": 22.0, "step_2": 31.0, "step_3": 47.0}]
    monkeypatch.setattr("optim.report.tables.credits_by_position", lambda _: places, raising=False)
    lines = pb_optim("levels", "logs").stdout.splitlines()
    at = lines.index("Estimated levels against the data set's labels")
    assert lines[at + 2].split() == ["default_estimated", "62.50"]
    at = lines.index("Credits of the planner's sub-questions by position")
    assert lines[at + 2].split() == ["3", "22.00", "31.00", "47.00"]
    shown: Any = json.loads(pb_optim("levels", "logs", "--json").stdout)
    assert {row["method"] for row in shown} == {"cosine"}  # the rows by level, as ever


@pytest.mark.parametrize("table", ["levels", "latency"])
def test_no_logs_are_said(table: str, tmp_path: Path) -> None:
    missing = pb_optim(table, tmp_path / "nowhere")
    assert (missing.exit_code, missing.stdout) == (cli.USAGE, "")
    assert "holds no log of `pb-optim eval`" in missing.stderr
