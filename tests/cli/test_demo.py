"""``pb-graph demo``: its figures come from real agents and middleware on a scripted model."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console
from typer.testing import CliRunner

from pb_graph import TokenBudgetMiddleware
from pb_graph.cli import demo
from pb_graph.cli.app import app


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "_SECONDS_PER_TOKEN", 0.0001)


def test_only_the_shared_budget_holds_and_its_run_ends_with_an_answer() -> None:
    done = CliRunner().invoke(app, ["demo", "--plain"])
    assert done.exit_code == 0
    rows = [line.split() for line in done.stdout.splitlines() if line.endswith("answer ")]
    spent, over = ([int(row[at].replace(",", "")) for row in rows] for at in (-4, -3))
    assert [tokens > demo.BUDGET for tokens in spent] == [True, True, False]
    assert over == [max(0, tokens - demo.BUDGET) for tokens in spent]
    assert [row[-2] for row in rows] == ["an", "no", "an"]


def test_bars_fill_in_a_terminal_and_the_account_is_the_bill() -> None:
    console = Console(file=StringIO(), force_terminal=True, width=80)
    ours = demo.play(console, is_plain=False)[-1]
    guard = ours.middleware[0]
    assert isinstance(guard, TokenBudgetMiddleware)
    assert getattr(guard.budget, "spent", None) == ours.spent
