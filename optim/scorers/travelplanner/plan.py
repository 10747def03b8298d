"""Read a travel plan from the prescribed day-by-day text, or from the authors' list of days."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields

from json_repair import repair_json

_MAX_FIELD = 2_000  # characters; searching a hostile megabyte is quadratic
_DAY = re.compile(r"^\W*day\s*:?\s*(?P<number>\d{1,2})\b", re.IGNORECASE)
_FIELD = re.compile(
    r"^[\W\d_]*"  # bullets, numbers, an emoji
    r"(?P<label>current\s+city|transportation|breakfast|attractions?|lunch|dinner|accommodations?)"
    r"\s*:\s*(?P<value>.*)",
    re.IGNORECASE,
)
_IN_ONE_LINE = re.compile(  # "Day 1: Current City: Rome; Transportation: -; Breakfast: -; …"
    r"(?:[;|]|(?<=\d:))[ \t]*(?=(?:day \d{1,2}|current city|transportation|breakfast|attractions?"
    r"|lunch|dinner|accommodations?)[ \t]*:)",
    re.IGNORECASE,
)
_ITEM = re.compile(r"^\s*(?:[-*•+]\s+|\d+[.)]\s+)(?P<value>.+)")
_NEEDED = r"(?:applicable|needed|required|necessary|included|planned|scheduled|booked|specified)"
_THING = "accommodation|lodging|hotel|stay|meal|breakfast|lunch|dinner|attractions?|transportation"
_EMPTY = re.compile(  # "-", "N/A", "Not applicable", "No accommodation needed (departure)"
    rf"(?:[-\u2012-\u2015*\s.]*|n\.?\s?/?\s?a\.?|(?:none|nothing|not)\s+{_NEEDED}|nil|none|nothing"
    rf"|no\s+(?:{_THING})(?:\s+(?:is\s+)?{_NEEDED})?|unnecessary)\s*[,.]?"
    r"\s*(?:\([^()]*\)|(?<!\w)(?:as|since|because|for|on|due|today|that|this)\b.*)?\.?",
    re.IGNORECASE,
)
_MAX_LISTED = 20_000  # characters of a plan as a list of days
_LISTED = re.compile(r"\[\s*\{.*\}\s*\]", re.DOTALL)
FLIGHT_NUMBER = re.compile(r"\bF\d{4,}\b")
_FROM_TO = re.compile(r"\bfrom\s+(.+?)\s+to\s+([^,;:]+)", re.IGNORECASE)


@dataclass(frozen=True)
class Day:
    """The texts of a day's fields: "" for an empty one, such as "-", None for a missing one."""

    current_city: str | None = None
    transportation: str | None = None
    breakfast: str | None = None
    attraction: str | None = None
    lunch: str | None = None
    dinner: str | None = None
    accommodation: str | None = None

    @property
    def route(self) -> tuple[str, str] | None:
        """Start and end of the day's journey if "Current City" is "from A to B", else None."""
        return from_to(self.current_city or "")

    @property
    def cities(self) -> tuple[str, ...]:
        """The cities of the day, in order."""
        return self.route or (city_name(self.current_city or ""),)

    @property
    def mode(self) -> str | None:
        """The means of transport: "flight", "self-driving", "taxi", or None for any other."""
        text = self.transportation or ""
        if FLIGHT_NUMBER.search(text) or "flight number" in text.lower():
            return "flight"
        return next((m for m in ("self-driving", "taxi", "flight") if m in text.lower()), None)

    @property
    def meals(self) -> list[str]:
        """The restaurants that are planned."""
        return [meal for meal in (self.breakfast, self.lunch, self.dinner) if meal]

    @property
    def attractions(self) -> list[str]:
        """The attractions that are planned; separated by ";" in the plan."""
        parts = (part.strip() for part in (self.attraction or "").split(";"))
        return [part for part in parts if not _EMPTY.fullmatch(part)]

    @property
    def places(self) -> list[tuple[str, str]]:
        """Kind and text of every place that is planned."""
        places = [("restaurants", meal) for meal in self.meals]
        places += [("attractions", attraction) for attraction in self.attractions]
        return places + ([("accommodations", self.accommodation)] if self.accommodation else [])


FIELDS = tuple(field.name for field in fields(Day))


def read_plan(text: str) -> list[Day] | None:
    """Return the days of the plan in a text, or None if there is no plan.

    A text may hold drafts and summaries by day, too. The plan is the run of days in which most
    days name their city, and the later one of equals.
    """

    def cities(days: list[Day]) -> int:
        return sum(day.current_city is not None for day in days)

    plans = _plans_in(text) or [_listed_days(text)]
    best = max(reversed(plans), key=cities, default=[])
    return best if cities(best) else None


def place(text: str) -> tuple[str, str] | None:
    """Return name and city of "Coco Bambu, Rockford", or None; the name may have commas itself."""
    name, _, city = text.strip().rstrip(".;").rpartition(",")
    name, city = squeezed(name), city_name(city)
    return (name, city) if name and city else None


def city_name(text: str) -> str:
    """Return a city without its state: "Dallas" for "Dallas(Texas)"."""
    return squeezed(text.partition("(")[0].strip(" .;*"))


def squeezed(text: str) -> str:
    r"""Return a text with single spaces. pandas prints a line break in a name as `\n`."""
    return " ".join(text.replace(r"\n", " ").split())


def from_to(text: str) -> tuple[str, str] | None:
    """Return the two cities of "… from A to B, …", or None."""
    match = _FROM_TO.search(text)
    return (city_name(match[1]), city_name(match[2])) if match else None


def _plans_in(text: str) -> list[list[Day]]:
    """Return every run of "Day 1, Day 2, …" in the text, without bold marks."""
    plans: list[list[dict[str, str]]] = []
    field: str | None = None
    plain = _IN_ONE_LINE.sub("\n", text.replace("**", "").replace("__", ""))
    for line in plain.splitlines():
        if day := _DAY.match(line):
            field, number = None, int(day["number"])
            if number == 1 or not plans:
                plans.append([{}])
            elif number > len(plans[-1]):  # a lower number is a remark
                plans[-1].append({})
        elif plans:
            field = _read_line(line, plans[-1][-1], field)
    return [[_day(day) for day in days] for days in plans]


def _listed_days(text: str) -> list[Day]:
    """Return the days of a list of objects, as in the submissions to TravelPlanner."""
    listed = _LISTED.search(text[:_MAX_LISTED])
    days = repair_json(listed[0], return_objects=True) if listed else []
    return [
        _day({name: str(day.get(name) or "-") for name in FIELDS})
        for day in (days if isinstance(days, list) else [])
        if isinstance(day, dict) and day.get("current_city")
    ]


def _read_line(line: str, day: dict[str, str], field: str | None) -> str | None:
    """Add a line to its day, and return the field that the next line may continue as a list."""
    if match := _FIELD.match(line):
        field = re.sub(r"\s+", "_", match["label"].lower())
        field = field if field in FIELDS else field.removesuffix("s")  # "attractions"
        day[field] = match["value"]
    elif field == "attraction" and (item := _ITEM.match(line)):
        day[field] = f"{day[field]};{item['value']}"
    elif line.strip():
        return None
    return field


def _day(fields: dict[str, str]) -> Day:
    """Return a day with these fields, and "" for "-"."""
    values = {name: text[:_MAX_FIELD].strip().rstrip("; ") for name, text in fields.items()}
    return Day(**{name: "" if _EMPTY.fullmatch(text) else text for name, text in values.items()})
