"""TravelPlanner in its sole-planning mode: plan a trip from the tables that come with the query.

The columns are those of osunlp/TravelPlanner. Structured columns are lists and objects, or Python
literals as text, which `ast.literal_eval` reads.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from optim.datasets.dataset import HubSource, Question, Row, content_id, dataset
from pb_graph.errors import InputError

_INSTRUCTION = (
    "Plan the trip that is asked for. Take every flight, drive, restaurant, attraction and "
    "accommodation from the reference, named as it is there, keep within the budget for all "
    "travellers together, and meet each wish of the query. Do not eat twice in the same "
    "restaurant or visit an attraction twice, stay at least the minimum nights of an "
    "accommodation, and end where the trip began."
)
_ANSWER_FORMAT = (
    "Close with the whole plan as plain text. Each day is a block of eight lines, in this order: "
    "'Day' with its number and a colon, then 'Current City:', 'Transportation:', 'Breakfast:', "
    "'Attraction:', 'Lunch:', 'Dinner:' and 'Accommodation:', each followed by its entry. An entry "
    "that is not needed is a single hyphen, such as the accommodation of the last day.\n"
    "Current City: the city, or on a day of travel the word from, the city left, the word to, and "
    "the city reached.\n"
    "Transportation: for a flight 'Flight Number:' with its number, then from which city to which, "
    "'Departure Time:' and 'Arrival Time:'; for a drive 'Self-driving' or 'Taxi', then from which "
    "city to which, duration, distance and cost; all separated by commas.\n"
    "Meals and accommodation: the name, a comma, the city. Attraction: the same for each, with a "
    "semicolon after every one."
)
_LEVELS = {"easy": 1, "medium": 3, "hard": 5}  # as the paper's released code maps them


@dataset(
    "travelplanner",
    domain="travel planning",
    instruction=_INSTRUCTION,
    answer_format=_ANSWER_FORMAT,
    scorer="travelplanner",
    hub=HubSource("osunlp/TravelPlanner", "validation", "validation"),
)
def parse(row: Row) -> Question:
    """Read one row. The metadata holds the fields that the scorer checks, as plain JSON.

    The solver gets the tables of `reference_information` as text. The official test split has only
    queries, so its plans cannot be checked, and its rows are refused.
    """
    query, tables = row.text("query"), _structure(row, "reference_information")
    if not isinstance(tables, list):
        msg = "'reference_information' is not a list of {Description, Content} tables"
        raise InputError(msg)
    level = str(row.get("level")).strip().lower()
    fields: dict[str, Any] = {name: row.text(name) for name in ("org", "dest")}
    fields |= {name: int(float(row.text(name))) for name in ("days", "people_number", "budget")}
    fields["local_constraint"] = {}
    for name in ("local_constraint", "date", "visiting_city_number"):
        if row.get(name):
            fields[name] = _structure(row, name)
    return Question(
        id=row.optional_text("id") or content_id("travelplanner", query),
        question=query,
        level=_LEVELS[level] if level in _LEVELS else row.level(),
        reference="\n\n".join(map(_table_text, tables)),
        metadata=fields | {"reference_information": tables},
    )


def _structure(row: Row, column: str) -> Any:  # noqa: ANN401 - whatever the literal holds
    value = row.get(column)
    if isinstance(value, list | dict):
        return value
    try:
        return ast.literal_eval(row.text(column))
    except (ValueError, SyntaxError, MemoryError, RecursionError) as error:
        msg = f"{column!r} is not a Python literal"
        raise InputError(msg) from error


def _table_text(table: Mapping[str, Any]) -> str:
    """Return a table as text: the column names, then one row per line."""
    content = table["Content"]
    if not isinstance(content, str):
        names = list(dict.fromkeys(name for row in content for name in row))
        lines = [names, *([str(row.get(name, "")) for name in names] for row in content)]
        content = "\n".join(map(" | ".join, lines))
    return f"{table['Description']}\n{content}"
