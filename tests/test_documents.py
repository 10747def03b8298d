"""Documents against the code and the data: pages, names, command lines, figures, the package."""

from __future__ import annotations

import lzma
import re
import shlex
import tomllib
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from runpy import run_path
from typing import Any, get_args

import pytest
import typer
from typer.main import get_command
from typer.testing import CliRunner

import optim.cli
import pb_graph
import pb_graph.cli.app
from optim.methods import NAMES, methods
from pb_graph import Settings, build_graph
from pb_graph.budget import schedule_weights, split
from pb_graph.types import Report, WarningCode
from tests.benchmarks import measured
from tests.support import pages
from tests.support.chat_model import ScriptedChat, with_schema
from tests.support.documents import PAGES, ROOT, TEXTS, name_of, snippets, text_of
from tests.support.graphs import QUESTION, choices

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
    *("test_architecture", "--help", "--config", "--model-role", "--cache"),
    *("--requeue", "--reasoning-effort", "--reasoning-tokens", "cot_reflection", "set_lm"),
    *("azure_openai", "google_genai", "bedrock_converse", "model_json_schema", "set_llm_cache"),
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
            own = [one for one in names if "=" in one or one.isupper()]  # files, words for names
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
            allowed = {*(choices(name) or [value]), *own}
            assert value in allowed, f"{name_of(path)}: {name}={value}"


@pytest.mark.parametrize("page", pages.MADE)
def test_a_page_is_what_the_code_makes_of_it(page: str) -> None:
    written = (ROOT / "docs" / page).read_text("utf-8")
    assert written == pages.MADE[page](written), "python -m tests.support.pages"


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


_LABEL = re.compile(r'aria-label="([^"]+)"')


@pytest.mark.parametrize(("path", "most"), [*zip(measured.PAGES, (40, 220, 200, 60), strict=True)])
def test_every_table_of_a_page_is_built_from_the_answers(path: Path, most: int) -> None:
    text = path.read_text(encoding="utf-8")
    assert measured.page(text) == text
    assert len(text.splitlines()) <= most


def test_the_picture_shows_the_figures_of_the_table() -> None:
    stored = measured.PICTURE.read_text(encoding="utf-8")
    assert _LABEL.findall(stored) == _LABEL.findall(measured.picture())


def test_texts_stand_beside_the_answers_of_the_last_day() -> None:
    lines = lzma.decompress(measured.TEXTS.read_bytes()).decode().splitlines()
    assert len(lines) > 0
    assert max(path.stat().st_size for path in (measured.TEXTS, measured.ANSWERS)) < 1_500_000


FILE = Path(__file__).parent.parent / "examples" / "algorithm.py"


def test_the_five_functions_answer_a_question_and_split_as_the_package_does() -> None:
    prompts: list[str] = []
    replies = ['["How many groups?", "How many pens?"]', '{"level": 2, "credits": [60, 40]}']
    replies += ["14 / 2 = 7", "7 * 3 = 21", "21 pens"]

    def ask(prompt: str) -> str:
        prompts.append(prompt)
        return replies[len(prompts) - 1]

    example = run_path(str(FILE))
    assert example["answer"](ask, "How many pens does $14 buy at 3 for $2?") == "21 pens"
    shares = [60 * 1.0, 40 * schedule_weights("exponential", 2)[1]]
    expected = split(shares, example["BUDGETS"][2], remainder="floor")
    assert example["allocate"](2, [60, 40]) == expected
    assert all(
        f"at most {n} tokens" in said for n, said in zip(expected, prompts[2:4], strict=True)
    )
    assert "14 / 2 = 7" in prompts[3]
    assert len(FILE.read_text("utf-8").splitlines()) <= 80
