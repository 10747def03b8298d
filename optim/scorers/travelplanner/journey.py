"""How a day's transportation is meant, and what it and everything else in a plan costs."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from optim.scorers.travelplanner.plan import Day, from_to, place
from optim.scorers.travelplanner.trip import Query, Trip, number

if TYPE_CHECKING:
    from collections.abc import Sequence

Mode = Literal["flight", "self-driving", "taxi"]

_FLIGHT_NUMBER = re.compile(r"\bF\d{4,}\b")
_SEATS = {"self-driving": 5, "taxi": 4}


@dataclass(frozen=True)
class Journey:
    """One journey; `mode` is None for anything but the three that exist in the sandbox."""

    mode: Mode | None
    route: tuple[str, str] | None
    flight: str = ""

    def fare(self, trip: Trip, people: int) -> float | None:
        """Dollars for all travellers; None when the sandbox has no such journey."""
        if self.mode is None or self.route is None:
            return None
        if self.mode == "flight":
            row = trip.flight(self.flight, *self.route)
            return number(row["Price"]) * people if row else None
        fare = trip.drives.get((self.mode, *self.route))
        return None if fare is None else fare * math.ceil(people / _SEATS[self.mode])


def journey(day: Day) -> Journey | None:
    """The day's journey; its cities are taken from "Current City" where it does not say."""
    text = day.transportation
    if not text:
        return None
    found = _FLIGHT_NUMBER.search(text)
    flight = found[0] if found else ""
    return Journey(_mode(text.lower(), flight), from_to(text) or day.route, flight)


def _mode(text: str, flight: str) -> Mode | None:
    if flight or "flight number" in text:
        return "flight"
    if "self-driving" in text:
        return "self-driving"
    if "taxi" in text:
        return "taxi"
    return "flight" if "flight" in text else None


def cost(query: Query, trip: Trip, days: Sequence[Day]) -> float:
    """Dollars for the whole plan; what is not in the sandbox counts nothing.

    A flight and a meal cost their price per person, self-driving per 5 persons begun, a taxi per
    4, and an accommodation per night for as many rooms as its maximum occupancy makes necessary.
    """
    return sum(_day_cost(query, trip, day) for day in days)


def _day_cost(query: Query, trip: Trip, day: Day) -> float:
    travel = journey(day)
    total = (travel.fare(trip, query.people) if travel else None) or 0.0
    for meal in day.meals.values():
        if row := trip.find("restaurants", place(meal)):
            total += number(row["Average Cost"]) * query.people
    if day.accommodation and (row := trip.find("accommodations", place(day.accommodation))):
        rooms = math.ceil(query.people / max(1.0, number(row["maximum occupancy"])))
        total += number(row["price"]) * rooms
    return total
