"""A recorded tuning (tests/golden/program.json): read, shown and drawn."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from optim import cli
from pb_graph.planner.planner import Planner
from pb_graph.program import PlannerProgram
from pb_graph.settings import Settings

Record = dict[str, Any]

PROGRAM = Path(__file__).parents[2] / "golden" / "program.json"

HOSTILE = "[red]x[/red] \x1b[2J</pre><script>alert(1)</script><img src=x onerror=owned()>"


@pytest.fixture
def record() -> Record:
    found = PlannerProgram.load(PROGRAM).tuning
    assert found is not None
    return found


def show(path: Path, *arguments: str) -> Result:
    return CliRunner().invoke(cli.app, ["show", str(path), *arguments])


def show_changed(folder: Path, record: Record, **fields: Any) -> Result:  # noqa: ANN401
    changed = {"tuning": record | fields}
    PlannerProgram.load(PROGRAM).model_copy(update=changed).save(folder / "changed.json")
    return show(folder / "changed.json")


def lines_with(result: Result, *words: str) -> list[str]:
    assert result.exit_code == 0, result.output
    return [line for line in result.stdout.splitlines() if all(word in line for word in words)]


def test_show_says_what_came_of_the_tuning_and_what_it_cost(record: Record) -> None:
    shown = show(PROGRAM)
    assert shown.stdout.startswith("The tuned program is ")
    assert " ".join(record["reason"].split()) in " ".join(shown.stdout.split())
    for name in ("optimizer: candidates", "seed: 0", "answers: 380", "date: 20"):
        assert lines_with(shown, name)
    assert lines_with(shown, "chosen, held out", "67.0 (")
    assert lines_with(shown, "The dev figures favor the winner")


def test_a_changed_prompt_stands_below_the_packages_own(tmp_path: Path) -> None:
    recorded = PlannerProgram.load(PROGRAM)
    state = Planner().program().state | {"decompose": recorded.state["decompose"]}
    recorded.model_copy(update={"state": state}).save(tmp_path / "program.json")
    text = show(tmp_path / "program.json").stdout
    own = Planner().decompose.signature.instructions.splitlines()[0]
    assert text.index(f"- {own}") < text.index("+ Use two FRUGAL sub-questions.")
    assert "estimate: the package's own prompt" in text


def test_a_kept_original_is_told_as_one(record: Record, tmp_path: Path) -> None:
    alone = {"held_out": None, "candidates": record["candidates"][:1]}
    shown = show_changed(tmp_path, record, verdict="kept", reason="None.", **alone)
    assert shown.stdout.startswith("The original is kept. None.")
    assert not lines_with(shown, "original, held out")


def test_settings_are_shown_where_they_differ(tmp_path: Path) -> None:
    path = tmp_path / "by_hand.json"
    settings = Settings(budget=250, schedule="linear")
    Planner().program().model_copy(update={"settings": settings}).save(path)
    shown = show(path)
    assert lines_with(shown, "Changed settings: ", "budget=250", "schedule=", "linear")
    assert not lines_with(shown, "enforcement")


def test_text_of_a_model_is_shown_as_text(record: Record, tmp_path: Path) -> None:
    hostile = show_changed(
        tmp_path, record, reason=HOSTILE, facts={**record["facts"], "x": HOSTILE}
    )
    assert "[red]x[/red]" in hostile.stdout
    assert "\x1b[2J" not in hostile.stdout


def test_json_is_the_whole_file() -> None:
    printed = json.loads(show(PROGRAM, "--json").stdout)
    assert printed["tuning"] == json.loads(PROGRAM.read_text(encoding="utf-8"))["tuning"]
    assert "FRUGAL" in printed["state"]["decompose"]["signature"]["instructions"]
