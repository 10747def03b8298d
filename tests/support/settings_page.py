"""The page of settings, made of `Settings`: ``python -m tests.support.settings_page`` prints it."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel

from pb_graph.budget.allocation import Schedule
from pb_graph.budget.rules import LevelTable, Limit, PerLevel
from pb_graph.settings import Settings

HEAD = """\
# Settings

This page lists every field of `Settings`. It is generated from the code.

| where | how |
|---|---|
| Python | `build_graph(settings=Settings(…))`, or a mapping |
| one run | `Context(settings=…)` |
| command line | `--set NAME=VALUE`; objects are JSON: `--set 'limit={"usd": 0.02}'` |
| evaluation | `pb-optim eval --methods FILE` with a JSON file of settings |

An unknown or wrong setting in a mapping, a file or an option raises an `InputError` that lists the
choices. `Settings(…)` raises pydantic's `ValidationError`. `Settings.model_json_schema()` is the
machine-readable form of this page.

```python
from pb_graph import Settings

settings = Settings(execution="stepwise", budget=600, schedule="cosine")
print(settings.model_dump_json(exclude_defaults=True))
```
"""
RULES = """
## Rules of the budget

`budget` takes a whole number or one of these rules. In JSON the field `rule` names the rule.

"""
SCHEDULE = """
## Parameters of the schedule

[The budget model](concepts/mathematics.md#the-budget-model) explains c and β, and how to fit them.

"""


def choices(name: str) -> list[str]:
    """Return the names that a setting takes, in order. Empty if the setting takes no names."""
    schema = Settings.model_json_schema()["properties"][name]
    kinds = (schema, *schema.get("anyOf", ()))
    return next((kind["enum"] for kind in kinds if "enum" in kind), [])


def page() -> str:
    """Return the whole page."""
    kinds = (LevelTable, PerLevel)
    rules = [f"### `{rule.__name__}`\n\n{_table(rule)}" for rule in kinds]
    rules.append(
        f"## The limit\n\n`limit` takes a whole number or one of these.\n\n{_table(Limit)}"
    )
    return f"{HEAD}\n{_table(Settings)}{SCHEDULE}{_table(Schedule)}{RULES}" + "\n".join(rules)


def _table(model: type[BaseModel]) -> str:
    rows = ["| name | meaning | default | takes |", "|---|---|---|---|"]
    for name, schema in model.model_json_schema()["properties"].items():
        meaning = " ".join(schema.get("description", "").split()).replace("|", "\\|")
        taken = _taken(model, name, schema)
        rows.append(f"| `{name}` | {meaning} | {_default(model, name)} | {taken} |")
    return "\n".join(rows) + "\n"


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


if __name__ == "__main__":
    print(page(), end="")  # noqa: T201 -- what it is for
