"""Read the query and the tables of a TravelPlanner item, and compute the cost of its plan."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from optim.scorers.travelplanner.plan import FLIGHT_NUMBER, Day, city_name, from_to, place, squeezed

Row = Mapping[str, Any]

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
_SEATS = {"self-driving": 5, "taxi": 4}


@dataclass(frozen=True)
class Case:
    """A plan with the travellers' query and the sandbox of its item.

    A drive that is listed in one direction has the same price in the other. A price of None says
    that there is no such drive.
    """

    days: Sequence[Day]  # of the plan, at most as many as are wanted
    origin: str  # where the trip starts and ends
    length: int  # days that are wanted
    people: int
    budget: float  # dollars for all of them
    cities: int  # to visit
    wishes: Mapping[str, Any]  # "house rule", "cuisine", "room type", "transportation"
    places: Mapping[tuple[str, str], list[Row]]  # rows by kind and city
    flights: Mapping[str, Row]  # by flight number
    drives: Mapping[tuple[str, str, str], float | None]  # dollars for a car by mode, start and end

    @classmethod
    def of(cls, metadata: Mapping[str, Any], plan: Sequence[Day]) -> Case:
        """Read the data set's own fields, and its {Description, Content} tables.

        Tables are texts or lists of rows.
        """
        places: dict[tuple[str, str], list[Row]] = defaultdict(list)
        flights: dict[str, Row] = {}
        drives: dict[tuple[str, str, str], float | None] = {}
        for section in metadata["reference_information"]:
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
        length = int(metadata["days"])
        wishes: Mapping[str, Any] = metadata.get("local_constraint") or {}
        return cls(
            days=plan[:length],
            origin=str(metadata["org"]),
            length=length,
            people=int(metadata["people_number"]),
            budget=float(metadata["budget"]),
            # 3, 5 and 7 days visit 1, 2 and 3 cities throughout the data set.
            cities=int(metadata.get("visiting_city_number") or max(1, (length - 1) // 2)),
            wishes={name: wish for name, wish in wishes.items() if wish},
            places=places,
            flights=flights,
            drives=back | drives,
        )

    def find(self, kind: str, text: str | None) -> Row | None:
        """Return the row of a place, else the first row whose name contains that of the place.

        Args:
            kind: ``restaurants``, ``attractions`` or ``accommodations``.
            text: The place in the plan, as in "Coco Bambu, Rockford".
        """
        where = place(text or "")
        if where is None:
            return None
        name, city = where
        rows = self.places.get((kind, city), [])
        same = [row for row in rows if _name(row) == name]
        return next(iter(same or [row for row in rows if name in _name(row)]), None)

    def fare(self, day: Day) -> float | None:
        """Return dollars for all travellers, or None if the sandbox has no such journey.

        A journey without cities takes those of "Current City".
        """
        text = day.transportation or ""
        route = from_to(text) or day.route
        if day.mode is None or route is None:
            return None
        if day.mode == "flight":
            number = FLIGHT_NUMBER.search(text)
            row = self.flights.get(number[0] if number else "", {})
            between = [city_name(row.get(end, "")) for end in ("OriginCityName", "DestCityName")]
            return float(row["Price"]) * self.people if between == [*route] else None
        fare = self.drives.get((day.mode, *route))
        return None if fare is None else fare * math.ceil(self.people / _SEATS[day.mode])

    def cost(self) -> float:
        """Return the cost of the plan in dollars. Entries outside the sandbox cost nothing.

        Flights and meals cost their price for each person, a car for every 5 persons and a taxi for
        every 4 persons begun. An accommodation costs its price for each night and each room, and
        its maximum occupancy gives the number of rooms.
        """
        total = 0.0
        for day in self.days:
            total += self.fare(day) or 0.0
            for meal in day.meals:
                if row := self.find("restaurants", meal):
                    total += float(row["Average Cost"]) * self.people
            if row := self.find("accommodations", day.accommodation):
                rooms = math.ceil(self.people / max(1.0, float(row["maximum occupancy"])))
                total += float(row["price"]) * rooms
        return total


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
