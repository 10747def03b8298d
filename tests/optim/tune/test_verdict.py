from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from optim.tune.candidates import Candidates
from optim.tune.loop import search
from optim.tune.split import split_of
from tests.support.tuning_world import (
    DEV,
    HELD_OUT,
    MINIMAL,
    Style,
    bench_in,
    original,
    world,
)

if TYPE_CHECKING:
    from pathlib import Path

ALWAYS_RIGHT = {"minimal": Style(1.0, 100), "usual": Style(1.0, 400)}


@pytest.mark.parametrize(
    ("questions", "ending"),
    [
        (6, "the interval is above 1, but from so few questions that it is too narrow)."),
        (40, "the interval is above 1)."),
    ],
)
def test_an_interval_from_few_questions_is_not_trusted(
    tmp_path: Path, questions: int, ending: str
) -> None:
    """Both sides are always right, so accuracy seems to be without any doubt."""
    split = split_of((), DEV[:12], HELD_OUT[:questions], 0)
    with bench_in(tmp_path, world(ALWAYS_RIGHT), calls=300) as bench:
        verdict = search(bench, split, Candidates([MINIMAL]), start=original()).verdict
    assert verdict.verdict == "adopted"
    assert verdict.reason.endswith(ending)
