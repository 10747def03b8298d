"""Reading a travel plan: the prescribed day-by-day text, or JSON day objects. Never evaluated."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, fields
from itertools import islice
from typing import Any

_BOLD = ("**", "__")
_LONGEST_FIELD = 2_000  # characters; searching a hostile megabyte is quadratic
_MOST_JSON_STARTS = 200  # places where a JSON plan may begin; hostile text has thousands
_DAY = re.compile(r"^\W*day\s*(?P<number>\d{1,2})\b", re.IGNORECASE)
_FIELD = re.compile(
    r"^(?P<lead>[\W\d_]*)"  # bullets, numbers, bold, an emoji
    r"(?P<label>current\s+city|transportation|breakfast|attractions?|lunch|dinner|accommodations?)"
    r"\s*(?P<closed>\*\*|__)?\s*:\s*(?P<value>.*)",
    re.IGNORECASE,
)
_ITEM = re.compile(r"^\s*(?:[-*•+]\s+|\d+[.)]\s+)(?P<value>.+)")
_JSON_START = re.compile(r'\[\s*\{|\{\s*"')
_FROM_TO = re.compile(r"\bfrom\s+(.+?)\s+to\s+([^,;:]+)", re.IGNORECASE)


@dataclass(frozen=True)
class Place:
    """A named place in a city, as in "Coco Bambu, Rockford"."""

    name: str
    city: str


@dataclass(frozen=True)
class Day:
    """One day of a plan: each field as written, "" for "-" or nothing, None when it is missing."""

    current_city: str | None = None
    transportation: str | None = None
    breakfast: str | None = None
    attraction: str | None = None
    lunch: str | None = None
    dinner: str | None = None
    accommodation: str | None = None

    @property
    def route(self) -> tuple[str, str] | None:
        """Where the day's journey starts and ends, when "Current City" says "from A to B"."""
        return from_to(self.current_city or "")

    @property
    def cities(self) -> tuple[str, ...]:
        """The cities of the day, in order."""
        return self.route or (city_name(self.current_city or ""),)

    @property
    def meals(self) -> dict[str, str]:
        """The meals that are planned."""
        named = {"breakfast": self.breakfast, "lunch": self.lunch, "dinner": self.dinner}
        return {meal: value for meal, value in named.items() if value}

    @property
    def attractions(self) -> list[str]:
        """The attractions that are planned; separated by ";" in the plan."""
        parts = (part.strip() for part in (self.attraction or "").split(";"))
        return [part for part in parts if part]


FIELDS = tuple(field.name for field in fields(Day))


def read_plan(text: str) -> list[Day] | None:
    """Read the plan in a text, days in order; None when there is none.

    The reading with the most days that name their city wins, and the later one of equals, so
    that neither a draft nor a cost summary "by day" hides the plan.
    """
    readings = [*_plans_in_text(text), *_plans_in_json(text)]
    complete = [sum(day.current_city is not None for day in days) for days in readings]
    best = max(complete, default=0)
    if best == 0:
        return None
    return [days for days, count in zip(readings, complete, strict=True) if count == best][-1]


def place(text: str) -> Place | None:
    """Read "name, city"; the name may have commas itself. None when there is no city."""
    name, comma, city = text.strip().rstrip(".;").rpartition(",")
    name, city = squeezed(name), city_name(city)
    return Place(name, city) if comma and name and city else None


def city_name(text: str) -> str:
    """A city without its state: "Dallas" for "Dallas(Texas)"."""
    return squeezed(text.partition("(")[0].strip(" .;*"))


def squeezed(text: str) -> str:
    r"""A text with single spaces; pandas prints a line break within a name as `\n`."""
    return " ".join(text.replace(r"\n", " ").split())


def from_to(text: str) -> tuple[str, str] | None:
    """The two cities of "… from A to B, …"."""
    found = _FROM_TO.search(text)
    return (city_name(found[1]), city_name(found[2])) if found else None


def _plans_in_text(text: str) -> list[list[Day]]:
    """Every run of "Day 1, Day 2, …" in the text."""
    plans: list[list[dict[str, str]]] = []
    field: str | None = None
    for line in text.splitlines():
        if day := _DAY.match(line):
            field, number = None, int(day["number"])
            if number == 1 or not plans:
                plans.append([{}])
            elif number > len(plans[-1]):  # or else a remark on a day that is being read
                plans[-1].append({})
        elif plans:
            field = _read_line(line, plans[-1][-1], field)
    return [
        [Day(**{name: _clean(value) for name, value in day.items()}) for day in days]
        for days in plans
    ]


def _read_line(line: str, day: dict[str, str], field: str | None) -> str | None:
    """Add a line to its day; returns the field that a list below may continue."""
    if found := _FIELD.match(line):
        field = re.sub(r"\s+", "_", found["label"].lower())
        field = field if field in FIELDS else field.removesuffix("s")
        value = found["value"]
        # "**Lunch:** X" closes its bold after the colon; "**Lunch**: *X*" has closed it before.
        bold = next((mark for mark in _BOLD if found["lead"].rstrip().endswith(mark)), None)
        day[field] = value.removeprefix(bold) if bold and not found["closed"] else value
    elif field == "attraction" and (item := _ITEM.match(line)):
        day[field] = f"{day[field]};{item['value']}"
    elif line.strip():
        return None
    return field


def _clean(value: str) -> str:
    """A field's value without bold marks around it, and "" for "-"."""
    value = value[:_LONGEST_FIELD].strip()
    for mark in _BOLD:
        if len(value) > 2 * len(mark) and value.startswith(mark) and value.endswith(mark):
            value = value[len(mark) : -len(mark)].strip()
    return "" if re.fullmatch(r"[-–—*\s]*|n/?a|none", value, re.IGNORECASE) else value  # noqa: RUF001


def _plans_in_json(text: str) -> list[list[Day]]:
    """Every JSON list of day objects, bare or as the "plan" of an object."""
    decoder = json.JSONDecoder()
    plans: list[list[Day]] = []
    end = 0
    for start in islice(_JSON_START.finditer(text), _MOST_JSON_STARTS):
        if start.start() < end:
            continue
        try:
            value, end = decoder.raw_decode(text, start.start())
        except (ValueError, RecursionError):
            continue
        if days := _days(value):
            plans.append(days)
    return plans


def _days(value: Any) -> list[Day]:  # noqa: ANN401 - JSON of any shape
    if isinstance(value, dict):
        value = value.get("plan", [value])
    if not isinstance(value, list):
        return []
    return [_json_day(day) for day in value if isinstance(day, dict) and day]


def _json_day(day: dict[str, Any]) -> Day:
    found: dict[str, str] = {}
    for key, value in day.items():
        name = re.sub(r"[\s-]+", "_", key.strip().lower())
        name = name if name in FIELDS else name.removesuffix("s")
        if name in FIELDS:
            found[name] = _clean(_json_text(value))
    return Day(**found)


def _json_text(value: Any) -> str:  # noqa: ANN401 - JSON of any shape
    if isinstance(value, list):
        return ";".join(map(_json_text, value))
    if isinstance(value, dict):
        return ", ".join(str(value[key]) for key in ("name", "city") if key in value)
    return "" if value is None else str(value)
