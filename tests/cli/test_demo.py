"""``pb-graph demo``: its figures come from real agents and middleware on a scripted model."""

from __future__ import annotations

import re
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
    line = re.compile(
        r".+: (\S+) tokens spent, (\S+) over the budget of (\S+), ended with (\w+) .+"
    )
    runs = [line.fullmatch(text) for text in done.stdout.splitlines()]
    figures = [run.groups() for run in runs if run]
    bills = [[int(figure.replace(",", "")) for figure in row[:3]] for row in figures]
    assert [spent > budget for spent, _, budget in bills] == [True, True, False]
    assert all(over == max(0, spent - budget) for spent, over, budget in bills)
    assert [row[3] for row in figures] == ["an", "no", "an"]


def test_bars_fill_in_a_terminal_and_the_account_is_the_bill() -> None:
    console = Console(file=StringIO(), force_terminal=True, width=80)
    ours = demo.play(console, is_plain=False)[-1]
    guard = ours.middleware[0]
    assert isinstance(guard, TokenBudgetMiddleware)
    assert getattr(guard.budget, "spent", None) == ours.spent
