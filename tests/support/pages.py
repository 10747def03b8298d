"""Pages and pictures that are made of the code: ``python -m tests.support.pages`` writes them.

What no code says is kept as it stands on a page.
"""
# ruff: noqa: ANN401 -- runs of any kind

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from io import StringIO
from typing import Any

from langchain.agents import create_agent
from langchain.chat_models import init_chat_model
from pydantic import BaseModel, create_model
from rich.console import Console

from pb_graph import Settings, TokenBudgetMiddleware, build_graph
from pb_graph.budget.allocation import LevelTable, Limit, PerLevel, Schedule
from pb_graph.cli.demo import draw, play
from pb_graph.models.caps import policy_for
from pb_graph.models.options import CallOptions, Thinking, is_cap
from pb_graph.styles import STYLES
from tests.support.agents import ASK, calls, look_up
from tests.support.chat_model import Reply, ScriptedChat, in_turn, runs_on, with_schema
from tests.support.documents import ROOT
from tests.support.graphs import choices
from tests.support.wire import ROWS

DOCS = ROOT / "docs"


def with_rows(text: str, head: str, *tables: Iterable[Sequence[str]]) -> str:
    """Return a page with these rows in its tables whose heads begin so."""
    left = iter(tables)

    def filled(found: re.Match[str]) -> str:
        return found[1] + "".join(f"\n| {' | '.join(row)} |" for row in next(left))

    table = re.compile(rf"^({re.escape(head)}.*\n\|[-|: ]+)(\n\|.*)*", re.MULTILINE)
    text, count = table.subn(filled, text)
    assert count == len(tables), head
    return text


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


def prompts(text: str) -> str:
    """Return the page of prompts, with everything that is recorded made anew."""
    section = re.compile(r"### ([^\n]+)\n\n([^\n]*?)About [^\n]+\n\n```text\n.*?\n```\n", re.DOTALL)
    assert [found[1] for found in section.finditer(text)] == [*SECTIONS]
    text = section.sub(
        lambda found: f"### {found[1]}\n\n{found[2]}{_record(**SECTIONS[found[1]])}", text
    )
    styles = [
        (f"`{name}`", s.instruction or s.ending or "nothing", f"{len(s.examples)}")
        for name, s in STYLES.items()
    ]
    return with_rows(with_rows(text, "| `style` |", styles), "| when |", _added_by_middleware())


def _record(*, words: str = "", place: int = 0, last: int = 0, **run: Any) -> str:
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


def settings(text: str) -> str:
    """Return the page of settings, with what each field means and takes."""
    kinds = (Settings, Schedule, LevelTable, PerLevel, Limit)
    return with_rows(text, "| name | meaning |", *map(_fields, kinds))


def _fields(model: type[BaseModel]) -> Iterator[Sequence[str]]:
    for name, schema in model.model_json_schema()["properties"].items():
        meaning = " ".join(schema.get("description", "").split()).replace("|", "\\|")
        yield f"`{name}`", meaning, _default(model, name), _taken(model, name, schema)


def _default(model: type[BaseModel], name: str) -> str:
    field = model.model_fields[name]
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if isinstance(value, LevelTable):
        return "by level: " + ", ".join(map(str, value.tokens.values()))
    return f"`{json.dumps(value)}`"


def _taken(model: type[BaseModel], name: str, schema: dict[str, Any]) -> str:
    if name == "method":
        return "[a method](concepts/methods.md)"
    if model is Settings and (named := choices(name)):
        others = ", [with parameters](#parameters-of-the-schedule)" if name == "schedule" else ""
        return ", ".join(f"`{choice}`" for choice in named) + others
    if name == "limit":
        return "a whole number, or [another limit](#the-limit)"
    if name == "budget":
        return "a whole number, or [a rule](#rules-of-the-budget)"
    kinds = [_kind(one) for one in schema.get("anyOf", [schema])]
    return " or ".join(kinds)


def _kind(schema: dict[str, Any]) -> str:
    if "const" in schema:
        return f"`{json.dumps(schema['const'])}`"
    if "enum" in schema:
        return ", ".join(f"`{json.dumps(one)}`" for one in schema["enum"])
    names = {"integer": "whole number", "number": "number", "boolean": "true or false"}
    names |= {"string": "text", "null": "null", "object": "a number for each level, 1 to 5"}
    bounds = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
    limits = [f"{sign} {schema[key]:g}" for key, sign in bounds.items() if key in schema]
    length = [f"at most {schema['maxLength']} characters"] if "maxLength" in schema else []
    return ", ".join([names[schema["type"]], *limits, *length])


CAPS = (300, 2_000, 16_000)
NAMES = (
    "openai:gpt-5-mini",
    "openai:gpt-5.1",
    "openai:o3",
    "anthropic:claude-sonnet-4-5",
    "anthropic:claude-opus-4-5",
    "anthropic:claude-sonnet-5",
    "google_genai:gemini-3.5-flash",
    "google_genai:gemini-3.1-pro-preview",
    "deepseek:deepseek-v4-flash",
    "ollama:qwen3",
    "ollama:gpt-oss",
)


def models(text: str) -> str:
    """Return the page of models, with what each provider is sent for caps and a forced ending."""
    rows = [
        [f"`{name}`", *(_sent(name, cap, "bounded") for cap in CAPS), _sent(name, 48, "off")]
        for name in NAMES
    ]
    return with_rows(text, "| model | cap", rows)


def _sent(name: str, cap: int, thinking: Thinking) -> str:
    model: Any = init_chat_model(name, **({} if name.startswith("ollama") else {"api_key": "none"}))
    sent = policy_for(model)(model, CallOptions(cap, thinking=thinking))
    return ", ".join(f"`{word}`" for word in _words(sent)) or "nothing"


def _words(sent: Mapping[str, Any]) -> Iterator[str]:
    """Yield what the arguments of a call say about thinking."""
    for name, value in sent.items():
        if name in {"extra_body", "output_config", "options"}:
            yield from _words(value)
        elif isinstance(value, dict):
            yield f"{name}: {value['type']}"
        elif name != "timeout" and not is_cap(name):
            yield f"{name}: {value}"


def providers(text: str) -> str:
    """Return the page of providers, with the classes that are driven over the wire."""
    rows = []
    for row in ROWS:
        groups = row.complete, row.filtered, row.unfinished, (*row.counted, *row.odd)
        cells = [", ".join(word or "none" for word in group) or "-" for group in groups]
        rows.append([row.name, f"`{row.cap}`", *cells])
    return with_rows(text, "| class | cap", rows)


MADE: dict[str, Callable[[str], str]] = {
    "prompts.md": prompts,
    "settings.md": settings,
    "models.md": models,
    "recipes/providers.md": providers,
}
"""The pages that are made, and how."""

DEMO = DOCS / "pictures" / "demo.svg"


def demo_picture() -> str:
    """Return the last frame of ``pb-graph demo`` as an SVG without fonts of other sites."""
    console = Console(file=StringIO(), record=True, width=80, force_terminal=True)
    console.print(draw(play(Console(file=StringIO()))))
    drawn = console.export_svg(title="pb-graph demo", unique_id="demo")
    return re.sub(r"@font-face \{.*?\}\s*", "", drawn, flags=re.DOTALL)


if __name__ == "__main__":
    for page, made in MADE.items():
        file = DOCS / page
        file.write_text(made(file.read_text("utf-8")), "utf-8")
    DEMO.write_text(demo_picture(), "utf-8")
