"""What a tuning shows on the way: the best so far, before its round is over."""

from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console

from optim.tuning.examples import Split
from optim.tuning.progress import TuneProgress
from tests.support.tuning_world import DEV, HELD_OUT, MINIMAL, bench_in
from tests.support.tuning_world import original as untuned

FEW = DEV[:12]


def shown(board: TuneProgress) -> str:
    return board._line().plain


def test_a_better_candidate_shows_once_it_has_met_all_of_dev(tmp_path: Path) -> None:
    board = TuneProgress(Console(file=io.StringIO()))
    original = untuned()
    better = original.with_instruction("decompose", MINIMAL)
    with bench_in(tmp_path) as bench:
        board.begins(Split(FEW, FEW, HELD_OUT[:3]), bench, "")
        assert "best" not in shown(board)
        bench.measure(original, FEW)
        first = shown(board)
        assert "best E³" in first
        bench.measure(better, FEW[:6])
        bench.measure(better, HELD_OUT[:6])
        assert shown(board).split("best")[1] == first.split("best")[1]
        bench.measure(better, FEW)
        assert shown(board).split("best")[1] != first.split("best")[1]


def test_a_large_budget_is_said_in_full(tmp_path: Path) -> None:
    said = io.StringIO()
    with bench_in(tmp_path, tokens=1_234_567) as bench:
        TuneProgress(Console(file=said, width=400)).begins(Split(FEW, FEW, FEW), bench, "")
    assert "Budget: 1,234,567 completion tokens." in said.getvalue()
