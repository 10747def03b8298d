"""A researcher's session: tune twice, compare both programs, certify, and use the winner."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from optim import Experiment, Questions, cli, evaluate, load, read_records, report
from optim.methods import Method
from optim.reporting import answers, certify, figures
from pb_graph import build_graph
from pb_graph.program import PlannerProgram
from tests.support.chat_model import with_schema
from tests.support.evaluations import leaks_collected, tolerates_inspect
from tests.support.tuning_world import DEV, HELD_OUT, MINIMAL, THOROUGH, Style, says, world

__all__ = ["leaks_collected"]

pytestmark = tolerates_inspect

STYLES = {"minimal": Style(0.9, 12), "thorough": Style(0.95, 90), "usual": Style(0.6, 40)}
OWN = """
from optim.tuning import optimizer

def exact(output, question):
    return question.targets[0] in output.split()[-1:]

@optimizer("shorter")
def shorter(task):
    return task.candidates(["Be MINIMAL."])
"""


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with own questions without levels, and a scorer and an optimizer of one's own."""
    monkeypatch.chdir(tmp_path)
    for module in ("bench.bench", "tuning.evaluator"):
        monkeypatch.setattr(
            f"optim.{module}.resolve",
            lambda name, *_, **__: says(THOROUGH, MINIMAL) if "writer" in name else world(STYLES),
        )
    for name, questions in (("dev", DEV), ("test", HELD_OUT)):
        rows = [{"prompt": one.question, "answer": one.targets[0]} for one in questions[:45]]
        Path(f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    Path("mine.py").write_text(OWN, encoding="utf-8")
    Path("prices.json").write_text('{"test:m": [1, 2], "scripted-1": [1, 2]}', encoding="utf-8")
    return tmp_path


def pb_optim(*words: object) -> str:
    options = ["--field", "question=prompt", "--scorer", "mine.py:exact", "--model", "test:m"]
    with_options = options if words[0] in {"eval", "tune"} else []
    done = CliRunner().invoke(cli.app, [*map(str, words), *with_options], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_two_tunings_one_table_a_certificate_and_the_winner_in_a_graph(session: Path) -> None:
    for name in ("gepa", "copro", "mine.py:shorter"):
        run = session / "runs" / name.rpartition(":")[2]
        writes = () if ":" in name else ("--reflection-model", "test:writer")
        pb_optim(
            "tune", "--data", "dev.jsonl", "--limit", 30, "--optimizer", name, *writes,
            "--budget-answers", 150, "--limit-tokens", 10**6, "--run-dir", run,
        )  # fmt: skip
        assert PlannerProgram.load(run / "program.json").settings is not None
    methods = "vanilla,default,gepa=runs/gepa/program.json,runs/copro/program.json"
    shown = pb_optim("eval", "--data", "test.jsonl", "--methods", methods, "--limit-usd", 5,
                     "--prices", "prices.json", "--log-dir", "logs")  # fmt: skip
    assert all(name in shown for name in ("vanilla", "default", "gepa", "copro", "money"))
    table = answers(read_records("logs"), prices={"scripted-1": (1.0, 2.0), "test:m": (1.0, 2.0)})
    rows = figures(table).set_index("method")
    assert set(rows.index) == {"vanilla", "default", "gepa", "copro"}
    assert rows.e3["gepa"] > rows.e3["default"]
    assert rows[["e3_lower", "e3_upper", "money"]].notna().all(axis=None)
    assert set(rows.money_unit) == {"US $ per 1,000 questions"}
    assert certify(table, loss=40).baseline == "vanilla"
    pb_optim("certify", "logs", "--loss", 40)
    pb_optim("report", "logs", "-o", "logs.html")
    pb_optim("report", "runs/gepa", "-o", "tuning.html")
    assert "gepa" in Path("logs.html").read_text(encoding="utf-8")
    graph = build_graph(
        world(STYLES), planner_program="runs/gepa/program.json", cap_policy=with_schema
    )
    out = graph.invoke({"question": HELD_OUT[0].question})
    assert out["report"]["usage"]["output_tokens"] < rows.tokens["default"]


def test_the_same_from_python_with_a_list_of_questions(session: Path) -> None:
    pb_optim("tune", "--data", "dev.jsonl", "--optimizer", "mine.py:shorter", "--run-dir", "run",
             "--budget-answers", 200, "--json")  # fmt: skip
    questions = load("jsonl", path="test.jsonl", fields={"question": "prompt"}, limit=6)
    found = evaluate(
        Experiment(
            dataset=questions,
            methods=["vanilla", Method("shorter", program="run/program.json")],
            scorer="mine.py:exact",
            model=world(STYLES),
            cap_policy=with_schema,
            log_dir=session / "list",
        )
    )
    assert set(figures(answers(found.records)).method) == {"vanilla", "shorter"}
    report(found.records, session / "page.html")
    assert Questions(dataset=questions).load() == questions
    assert isinstance(found.figures, pd.DataFrame)
