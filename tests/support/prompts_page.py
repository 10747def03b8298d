"""The page of prompts, recorded from runs: ``python -m tests.support.prompts_page`` prints it.

What is not recorded is kept as it stands on the page, so that no output goes right onto it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pb_graph import Settings, build_graph
from pb_graph.agents.budgeted_request import FINISH
from pb_graph.prompts import STYLES
from tests.support.chat_model import Call, ScriptedChat, in_turn, with_schema

PAGE = Path(__file__).parents[2] / "docs" / "prompts.md"
BAKER = (
    "A baker fills 14 trays with 12 rolls each and sells 95 rolls in the morning. How many bags of "
    "8 rolls can be packed with the rest?"
)
_PLAN = (
    "How many rolls are left after the morning? | subtract what is sold",
    "How many bags of 8 rolls can be packed with them? | divide",
)
_STEP = "1. Rolls left: 14 * 12 - 95 = 73."
_LAST = "1. Bags: 73 / 8 = 9, and 1 roll is left.\nFinal answer: 9"


def page() -> str:
    """Return the page as it is, with everything that is recorded made anew."""
    head, rest = PAGE.read_text("utf-8").split("## The planner\n")
    styles, rest = rest.split("## The styles\n")[1].split("| `style` |")
    words = rest.split("|\n\n", 1)[1].rpartition("```text\n")[0]
    recorded = "\n".join(_sections())
    return (
        f"{head}{recorded}\n## The styles\n{styles}{_styles()}\n\n{words}```text\n{FINISH}\n```\n"
    )


def _sections() -> Iterator[str]:
    yield "## The planner\n"
    yield from _recorded(
        ("The level", "It is asked first, where you give no level.", _asks("from L1")),
        ("The plan", "From the level `plan_from` on.", _asks("Plan how to solve")),
        (
            "Levels and credits",
            "For a plan of two steps or more.",
            _asks("a problem and its sub-questions"),
        ),
        level=4,
    )
    yield from _recorded(
        ("Both at once", '`planning="fused"`, in place of the two above.', _asks("Plan how")),
        level=4,
        planning="fused",
    )
    yield "## The solver\n"
    yield from _recorded(
        ("A question of one step", "Below the level `plan_from`.", _solves(0)),
        level=3,
    )
    yield from _recorded(
        ("A question with a plan", '`execution="single_pass"`, the default.', _solves(0)),
        level=4,
    )
    yield from _recorded(
        ("A step of its own", '`execution="stepwise"`; the second step is shown.', _solves(1)),
        ("The closing call", '`synthesis="call"`.', _solves(2)),
        level=4,
        execution="stepwise",
        synthesis="call",
    )
    yield from _recorded(
        (
            "An answer that was cut off",
            "Its prompt, with what was written so far, and this question for the result.",
            _solves(1),
        ),
        last=2,
        level=3,
        runs_on=True,
    )
    yield from _recorded(
        ("The plain prompt", '`method="vanilla"`, the baseline.', _solves(0)),
        method="vanilla",
    )


def _recorded(
    *wanted: tuple[str, str, Callable[[list[Call]], Call]],
    level: int = 3,
    last: int = 0,
    runs_on: bool = False,
    **settings: Any,  # noqa: ANN401
) -> Iterator[str]:
    """Run one question, and yield the wanted calls: title, when the call is made, which it is."""
    model = ScriptedChat(
        plan=_PLAN,
        level=f"L{level}" if settings.get("planning") != "fused" else level,
        levels=[2, 2],
        credits=[60, 40],
        solve=_runs_on if runs_on else in_turn(_STEP, _LAST),
    )
    graph = build_graph(model, settings=Settings(**settings), cap_policy=with_schema)
    graph.invoke({"question": BAKER})
    for title, when, choose in wanted:
        call = choose(model.calls)
        messages = call.messages[-last:]
        size = round(sum(len(str(message.text)) for message in call.messages) / 4, -1)
        lengths = f"About {size:.0f} tokens of prompt, at most {call.cap} of reply."
        yield f"### {title}\n\n{when} {lengths}\n"
        yield "```text\n" + "\n\n".join(map(_message, messages)) + "\n```\n"


def _runs_on(call: Call) -> str:
    return "Final answer: 9" if call.forced else f"{_STEP} " * 999


def _message(message: Any) -> str:  # noqa: ANN401
    text = str(message.text)
    if len(text) > 2000:
        text = f"{text[:33]} …"
    return f"[{message.type}]\n{text}"


def _asks(words: str) -> Callable[[list[Call]], Call]:
    return lambda calls: next(call for call in calls if words in str(call.messages[0].text))


def _solves(place: int) -> Callable[[list[Call]], Call]:
    return lambda calls: [call for call in calls if call.role == "solve"][place]


def _styles() -> str:
    rows = [
        f"| `{name}` | {style.instruction or style.ending} | {len(style.examples)} |"
        for name, style in STYLES.items()
    ]
    return "\n".join(["| `style` | what the solver is told | examples |\n|---|---|---|", *rows])


if __name__ == "__main__":
    print(page(), end="")  # noqa: T201 -- what it is for
