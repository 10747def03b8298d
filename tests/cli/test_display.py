"""What a person sees of a run, while it goes and at its end."""

from __future__ import annotations

import asyncio
import io
from typing import Any

import pytest
from rich.console import Console

from pb_graph.cli.display import Display
from pb_graph.types import Report
from tests.support.chat_model import ScriptedChat
from tests.support.graphs import QUESTION, graph_of


def console(**options: Any) -> Console:  # noqa: ANN401
    return Console(file=io.StringIO(), width=120, **options)


def printed(on: Console) -> str:
    assert isinstance(on.file, io.StringIO)
    return on.file.getvalue()


def shown(model: ScriptedChat, level: int | None = None, **settings: Any) -> tuple[str, Report]:  # noqa: ANN401
    on = console()
    display = Display(on)
    given: Any = QUESTION if level is None else {**QUESTION, "level": level}
    report = asyncio.run(display.follow(graph_of(model, **settings), given))
    display.close_with(report)
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


def test_the_last_line_sets_what_was_spent_against_the_limit() -> None:
    on = console()
    by_node = {"plan": {"output_tokens": 30}, "answer": {"output_tokens": 1204}}
    usage = {"output_tokens": 1234, "calls": 2, "seconds": 59.74, "by_node": by_node}
    report: dict[str, Any] = {"answer": "42", "result": "42", "warnings": [{"message": "CHANGED"}]}
    Display(on).close_with(report | {"usage": usage | {"measured": False}, "limit": 2000})
    *_, note, last = printed(on).splitlines()
    assert note == "note: CHANGED"
    assert last == (
        "1,234 of at most 2,000 completion tokens (planning 30), partly estimated; 2 calls, 59.7 s"
    )


def test_on_a_terminal_the_plan_forms_while_one_waits_and_in_a_pipe_no_code_is_printed() -> None:
    terminal, pipe = console(force_terminal=True), console()
    for on in (terminal, pipe):
        asyncio.run(Display(on).follow(graph_of(ScriptedChat(seconds=0.3)), QUESTION))
    assert printed(terminal).count("What is given?") > 1
    assert printed(pipe).count("What is given?") == 1
    assert "\x1b" not in printed(pipe)
