"""Read the query and the tables of a TravelPlanner item, and compute the cost of a plan."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from optim.scorers.travelplanner.plan import Day, Place, city_name, from_to, place, squeezed

Row = Mapping[str, Any]
Mode = Literal["flight", "self-driving", "taxi"]

_COLUMNS = {
    "attractions": ("Name", "Latitude", "Longitude", "Address", "Phone", "Website", "City"),
    "restaurants": ("Name", "Average Cost", "Cuisines", "Aggregate Rating", "City"),
    "accommodations": (
        "NAME", "price", "room type", "house_rules", "minimum nights", "maximum occupancy",
        "review rate number", "city",
    ),
    "flights": (
        "Flight Number", "Price", "DepTime", "ArrTime", "ActualElapsedTime", "FlightDate",
        "OriginCityName", "DestCityName", "Distance",
    ),
}  # fmt: skip
_PLACES = re.compile(r"(?P<kind>attractions|restaurants|accommodations) in ", re.IGNORECASE)
_DRIVE = re.compile(r"(?P<mode>self-driving|taxi) from (?P<start>.+) to (?P<end>.+)", re.IGNORECASE)
_COST = re.compile(r"cost:\s*\$?(?P<cost>[\d,]+(?:\.\d+)?)", re.IGNORECASE)
_FLIGHT_NUMBER = re.compile(r"\bF\d{4,}\b")
_SEATS = {"self-driving": 5, "taxi": 4}


@dataclass(frozen=True)
class Query:
    """The travellers' request."""

    origin: str  # where the trip starts and ends
    days: int
    people: int
    budget: float  # dollars for all of them
    cities: int  # to visit
    constraints: Mapping[str, Any]  # "house rule", "cuisine", "room type", "transportation"

    @classmethod
    def from_metadata(cls, metadata: Mapping[str, Any]) -> Query:
        """Read the data set's own fields."""
        days = int(metadata["days"])
        wishes: Mapping[str, Any] = metadata.get("local_constraint") or {}
        return cls(
            origin=str(metadata["org"]),
            days=days,
            people=int(metadata["people_number"]),
            budget=float(metadata["budget"]),
            # 3, 5 and 7 days visit 1, 2 and 3 cities throughout the data set.
            cities=int(metadata.get("visiting_city_number") or max(1, (days - 1) // 2)),
            constraints={name: wish for name, wish in wishes.items() if wish},
        )


@dataclass(frozen=True)
class Trip:
    """The sandbox of one item.

    A drive that is listed in one direction has the same price in the other. A price of None says
    that there is no such drive.
    """

    places: Mapping[tuple[str, str], list[Row]]  # rows by kind and city
    flights: Mapping[str, Row]  # by flight number
    drives: Mapping[tuple[str, str, str], float | None]  # dollars for a car by mode, start and end

    @classmethod
    def from_reference(cls, reference: Sequence[Mapping[str, Any]]) -> Trip:
        """Read the {Description, Content} tables of an item. Tables are texts or lists of rows."""
        places: dict[tuple[str, str], list[Row]] = defaultdict(list)
        flights: dict[str, Row] = {}
        drives: dict[tuple[str, str, str], float | None] = {}
        for section in reference:
            description, content = section["Description"], section["Content"]
            if match := _PLACES.match(description):
                kind = match["kind"].lower()
                for row in _rows(kind, content):
                    city = str(row.get("City", row.get("city", "")))
                    places[kind, city_name(city)].append(row)
            elif description.lower().startswith("flight"):
                flights.update({str(r["Flight Number"]): r for r in _rows("flights", content)})
            elif drive := _DRIVE.match(description):
                start, end = city_name(drive["start"]), city_name(drive["end"])
                cost = _COST.search(str(content))  # absent from "No valid information."
                fare = float(cost["cost"].replace(",", "")) if cost else None
                drives[drive["mode"].lower(), start, end] = fare
        if not places:
            msg = "reference_information holds no tables of places"
            raise ValueError(msg)
        back = {(mode, end, start): fare for (mode, start, end), fare in drives.items()}
        return cls(places, flights, back | drives)

    def find(self, kind: str, where: Place | None) -> Row | None:
        """Return the row with the place's name, else the first row whose name contains it.

        The kind is ``restaurants``, ``attractions`` or ``accommodations``.
        """
        if where is None:
            return None
        rows = self.places.get((kind, where.city), [])
        same = [row for row in rows if _name(row) == where.name]
        return next(iter(same or [row for row in rows if where.name in _name(row)]), None)


def _name(row: Row) -> str:
    return squeezed(str(row.get("Name", row.get("NAME", ""))))


def _rows(kind: str, content: str | list[Row]) -> list[Row]:
    """Return the rows of a table, given as rows or as the right-aligned text that pandas prints.

    A cell ends where its column title ends; cells may contain any number of spaces. An index
    before the first column is removed.
    """
    if not isinstance(content, str):
        return content
    header, *lines = content.strip("\n").splitlines() or [""]
    if any(column not in header for column in _COLUMNS[kind]):
        return []  # "There is no flight from …", "No valid information."
    spans, end = {}, 0
    for column in _COLUMNS[kind]:
        start, end = end, header.find(column, end) + len(column)
        spans[column] = slice(start, end)
    if all(re.match(r"\d+\s{2}", line) for line in lines):
        lines = [re.sub(r"^\d+", lambda digits: " " * len(digits[0]), line) for line in lines]
    return [{column: line[span].strip() for column, span in spans.items()} for line in lines]


@dataclass(frozen=True)
class Journey:
    """A day's journey; `mode` is None if the sandbox has no such means of transport."""

    mode: Mode | None
    route: tuple[str, str] | None
    flight: str

    def fare(self, trip: Trip, people: int) -> float | None:
        """Return dollars for all travellers, or None if the sandbox has no such journey."""
        if self.mode is None or self.route is None:
            return None
        if self.mode == "flight":
            row = trip.flights.get(self.flight, {})
            between = [city_name(row.get(end, "")) for end in ("OriginCityName", "DestCityName")]
            return float(row["Price"]) * people if between == [*self.route] else None
        fare = trip.drives.get((self.mode, *self.route))
        return None if fare is None else fare * math.ceil(people / _SEATS[self.mode])


def journey(day: Day) -> Journey | None:
    """Return the day's journey. A journey without cities takes those of "Current City"."""
    if not day.transportation:
        return None
    text = day.transportation.lower()
    flight = _FLIGHT_NUMBER.search(day.transportation)
    modes: tuple[Mode, ...] = ("self-driving", "taxi", "flight")
    is_flight = flight or "flight number" in text
    mode = "flight" if is_flight else next((mode for mode in modes if mode in text), None)
    return Journey(mode, from_to(day.transportation) or day.route, flight[0] if flight else "")


def cost(query: Query, trip: Trip, days: Sequence[Day]) -> float:
    """Return the cost of a plan in dollars. Entries outside the sandbox cost nothing.

    Flights and meals cost their price for each person, a car for every 5 persons and a taxi for
    every 4 persons begun. An accommodation costs its price for each night and each room, and its
    maximum occupancy gives the number of rooms.
    """
    total = 0.0
    for day in days:
        travel = journey(day)
        total += (travel.fare(trip, query.people) if travel else None) or 0.0
        for meal in day.meals:
            if row := trip.find("restaurants", place(meal)):
                total += float(row["Average Cost"]) * query.people
        if row := trip.find("accommodations", place(day.accommodation or "")):
            rooms = math.ceil(query.people / max(1.0, float(row["maximum occupancy"])))
            total += float(row["price"]) * rooms
    return total
