"""The five hard constraints: the budget always, the others where the traveller asks for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from optim.scorers.score import ScorerError
from optim.scorers.travelplanner.journey import cost, journey
from optim.scorers.travelplanner.plan import place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from optim.scorers.travelplanner.commonsense import Case
    from optim.scorers.travelplanner.trip import Row

_ROOM_TYPES: dict[str, Callable[[str], bool]] = {
    "shared room": lambda kind: kind == "Shared room",
    "not shared room": lambda kind: kind != "Shared room",
    "private room": lambda kind: kind == "Private room",
    "entire room": lambda kind: kind == "Entire home/apt",
}
_NAMES = {
    "house rule": "room_rule",
    "cuisine": "cuisine",
    "room type": "room_type",
    "transportation": "transportation",
}


def applicable(wishes: Any) -> list[str]:  # noqa: ANN401 - the mapping of the data set
    """The names of the constraints that an item has, the budget first."""
    return ["budget", *(name for wish, name in _NAMES.items() if wish in wishes)]


def budget(case: Case) -> str | None:
    """The plan costs no more than the budget."""
    total = cost(case.query, case.trip, case.days)
    if total > case.query.budget:
        return f"it costs {total:,.0f} dollars of {case.query.budget:,.0f}"
    return None


def room_rule(case: Case) -> str | None:
    """What the travellers bring or do is not forbidden in any accommodation."""
    wish = str(case.query.constraints["house rule"])
    # The data set misspells it in places, as its evaluation once did.
    forbidden = f"No {wish.replace('parities', 'parties')}".lower()
    for written, row in _accommodations(case):
        rules = str(row["house_rules"]).lower().split("&")
        if forbidden in map(str.strip, rules):
            return f"{forbidden}: {written}"
    return None


def room_type(case: Case) -> str | None:
    """Every accommodation is of the kind asked for."""
    wish = str(case.query.constraints["room type"])
    if wish not in _ROOM_TYPES:
        msg = f"unknown room type {wish!r} in the question's local_constraint"
        raise ScorerError(msg)
    for written, row in _accommodations(case):
        if not _ROOM_TYPES[wish](str(row["room type"])):
            return f"{row['room type']}, not {wish}: {written}"
    return None


def cuisine(case: Case) -> str | None:
    """Each cuisine asked for is served in a planned restaurant away from home."""
    wishes = case.query.constraints["cuisine"]
    wanted = {wishes} if isinstance(wishes, str) else set(map(str, wishes))
    for meal in (meal for day in case.days for meal in day.meals.values()):
        where = place(meal)
        row = case.trip.find("restaurants", where)
        if row and where and where.city != case.query.origin:
            wanted -= {kind.strip() for kind in str(row["Cuisines"]).split(",")}
    return f"no restaurant serves {', '.join(sorted(wanted))}" if wanted else None


def transportation(case: Case) -> str | None:
    """No journey is made in the way that the travellers refuse."""
    wish = str(case.query.constraints["transportation"]).lower()
    for index, day in enumerate(case.days, start=1):
        travel = journey(day)
        if travel and travel.mode and wish == f"no {travel.mode}":
            return f"day {index}: {travel.mode}, against {wish!r}"
    return None


def _accommodations(case: Case) -> Iterator[tuple[str, Row]]:
    for day in case.days:
        if day.accommodation:
            row = case.trip.find("accommodations", place(day.accommodation))
            if row:
                yield day.accommodation, row


CHECKS: dict[str, Callable[[Case], str | None]] = {
    "budget": budget,
    "room_rule": room_rule,
    "cuisine": cuisine,
    "room_type": room_type,
    "transportation": transportation,
}
