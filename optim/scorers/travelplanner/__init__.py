"""Score travel plans of TravelPlanner by the tables of each item, without a language model.

A plan scores 1 if it meets every hard constraint, so the mean score is the benchmark's hard macro
pass rate. Hard constraints are checked only if the plan is complete and within the sandbox, the
item's `reference_information`, as in the official evaluation. Where the official code has
accidental rules, this scorer does what is meant; `tests/benchmarks/travelplanner_agreement.py`
counts how often the two agree. It is stricter: places, flights and drives must be listed by the
item, trains and buses are outside the sandbox, the last attraction of a day is checked, and without
a journey everything must be in the current city, and transport is recognized in lower case. It is
looser: a name that is part of a longer name finds its own row, a full stop does not belong to a
city, and a meal in the city of origin hides no cuisine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from statistics import fmean
from typing import Any

from optim.datasets import Question
from optim.scorers.scorer import Score, ScorerError, register
from optim.scorers.travelplanner.plan import FIELDS, Day, place, read_plan, squeezed
from optim.scorers.travelplanner.trip import Case
from pb_graph.answers import without_thinking

__all__ = ["TravelPlannerScorer", "rates"]

_UNREAD = "no plan could be read"
_MAX_LENGTH = 100_000  # characters kept from the end; a plan of seven days has five thousand
_ROOM_TYPES: dict[str, Callable[[str], bool]] = {
    "shared room": lambda kind: kind == "Shared room",
    "not shared room": lambda kind: kind != "Shared room",
    "private room": lambda kind: kind == "Private room",
    "entire room": lambda kind: kind == "Entire home/apt",
}


@register("travelplanner")
class TravelPlannerScorer:
    """Scores 1 for a plan that meets every hard constraint of its question, else 0.

    The question's metadata holds the data set's fields, the score's metadata the result of each
    check, with the reason for a failure.
    """

    def unanswered(self, question: Question) -> Mapping[str, Any]:
        """Return the metadata of an empty answer, which is not delivered and passes no check."""
        return self.score("", question).metadata

    def score(self, output: str, question: Question) -> Score:
        """Score a plan as `Scorer.score`."""
        text = without_thinking(output)[-_MAX_LENGTH:]
        days = read_plan(text)
        try:
            metadata = _judge(Case.of(question.metadata, days or []), delivered=days is not None)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            msg = f"{question.id!r} is not a TravelPlanner item: {type(error).__name__} {error}"
            raise ScorerError(msg) from error
        if days is None:
            return Score(0.0, None, _UNREAD, metadata)
        explanation = "; ".join(f"{name}: {reason}" for name, reason in metadata["reasons"].items())
        passed = float(all(metadata["hard"].values()))
        return Score(passed, text, explanation or "keeps every constraint", metadata)


def rates(items: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return the benchmark's six rates from the scores' metadata, as shares from 0 to 1.

    Micro rates are passed checks among all checks, macro rates items that pass all of them. A plan
    that fails a gate passes no hard constraint, and one that is not delivered no check.
    """
    commonsense = [item["commonsense"].values() for item in items]
    hard = [item["hard"].values() for item in items]
    return {
        "delivery": fmean(item["delivered"] for item in items),
        "commonsense_micro": fmean(passed for item in commonsense for passed in item),
        "commonsense_macro": fmean(map(all, commonsense)),
        "hard_micro": fmean(passed for item in hard for passed in item),
        "hard_macro": fmean(map(all, hard)),
        "final": fmean(all((*a, *b)) for a, b in zip(commonsense, hard, strict=True)),
    }


def _judge(case: Case, *, delivered: bool) -> dict[str, Any]:
    """Run every check and return the score's metadata. A failed gate fails all constraints."""
    common = {name: check(case) if delivered else _UNREAD for name, check in COMMONSENSE.items()}
    is_entered = all(common[gate] is None for gate in GATES)
    hard = {
        check.__name__: check(case) if is_entered else "not checked: the plan fails a gate"
        for check in (budget, *(check for wish, check in _WISHES.items() if wish in case.wishes))
    }
    # Commonsense checks besides the gates do not change the value, but their reasons are told.
    reasons = common | {f"hard.{name}": reason for name, reason in hard.items()}
    failures = {name: reason for name, reason in reasons.items() if reason is not None}
    return {
        "delivered": delivered,
        "entered": is_entered,
        "commonsense": {name: reason is None for name, reason in common.items()},
        "hard": {name: reason is None for name, reason in hard.items()},
        "reasons": failures if delivered else {},
        "cost": case.cost() if is_entered else None,
    }


def within_sandbox(case: Case) -> str | None:
    """Check that everything in the plan exists in the item's tables."""
    for index, day in enumerate(case.days, start=1):
        # "Walking" is no journey between cities; a train does not exist in the sandbox.
        if day.transportation and (day.mode or day.route) and case.fare(day) is None:
            return f"day {index}: no such journey: {day.transportation}"
        for kind, text in day.places:
            if case.find(kind, text) is None:
                return f"day {index}: not among the {kind}: {text}"
    return None


def complete_information(case: Case) -> str | None:
    """Check that the plan has all days, cities and required fields, and half of all fields."""
    if len(case.days) < case.length:
        return f"{len(case.days)} days are planned, not {case.length}"
    for index, day in enumerate(case.days, start=1):
        if missing := _missing(day, last=index == case.length):
            return f"day {index}: no {missing}"
    cities = {city for day in case.days for city in day.cities} - {case.origin}
    if len(cities) != case.cities:
        return f"{len(cities)} cities are visited, not {case.cities}"
    # The official code counts the day's number and city as filled, but not as fields.
    parts = FIELDS[1:]
    filled = sum(2 + sum(bool(getattr(day, part)) for part in parts) for day in case.days)
    if filled < 0.5 * len(parts) * case.length:
        return "more than half of the information is absent"
    return None


def _missing(day: Day, *, last: bool) -> str | None:
    """Return the first required field that this day lacks."""
    for part in FIELDS:
        if getattr(day, part) is None:
            return f'"{part.replace("_", " ")}" line'
    present = {
        "current city": bool(day.current_city),
        "transportation between the cities": bool(day.transportation or not day.route),
        "attraction": bool(day.attractions or day.route),
        "accommodation": bool(day.accommodation or last),
        "meal for one of breakfast, lunch and dinner": bool(len(day.meals) == 3 or day.route),  # noqa: PLR2004
    }
    return next((name for name, there in present.items() if not there), None)


def within_current_city(case: Case) -> str | None:
    """Check that places are in a city of their day, and accommodations in its last city."""
    for index, day in enumerate(case.days, start=1):
        if day.route and any(city not in (day.transportation or city) for city in day.route):
            return f"day {index}: the transportation is not {day.current_city}"
        for kind, text in day.places:
            target = place(text)
            allowed = day.cities[-1:] if kind == "accommodations" else day.cities
            if target is None or target[1] not in allowed:
                return f"day {index}: not in {' or '.join(allowed)}: {text}"
    return None


def reasonable_route(case: Case) -> str | None:
    """Check that the route starts and ends at the origin and visits each city once."""
    cities = [city for day in case.days for city in day.cities]
    route = case.days[0].route if case.days else None
    if route and route[0] != case.origin:
        return f"the trip starts in {route[0]}, not in {case.origin}"
    if not cities or cities[0] != cities[-1]:
        return "the trip does not end where it starts"
    if len(cities) < 3:  # noqa: PLR2004 - there, a stay, and back
        return "the trip leads nowhere"
    stays = [(city, len(list(group))) for city, group in groupby(cities)]
    seen: set[str] = set()
    for index, (city, length) in enumerate(stays):
        last = index == len(stays) - 1
        if city in seen and not (last and length == 1):
            return f"{city} is visited twice"
        if length == 1 and index > 0 and not last:
            return f"{city} is entered but not left, or left but not entered"
        seen.add(city)
    return None


def diverse_restaurants(case: Case) -> str | None:
    """Check that no restaurant is visited twice."""
    return _repeated([meal for day in case.days for meal in day.meals])


def diverse_attractions(case: Case) -> str | None:
    """Check that no attraction is visited twice."""
    return _repeated([attraction for day in case.days for attraction in day.attractions])


def _repeated(texts: Sequence[str]) -> str | None:
    names = [squeezed(text.strip(" .;")) for text in texts]
    again = next((name for place, name in enumerate(names) if name in names[:place]), None)
    return None if again is None else f"twice in the plan: {again}"


def consistent_transportation(case: Case) -> str | None:
    """Check that day 1 has a journey, and that self-driving excludes flights and taxis."""
    if not case.days or not case.days[0].transportation:
        return "day 1 has no transportation"
    modes = {day.mode for day in case.days}
    for other in ("flight", "taxi"):
        if {"self-driving", other} <= modes:
            return f"self-driving and {other} in one trip"
    return None


def minimum_nights(case: Case) -> str | None:
    """Check that each stay has the accommodation's minimum number of nights."""
    for text, stay in groupby(day.accommodation or "" for day in case.days):
        nights = len(list(stay))
        row = case.find("accommodations", text)
        if row and nights < float(row["minimum nights"]):
            return f"{nights} night(s), fewer than {row['minimum nights']}: {text}"
    return None


COMMONSENSE: dict[str, Callable[[Case], str | None]] = {
    check.__name__: check
    for check in (
        *(within_sandbox, complete_information, within_current_city, reasonable_route),
        *(diverse_restaurants, diverse_attractions, consistent_transportation, minimum_nights),
    )
}
GATES = ("complete_information", "within_sandbox")


def budget(case: Case) -> str | None:
    """Check that the plan costs no more than the budget."""
    total = case.cost()
    if total > case.budget:
        return f"it costs {total:,.0f} dollars of {case.budget:,.0f}"
    return None


def room_rule(case: Case) -> str | None:
    """Check that no accommodation forbids what the travellers ask for, such as pets."""
    wish = str(case.wishes["house rule"])
    # Some rows of the data set say "parities".
    forbidden = f"No {wish.replace('parities', 'parties')}".lower()
    for day in case.days:
        row = case.find("accommodations", day.accommodation)
        if row and forbidden in map(str.strip, str(row["house_rules"]).lower().split("&")):
            return f"{forbidden}: {day.accommodation}"
    return None


def room_type(case: Case) -> str | None:
    """Check that every accommodation has the requested room type."""
    wish = str(case.wishes["room type"])
    for day in case.days:
        row = case.find("accommodations", day.accommodation)
        if row and not _ROOM_TYPES[wish](str(row["room type"])):
            return f"{row['room type']}, not {wish}: {day.accommodation}"
    return None


def cuisine(case: Case) -> str | None:
    """Check that planned restaurants outside the origin serve each requested cuisine."""
    wishes = case.wishes["cuisine"]
    missing = {wishes} if isinstance(wishes, str) else set(map(str, wishes))
    for meal in (meal for day in case.days for meal in day.meals):
        row, where = case.find("restaurants", meal), place(meal)
        if row and where and where[1] != case.origin:
            missing -= {kind.strip() for kind in str(row["Cuisines"]).split(",")}
    return f"no restaurant serves {', '.join(sorted(missing))}" if missing else None


def transportation(case: Case) -> str | None:
    """Check that no journey uses the means of transport that the travellers refuse."""
    wish = str(case.wishes["transportation"]).lower()
    for index, day in enumerate(case.days, start=1):
        if day.mode and wish == f"no {day.mode}":
            return f"day {index}: {day.mode}, against {wish!r}"
    return None


_WISHES: dict[str, Callable[[Case], str | None]] = {
    "house rule": room_rule,
    "cuisine": cuisine,
    "room type": room_type,
    "transportation": transportation,
}
