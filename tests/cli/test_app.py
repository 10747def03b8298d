"""``pb-graph`` as a person or a script uses it: what is printed where, and the exit code."""

from __future__ import annotations

import json
import re
import sys
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from pb_graph import Settings
from pb_graph.cli import main
from pb_graph.cli.app import app
from pb_graph.cli.exit import FAILED, INTERRUPTED, USAGE
from pb_graph.errors import UnknownModelError, WeightsError
from pb_graph.local import catalog, weights
from pb_graph.local import server as local
from pb_graph.planner.planner import Planner
from pb_graph.settings import choices
from tests.support.artefacts import artefact
from tests.support.chat_model import HTTPError, ScriptedChat, says_nothing
from tests.support.graphs import checked

MODEL = ("--model", "fake:scripted")
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

    monkeypatch.setattr("pb_graph.run.models.resolve", resolve)
    return models


@pytest.fixture
def model(resolved: dict[str, ScriptedChat]) -> ScriptedChat:
    return resolved.setdefault("fake:scripted", ScriptedChat())


def run(*arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(app, list(arguments), input=stdin)


PLANNED = ("--method", "plan_and_budget")


def solve(*options: str, question: str = "What is 6 * 7?", **given: Any) -> Result:  # noqa: ANN401
    return run("solve", question, *MODEL, *options, **given)


def reported(result: Result) -> Any:  # noqa: ANN401 -- the report, as a script reads it
    """The one JSON document on standard output."""
    assert result.exit_code == 0, result.output
    assert result.stdout.count("\n") == 1
    return checked(json.loads(result.stdout))


class TestHelp:
    @pytest.mark.parametrize(
        ("command", "words"),
        [
            ((), ("solve", "models", "pull")),
            (("solve",), ("--model", "--planner", "--method", "--schedule", "--budget", "--json")),
            (("models",), ("local models",)),
            (("pull",), ("name",)),
        ],
    )
    def test_it_names_what_there_is(
        self, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], words: tuple[str, ...]
    ) -> None:
        monkeypatch.setenv("COLUMNS", "120")
        result = run(*command, "--help")
        assert result.exit_code == 0
        assert all(word in result.stdout for word in words)

    def test_no_command_shows_the_commands(self) -> None:
        result = run()
        assert result.exit_code == USAGE
        assert "solve" in result.output


@pytest.mark.usefixtures("model")
class TestSolve:
    def test_plan_answer_and_account_are_shown(self, model: ScriptedChat) -> None:
        result = solve(*PLANNED)
        assert result.exit_code == 0
        assert result.stderr == ""
        for part in ("What is given?", "Final answer: 42", "completion tokens", "ceiling"):
            assert part in result.stdout
        assert f"{model.output_tokens} completion tokens" in result.stdout

    def test_json_prints_the_report_and_nothing_else(self, model: ScriptedChat) -> None:
        result = solve("--json")
        report = reported(result)
        assert result.stderr == ""
        assert report["answer"] == "Final answer: 42"
        assert report["usage"]["output_tokens"] == model.output_tokens

    def test_options_are_settings(self) -> None:
        report = reported(
            solve(
                "--json",
                *("--method", "plan_and_budget"),
                *("--execution", "single_pass"),
                *("--schedule", "linear"),
                *("--budget", "321"),
                *("--level", "4"),
            )
        )
        assert (report["execution"], report["schedule"]) == ("single_pass", "linear")
        assert (report["budget"], report["level"]) == (321, 4)

    def test_any_other_setting_can_be_set(self) -> None:
        report = reported(
            solve(
                "--json",
                *("--set", "enforcement=cap"),
                *("--set", "max_steps=1"),
                *("--set", 'budget={"rule": "fixed", "tokens": 99}'),
                *("--set", "domain=number theory"),
            )
        )
        assert report["budget"] == 99
        assert len(report["steps"]) == 1

    def test_a_setting_may_hold_an_equals_sign(self, model: ScriptedChat) -> None:
        assert solve(*PLANNED, "--set", "domain=a=b").exit_code == 0
        assert "a=b" in model.calls[0].ask

    def test_the_planner_may_be_another_model(self, resolved: dict[str, ScriptedChat]) -> None:
        reported(solve("--json", "--planner", "fake:planner"))
        assert {call.node for call in resolved["fake:planner"].calls} == {"plan", "estimate"}
        assert {call.node for call in resolved["fake:scripted"].calls} == {"answer"}

    def test_the_model_may_come_from_the_environment(
        self, monkeypatch: pytest.MonkeyPatch, model: ScriptedChat
    ) -> None:
        monkeypatch.setenv("PB_MODEL", "fake:scripted")
        assert run("solve", "Why?", "--json").exit_code == 0
        assert model.calls

    def test_the_question_may_come_from_stdin(self, model: ScriptedChat) -> None:
        reported(solve("--json", question="-", stdin="What is\n7 * 8?\n"))
        assert "What is\n7 * 8?" in model.calls[0].ask

    def test_a_saved_program_plans(self, model: ScriptedChat, tmp_path: Path) -> None:
        planner = Planner()
        signature = planner.decompose.signature.with_instructions("TUNED")
        planner.decompose.signature = signature
        planner.save(tmp_path / "planner.json")
        reported(solve("--json", "--program", str(tmp_path / "planner.json")))
        assert str(model.calls[0].messages[0].text).startswith("TUNED")

    def test_a_tuned_program_brings_its_settings(self, tmp_path: Path) -> None:
        artefact().save(tmp_path / "tuned.json")
        report = reported(solve("--json", "--program", str(tmp_path / "tuned.json")))
        assert (report["schedule"], report["budget"]) == ("linear", 300)

    def test_options_come_over_the_settings_of_a_program(self, tmp_path: Path) -> None:
        artefact().save(tmp_path / "tuned.json")
        program = ("--program", str(tmp_path / "tuned.json"))
        report = reported(
            solve("--json", *program, "--budget", "99", "--set", "execution=single_pass")
        )
        assert (report["schedule"], report["budget"]) == ("linear", 99)
        assert report["execution"] == "single_pass"

    def test_letters_of_any_script_come_out_as_they_are(self, model: ScriptedChat) -> None:
        model.solve = "Antwort: 42 €, ответ, 答え"
        assert "答え" in solve("--json").stdout

    @pytest.mark.parametrize("options", [(), ("--json",)])
    def test_or_as_their_numbers_where_the_terminal_lacks_them(
        self, model: ScriptedChat, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
    ) -> None:
        model.solve = "Antwort: 42 €, 答え"
        terminal = TextIOWrapper(BytesIO(), encoding="cp1252")
        monkeypatch.setattr("sys.stdout", terminal)
        monkeypatch.setattr("sys.argv", ["pb-graph", "solve", "6 * 7?", *MODEL, *options])
        with pytest.raises(SystemExit, match="0"):
            main()
        terminal.flush()
        assert "42 €, \\u7b54\\u3048" in terminal.buffer.getvalue().decode("cp1252")  # type: ignore[attr-defined]

    def test_model_text_is_shown_literally(self, model: ScriptedChat) -> None:
        model.plan = ["[red]x[/red]?", "<script>?"]
        model.solve = HOSTILE
        shown = solve(*PLANNED).stdout
        assert "[red]x[/red]?" in shown
        assert HOSTILE.replace("\x1b", "") in shown
        assert "\x1b" not in shown


@pytest.mark.usefixtures("resolved")
class TestWrongUse:
    @pytest.mark.parametrize(
        ("options", "said"),
        [
            (
                ("--set", "nosuch=1"),
                "unknown setting nosuch; there are: method, style, execution, ",
            ),
            (("--set", "power=99"), "power: Input should be less than or equal to 10"),
            (("--set", "max_steps=0"), "max_steps: Input should be greater than or equal to 1"),
            (("--set", "power"), "--set wants NAME=VALUE, not 'power'"),
            (("--budget", "0"), "budget: .*at least 1"),
            (("--budget", "many"), "--budget"),
            (
                ("--method", "guess"),
                "no method 'guess'; there are: .*vanilla, .*plan_",
            ),
            (("--schedule", "random"), "schedule: .*'cosine'"),
            (("--level", "9"), r"1 .*5"),
            (("--frobnicate",), "--frobnicate"),
        ],
    )
    def test_wrong_options_are_named_with_what_would_be_right(
        self, options: tuple[str, ...], said: str
    ) -> None:
        result = solve(*options)
        assert result.exit_code == USAGE
        assert result.stdout == ""
        assert re.search(said, result.stderr)

    def test_several_faults_are_named_at_once(self) -> None:
        said = solve("--set", "power=99", "--set", "gamma=2").stderr
        assert "power: " in said
        assert "gamma: " in said

    @pytest.mark.parametrize("question", ["", "  \n "])
    def test_an_empty_question_is_wrong_use(self, question: str) -> None:
        result = solve(question=question)
        assert (result.exit_code, result.stdout) == (USAGE, "")
        assert "question is empty" in result.stderr

    def test_no_question_and_unknown_commands_are_wrong_use(self) -> None:
        assert run("solve").exit_code == USAGE
        assert run("frobnicate").exit_code == USAGE


class TestFailure:
    def test_a_failed_run_says_why_and_what_it_cost(self, model: ScriptedChat) -> None:
        model.solve = HTTPError(401, "Incorrect API key provided: sk-0123456789")
        result = solve()
        assert result.exit_code == FAILED
        assert "Traceback" not in result.output
        assert result.stderr.startswith("pb-graph: No answer, after ")
        assert "API key" in result.stderr
        assert "0123456789" not in result.output

    def test_json_still_gives_the_report_so_that_nothing_spent_is_lost(
        self, model: ScriptedChat
    ) -> None:
        model.solve = says_nothing
        result = solve(*PLANNED, "--json")
        assert result.exit_code == FAILED
        report = checked(json.loads(result.stdout))
        assert report["answer"] == ""
        assert report["usage"]["output_tokens"] == model.output_tokens > 0
        assert result.stderr.startswith("pb-graph: ")

    @pytest.mark.usefixtures("resolved")
    @pytest.mark.parametrize("name", ["nosuch:model", "gpt-5"])
    def test_a_model_that_nobody_knows_is_wrong_use(self, name: str) -> None:
        result = run("solve", "Why?", "--model", name)
        assert (result.exit_code, result.stdout) == (USAGE, "")
        assert name in result.stderr

    def test_no_model_at_all_names_the_ways_out(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(local, "default_model", lambda: None)
        result = run("solve", "Why?")
        assert (result.exit_code, result.stdout) == (FAILED, "")
        assert "PB_MODEL" in result.stderr

    @pytest.mark.usefixtures("resolved")
    def test_a_program_that_is_none(self, tmp_path: Path) -> None:
        path = tmp_path / "planner.json"
        path.write_text("{}")
        result = solve("--program", str(path))
        assert (result.exit_code, result.stdout) == (FAILED, "")
        assert "no planner program" in result.stderr

    def test_an_interrupt_leaves_one_line_with_what_was_spent(self, model: ScriptedChat) -> None:
        def interrupt(_: object) -> str:
            raise KeyboardInterrupt

        model.solve = interrupt
        result = solve(*PLANNED, "--json")
        assert (result.exit_code, result.stdout) == (INTERRUPTED, "")
        (line,) = result.stderr.splitlines()
        spent = sum(call.output_tokens for call in model.calls)
        assert line.startswith("pb-graph: interrupted. ")
        assert f"{spent} completion tokens were spent in 2 finished calls" in line


Fetched = list[str]


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Fetched:
    """Names that were fetched, where nothing really is; one of them cannot be had."""
    names: Fetched = []

    def fetch(name: str) -> Path:
        model = catalog.find(name)
        if model.name == "qwen2.5-coder-0.5b":
            msg = "The disk is full."
            raise WeightsError(msg)
        names.append(name)
        return tmp_path / f"{name}.gguf"

    monkeypatch.setattr(weights, "fetch", fetch)
    monkeypatch.setattr(weights, "installed", lambda _: None)
    return names


class TestLocalModels:
    @pytest.mark.usefixtures("fetched")
    def test_models_lists_them(self) -> None:
        result = run("models")
        assert (result.exit_code, result.stderr) == (0, "")
        for name in catalog.CATALOG:
            assert f"local:{name}" in result.stdout

    def test_without_their_extra_they_are_not_listed_but_named(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "platformdirs", None)
        result = run("models")
        assert (result.exit_code, result.stdout) == (FAILED, "")
        assert "plan-and-budget[local]" in "".join(result.stderr.split())

    @pytest.mark.parametrize("name", ["smollm2-135m", "local:smollm2-135m"])
    def test_pull_fetches_and_says_where_it_is(
        self, fetched: Fetched, tmp_path: Path, name: str
    ) -> None:
        result = run("pull", name)
        assert result.exit_code == 0
        assert fetched == ["smollm2-135m"]
        assert str(tmp_path / "smollm2-135m.gguf") in "".join(result.stdout.splitlines())

    @pytest.mark.usefixtures("fetched")
    def test_pull_suggests_a_name_for_an_unknown_one(self) -> None:
        result = run("pull", "smollm2-135")
        assert (result.exit_code, result.stdout) == (USAGE, "")
        assert "did you mean 'smollm2-135m'?" in result.stderr

    @pytest.mark.usefixtures("fetched")
    def test_pull_fails_with_the_reason(self) -> None:
        result = run("pull", "qwen2.5-coder-0.5b")
        assert (result.exit_code, result.stdout) == (FAILED, "")
        assert "The disk is full." in result.stderr

    def test_solve_fetches_what_it_needs_before_it_starts(
        self, fetched: Fetched, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("pb_graph.run.models.resolve", lambda *_: ScriptedChat())
        options = ("--model", "local:smollm2-135m", "--planner", "local:qwen2.5-coder-1.5b")
        reported(run("solve", "Why?", "--json", *options))
        assert sorted(fetched) == ["qwen2.5-coder-1.5b", "smollm2-135m"]

    @pytest.mark.usefixtures("fetched")
    def test_weights_that_cannot_be_had_are_a_failure(self) -> None:
        result = run("solve", "Why?", "--model", "local:qwen2.5-coder-0.5b")
        assert (result.exit_code, result.stdout) == (FAILED, "")
        assert "The disk is full." in result.stderr


def test_the_help_lists_the_names_that_settings_take(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    shown = CliRunner().invoke(app, ["solve", "--help"]).stdout
    names = [*choices("method"), *choices("execution"), *choices("schedule"), "level_examples"]
    assert {name for name in names if name not in shown} == set()


def test_codes_for_a_terminal_are_shown_and_not_sent() -> None:
    said = run("solve", "2 + 2?", "--program", "red\x1b[31m\x07.json")
    assert "red\\x1b[31m\\x07.json" in said.stderr
    assert "\x1b" not in said.stderr
