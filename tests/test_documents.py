"""Documents against the code: pages made from it, its names, and command lines."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from typer.main import get_command

import optim.cli
import pb_graph.cli.app
from optim.methods import NAMES, methods
from pb_graph import Settings, build_graph
from pb_graph.types import Report, WarningCode
from tests.support import models_table, prompts_page, settings_page
from tests.support.chat_model import ScriptedChat, with_schema
from tests.support.documents import ROOT, TEXTS, name_of, snippets, text_of
from tests.support.graphs import QUESTION

COMMANDS: dict[str, Any] = {
    "pb-graph": get_command(pb_graph.cli.app.app),
    "pb-optim": get_command(optim.cli.app),
}
_INLINE = re.compile(r"`((?:pb-graph|pb-optim) [^`]+)`")
_OPTION = re.compile(r"--?[a-z]")
_DASHED = re.compile(r"(?<!\S)--?[a-z][a-z-]*")
_CODE = re.compile(r"`([^`\n]+)`")
_SETTING = re.compile(r"""\b(\w+)="(\w+)\"""")
_NAME = re.compile(r"[a-z0-9]+(?:_[a-z0-9]+)+")
_NOTEBOOK = re.compile(r".*\bnotebooks/(\w+)\.md")  # a page that is made of a notebook
SOURCES = "\n".join(
    file.read_text("utf-8")
    for folder in ("pb_graph", "optim", "plan_and_budget", "tests/benchmarks")
    for file in (ROOT / folder).rglob("*.py")
)
OPTIONS = {
    option
    for command in COMMANDS.values()
    for each in (command, *command.commands.values())
    for param in each.params
    for option in (*param.opts, *param.secondary_opts)
}
# Names of LangChain, DSPy and pydantic, of our tests, and options of Inspect and Slurm.
ELSEWHERE = {
    *(
        "settings_page",
        "test_architecture",
        "--help",
        "--config",
        "--model-role",
        "--cache",
        "--requeue",
    ),
    *("--reasoning-effort", "--reasoning-tokens", "cot_reflection"),
    *(
        "azure_openai",
        "google_genai",
        "bedrock_converse",
        "model_json_schema",
        "set_llm_cache",
        "set_lm",
    ),
    *("prompt_model", "task_model", "reflection_lm", "max_bootstrapped_demos", "max_labeled_demos"),
}


def calls(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield our commands on a page with their words, also those in a sentence."""
    found = [" ".join(one.split()) for one in _INLINE.findall(text_of(path))]
    for snippet in snippets(path, "bash"):
        found += re.split(r"\n|&&", snippet.code.replace("\\\n", " "))
    for line in found:
        words = [word for word in shlex.split(line) if not re.match(r"[A-Z_]+=", word)]
        if words and Path(words[0]).name in COMMANDS:
            yield Path(words[0]).name, words[1:]


def unknown(command: str, words: list[str]) -> set[str]:
    """Return what of a command line does not exist: its sub-command, or options."""
    params = COMMANDS[command].params
    if words and not words[0].startswith("-"):
        if words[0] not in COMMANDS[command].commands:
            return {words[0]}
        params = COMMANDS[command].commands[words[0]].params
    known = {option for each in params for option in (*each.opts, *each.secondary_opts)}
    given = {word.partition("=")[0] for word in words if _OPTION.match(word)}
    return given - known - {"--help"}


WITH_CALLS = [path for path in TEXTS if any(calls(path))]


@pytest.mark.parametrize("path", WITH_CALLS, ids=name_of)
def test_the_command_lines_of_a_page_exist(path: Path) -> None:
    for command, words in calls(path):
        assert not unknown(command, words), (command, *words)
        if command == "pb-optim" and "--methods" in words:
            names = words[words.index("--methods") + 1].split(",")
            own = [
                name for name in names if "=" in name or name.isupper()
            ]  # files, and words for names
            assert own or methods(names)


def test_every_name_on_a_page_is_in_the_code() -> None:
    known = set(re.findall(r"\w+", SOURCES)) | ELSEWHERE | set(NAMES) | OPTIONS
    known |= {file.stem for file in (ROOT / "tests").rglob("*.*")}
    known |= set(re.findall(r'add_argument\("(--[a-z-]+)"', SOURCES))
    for path in TEXTS:
        spans = _CODE.findall(re.sub(r"```.*?```", "", text_of(path), flags=re.DOTALL))
        names = _NAME.findall(" ".join(spans))
        names += [word for span in spans if span[0] == "-" for word in _DASHED.findall(span)]
        wrong = [name for name in names if name not in known]
        assert not wrong, f"{name_of(path)}: {wrong}"


def test_every_choice_of_a_setting_on_a_page_exists() -> None:
    for path in TEXTS:
        text = text_of(path)
        given = [pair for pair in _SETTING.findall(text) if pair[0] in Settings.model_fields]
        given += re.findall(r"--set ([a-z_]+)=(\w+)", text)
        own = set(re.findall(r'@method\(\s*"(\w+)"', text))
        for name, value in given:
            assert name in Settings.model_fields, f"{name_of(path)}: {name}"
            allowed = {*(settings_page.choices(name) or [value]), *own}
            assert value in allowed, f"{name_of(path)}: {name}={value}"


def test_the_page_of_prompts_is_what_is_sent() -> None:
    written = (ROOT / "docs" / "prompts.md").read_text("utf-8")
    assert written == prompts_page.page(), "python -m tests.support.prompts_page"


def test_the_table_of_providers_is_what_they_are_sent() -> None:
    assert models_table.table() in (ROOT / "docs" / "models.md").read_text("utf-8")


def test_the_page_of_settings_is_what_the_settings_say() -> None:
    written = (ROOT / "docs" / "settings.md").read_text("utf-8")
    assert written == settings_page.page(), (
        "python -m tests.support.settings_page > docs/settings.md"
    )


def documented(heading: str) -> set[str]:
    """Return the fields in a table of the page about the report."""
    text = (ROOT / "docs" / "report.md").read_text("utf-8")
    table = text.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE))


def test_the_fields_of_the_report_are_those_of_a_run() -> None:
    prices = {"scripted-1": (1.0, 1.0)}
    settings = Settings(execution="stepwise")
    graph = build_graph(ScriptedChat(), settings=settings, cap_policy=with_schema, prices=prices)
    report: dict[str, Any] = graph.invoke(QUESTION)["report"]
    assert set(report) <= documented("Report") == set(Report.__annotations__)
    assert set(report["steps"][0]) == documented("Step")
    assert set(report["usage"]) == documented("Usage")
    assert documented("Warnings") == set(get_args(WarningCode))
    parts = report["usage"]["by_node"].values()
    assert all(set(part) == documented("Usage") - {"by_node"} for part in parts)


def test_every_page_that_a_page_names_is_there() -> None:
    for path in TEXTS:
        links = re.findall(r"\]\((?!https?:)([^)#]+)(?:#[^)]*)?\)", text_of(path))
        files = [_NOTEBOOK.sub(rf"{ROOT}/notebooks/\1.ipynb", link) for link in links]
        assert not [file for file in files if not (path.parent / file).exists()], path


@pytest.mark.parametrize("readme", sorted(ROOT.glob("[po]*/**/README.md")), ids=str)
def test_a_readme_of_a_folder_names_files_that_are_there(readme: Path) -> None:
    named = re.findall(r"`((?:\.\./)?[\w/]+\.py|(?:\.\./)?\w+/)`", readme.read_text("utf-8"))
    assert named
    places = (readme.parent, ROOT)
    assert [name for name in named if not any((at / name).exists() for at in places)] == []
