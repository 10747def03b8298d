"""What a person sees of a run, and that a model's text is never more than text."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from pb_graph.cli.display import Display, account, print_models
from pb_graph.local import catalog, weights
from pb_graph.types import Report
from tests.support.chat_model import ScriptedChat
from tests.support.graphs import QUESTION, graph_of

HOSTILE = "[red]x[/red] <script> [/] :smile: \x1b[2J\x1b]52;c;aGk=\x07"
SHOWN = "[red]x[/red] <script> [/] :smile: [2J]52;c;aGk="


def console(**options: Any) -> Console:  # noqa: ANN401
    return Console(file=io.StringIO(), width=120, **options)


def printed(on: Console) -> str:
    assert isinstance(on.file, io.StringIO)
    return on.file.getvalue()


def followed(display: Display, model: ScriptedChat, **settings: Any) -> Report:  # noqa: ANN401
    """Show a whole run, as the command line does."""
    state: dict[str, Any] = {}
    graph = graph_of(model, **settings)
    with display:
        for mode, part in graph.stream(QUESTION, stream_mode=["custom", "values"]):
            if mode == "custom":
                display.show(part)
            else:
                state.update(part)
    report: Report = state["report"]
    return report


def shown(model: ScriptedChat, **settings: Any) -> tuple[str, Report]:  # noqa: ANN401
    on = console()
    display = Display(on)
    report = followed(display, model, **settings)
    display.close_with(report)
    return printed(on), report


def test_every_step_is_shown_with_level_budget_and_what_it_spent() -> None:
    text, report = shown(ScriptedChat(levels=[2, 5]), budget=300, execution="stepwise")
    rows = [line.split() for line in text.splitlines()]
    for step in report["steps"]:
        (row,) = [row for row in rows if row[:1] == [str(step["index"] + 1)]]
        assert step["question"].split() == row[1:-4]
        assert row[-4:] == [
            str(step["level"]),
            str(step["budget"]),
            str(step["tokens"]),
            f"({step['finish']})",
        ]


def test_of_a_single_call_nobody_can_tell_what_a_sub_question_took() -> None:
    text, report = shown(ScriptedChat(levels=[2, 5]), budget=300, execution="single_pass")
    rows = [line.split() for line in text.splitlines()]
    assert rows[0] == ["#", "sub-question", "level", "budget"]
    for step, row in zip(report["steps"], rows[1:], strict=False):
        assert row[-2:] == [str(step["level"]), str(step["budget"])]


def test_the_answer_and_its_account_come_last() -> None:
    text, report = shown(ScriptedChat(solve="Final answer: 42"))
    usage = report["usage"]
    assert text.index("What is given?") < text.index("Final answer: 42")
    last = text.splitlines()[-1]
    assert last.startswith(f"{usage['output_tokens']} completion tokens")
    assert f"{usage['by_node']['plan']['output_tokens']} plan" in last
    assert f"ceiling {report['ceiling']}" in last
    assert f"{usage['calls']} calls" in last


def test_what_was_corrected_is_shown() -> None:
    text, report = shown(ScriptedChat(credits=[40, 40]))
    assert report["warnings"]
    assert "note: estimate: the credits summed to 80" in text


def test_estimated_tokens_are_said_to_be_estimated() -> None:
    _, report = shown(ScriptedChat(reports_usage=False))
    assert "partly estimated" in account(report).plain
    _, report = shown(ScriptedChat())
    assert "estimated" not in account(report).plain


def test_without_a_plan_there_is_no_table() -> None:
    text, _ = shown(ScriptedChat(), method="vanilla")
    assert "sub-question" not in text
    assert "Final answer: 42" in text


def test_model_text_is_text_not_markup_nor_control_codes() -> None:
    text, _ = shown(ScriptedChat(plan=["[red]x[/red]? | [bold]", "<script>?"], solve=HOSTILE))
    assert "[red]x[/red]?" in text
    assert "<script>?" in text
    assert SHOWN in text
    assert "\x1b" not in text
    assert "\x07" not in text


def test_an_answer_keeps_its_lines() -> None:
    text, _ = shown(ScriptedChat(solve="one\n\ttwo"), method="vanilla")
    assert any("one" in line and "two" not in line for line in text.splitlines())


def test_on_a_terminal_the_plan_forms_while_one_waits() -> None:
    on = console(force_terminal=True)
    followed(Display(on), ScriptedChat(seconds=0.3))
    text = printed(on)
    assert "Solving" in text
    assert "completion tokens" in text


def test_spending_is_counted_call_by_call_even_in_silence() -> None:
    on = console(quiet=True)
    display = Display(on)
    assert display.spent().startswith("0 completion tokens")
    model = ScriptedChat()
    followed(display, model)
    assert f"{model.output_tokens} completion tokens" in display.spent()
    assert f"{len(model.calls)} finished calls" in display.spent()
    assert printed(on) == ""


def test_a_run_that_breaks_off_leaves_the_plan_and_no_spinner() -> None:
    on = console()
    display = Display(on)
    event = {"event": "plan", "steps": [{"index": 0, "question": "First?", "level": None}]}

    def interrupted() -> None:
        with display:
            display.show(event)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert "First?" in printed(on)


def test_models_are_listed_with_their_size_and_whether_they_are_here(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        weights, "installed", lambda name: "/somewhere" if name == "smollm2-135m" else None
    )
    on = console()
    print_models(on)
    rows = {line.split()[0]: line.split() for line in printed(on).splitlines()}
    for name, model in catalog.CATALOG.items():
        row = rows[f"local:{name}"]
        assert f"{model.bytes / 2**20:.0f}" in row
        assert row[-1] == ("yes" if name == "smollm2-135m" else "no")
