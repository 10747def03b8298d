"""What a run without caps tells about caps, without asking anything."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from optim.records import Record, Records
from optim.reporting.caps import read_caps
from optim.reporting.tables import answers, figures
from pb_graph.errors import InputError
from pb_graph.settings import Settings
from tests.optim.reporting.samples import record


def answered(place: int, tokens: int, score: float, *, calls: int = 1, level: int = 2) -> Record:
    """Return an answer of one solving call behind 2 tokens of planning."""
    base = record("default", place)
    solving = {"input_tokens": 50, "output_tokens": tokens, "total_tokens": 50 + tokens}
    planning = {"input_tokens": 100, "output_tokens": 2, "total_tokens": 102}
    rest: dict[str, Any] = {"calls": calls, "seconds": 1.0, "measured": True}
    whole = {"input_tokens": 150, "output_tokens": tokens + 2, "total_tokens": tokens + 152}
    usage = {
        **whole,
        **rest,
        "by_model": {"m": whole},
        "by_node": {
            "plan": {**planning, **rest, "calls": 1, "by_model": {"m": planning}},
            "answer": {**solving, **rest, "by_model": {"m": solving}},
        },
    }
    report: Any = {**base.report, "usage": usage}
    return replace(base, score=score, error=None, report=report, level=level)


def run() -> list[Record]:
    """Return right answers of 100 tokens, and one in four wrong with 1,000."""
    return [answered(n, 1000 if n % 4 == 3 else 100, float(n % 4 != 3)) for n in range(40)]


def test_a_longer_answer_is_cut_off_and_wrong() -> None:
    result = read_caps(run(), caps=[50, 100, 600, 1000])
    rows = result.ladder.set_index("cap")
    assert list(rows.accuracy) == [0, 75, 75, 75]
    assert list(rows.tokens) == [52, 102, 102 + 125, 102 + 225]  # planning is paid at every cap
    assert list(rows.ended) == [0, 75, 75, 100]
    assert list(rows.money) == [150 + 4 * tokens for tokens in rows.tokens]
    whole = figures(answers(Records(run()), prices=None)).iloc[0]
    assert rows.loc[1000].e3 == whole.e3
    assert result.chosen == 100
    assert result.held_out.accuracy_difference == 0
    assert result.held_out.tokens_ratio == pytest.approx(102 / 327)


def test_no_more_accuracy_is_lost_than_is_allowed() -> None:
    late = [*run(), *(answered(n, 900, 1.0) for n in range(40, 46))]
    assert read_caps(late, caps=[100, 900, 1000]).chosen == 900
    assert read_caps(late, caps=[100, 900, 1000], loss=20.0).chosen == 100


def test_caps_are_chosen_at_each_level_and_written_as_settings() -> None:
    hard = [answered(n, 700, float(n % 2), level=5) for n in range(40, 60)]
    result = read_caps([*run(), *hard], caps=[100, 700, 1000])
    assert result.by_level == {2: 100, 5: 700}
    assert Settings.read(result.settings()).budget == 700
    levels = json.loads(json.dumps(result.settings(by_level=True)))
    budget: Any = Settings.read(levels).budget
    assert [budget.budget_for(level) for level in range(1, 6)] == [700, 100, 700, 700, 700]


def test_what_was_solved_in_several_calls_has_no_caps() -> None:
    with pytest.raises(InputError, match="several calls"):
        read_caps([answered(n, 100, 1.0, calls=2) for n in range(8)])
    with pytest.raises(InputError, match="--method"):
        read_caps([*run(), replace(answered(41, 100, 1.0), method="vanilla")])
