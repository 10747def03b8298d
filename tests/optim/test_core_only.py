"""Without any extra: whatever needs one says which, in one line, before anything is paid for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

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


@pytest.mark.integration
def test_calls_and_commands_name_their_extra_in_one_line_before_anything_is_paid(
    tmp_path: Path,
) -> None:
    done = subprocess.run(  # noqa: S603 -- our own code
        [sys.executable, "-c", SCRIPT, str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "OPENAI_API_KEY": "any", "OPENAI_BASE_URL": "http://127.0.0.1:9/v1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    said = {call: (1, found["told"].get(call, "")) for call in CALLS} | found["commands"]
    extras = CALLS | {" ".join(command): extra for _, command, extra in COMMANDS}
    for name, (code, text) in said.items():
        assert code == 1, name
        assert "\n" not in text.strip(), name
        assert f".[{extras[name]}]" in text, name
    assert found["calls"] == 0
