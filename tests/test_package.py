"""What a publisher and a stranger find: metadata, version, files of the sdist, the short guides."""

from __future__ import annotations

import re
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

import optim.cli
import pb_graph
import pb_graph.cli.app

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
APPS = pytest.mark.parametrize("app", [pb_graph.cli.app.app, optim.cli.app])
SKILL = ROOT / "skills" / "plan-and-budget" / "SKILL.md"


def run(app: object, *words: str) -> Result:
    return CliRunner().invoke(app, list(words))  # type: ignore[arg-type]


@APPS
def test_both_commands_tell_the_version_of_the_package(app: object) -> None:
    done = run(app, "--version")
    assert (done.exit_code, done.stdout) == (0, f"plan-and-budget {version('plan-and-budget')}\n")
    assert pb_graph.__version__ == version("plan-and-budget")


@APPS
def test_both_commands_install_completion(app: object) -> None:
    assert "--install-completion" in run(app, "--help").stdout


def test_from_sources_the_version_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        sys, "meta_path", [f for f in sys.meta_path if not hasattr(f, "find_distributions")]
    )
    assert pb_graph.__version__ == "unknown"


def test_the_address_of_the_repository_stands_in_one_place() -> None:
    urls = PROJECT["project"]["urls"]
    assert {"Homepage", "Source", "Issues", "Changelog"} <= set(urls)
    host = urls["Homepage"]
    assert all(url.startswith(host) for url in urls.values())
    others = [*ROOT.glob("*.md"), ROOT / "llms.txt", SKILL, *ROOT.glob("pb_graph/**/*.py")]
    assert not [path for path in others if host in path.read_text("utf-8")]


def test_the_versions_of_python_are_those_that_are_tested() -> None:
    named = [
        line.rpartition(" ")[2]
        for line in PROJECT["project"]["classifiers"]
        if "Python :: 3." in line
    ]
    assert f"{sys.version_info.major}.{sys.version_info.minor}" in named


def test_the_sdist_takes_files_that_are_there() -> None:
    included = PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    assert not [name for name in included if not (ROOT / name).exists()]
    assert {"notebooks", "langgraph.json", "llms.txt", "skills", "tests"} <= set(included)


def test_llms_txt_names_files_that_are_there() -> None:
    links = re.findall(r"\]\(([^)]+)\)", (ROOT / "llms.txt").read_text("utf-8"))
    assert links
    assert not [link for link in links if not (ROOT / link).exists()]


def test_the_skill_says_what_it_is_and_when_to_use_it() -> None:
    head = SKILL.read_text("utf-8").split("---\n")[1]
    fields = dict(line.split(": ", 1) for line in head.splitlines())
    assert fields["name"] == SKILL.parent.name
    assert 0 < len(fields["description"]) <= 1024
