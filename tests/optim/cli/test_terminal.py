"""A missing extra is one line that names it, said before anything is read or paid for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from optim import cli

ROOT = Path(__file__).parents[3]
COMMANDS = [
    (["eval", "--dataset", "arithmetic", "--model", "test:m"], "inspect_ai", "eval"),
    (["tune", "--dataset", "arithmetic", "--model", "test:m"], "pandas", "eval"),
]


@pytest.mark.parametrize(("command", "module", "extra"), COMMANDS, ids=str)
def test_a_missing_extra_is_said_first(
    command: list[str], module: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    done = CliRunner().invoke(cli.app, command)
    assert done.exit_code == cli.FAILED
    told = f"pb-optim: this needs {module}: pip install 'plan-and-budget[{extra}]'\n"
    assert (done.stdout, done.stderr) == ("", told)


def test_help_needs_no_extra_and_none_of_the_frameworks() -> None:
    blocked = ("inspect_ai", "math_verify", "rouge_score", "datasets", "optuna", "jinja2")
    blocked += ("dspy", "langgraph", "langchain_core")  # take seconds
    lines = (
        f"import sys; sys.modules.update(dict.fromkeys({blocked}))",
        "from optim.cli import app",
        "print([app([name, '--help'], standalone_mode=False) for name in ('eval', 'tune')])",
    )
    done = subprocess.run(  # noqa: S603 -- our own code
        [sys.executable, "-c", "\n".join(lines)], cwd=ROOT, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("[0, 0]\n")
