"""``pb-graph serve`` before it serves: what it needs, and what it refuses."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from typer.testing import CliRunner, Result

from pb_graph.cli.app import app
from pb_graph.cli.exit import FAILED, USAGE
from pb_graph.errors import WeightsError
from pb_graph.local import weights
from tests.support.chat_model import ScriptedChat

KEY = "PB_API_KEY"


@pytest.fixture(autouse=True)
def started(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What the server was started with; a unit test opens no socket."""
    found: list[dict[str, Any]] = []
    monkeypatch.setattr(uvicorn, "run", lambda _, **given: found.append(given))
    monkeypatch.setattr("pb_graph.run.models.resolve", lambda *_: ScriptedChat())
    monkeypatch.delenv(KEY, raising=False)
    return found


def serve(*options: str) -> Result:
    return CliRunner().invoke(app, ["serve", "--model", "fake:scripted", *options])


def test_it_serves_this_machine_unless_told_otherwise(started: list[dict[str, Any]]) -> None:
    assert serve().exit_code == 0
    assert [(given["host"], given["port"]) for given in started] == [("127.0.0.1", 8000)]


def test_weights_are_fetched_before_anybody_asks(
    started: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fetch(name: str, **_: Any) -> None:  # noqa: ANN401
        msg = f"No source delivers {name}."
        raise WeightsError(msg)

    monkeypatch.setattr(weights, "installed", lambda _: None)
    monkeypatch.setattr(weights, "fetch", fetch)
    result = serve("--planner", "local:smollm2-135m")
    assert (result.exit_code, started) == (FAILED, [])
    assert "No source delivers smollm2-135m." in result.stderr


def test_others_are_served_with_a_key_only(
    started: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = serve("--host", "0.0.0.0")  # noqa: S104 -- that is the point
    assert (refused.exit_code, started) == (USAGE, [])
    assert KEY in refused.stderr
    monkeypatch.setenv(KEY, "secret")
    assert serve("--host", "0.0.0.0").exit_code == 0  # noqa: S104


def test_an_empty_key_is_none(
    started: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY, "")
    refused = serve("--host", "0.0.0.0")  # noqa: S104
    assert (refused.exit_code, started) == (USAGE, [])


def test_without_its_extra_it_says_so_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    result = serve()
    assert result.exit_code == FAILED
    assert result.stderr.count("\n") == 1
    assert "pip install 'plan-and-budget[serve]'" in result.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--set", "budgt=1"), "did you mean 'budget'"),
        (("--set", "review_plan=true"), "pauses for a host"),
        (("--settings", "nowhere.json"), "cannot read"),
    ],
)
def test_what_cannot_be_served_is_refused_at_the_start(
    options: tuple[str, ...], said: str, started: list[dict[str, Any]]
) -> None:
    result = serve(*options)
    assert (result.exit_code, started) == (USAGE, [])
    assert said in result.stderr


def test_a_model_of_the_environment_that_cannot_be_is_refused_at_the_start_too(
    started: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PB_MODEL", "gpt-5")
    result = CliRunner().invoke(app, ["serve"])
    assert (result.exit_code, started) == (USAGE, [])
    assert "'gpt-5' names no model" in result.stderr


def test_a_program_that_is_not_there_is_said_to_be_so(tmp_path: Path) -> None:
    result = serve("--program", str(tmp_path / "none.json"))
    assert result.exit_code == FAILED
    assert "none.json" in result.stderr
