"""Help names what the registries hold, on one page, and is there without the extras."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from optim import cli
from optim.datasets import DATASETS
from optim.scorers import NAMES as SCORERS
from optim.tuning.options import OPTIMIZERS


@pytest.mark.parametrize(
    ("command", "names"),
    [
        ("eval", [*DATASETS, *SCORERS, "vanilla,default", "paper", "published"]),
        ("tune", [*DATASETS, *OPTIMIZERS, *SCORERS, "decompose", "estimate", "settings"]),
    ],
)
def test_help_lists_every_name_that_an_option_takes(command: str, names: list[str]) -> None:
    shown = CliRunner().invoke(cli.app, [command, "--help"], terminal_width=200).stdout
    missing = [name for name in names if name not in shown]
    assert not missing


def test_the_help_of_eval_is_a_page() -> None:
    shown = CliRunner().invoke(cli.app, ["eval", "--help"], terminal_width=80).stdout
    assert len(shown.strip().splitlines()) <= 60
    for panel in ("Questions", "Methods", "Model", "Limits", "Output"):
        assert f"─ {panel} ─" in shown


def test_help_needs_no_extra_and_none_of_the_frameworks() -> None:
    blocked = ("inspect_ai", "math_verify", "rouge_score", "datasets", "optuna", "jinja2")
    blocked += ("dspy", "langgraph", "langchain_core")  # take seconds
    lines = (
        f"import sys; sys.modules.update(dict.fromkeys({blocked}))",
        "from optim.cli import app",
        "print([app([name, '--help'], standalone_mode=False) for name in ('eval', 'tune')])",
    )
    done = _run_python(*lines)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("[0, 0]\n")


def _run_python(*lines: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603 -- our own code
        [sys.executable, "-c", "\n".join(lines)],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,  # a process that stays behind would keep the output open
    )
