"""The record of a tuning in a planner program."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from optim.tuning.artefact import MAX_CANDIDATES, tuning_of
from pb_graph.errors import PlannerProgramError
from pb_graph.program import PlannerProgram
from tests.support.artefacts import artefact, candidate, tuning

TOO_MANY = [candidate("c", 50, 500).model_dump()] * (MAX_CANDIDATES + 1)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "tuned.json"
    artefact().save(file)
    return file


class TestRecord:
    def test_figures_that_do_not_exist_survive(self, path: Path) -> None:
        bare = tuning(held_out=None, date="2026-11-21T13:00:00+01:00")
        artefact(tuning=bare).save(path)
        loaded = tuning_of(PlannerProgram.load(path))
        assert loaded == bare
        assert loaded.held_out is None

    def test_lone_surrogates_of_a_model_do_not_stop_it(self, path: Path) -> None:
        artefact(tuning=tuning(reason="half a \ud83d letter")).save(path)
        found = tuning_of(PlannerProgram.load(path))
        assert found
        assert found.reason == "half a ? letter"

    def test_without_one_there_is_none(self) -> None:
        assert tuning_of(artefact(tuning=None)) is None

    @pytest.mark.parametrize(
        ("places", "value", "said"),
        [
            (("tuning", "verdict"), "perhaps", r"tuning\.verdict: .*'kept' or 'adopted'"),
            (("tuning", "date"), "2026-11-21T12:00:00", r"tuning\.date: .*timezone"),
            (("tuning", "dev", "before", "accuracy", "value"), -1, r"greater than or equal to 0"),
            (("tuning", "reason"), "x" * 30_000, r"tuning\.reason: .*at most 20000"),
            (("tuning", "candidates"), TOO_MANY, f"at most {MAX_CANDIDATES} items"),
        ],
    )
    def test_a_damaged_part_is_named(
        self, path: Path, places: tuple[str, ...], value: object, said: str
    ) -> None:
        whole: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        part: Any = whole
        for place in places[:-1]:
            part = part[place]
        part[places[-1]] = value
        path.write_text(json.dumps(whole), encoding="utf-8")
        with pytest.raises(PlannerProgramError, match=rf"is damaged: .*{said}"):
            tuning_of(PlannerProgram.load(path))
