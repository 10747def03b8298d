"""TravelPlanner: plans are read as models write them, and judged as officially."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest

from optim.scorers import ScorerError
from optim.scorers.travelplanner import TravelPlannerScorer, rates
from optim.scorers.travelplanner.plan import Place, place
from optim.scorers.travelplanner.trip import Trip

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optim.scorers import Score


@dataclass(frozen=True)
class Question:
    metadata: Mapping[str, Any]
    id: str = "q"


def table(rows: list[dict[str, Any]], *, index: bool = False) -> str:
    """Rows as the data set has them: printed by pandas, with a left-aligned index or without."""
    return pd.DataFrame(rows).to_string(index=index)


def restaurants(**cuisines: str) -> list[dict[str, Any]]:
    other = {"Aggregate Rating": 4.5, "City": "Bay City"}
    return [
        {"Name": name.replace("_", " "), "Average Cost": 10, "Cuisines": kinds} | other
        for name, kinds in cuisines.items()
    ]


def accommodation(name: str, **other: object) -> dict[str, Any]:
    usual = {"price": 100.0, "room type": "Entire home/apt",
             "house_rules": "No smoking & No parties", "minimum nights": 2.0,
             "maximum occupancy": 2, "review rate number": 3.0, "city": "Bay City"}  # fmt: skip
    return {"NAME": name} | usual | other


def flight(number: str, start: str, end: str) -> dict[str, Any]:
    times = {"DepTime": "10:00", "ArrTime": "12:00", "ActualElapsedTime": "2 hours 0 minutes"}
    places = {"OriginCityName": start, "DestCityName": end, "Distance": 300.0}
    return {"Flight Number": number, "Price": 50} | times | {"FlightDate": "2022-03-01"} | places


def attractions(*names: str) -> list[dict[str, Any]]:
    other = {"Latitude": 1.5, "Longitude": -2.5, "Address": "1 Main St, Somewhere",
             "Phone": "Unknown", "Website": "https://x.example/", "City": "Bay City"}  # fmt: skip
    return [{"Name": name} | other for name in names]


def section(description: str, content: str) -> dict[str, str]:
    return {"Description": description, "Content": content}


MEALS = restaurants(
    Alpha="American, Tea", Beta="French", Gamma="Indian, Cafe", Gamma_Express="Pizza",
    Delta="Chinese", Epsilon="Mexican", Zeta="BBQ", Eta="Seafood",
)  # fmt: skip
BEDS = [
    accommodation("Loft,  by the river"),
    accommodation("Room", **{"room type": "Private room", "house_rules": "No pets"}),
    accommodation("Dorm", **{"room type": "Shared room", "minimum nights": 5.0}),
]
DRIVEN = "duration: 9 hours, distance: 1,000 km, cost:"
REFERENCE = [
    section("Attractions in Bay City", table(attractions("Old Museum", "Zoo", "3 Oaks Park"))),
    section("Restaurants in Bay City", table(MEALS, index=True)),
    section("Accommodations in Bay City", table(BEDS)),
    section("Flight from St. Home to Bay City on 2022-03-01",
            table([flight("F1234567", "St. Home", "Bay City")])),
    section("Flight from Bay City to St. Home on 2022-03-03",
            table([flight("F7654321", "Bay City", "St. Home")])),
    section("Self-driving from St. Home to Bay City",
            f"self-driving, from St. Home to Bay City, {DRIVEN} 50"),
    section("Taxi from St. Home to Bay City", f"taxi, from St. Home to Bay City, {DRIVEN} 1,000"),
    section("Self-driving from Bay City to St. Home",
            f"self-driving, from Bay City to St. Home, {DRIVEN} 50"),
    section("Taxi from Bay City to St. Home", "No valid information."),
]  # fmt: skip

PLAN = """
Travel Plan:
Day 1:
Current City: from St. Home to Bay City
Transportation: Flight Number: F1234567, from St. Home to Bay City, Departure Time: 10:00
Breakfast: -
Attraction: Old Museum, Bay City
Lunch: Alpha, Bay City
Dinner: Beta, Bay City
Accommodation: Loft,  by the river, Bay City

Day 2:
Current City: Bay City
Transportation: -
Breakfast: Gamma, Bay City
Attraction: Zoo, Bay City;3 Oaks Park, Bay City.
Lunch: Delta, Bay City
Dinner: Epsilon, Bay City
Accommodation: Loft,  by the river, Bay City

Day 3:
Current City: from Bay City to St. Home
Transportation: Flight Number: F7654321, from Bay City to St. Home, Departure Time: 10:00
Breakfast: Zeta, Bay City
Attraction: -
Lunch: -
Dinner: -
Accommodation: -
"""
# 3 people: flights 2 x 50 x 3, meals 6 x 10 x 3, nights 2 x 100 x 2 rooms.
COST = 300 + 180 + 400


def question(**other: object) -> Question:
    wishes = dict.fromkeys(["house rule", "cuisine", "room type", "transportation"])
    usual = {"org": "St. Home", "dest": "Bay City", "days": 3, "people_number": 3, "budget": COST}
    tables = {"local_constraint": wishes, "reference_information": REFERENCE}
    return Question(usual | tables | other)


def wishing(**wishes: object) -> Question:
    return question(local_constraint={name.replace("_", " "): w for name, w in wishes.items()})


def score(plan: str = PLAN, asked: Question | None = None) -> Score:
    return TravelPlannerScorer().score(plan, asked or question())


def change(*pairs: tuple[str, str], plan: str = PLAN) -> str:
    for old, new in pairs:
        assert old in plan
        plan = plan.replace(old, new)
    return plan


def test_a_good_plan_scores_1() -> None:
    judged = score()
    assert (judged.value, judged.explanation) == (1, "keeps every constraint")
    assert judged.metadata["cost"] == COST
    assert set(judged.metadata["commonsense"].values()) == {True}
    assert judged.metadata["hard"] == {"budget": True}


FLY, RETURN = "Flight Number: F1234567, from St. Home", "Flight Number: F7654321, from Bay City"
DRIVE = [(FLY, "Self-driving, from St. Home"), (RETURN, "Self-driving, from Bay City")]
TAXI = [(FLY, "Taxi, from St. Home")]


@pytest.mark.parametrize(
    ("changes", "people", "fares"),
    [
        ([], 1, 2 * 50), ([], 2, 2 * 100), ([], 5, 2 * 250),
        (DRIVE, 5, 100), (DRIVE, 6, 200),  # five fit into a car
        (TAXI, 4, 1000 + 200), (TAXI, 5, 2000 + 250),  # four into a taxi; they fly back
    ],
)  # fmt: skip
def test_everyone_pays_and_cars_and_rooms_are_shared(
    changes: list[tuple[str, str]], people: int, fares: int
) -> None:
    judged = score(change(*changes), question(people_number=people, budget=9999))
    assert judged.metadata["cost"] == fares + 60 * people + 200 * ((people + 1) // 2)


def test_a_drive_listed_one_way_is_known_both_ways() -> None:
    one_way = [part for part in REFERENCE if part is not REFERENCE[-2]]
    judged = score(change(*DRIVE), question(reference_information=one_way, budget=9999))
    assert (judged.value, judged.metadata["cost"]) == (1, 100 + 180 + 400)


@pytest.mark.parametrize(
    ("wishes", "kept"),
    [
        ({"house_rule": "pets"}, True),
        ({"house_rule": "children under 10"}, True),
        ({"house_rule": "smoking"}, False),
        ({"house_rule": "parties"}, False),
        ({"house_rule": "parities"}, False),
        ({"room_type": "entire room"}, True),
        ({"room_type": "not shared room"}, True),
        ({"room_type": "private room"}, False),
        ({"room_type": "shared room"}, False),
        ({"cuisine": ["American", "French", "Indian"]}, True),
        ({"cuisine": ["American", "Seafood"]}, False),
        ({"cuisine": ["Pizza"]}, False),  # of "Gamma Express", which is not "Gamma"
        ({"transportation": "no self-driving"}, True),
        ({"transportation": "no flight"}, False),
    ],
)
def test_wishes_are_kept_or_not(wishes: dict[str, Any], kept: bool) -> None:
    judged = score(asked=wishing(**wishes))
    assert judged.value == kept
    assert sorted(judged.metadata["hard"].values()) == sorted([True, kept])


def test_a_wish_not_to_drive_is_broken_by_driving() -> None:
    assert score(change(*DRIVE), wishing(transportation="no self-driving")).value == 0
    assert score(change(*DRIVE), wishing(transportation="no flight")).value == 1


SANDBOX = [
    ("Zoo", "Moo"),
    ("3 Oaks Park, Bay City.", "4 Oaks Park, Bay City"),
    ("Alpha, Bay City", "Alpha, Elsewhere"),
    ("Alpha, Bay City", "Alpha"),
    ("Lunch: Alpha, Bay City", "Lunch: , Bay City"),
    ("F1234567", "F7654321"),
    ("F1234567", "F0000000"),
    ("Flight Number: F1234567", "Flight"),
    ("Flight Number: F1234567", "Train"),
    ("Flight Number: F7654321", "Taxi"),  # "No valid information."
]
COMPLETE = [
    ("Lunch: Delta, Bay City", "Lunch: -"),
    ("Lunch: Delta, Bay City\n", ""),
    ("Attraction: Zoo, Bay City;3 Oaks Park, Bay City.", "Attraction: -"),
    ("Current City: Bay City", "Current City: Other"),
    ("Current City: Bay City\n", "Current City: -\n"),
    ("Day 3:", "Afterwards:"),
]
GATED = [(pair, "within_sandbox") for pair in SANDBOX]
GATED += [(pair, "complete_information") for pair in COMPLETE]


@pytest.mark.parametrize(("pair", "gate"), GATED)
def test_hard_constraints_are_looked_at_behind_the_gates(pair: tuple[str, str], gate: str) -> None:
    judged = score(change(pair), wishing(room_type="entire room"))
    assert judged.value == 0
    assert not judged.metadata["commonsense"][gate]
    assert (judged.metadata["entered"], judged.metadata["cost"]) == (False, None)
    assert judged.metadata["hard"] == {"budget": False, "room_type": False}


@pytest.mark.parametrize(
    ("pair", "check"),
    [
        (("Lunch: Delta", "Lunch: Alpha"), "diverse_restaurants"),
        (("3 Oaks Park", "Old Museum"), "diverse_attractions"),
        (("Loft,  by the river", "Dorm"), "minimum_nights"),
        (DRIVE[0], "consistent_transportation"),
        (("Current City: from Bay City to St. Home", "Current City: Bay City"), "reasonable_route"),
        (
            ("from St. Home to Bay City, Dep", "from Bay City to Nowhere, Dep"),
            "within_current_city",
        ),
        (("Lunch: Delta, Bay City", "Lunch: Delta, Nowhere"), "within_current_city"),
        (("river, Bay City\n\nDay 2", "river, St. Home\n\nDay 2"), "within_current_city"),
    ],
)
def test_other_commonsense_is_reported(pair: tuple[str, str], check: str) -> None:
    judged = score(change(pair), question(budget=9999))
    assert not judged.metadata["commonsense"][check]
    assert judged.metadata["reasons"][check]


def test_only_the_gates_and_hard_constraints_count() -> None:
    judged = score(change(("Lunch: Delta", "Lunch: Alpha")))
    assert judged.value == 1
    assert judged.explanation == "diverse_restaurants: twice in the plan: Alpha, Bay City"


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("Loft,  by the river", "Loft, by the river"),
        ("Dinner: Epsilon", "Dinner: Epsi"),  # a part of the name, as in the official evaluation
        ("Transportation: -", "Transportation: Walking"),
    ],
)
def test_what_is_as_good_as_in_the_sandbox_passes(written: str, said: str) -> None:
    assert score(change((written, said))).value == 1


def markdown(plan: str) -> str:
    lines = []
    for line in plan.splitlines():
        name, colon, rest = line.partition(": ")
        lines.append(f"- **{name}:** {rest}" if colon else f"### {line}" if line else "")
    return "\n".join(lines)


@pytest.mark.parametrize(
    "text",
    [
        markdown(PLAN),
        PLAN.replace("Day ", "**Day ").replace(":\nCurrent", ":**\nCurrent"),
        PLAN.replace("Day 1:", "Day 1: March 1st"),
        PLAN.replace("\n", "\r\n"),
        PLAN.replace("Breakfast:", "🍳 Breakfast :").replace("Dinner:", "4. **Dinner**: "),
        PLAN.replace("Attraction:", "Attractions:").replace(
            " Zoo, Bay City;3 Oaks Park, Bay City.", "\n- Zoo, Bay City\n- 3 Oaks Park, Bay City"
        ),
        PLAN.replace("Bay City", "Bay City(Somestate)"),
        "<think>Day 1:\nCurrent City: Nowhere</think>" + PLAN,
        "Draft:\nDay 1:\nCurrent City: Nowhere\n\nFinal:\n" + PLAN,
        PLAN + "\nCosts:\nDay 1:\nTransportation: $150\nLunch: $30\nDay 2 was cheap.",
        PLAN.replace("Day 3:", "Day 2 ends here.\n\nDay 3:"),
    ],
)  # fmt: skip
def test_a_plan_is_read_as_models_write_it(text: str) -> None:
    judged = score(text)
    assert judged.value == 1, judged.explanation
    assert judged.answer is not None
    assert score(judged.answer).value == 1


@pytest.mark.parametrize(
    "text",
    [
        "",
        "I cannot plan this.",
        "<think>" + PLAN,
        "Day 1: fly. Day 2: rest.",
    ],
)
def test_what_is_no_plan_is_not_delivered(text: str) -> None:
    judged = score(text, wishing(cuisine=["French"]))
    assert (judged.value, judged.answer, judged.metadata["delivered"]) == (0, None, False)
    assert judged.metadata["hard"] == {"budget": False, "cuisine": False}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Alpha, Bay City", Place("Alpha", "Bay City")),
        ("A, B & C, Bay City(Ohio);", Place("A, B & C", "Bay City")),
        ("Alpha, St. Home.", Place("Alpha", "St. Home")),
        (r"Two\nlines, X", Place("Two lines", "X")),
        ("Alpha", None),
        ("", None),
    ],
)
def test_a_place_is_a_name_and_a_city(text: str, found: Place | None) -> None:
    assert place(text) == found


@pytest.mark.parametrize("as_rows", [True, False])
def test_tables_come_as_text_or_as_rows(as_rows: bool) -> None:
    content = BEDS if as_rows else table(BEDS)
    trip = Trip.from_reference([{"Description": "Accommodations in X", "Content": content}])
    row = trip.find("accommodations", Place("Loft, by the river", "Bay City"))
    assert row is not None
    assert (row["house_rules"], float(row["price"])) == ("No smoking & No parties", 100)


@pytest.mark.parametrize(
    "other",
    [
        {"reference_information": None},
        {"reference_information": []},
        {"budget": "cheap"},
        {"local_constraint": {"room type": "igloo"}},
    ],
)
def test_a_broken_question_is_an_error_not_a_0(other: dict[str, Any]) -> None:
    with pytest.raises(ScorerError, match="'q' is no question of TravelPlanner"):
        score(asked=question(**other))


LONG = """
Day 1:
Current City: from St. Home to A(Some)
Transportation: Self-driving, from St. Home to A(Some), cost: 1
Day 2:
Current City: A(Some)
Day 3:
Current City: from A(Some) to B(Some)
Day 4:
Current City: B(Some)
Day 5:
Current City: from B(Some) to St. Home
"""


@pytest.mark.parametrize(
    ("pairs", "reason"),
    [
        ([], None),
        ([("St. Home to A", "Other to A")], "starts in Other"),
        ([("B(Some) to St. Home", "B(Some) to A")], "does not end"),
        ([("City: B(Some)", "City: from B(Some) to A(Some)"), ("B(Some) to St.", "A(Some) to St.")],
         "A is visited twice"),
        ([("Current City: A(Some)", "Current City: C(Some)")], "entered but not left"),
    ],
)  # fmt: skip
def test_the_route_is_a_circle(pairs: list[tuple[str, str]], reason: str | None) -> None:
    judged = score(change(*pairs, plan=LONG), question(days=5, dest="Some"))
    found = judged.metadata["reasons"].get("reasonable_route")
    assert found == reason or (reason and reason in found)


def test_rates_are_those_of_the_benchmark() -> None:
    asked = wishing(cuisine=["Seafood"])
    items = [
        score().metadata,  # everything: 1 of 1 hard, 8 of 8 commonsense
        score(asked=asked).metadata,  # 1 of 2 hard
        score(change(("Zoo", "Moo")), asked).metadata,  # kept out: 0 of 2 hard, 7 of 8
        score("nothing", asked).metadata,  # not delivered: 0 of 2, 0 of 8
    ]
    found = rates(items)
    assert found["delivery"] == 3 / 4
    assert found["hard_micro"] == 2 / 7
    assert found["hard_macro"] == 1 / 4
    assert found["commonsense_micro"] == (8 + 8 + 7) / 32
    assert found["commonsense_macro"] == 2 / 4
    assert found["final"] == 1 / 4
