"""The page of prompts, recorded from runs: ``python -m tests.support.prompts_page`` prints it.

What is not recorded is kept as it stands on the page, so that no output goes right onto it.
"""

from __future__ import annotations

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

STEPWISE = {"execution": "stepwise", "synthesis": "call"}
TWO_CALL = {"planning": "two_call"}
# Title, when the call is made, the words of its system message or its place among the solver's
# calls, the level of the question, and the settings.
CALLS: dict[str, list[tuple[str, str, str | int, int, dict[str, Any]]]] = {
    "The planner": [
        ("The level", "The first call, unless you give a level.", "from L1", 4, {}),
        ("The plan", "For questions of level `plan_from` or above.", "Plan how to solve", 4, {}),
        ("The plan alone", '`planning="two_call"`.', "Plan how to solve", 4, TWO_CALL),
        (
            *("Levels and credits", 'With `planning="two_call"`, for a plan of two or more steps.'),
            *("its sub-questions are", 4, TWO_CALL),
        ),
    ],
    "The solver": [
        ("A question of one step", "Below the level `plan_from`.", 0, 3, {}),
        ("A question with a plan", '`execution="single_pass"`, the default.', 0, 4, {}),
        (
            *("A step of its own", '`execution="stepwise"`; the second step is shown.', 1, 4),
            STEPWISE,
        ),
        ("The closing call", '`synthesis="call"`.', 2, 4, STEPWISE),
        (
            "An answer that was cut off",
            "Its prompt, with what was written so far, and this question for the result.",
            *(1, 3, {}),
        ),
        ("The plain prompt", '`method="vanilla"`, the baseline.', 0, 3, {"method": "vanilla"}),
    ],
}


def page() -> str:
    """Return the page as it is, with everything that is recorded made anew."""
    head, rest = PAGE.read_text("utf-8").split("## The planner\n")
    styles, rest = rest.split("## The styles\n")[1].split("| `style` |")
    words = rest.split("|\n\n", 1)[1].rpartition("```text\n")[0]
    recorded = ""
    for heading, calls in CALLS.items():
        recorded += f"## {heading}\n\n" + "".join(_recorded(*call) for call in calls)
    return f"{head}{recorded}## The styles\n{styles}{_styles()}\n\n{words}```text\n{FINISH}\n```\n"


def _recorded(title: str, when: str, which: str | int, level: int, settings: dict[str, Any]) -> str:
    """Return the section of a call."""
    is_cut = title == "An answer that was cut off"
    model = ScriptedChat(
        plan=_PLAN,
        level=f"L{level}",
        levels=[2, 2],
        credits=[60, 40],
        solve=_runs_on if is_cut else in_turn(_STEP, _LAST),
    )
    graph = build_graph(model, settings=Settings(**settings), cap_policy=with_schema)
    graph.invoke({"question": BAKER})
    if isinstance(which, int):
        call = model.solving()[which]
    else:
        call = next(call for call in model.calls if which in str(call.messages[0].text))
    texts = [f"[{message.type}]\n{message.text}" for message in call.messages]
    size = round(sum(len(str(message.text)) for message in call.messages) / 4, -1)
    shown = "\n\n".join(texts[-2:] if is_cut else texts)
    lengths = f"About {size:.0f} tokens of prompt, at most {call.cap} of reply."
    return f"### {title}\n\n{when} {lengths}\n\n```text\n{shown}\n```\n\n"


def _runs_on(call: Call) -> str:
    return "Final answer: 9" if call.forced else f"{_STEP} " * 999


def _styles() -> str:
    rows = [
        f"| `{name}` | {style.instruction or style.ending} | {len(style.examples)} |"
        for name, style in STYLES.items()
    ]
    return "\n".join(["| `style` | what the solver is told | examples |\n|---|---|---|", *rows])


if __name__ == "__main__":
    print(page(), end="")  # noqa: T201 -- what it is for
