"""The public face of `optim`: what a researcher imports, and how results show themselves."""

from __future__ import annotations

import re
import subprocess
import sys
from html import escape
from pathlib import Path

import pytest

import optim
from optim.evaluation import Evaluation
from optim.records import Records, planning_tokens, read_records
from tests.optim.reporting.samples import record, records
from tests.support.chat_model import ScriptedChat
from tests.support.evaluations import evaluated, leaks_collected, rows, solves, tolerates_inspect

__all__ = ["leaks_collected"]

pytestmark = tolerates_inspect

HEAVY = ("inspect_ai", "dspy", "numpy", "pandas", "langgraph", "jinja2", "pydantic")
IMPORTS = f"""
import sys, optim
print(*[name for name in {HEAVY!r} if name in sys.modules], "are loaded")
import optim.evaluation, optim.reporting, optim.tuning
from inspect import isfunction
from optim import evaluate, report, tune
print(isfunction(evaluate), isfunction(report), isfunction(tune))
"""


def test_importing_it_loads_nothing_heavy_and_its_names_stay_functions() -> None:
    done = subprocess.run(  # noqa: S603 -- our own code
        [sys.executable, "-W", "error", "-c", IMPORTS],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split("\n")[:2] == ["are loaded", "True True True"]


def test_the_package_has_its_public_names_and_no_others() -> None:
    assert dir(optim) == optim.__all__ == sorted(optim.__all__)
    assert all(callable(getattr(optim, name)) for name in optim.__all__)
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
    assert [line.split()[0] for line in table.splitlines()[:3]] == ["method", "vanilla", "<b>"]
    html = evaluation._repr_html_()
    for row in rows(evaluation.records):
        assert re.search(rf"<td>{escape(row.method)}</td>\s*<td>{row.accuracy:.1f} ", html)
