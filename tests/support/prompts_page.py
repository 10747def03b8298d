"""The page of prompts, recorded from runs: ``python -m tests.support.prompts_page`` prints it.

What is not recorded is kept as it stands on the page, so that no output goes right onto it.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

from langchain.agents import create_agent
from pydantic import create_model

from pb_graph import Settings, TokenBudgetMiddleware, build_graph
from pb_graph.styles import STYLES
from tests.support.agents import ASK, calls, look_up
from tests.support.chat_model import Reply, ScriptedChat, in_turn, runs_on, with_schema
from tests.support.documents import ROOT

PAGE = ROOT / "docs" / "prompts.md"
RUN = json.loads((ROOT / "tests" / "golden" / "run.json").read_text("utf-8"))
"""The planned run of the front page, which the scripted model repeats."""
BAKER = (
    "A baker fills 14 trays with 12 rolls each and sells 95 rolls in the morning. How many bags of "
    "8 rolls can be packed with the rest?"
)
TALK = {
    "messages": [("ai", "14 trays hold 168 rolls."), ("human", BAKER)],
    "reference": "A bag costs 10 cents.",
}
JUDGED = {"plan_from": 4}
PLANNED = {"plan_from": 1}
STEPWISE = PLANNED | {"execution": "stepwise"}
TWO_CALL = STEPWISE | {"planning": "two_call"}
TOLD = {"method": "planned_global_budget"}
PAPER = Settings.paper(schedule="weighted").set_fields()
BOXED = {"answer_format": r"Put the final answer into \boxed{}."}
PLAN, DUMB = "Plan how to", "I cannot say."
# The sections of the page, and what `_record` takes for each.
SECTIONS: dict[str, dict[str, Any]] = {
    "The level": {"words": "from L1", "settings": JUDGED},
    "The level as JSON": {"words": '"level": <level', "planner": DUMB, "settings": JUDGED},
    "The plan": {"words": PLAN, "settings": PLANNED},
    "The second ask": {"words": PLAN, "place": 1, "last": 1, "settings": PLANNED, "planner": DUMB},
    "The plan alone": {"words": PLAN, "settings": TWO_CALL},
    "Levels and credits": {"words": "its parts are", "settings": TWO_CALL},
    "A problem in a conversation": {
        "words": "from L1",
        "last": 1,
        "given": TALK,
        "settings": JUDGED,
    },
    "A question of one step": {},
    "A calculation": {"given": {"domain": "arithmetic"}},
    "A draft": {"settings": {"style": "draft"}},
    "Concise steps": {"given": {"domain": "mathematics"}},
    "The answer alone": {"given": {"domain": "instruction following"}},
    "A question with a plan": {"settings": PLANNED},
    "A calculation with a plan": {"settings": PLANNED, "given": {"domain": "arithmetic"}},
    "A step of its own": {"place": 1, "settings": STEPWISE},
    "The closing call": {"place": 2, "settings": STEPWISE | {"synthesis": "call"}},
    "A question in a conversation": {"last": 1, "given": TALK},
    "A typed answer": {"response_format": create_model("Answer", bags=int)},
    "An answer that was cut off": {"place": 1, "last": 2, "settings": {"budget": 64}, "is_cut": 1},
    "A step that was cut off": {"place": 1, "last": 1, "settings": STEPWISE, "is_cut": 1},
    "An answer without its box": {"place": 1, "last": 1, "given": BOXED},
    "The plain prompt": {"settings": {"method": "vanilla"}},
    "A stated total": {"last": 1, "settings": {"method": "global_budget"}},
    "A stated total with a plan": {"last": 1, "settings": PLANNED | TOLD},
    "Shares as the paper states them": {"settings": PAPER},
}


def page() -> str:
    """Return the page as it is, with everything that is recorded made anew."""
    section = re.compile(r"### ([^\n]+)\n\n([^\n]*?)About [^\n]+\n\n```text\n.*?\n```\n", re.DOTALL)
    text = PAGE.read_text("utf-8")
    assert [found[1] for found in section.finditer(text)] == [*SECTIONS]
    text = section.sub(
        lambda found: f"### {found[1]}\n\n{found[2]}{_record(**SECTIONS[found[1]])}", text
    )
    styles = [
        (f"`{name}`", s.instruction or s.ending or "nothing", f"{len(s.examples)}")
        for name, s in STYLES.items()
    ]
    for head, rows in (("| `style` |", styles), ("| when |", _added_by_middleware())):
        before, table = text.split(head)
        first, rule, *_ = table.splitlines()
        rest = table.partition("\n\n")[2]
        lines = [f"{head}{first}", rule, *(f"| {' | '.join(row)} |" for row in rows)]
        text = before + "\n".join(lines) + "\n" + (f"\n{rest}" if rest else "")
    return text


def _record(*, words: str = "", place: int = 0, last: int = 0, **run: Any) -> str:  # noqa: ANN401
    """Return the size and the `last` messages (0: all) of a call of a run.

    The call is the one at `place` among the solver's, or those with `words` in the system message.
    """
    steps = RUN["steps"]
    said = [Reply(s["answer"], s["tokens"] - len(s["answer"].split())) for s in steps]
    model = ScriptedChat(
        plan=[f"{step['question']} | {step['hint']}" for step in steps],
        level=f"L{RUN['level']}",
        levels=[step["level"] for step in steps],
        credits=[step["credit"] for step in steps],
        planner=run.get("planner"),
        solve=runs_on if "is_cut" in run else in_turn(*said),
    )
    given: Any = run.get("given", {})
    asked = given if "messages" in given else {"question": BAKER, **given}
    options = {
        "model_class": "small",
        "cap_policy": with_schema,
        "response_format": run.get("response_format"),
    }
    build_graph(model, settings=Settings(**run.get("settings", {})), **options).invoke(asked)
    made = [call for call in model.calls if words in str(call.messages[0].text)]
    call = (made if words else model.solving())[place]
    texts = [f"[{message.type}] {message.text}" for message in call.messages]
    size = round(sum(len(str(message.text)) for message in call.messages) / 4, -1)
    lengths = f"About {size:.0f} tokens of prompt, at most {call.cap} of reply."
    return lengths + "\n\n```text\n" + "\n\n".join(texts[-last:]) + "\n```\n"


def _added_by_middleware() -> list[tuple[str, str, str]]:
    look = calls("look_up", word="pen")
    runs = [(look, replace(look, reasoning=800), "so " * 999, "9"), (Reply(reasoning=999), "9")]
    models = [ScriptedChat(solve=in_turn(*said)) for said in runs]
    for model in models:
        create_agent(model, [look_up], middleware=[TokenBudgetMiddleware(1000)]).invoke(ASK)
    long, short = (model.calls for model in models)
    notes = [call.ask.rpartition("\n")[2] for call in (long[1], long[2], long[3], short[1])]
    places = [
        ("after a round of tools", "the last tool's result"),
        ("a fifth is left", "the last tool's result"),
        ("an answer was cut off", "a message, after what was written"),
        ("only the reserve is left", "the last message"),
    ]
    return [(*place, note) for place, note in zip(places, notes, strict=True)]


if __name__ == "__main__":
    print(page(), end="")  # noqa: T201 -- what it is for
