"""``pb-graph`` as a person or a script uses it: what is printed where, and the exit code."""

from __future__ import annotations

import asyncio
import io
import json
import re
from html import unescape
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from rich.console import Console
from typer.testing import CliRunner, Result

from pb_graph import Settings, TokenBudgetMiddleware
from pb_graph.cli import demo
from pb_graph.cli.app import app
from pb_graph.cli.display import Display
from pb_graph.cli.options import FAILED, USAGE
from pb_graph.errors import UnknownModelError
from pb_graph.local import weights
from pb_graph.planner.planner import Planner
from pb_graph.types import Report
from tests.support.chat_model import ScriptedChat, says_nothing
from tests.support.graphs import QUESTION, checked, graph_of
from tests.support.pages import DEMO

MODEL = ("--model", "fake:scripted")
PLANNED = ("--level", "5")
HOSTILE = "[red]x[/red] <script>alert(1)</script> [/] \x1b[2J"


@pytest.fixture
def resolved(monkeypatch: pytest.MonkeyPatch) -> dict[str, ScriptedChat]:
    """The models that names stand for; any name of provider 'fake' gets one."""
    models: dict[str, ScriptedChat] = {}

    def resolve(name: str, settings: Settings) -> ScriptedChat:
        del settings
        if not name.startswith("fake:"):
            msg = f"no provider is called {name!r}"
            raise UnknownModelError(msg)
        return models.setdefault(name, ScriptedChat())

    monkeypatch.setattr("pb_graph.run.parts.resolve", resolve)
    return models


@pytest.fixture
def model(resolved: dict[str, ScriptedChat]) -> ScriptedChat:
    return resolved.setdefault("fake:scripted", ScriptedChat())


def run(*arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(app, list(arguments), input=stdin)


def solve(*options: str, question: str = "What is 6 * 7?", **given: Any) -> Result:  # noqa: ANN401
    return run("solve", question, *MODEL, *options, **given)


def reported(result: Result) -> Any:  # noqa: ANN401 -- the report, as a script reads it
    """Return the one JSON document on standard output."""
    assert result.exit_code == 0, result.output
    assert result.stdout.count("\n") == 1
    return checked(json.loads(result.stdout))


@pytest.mark.usefixtures("model")
class TestSolve:
    def test_it_prints_plan_answer_and_account(self, model: ScriptedChat) -> None:
        result = solve(*PLANNED)
        assert (result.exit_code, result.stderr) == (0, "")
        assert "What is given?" in result.stdout
        assert "Final answer: 42" in result.stdout
        assert result.stdout.splitlines()[-1].startswith(f"{model.output_tokens} of at most ")

    def test_a_question_of_any_level_is_planned_and_solved_step_by_step_on_request(self) -> None:
        report = reported(solve("--json", "--level", "1", "--plan"))
        assert report["execution"] == "stepwise"
        assert all(step["tokens"] for step in report["steps"][:2])

    def test_dollars_need_a_price_of_the_model(self) -> None:
        result = solve("--limit-usd", "0.02")
        assert result.exit_code == USAGE
        assert "No price is known for the model 'scripted:scripted-1'" in result.stderr

    def test_json_prints_the_report_of_a_question_and_nothing_else(
        self, model: ScriptedChat
    ) -> None:
        options = ("--method", "plan_and_budget", "--set", "schedule=linear", "--set", "domain=a=b")
        asked = ("--budget", "321", "--level", "4")
        result = solve("--json", *options, *asked, question="-", stdin="What is\n7 * 8?\n")
        report = reported(result)
        assert result.stderr == ""
        assert (report["method"], report["schedule"]) == ("plan_and_budget", "linear")
        assert (report["budget"], report["level"]) == (321, 4)
        assert any("a=b" in call.ask for call in model.calls)
        assert "What is\n7 * 8?" in str(model.solving()[0].ask)

    def test_a_budget_and_a_limit_stand_side_by_side(self) -> None:
        limits = ("--budget", "50", "--limit", "70", "--set", 'limit={"total_tokens": 9000}')
        report = reported(solve("--json", "--level", "1", *limits))
        assert (report["budget"], report["limit"]) == (50, 50)
        report = reported(solve("--json", "--level", "1", "--budget", "500", "--limit", "70"))
        assert report["budget"] == report["limit"] == 70

    def test_options_replace_the_settings_of_a_tuned_program(self, tmp_path: Path) -> None:
        settings = Settings(schedule="linear", plan_from=1, planning="two_call", budget=300)
        tuned = Planner().program().model_copy(update={"settings": settings})
        tuned.save(tmp_path / "tuned.json")
        program = ("--program", str(tmp_path / "tuned.json"))
        report = reported(solve("--json", *program))
        assert (report["schedule"], report["budget"]) == ("linear", 300)
        report = reported(solve("--json", *program, "--budget", "99"))
        assert (report["schedule"], report["budget"]) == ("linear", 99)

    def test_the_text_of_a_model_is_neither_markup_nor_control_codes(
        self, model: ScriptedChat
    ) -> None:
        model.plan, model.solve = ["[red]x[/red]?", "<script>?"], HOSTILE
        shown = solve(*PLANNED).stdout
        assert "[red]x[/red]?" in shown
        assert HOSTILE.replace("\x1b", "") in shown
        assert "\x1b" not in shown


@pytest.mark.usefixtures("resolved")
class TestErrors:
    @pytest.mark.parametrize(
        ("options", "said"),
        [
            (("--set", "nosuch=1"), "unknown setting nosuch; available: method, "),
            (("--set", "review_plan=true"), "pauses for a host"),
            (("--method", "guess"), "no method 'guess'; available: .*vanilla"),
            (("--model", "gpt-5"), "'gpt-5' is not the name of a model"),
            (("--program", "red\x1b[31m\x07.json"), r"red\[31m.json"),
            (("--cap-policy", "vlm"), "did you mean 'vllm'"),
        ],
    )
    def test_a_wrong_option_is_named_with_what_would_be_right(
        self, options: tuple[str, ...], said: str
    ) -> None:
        result = solve(*options)
        assert result.exit_code in {USAGE, FAILED}
        assert result.stdout == ""
        assert re.search(said, result.stderr)
        assert "\x1b" not in result.stderr

    def test_a_failed_run_says_why_and_prints_its_report_as_json(self, model: ScriptedChat) -> None:
        model.solve = says_nothing
        result = solve(*PLANNED, "--json")
        assert result.exit_code == FAILED
        assert result.stderr.startswith("pb-graph: No answer, after ")
        report = checked(json.loads(result.stdout))
        assert report["usage"]["output_tokens"] == model.output_tokens > 0


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    names: list[str] = []

    def fetch(name: str, *, rehash: bool = False) -> Path:  # noqa: ARG001 -- as the real one
        names.append(name)
        return tmp_path / f"{name}.gguf"

    monkeypatch.setattr(weights, "fetch", fetch)
    monkeypatch.setattr(weights, "installed", lambda _: None)
    return names


class TestLocalModels:
    def test_models_lists_them_with_their_size_and_whether_they_are_here(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(weights, "installed", lambda name: name == "smollm2-135m")
        rows = {line.split()[0]: line.split() for line in run("models").stdout.splitlines()}
        for name, model in weights.CATALOG.items():
            row = rows[f"local:{name}"]
            assert f"{model.bytes / 2**20:.0f}" in row
            assert ("not" in row) == (name != "smollm2-135m")

    def test_pull_fetches_one_and_says_where(self, fetched: list[str], tmp_path: Path) -> None:
        result = run("pull", "local:smollm2-135m")
        assert (result.exit_code, fetched) == (0, ["smollm2-135m"])
        assert str(tmp_path / "smollm2-135m.gguf") in "".join(result.stdout.splitlines())

    def test_solve_fetches_its_models_before_it_starts(
        self, fetched: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("pb_graph.run.parts.resolve", lambda *_: ScriptedChat())
        options = ("--model", "local:smollm2-135m", "--planner", "local:qwen2.5-coder-1.5b")
        reported(run("solve", "Why?", "--json", *options))
        assert sorted(fetched) == ["qwen2.5-coder-1.5b", "smollm2-135m"]


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """How the server was started; a unit test opens no socket."""
    found: list[dict[str, Any]] = []
    monkeypatch.setattr(uvicorn, "run", lambda app, **given: found.append({"app": app, **given}))
    monkeypatch.delenv("PB_API_KEY", raising=False)
    return found


@pytest.mark.usefixtures("model")
class TestServe:
    def test_others_are_served_with_a_key_only(
        self, started: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert run("serve", *MODEL).exit_code == 0
        assert [(given["host"], given["port"]) for given in started] == [("127.0.0.1", 8000)]
        started.clear()
        everyone = ("serve", *MODEL, "--host", "0.0.0.0")  # noqa: S104 -- that is the point
        refused = run(*everyone)
        assert (refused.exit_code, started) == (USAGE, [])
        assert "PB_API_KEY" in refused.stderr
        monkeypatch.setenv("PB_API_KEY", "secret")
        assert run(*everyone).exit_code == 0


def console(**options: Any) -> Console:  # noqa: ANN401
    return Console(file=io.StringIO(), width=120, **options)


def printed(on: Console) -> str:
    assert isinstance(on.file, io.StringIO)
    return on.file.getvalue()


def shown(model: ScriptedChat, level: int | None = None, **settings: Any) -> tuple[str, Report]:  # noqa: ANN401
    on = console()
    given: Any = QUESTION if level is None else {**QUESTION, "level": level}
    report = asyncio.run(Display(on).follow(graph_of(model, **settings), given))
    return printed(on), report


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines() if line.strip()]


def test_every_step_has_a_row_with_level_credit_share_and_what_it_spent() -> None:
    text, report = shown(ScriptedChat(levels=[2, 5]), budget=300, execution="stepwise")
    assert len(report["steps"]) == 2
    for step in report["steps"]:
        (row,) = [row for row in rows(text) if row[:1] == [str(step["index"] + 1)]]
        numbers = (step["level"], step["credit"], step["share"], step["tokens"])
        assert row[1:-4] == step["question"].split()
        assert row[-4:] == [f"{number:.0f}" for number in numbers if number is not None]
    (total,) = [row for row in rows(text) if row[0] == "all"]
    assert total[1:] == ["300", str(sum(step["tokens"] or 0 for step in report["steps"]))]


@pytest.mark.parametrize(("level", "said"), [(4, "Level 4 of 5 (given)"), (None, "(estimated)")])
def test_the_level_comes_before_the_plan_with_its_source(level: int | None, said: str) -> None:
    text, _ = shown(ScriptedChat(), level)
    assert text.index(said) < text.index("step")


def test_the_result_comes_first_and_its_working_below() -> None:
    text, _ = shown(ScriptedChat(solve="6 * 7 = 42.\nFinal answer: 42"))
    lines = [line.strip() for line in text.splitlines()]
    assert lines.index("42") < lines.index("6 * 7 = 42.") < lines.index("Final answer: 42")


def test_on_a_terminal_the_plan_forms_while_one_waits_and_in_a_pipe_no_code_is_printed() -> None:
    terminal, pipe = console(force_terminal=True), console()
    for on in (terminal, pipe):
        asyncio.run(Display(on).follow(graph_of(ScriptedChat(seconds=0.3)), QUESTION))
    assert printed(terminal).count("What is given?") > 1
    assert printed(pipe).count("What is given?") == 1
    assert "\x1b" not in printed(pipe)


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "_SECONDS", 0)


def words(text: str) -> list[str]:
    return re.sub("[█-▏]", " ", text).split()


def test_only_the_limit_holds_as_the_picture_shows() -> None:
    done = CliRunner().invoke(app, ["demo", "--plain"])
    assert done.exit_code == 0
    rows = [line.split() for line in done.stdout.splitlines() if line.endswith("answer ")]
    spent, over = ([int(row[at].replace(",", "")) for row in rows] for at in (-4, -3))
    assert [tokens > demo.BUDGET for tokens in spent] == [True, True, False]
    assert over == [max(0, tokens - demo.BUDGET) for tokens in spent]
    assert [row[-2] for row in rows] == ["an", "no", "an"]
    drawn = re.findall(r'class="demo-r\d+"[^>]*>([^<]*)<', DEMO.read_text("utf-8"))
    assert words(unescape(" ".join(drawn))) == words(done.stdout)


def test_bars_fill_in_a_terminal_and_the_account_is_the_bill() -> None:
    console = Console(file=StringIO(), force_terminal=True, width=80)
    ours = demo.play(console)[-1]
    guard = ours.middleware[0]
    assert isinstance(guard, TokenBudgetMiddleware)
    assert getattr(guard.budget, "spent", None) == ours.spent
