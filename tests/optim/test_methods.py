from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from optim.methods import Method, methods, over_budgets
from optim.reporting.tables import paper_figures
from pb_graph import InputError, Settings
from pb_graph.budget import LevelTable
from pb_graph.planner.planner import Planner


def test_paper_stands_for_the_rows_of_the_papers_tables() -> None:
    rows = methods("paper")
    schedules = [row.settings for row in rows if row.name == row.settings.schedule]
    assert {(one.method, one.execution) for one in schedules} == {
        ("plan_and_budget", "single_pass")
    }
    assert {row.name for row in rows} == set(paper_figures().method)
    assert len(rows) == 10


def test_the_papers_budgets_are_only_said_as_words_and_rounded_down() -> None:
    rows = {row.name: row.settings for row in methods("paper")}
    for row in rows.values():
        assert row.enforcement == "prompt"
        assert row.budget == LevelTable() or not row.has_budget
    assert all(rows[name].is_paper for name in ("weighted", "cosine", "uniform"))
    assert not rows["planned_global_budget"].is_paper  # a total is said in tokens there
    (other,) = methods("cosine", {"enforcement": "force", "budget": 300})
    assert (other.settings.enforcement, other.settings.budget) == ("force", 300)


def test_the_default_and_stepwise_are_what_a_graph_does_unless_asked_otherwise() -> None:
    assert methods("default")[0].settings == Settings()
    assert methods("stepwise")[0].settings == Settings(execution="stepwise")
    (other,) = methods("stepwise", {"schedule": "bam"})
    assert (other.settings.schedule, other.settings.execution) == ("bam", "stepwise")


def test_our_planning_comes_also_without_the_help_of_a_label() -> None:
    (row,) = methods("plan_and_budget_estimated", {"cutoff": 900})
    planned = Settings(method="plan_and_budget", cutoff=900)
    assert (row.settings, row.estimate_level) == (planned, True)
    assert not any(row.estimate_level for row in methods("paper,default,stepwise"))
    (point,) = over_budgets([row], "100+50")
    assert (point.name, point.estimate_level) == ("plan_and_budget_estimated[100+50L]", True)


@pytest.mark.parametrize(
    ("names", "overrides", "complaint"),
    [
        ("no_such", {}, "no method named 'no_such'; available: paper, published, vanilla"),
        ("consine", {}, "did you mean 'cosine'"),
        ("vanilla", {"cutoff": 0}, "method 'vanilla': cutoff: .* greater than 0"),
        ("cosine", {"schedule": "linear"}, "'cosine' means schedule=cosine"),
        ("linear", {"execution": "stepwise"}, "so execution=stepwise is refused"),
    ],
)
def test_an_unknown_method_or_a_setting_against_its_name_is_refused(
    names: str, overrides: dict[str, object], complaint: str
) -> None:
    with pytest.raises(InputError, match=complaint):
        methods(names, overrides)


def test_a_settings_file_is_a_method_of_its_name(tmp_path: Path) -> None:
    file = tmp_path / "mine.json"
    file.write_text(json.dumps({"schedule": "bam", "budget": 300, "cutoff": 900}))
    _, mine = methods(f"vanilla, {file}", {"cutoff": 1500})
    settings = mine.settings
    assert mine.name == "mine"
    assert (settings.schedule, settings.budget, settings.cutoff) == ("bam", 300, 1500)
    file.write_text('{"budget": 0}')
    with pytest.raises(InputError, match=r"mine.json: budget: .*at least 1"):
        methods(str(file))


def saved_program(file: Path, instruction: str, **settings: Any) -> Path:  # noqa: ANN401
    """Save a program that plans with this instruction, under these settings."""
    file.parent.mkdir(exist_ok=True)
    planner = Planner()
    planner.fused.signature = planner.fused.signature.with_instructions(instruction)
    tuned = Settings(**settings) if settings else None
    planner.program().model_copy(update={"settings": tuned}).save(file)
    return file


def test_a_program_is_a_method_under_the_settings_that_it_was_tuned_with(tmp_path: Path) -> None:
    file = saved_program(tmp_path / "copro" / "program.json", "Plan.", budget=333, cutoff=900)
    short, named, capped, default, estimated = methods(
        f"{file}, gepa={file}, gepa={file}@300, default={file}, default_estimated={file}",
        {"cutoff": 700},
    )
    names = [short.name, named.name, capped.name, default.name, estimated.name]
    assert names == ["copro", "gepa", "gepa@300", "default", "default_estimated"]
    assert {row.settings.budget for row in (short, named, capped, default, estimated)} == {333}
    assert (named.settings.cutoff, capped.settings.cutoff) == (700, 300)
    assert (default.estimate_level, estimated.estimate_level) == (False, True)
    (also,) = methods("default", {"cutoff": 700}, program=file)
    assert also == default
    assert Method("gepa", program=str(file)).settings.budget == 333
    assert len({named.program_digest, short.program_digest, None}) == 2
    with pytest.raises(InputError, match="'cosine' is a method of its own"):
        methods(f"cosine={file}")
    file.write_text('{"format": "plan-and-budget planner"}')
    with pytest.raises(InputError, match="is not a planner program, or is damaged"):
        methods(str(file))


@pytest.mark.parametrize(
    ("grid", "complaint"),
    [("50", "50,100.25,50"), ("a+1", "50,100.25,50"), ("-1+0", "50,100.25,50"), ("1+1", "needs a")],
)
def test_a_grid_without_sense_is_refused(grid: str, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        over_budgets(methods("vanilla"), grid)


def test_rivals_are_rows_of_their_own_as_they_were_published() -> None:
    rows = {row.name: row.settings for row in methods("published")}
    assert {"chain_of_draft", "concise"} <= set(rows)
    assert all(settings.method == name for name, settings in rows.items())
    assert {settings.enforcement for settings in rows.values()} == {"prompt"}
    assert not set(rows) & {row.name for row in methods("paper")}


@pytest.mark.parametrize("name", ["chain_of_draft@300", "vanilla@300", "default@300"])
def test_a_name_may_carry_the_cap_of_its_calls(name: str) -> None:
    (row,) = methods(name, {"cutoff": 1500})
    assert (row.name, row.settings.cutoff) == (name, 300)


@pytest.mark.parametrize("name", ["concise@", "concise@0", "concise@many"])
def test_a_cap_is_a_number_of_tokens(name: str) -> None:
    with pytest.raises(InputError, match="such as @300"):
        methods(name)
