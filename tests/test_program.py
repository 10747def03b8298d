"""The planner program as a file: what is written is read again, and nothing else is."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import get_args

import pytest

from pb_graph import Context, Settings, build_graph
from pb_graph.errors import InputError
from pb_graph.planner.planner import Planner
from pb_graph.program import PlannerProgram
from tests.support.chat_model import ScriptedChat
from tests.support.graphs import Way, checked, run

FRUGAL = "You plan how to solve a problem; you never solve it.\n\nUse two short sub-questions."


def tuned() -> PlannerProgram:
    """Return a program with a prompt, settings, and a record, which is carried along unread."""
    planner = Planner()
    planner.decompose.signature = planner.decompose.signature.with_instructions(FRUGAL)
    settings = Settings(schedule="linear", plan_from=1, planning="two_call", budget=300)
    record = {"verdict": "undecided", "candidates": [{"name": "original"}]}
    return planner.program().model_copy(update={"settings": settings, "tuning": record})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "tuned.json"
    tuned().save(file)
    return file


class TestTheFile:
    def test_what_is_saved_is_loaded_and_saved_again_as_it_is(
        self, path: Path, tmp_path: Path
    ) -> None:
        loaded, again = PlannerProgram.load(path), tmp_path / "again.json"
        assert loaded == tuned()
        loaded.save(again)
        assert again.read_bytes() == path.read_bytes()


class TestRefusals:
    @pytest.mark.parametrize(
        "content",
        [
            b"",
            b'{"format": "something else", "state": {}}',
            pickle.dumps({"format": "plan-and-budget planner"}),
        ],
        ids=lambda content: repr(content[:20]),
    )
    def test_other_content_is_no_planner_program(self, tmp_path: Path, content: bytes) -> None:
        path = tmp_path / "tuned.json"
        path.write_bytes(content)
        with pytest.raises(InputError, match=r"not a planner program.*Planner\.save"):
            PlannerProgram.load(path)

    def test_a_damaged_part_is_named(self, path: Path) -> None:
        damaged = json.loads(path.read_text("utf-8")) | {"settings": {"max_steps": 99}}
        path.write_text(json.dumps(damaged), "utf-8")
        with pytest.raises(InputError, match=r"is damaged: settings\.max_steps: .*to 20"):
            PlannerProgram.load(path)


class TestUse:
    @pytest.mark.parametrize("way", get_args(Way))
    def test_a_graph_plans_with_its_prompts_and_runs_with_its_settings(
        self, path: Path, way: Way
    ) -> None:
        for program in (path, tuned()):
            model = ScriptedChat()
            report = checked(run(build_graph(model, planner_program=program), way=way)["report"])
            assert str(model.calls[1].messages[0].text).startswith(FRUGAL)
            assert (report["schedule"], report["budget"]) == ("linear", 300)

    def test_a_run_may_bring_one_with_the_settings_it_was_measured_with(self, path: Path) -> None:
        model = ScriptedChat()
        report = run(build_graph(model), context=Context(planner_program=path))["report"]
        assert str(model.calls[1].messages[0].text).startswith(FRUGAL)
        assert report["budget"] == 300
        own = Context(planner_program=path, settings=Settings(budget=400))
        assert run(build_graph(model), context=own)["report"]["budget"] == 400

    def test_settings_of_the_caller_come_first(self, path: Path) -> None:
        graph = build_graph(ScriptedChat(), planner_program=path, settings=Settings())
        report = run(graph)["report"]
        assert report["schedule"] == Settings().schedule != "linear"
        assert report["budget"] == Settings().budget_for(3) != 300
