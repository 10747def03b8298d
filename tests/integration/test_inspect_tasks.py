"""Our data sets as Inspect's tasks: ``inspect eval plan_and_budget/...``, and its `eval`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import inspect_ai
import pytest

from optim.datasets import DATASETS
from optim.records import read_records
from pb_graph import InputError, __version__
from pb_graph.planner.planner import Planner
from plan_and_budget.tasks import TASKS
from tests.support import inspect_provider  # noqa: F401 -- registers "scripted"
from tests.support.evaluations import leaks_collected, tolerates_inspect
from tests.support.fork_server import PATIENCE, ROOT

__all__ = ["leaks_collected"]  # applies to every test here

pytestmark = [pytest.mark.integration, *tolerates_inspect]

MODEL, PLANNER = "scripted/m", "scripted/p"


def install(folder: Path) -> None:
    """Write what an editable installation writes beside the sources, from our pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    about = folder / f"plan_and_budget-{__version__}.dist-info"
    about.mkdir(parents=True)
    about.joinpath("METADATA").write_text(
        f"Metadata-Version: 2.4\nName: {project['name']}\nVersion: {__version__}\n"
    )
    origin = {"url": ROOT.as_uri(), "dir_info": {"editable": True}}
    about.joinpath("direct_url.json").write_text(json.dumps(origin))
    points = project["entry-points"]["inspect_ai"]
    extension = {"scripted": "tests.support.inspect_provider"}  # a model without a network
    lines = (f"{name} = {value}" for name, value in (points | extension).items())
    about.joinpath("entry_points.txt").write_text("\n".join(["[inspect_ai]", *lines]) + "\n")


def test_inspects_command_finds_our_tasks_and_every_token_is_counted(tmp_path: Path) -> None:
    install(tmp_path / "installed")
    words = (
        "eval", "plan_and_budget/arithmetic", "--model", MODEL, "--model-role",
        f"planner={PLANNER}", "-T", "method=cosine", "-T", "limit=4", "-T",
        'settings={"cutoff": 70}', "--epochs", "2", "--display", "none",
    )  # fmt: skip
    environment = {
        "PYTHONPATH": os.pathsep.join([str(tmp_path / "installed"), str(ROOT)]),
        "SCRIPTED_CALLS": str(tmp_path / "calls.jsonl"),
        "INSPECT_LOG_DIR": str(tmp_path / "logs"),
    }
    done = subprocess.run(  # noqa: S603 -- our own command
        [sys.executable, "-m", "inspect_ai", *words],
        env=os.environ | environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    records = read_records(tmp_path / "logs")
    made = [json.loads(line) for line in (tmp_path / "calls.jsonl").read_text().splitlines()]
    assert len(records) == 8
    assert {(r.method, r.model, r.planner) for r in records} == {("cosine", MODEL, PLANNER)}
    assert {call["model"] for call in made} == {"m", "p"}
    assert all(0 < call["cap"] <= 70 for call in made)
    assert sum(record.tokens for record in records) == sum(call["tokens"] for call in made)
    assert {record.output.endswith("Final answer: 42") for record in records} == {True}
    assert {len(record.report["steps"]) for record in records} == {2}  # the plan was read
    assert {record.made_by["settings"]["cutoff"] for record in records} == {70}


def test_two_programs_and_a_scorer_of_ones_own_are_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log of the second program does not replace that of the first in silence."""
    monkeypatch.setenv("SCRIPTED_CALLS", str(tmp_path / "calls.jsonl"))
    monkeypatch.setenv("INSPECT_EVAL_MODEL", MODEL)
    mine, logs = tmp_path / "mine.py", tmp_path / "logs"
    mine.write_text("def exact(output, question): return output.endswith('42')\n", "utf-8")
    for name in ("gepa", "copro"):
        planner, file = Planner(), tmp_path / f"{name}.json"
        planner.fused.signature = planner.fused.signature.with_instructions(f"Plan as {name}.")
        planner.save(file)
        chosen: Any = {"program": str(file), "scorer": f"{mine}:exact", "limit": 1}
        task = TASKS["arithmetic"](**chosen, settings={"plan_from": 1})
        inspect_ai.eval(task, log_dir=str(logs), display="none")
        if name == "gepa":
            (record,) = read_records(logs)
            assert (record.score, record.made_by["scorer"]) == (1.0, "exact")
    with pytest.raises(InputError, match="the planner's program changed"):
        read_records(logs)


def test_every_data_set_that_needs_no_name_of_a_task_is_one() -> None:
    assert TASKS.keys() == DATASETS.keys() - {"reasoning_gym"}
