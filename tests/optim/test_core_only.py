"""Without any extra: whatever needs one says which, in one line, before anything is paid for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
# Modules of the extras `local`, `serve`, `eval` and `tune`.
HIDDEN = (
    *("xllamacpp", "huggingface_hub", "filelock", "starlette", "uvicorn"),
    *("inspect_ai", "math_verify", "rouge_score", "datasets", "jinja2", "ipywidgets", "pandas"),
    "optuna",
)
CALLS = {
    "optim.evaluate(optim.Experiment(dataset='arithmetic', model=model))": "eval",
    "optim.read_records(folder)": "eval",
    "Records().frame()": "eval",
    "optim.report([None], folder + '/report.html')": "eval",
    "as_scorer('math')": "eval",
    "optim.load('gsm8k')": "eval",
    "optim.tune(program, [], QUESTIONS, scorer=score, run_dir=folder, tuned='settings')": "eval",
    "build_graph('local:smollm2-135m').invoke({'question': '2 + 2?'})": "local",
}
LOGS = ("report", "certify")
MODEL = ["--model", "openai:any"]
COMMANDS: list[tuple[str, list[str], str]] = [
    ("optim", ["eval", "--dataset", "arithmetic", *MODEL], "eval"),
    *[("optim", [name, "logs"], "eval") for name in LOGS],
    ("optim", ["tune", "--dataset", "arithmetic", *MODEL], "eval"),
    ("pb_graph", ["pull", "smollm2-135m"], "local"),
    ("pb_graph", ["solve", "2 + 2?", "--model", "local:smollm2-135m"], "local"),
    ("pb_graph", ["serve", "--model", "openai:any"], "serve"),
]
SCRIPT = f"""
import json, sys
sys.modules.update(dict.fromkeys({HIDDEN!r}))
from typer.testing import CliRunner
from optim.cli import app as optim
from pb_graph.cli.app import app as pb_graph

folder, commands, told = sys.argv[1], {{}}, {{}}
for name, command, _ in {COMMANDS!r}:
    done = CliRunner().invoke({{"optim": optim, "pb_graph": pb_graph}}[name], command)
    commands[" ".join(command)] = [done.exit_code, done.stderr]

import optim
from optim.records import Records
from optim.scorers import as_scorer
from optim.tuning import GraphProgram
from pb_graph import PlanAndBudgetError, build_graph
from tests.support.chat_model import ScriptedChat

model, QUESTIONS, score = ScriptedChat(), optim.load("arithmetic"), lambda output, question: 1.0
program = GraphProgram(model)
for call in {list(CALLS)!r}:
    try:
        eval(call)
    except PlanAndBudgetError as error:
        told[call] = str(error)
    except Exception as error:
        told[call] = repr(error)
print(json.dumps({{"commands": commands, "told": told, "calls": len(model.calls)}}))
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Any:  # noqa: ANN401 -- JSON
    done = subprocess.run(  # noqa: S603 -- our own code
        [sys.executable, "-c", SCRIPT, str(tmp_path_factory.mktemp("folder"))],
        cwd=ROOT,
        env={**os.environ, "OPENAI_API_KEY": "any", "OPENAI_BASE_URL": "http://127.0.0.1:9/v1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.integration
def test_every_call_names_the_extra_before_anything_is_paid(found: Any) -> None:  # noqa: ANN401
    wrong = {
        call: found["told"].get(call)
        for call, extra in CALLS.items()
        if f"plan-and-budget[{extra}]" not in found["told"].get(call, "")
    }
    assert not wrong
    assert not any("\n" in line for line in found["told"].values())
    assert found["calls"] == 0


@pytest.mark.integration
def test_every_command_names_the_extra(found: Any) -> None:  # noqa: ANN401
    wrong = {}
    for _, command, extra in COMMANDS:
        code, text = found["commands"][" ".join(command)]
        if code != 1 or "\n" in text.strip() or f"plan-and-budget[{extra}]" not in text:
            wrong[" ".join(command)] = (code, text[-300:])
    assert not wrong
