"""The public face of `optim`: what a researcher imports, and what an import needs."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from html import escape
from inspect import isfunction
from pathlib import Path

import pandas as pd
import pytest

import optim
from optim.evaluation import Evaluation
from optim.records import Records, planning_tokens, read_records
from tests.optim.reporting.samples import record, records
from tests.support.chat_model import ScriptedChat
from tests.support.evaluations import evaluated, leaks_collected, rows, solves, tolerates_inspect

__all__ = ["leaks_collected"]

pytestmark = tolerates_inspect


def test_the_package_has_its_public_names_and_no_others() -> None:
    assert dir(optim) == optim.__all__ == sorted(optim.__all__)
    assert all(callable(getattr(optim, name)) for name in optim.__all__)
    assert all(isfunction(one) for one in (optim.evaluate, optim.report, optim.tune))
    with pytest.raises(AttributeError, match="no attribute 'optimize'"):
        _ = optim.optimize


def test_records_are_a_data_frame_in_one_call(tmp_path: Path) -> None:
    evaluated(ScriptedChat(solve=solves), tmp_path, methods=["vanilla", "stepwise"])
    found = read_records(tmp_path)
    frame = found.frame()
    assert len(frame) == len(found) == 10
    assert list(frame["tokens"]) == [one.tokens for one in found]
    assert list(frame["planning_tokens"]) == [planning_tokens(one.report) for one in found]
    assert list(frame["solving_tokens"]) == [one.solving_tokens for one in found]
    assert dict(frame.groupby("method")["score"].mean()) == {"stepwise": 1.0, "vanilla": 1.0}
    assert repr(found) == "10 records of vanilla, stepwise; .frame() gives a DataFrame"
    missing = Records([record("vanilla", 0, level=None, score=None, error="gone")]).frame()
    assert missing[["level", "score"]].isna().all(axis=None)


def test_an_evaluation_prints_as_the_table_of_the_report(tmp_path: Path) -> None:
    found = records(["vanilla", "<b>"])
    evaluation = Evaluation(Records(found), 12, 0, tmp_path)
    table = str(evaluation)
    assert isinstance(evaluation.figures, pd.DataFrame)
    assert [line.split()[0] for line in table.splitlines()[:3]] == ["method", "vanilla", "<b>"]
    html = evaluation._repr_html_()
    for row in rows(evaluation.records):
        assert re.search(rf"<td>{escape(row.method)}</td>\s*<td>{row.accuracy:.1f} ", html)


# Modules of the extras `local`, `serve`, `eval` and `tune`.
HIDDEN = (
    *("xllamacpp", "huggingface_hub", "filelock", "starlette", "uvicorn"),
    *("inspect_ai", "math_verify", "rouge_score", "datasets", "jinja2", "ipywidgets", "pandas"),
    "optuna",
)
FRAMEWORKS = ("dspy", "langgraph", "langchain_core")  # take seconds
HEAVY = (*FRAMEWORKS, *HIDDEN, "numpy", "pydantic")
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
MODEL = ["--model", "openai:any"]
COMMANDS: list[tuple[str, list[str], str]] = [
    ("optim", ["eval", "--dataset", "arithmetic", *MODEL], "eval"),
    *[("optim", [name, "logs"], "eval") for name in ("report", "certify")],
    ("optim", ["tune", "--dataset", "arithmetic", *MODEL], "eval"),
    ("pb_graph", ["pull", "smollm2-135m"], "local"),
    ("pb_graph", ["solve", "2 + 2?", "--model", "local:smollm2-135m"], "local"),
    ("pb_graph", ["serve", "--model", "openai:any"], "serve"),
]
SCRIPT = f"""
import json, sys
sys.modules.update(dict.fromkeys({HIDDEN!r}))
import optim
public = [name for name in {HEAVY!r} if sys.modules.get(name)]
from typer.testing import CliRunner
from optim.cli import app as optim

helps = [CliRunner().invoke(optim, [name, "--help"]).exit_code for name in ("eval", "tune")]
helping = [name for name in {FRAMEWORKS!r} if sys.modules.get(name)]

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
loaded = {{"public": public, "helps": helps, "helping": helping}}
print(json.dumps(loaded | {{"commands": commands, "told": told, "calls": len(model.calls)}}))
"""


@pytest.mark.integration
def test_importing_and_helping_load_little_and_all_else_names_its_extra_before_it_is_paid(
    tmp_path: Path,
) -> None:
    done = subprocess.run(  # noqa: S603 -- our own code
        [sys.executable, "-c", SCRIPT, str(tmp_path)],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "OPENAI_API_KEY": "any", "OPENAI_BASE_URL": "http://127.0.0.1:9/v1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert (found["public"], found["helps"], found["helping"]) == ([], [0, 0], [])
    said = {call: (1, found["told"].get(call, "")) for call in CALLS} | found["commands"]
    extras = CALLS | {" ".join(command): extra for _, command, extra in COMMANDS}
    for name, (code, text) in said.items():
        assert code == 1, name
        assert "\n" not in text.strip(), name
        assert f".[{extras[name]}]" in text, name
    assert found["calls"] == 0
