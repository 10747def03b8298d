"""What a tuning maximizes, and how long an instruction may be."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from optim.tuning.options import TuneOptions
from optim.tuning.program import Candidate
from optim.tuning.search import Trial, winner_of
from pb_graph.errors import InputError
from tests.optim.reporting.samples import record
from tests.support.tuning_world import MINIMAL, Style, run, trying, world


def answered(tokens: int, prompt: int) -> Any:  # noqa: ANN401 -- a record with these counts
    one = record("default", 0)
    usage = {**one.report["usage"], "output_tokens": tokens, "input_tokens": prompt}
    report: Any = {**one.report, "usage": usage}
    return replace(one, score=1.0, error=None, report=report)


def test_money_counts_the_prompt_and_tokens_do_not() -> None:
    short, wordy = (answered(100, 200), answered(90, 600))
    chosen = {}
    for objective, price in (("e3", 0.0), ("money", 1 / 4)):
        trials = [
            Trial(Candidate(), [one], name, price)
            for name, one in (("short", short), ("wordy", wordy))
        ]
        winner = winner_of(trials)
        chosen[objective] = winner.origin if winner else "short"
    assert chosen == {"e3": "wordy", "money": "short"}
    assert wordy.cost(1 / 5) == 90 + 600 / 5


def test_a_long_instruction_is_left_out_and_the_number_of_candidates_foretold(
    tmp_path: Path,
) -> None:
    said: list[str] = []
    model = world({"minimal": Style(1.0, 100), "usual": Style(1.0, 400)})
    found = run(tmp_path, trying(MINIMAL), model, max_prompt_tokens=1, callback=said.append)
    assert [trial.origin for trial in found.trials] == ["original"]
    assert any("--max-prompt-tokens" in text for text in said)
    assert "This budget tries about" in said[0]


def test_an_unknown_objective_is_refused() -> None:
    with pytest.raises(InputError, match="e3, money or front"):
        TuneOptions(objective="accuracy")
