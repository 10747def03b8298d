"""What a publisher and a stranger find: version, files of the sdist, short guides."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import version

import pytest
import typer
from typer.testing import CliRunner

import optim.cli
import pb_graph
import pb_graph.cli.app
from tests.support.documents import PAGES, ROOT, name_of

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


@pytest.mark.parametrize("app", [pb_graph.cli.app.app, optim.cli.app])
def test_both_commands_tell_the_version_of_the_package(app: typer.Typer) -> None:
    done = CliRunner().invoke(app, ["--version"])
    assert (done.exit_code, done.stdout) == (0, f"plan-and-budget {version('plan-and-budget')}\n")
    assert pb_graph.__version__ == version("plan-and-budget")


def test_the_files_that_the_sdist_and_llms_txt_name_are_there() -> None:
    included = PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    assert {"notebooks", "langgraph.json", "llms.txt", "skills", "tests"} <= set(included)
    links = re.findall(r"\]\(([^)]+)\)", (ROOT / "llms.txt").read_text("utf-8"))
    assert {name_of(page) for page in PAGES} <= {*links, "docs/contributing.md"}
    assert not [name for name in (*included, *links) if not (ROOT / name).exists()]
