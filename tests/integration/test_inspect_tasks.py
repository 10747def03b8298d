"""Our data sets as Inspect's tasks: `inspect eval plan_and_budget/...`, in processes of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from optim.datasets import DATASETS
from optim.records import read_records
from pb_graph import InputError, __version__
from pb_graph.planner.planner import Planner
from tests.support.evaluations import tolerates_inspect
from tests.support.fork_server import PATIENCE, ROOT

pytestmark = [pytest.mark.integration, *tolerates_inspect]

MODEL, PLANNER = "scripted/m", "scripted/p"


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """What an editable installation writes beside the sources, from our own pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    folder = tmp_path / "installed"
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
    return folder


def inspect(installed: Path, *arguments: str) -> str:
    """Run Inspect's command to its end, and give what it printed."""
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(installed), str(ROOT)]),
        "SCRIPTED_CALLS": str(installed.parent / "calls.jsonl"),
        "INSPECT_LOG_DIR": str(installed.parent / "logs"),
    }
    done = subprocess.run(  # noqa: S603 -- our own command
        [sys.executable, "-m", "inspect_ai", *arguments, "--display", "none"],
        env=environment,
        cwd=installed.parent,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def calls(installed: Path) -> list[dict[str, Any]]:
    lines = (installed.parent / "calls.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def test_inspect_evaluates_a_data_set_with_our_solver_and_counts_every_token(
    installed: Path,
) -> None:
    inspect(
        installed, "eval", "plan_and_budget/arithmetic", "--model", MODEL, "--model-role",
        f"planner={PLANNER}", "-T", "method=cosine", "-T", "limit=4", "-T",
        'settings={"cutoff": 70}', "--epochs", "2",
    )  # fmt: skip
    records, made = read_records(installed.parent / "logs"), calls(installed)
    assert len(records) == 8
    assert {(r.method, r.model, r.planner) for r in records} == {("cosine", MODEL, PLANNER)}
    assert {call["model"] for call in made} == {"m", "p"}
    assert all(0 < call["cap"] <= 70 for call in made)
    assert sum(record.tokens for record in records) == sum(call["tokens"] for call in made)
    assert {record.output.endswith("Final answer: 42") for record in records} == {True}
    assert {len(record.report["steps"]) for record in records} == {2}  # the plan was read
    assert {record.made_by["settings"]["cutoff"] for record in records} == {70}


def test_two_programs_and_a_scorer_of_ones_own_are_told_apart(installed: Path) -> None:
    """The log of the second program does not replace that of the first in silence."""
    (installed.parent / "mine.py").write_text(
        "def exact(output, question): return output.endswith('42')\n", encoding="utf-8"
    )
    for name in ("gepa", "copro"):
        planner = Planner()
        planner.fused.signature = planner.fused.signature.with_instructions(f"Plan as {name}.")
        planner.save(installed.parent / f"{name}.json")
        inspect(
            installed, "eval", "plan_and_budget/arithmetic", "--model", MODEL, "-T", "limit=1",
            "-T", f"program={name}.json", "-T", "scorer=mine.py:exact", "-T",
            'settings={"plan_from": 1}',
        )  # fmt: skip
        if name == "gepa":
            (record,) = read_records(installed.parent / "logs")
            assert (record.score, record.made_by["scorer"]) == (1.0, "exact")
    with pytest.raises(InputError, match="the planner's program changed"):
        read_records(installed.parent / "logs")


def test_every_data_set_that_needs_no_name_of_a_task_is_one() -> None:
    from plan_and_budget.tasks import TASKS  # noqa: PLC0415 -- registers them

    assert TASKS.keys() == DATASETS.keys() - {"reasoning_gym"}
