"""``pb-graph demo``: its figures come from real agents and middleware on a scripted model."""

from __future__ import annotations

import re
from html import unescape
from io import StringIO

import pytest
from rich.console import Console
from typer.testing import CliRunner

from pb_graph import TokenBudgetMiddleware
from pb_graph.cli import demo
from pb_graph.cli.app import app
from tests.support.demo_picture import PICTURE


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "_SECONDS", 0)


def words(text: str) -> list[str]:
    return re.sub("[█-▏]", " ", text).split()


def test_only_the_limit_holds_as_the_picture_shows() -> None:
    done = CliRunner().invoke(app, ["demo", "--plain"])
    assert done.exit_code == 0
    rows = [line.split() for line in done.stdout.splitlines() if line.endswith("answer ")]
    spent, over = ([int(row[at].replace(",", "")) for row in rows] for at in (-4, -3))
    assert [tokens > demo.BUDGET for tokens in spent] == [True, True, False]
    assert over == [max(0, tokens - demo.BUDGET) for tokens in spent]
    assert [row[-2] for row in rows] == ["an", "no", "an"]
    drawn = re.findall(r'class="demo-r\d+"[^>]*>([^<]*)<', PICTURE.read_text("utf-8"))
    assert words(unescape(" ".join(drawn))) == words(done.stdout)


def test_bars_fill_in_a_terminal_and_the_account_is_the_bill() -> None:
    console = Console(file=StringIO(), force_terminal=True, width=80)
    ours = demo.play(console)[-1]
    guard = ours.middleware[0]
    assert isinstance(guard, TokenBudgetMiddleware)
    assert getattr(guard.budget, "spent", None) == ours.spent
