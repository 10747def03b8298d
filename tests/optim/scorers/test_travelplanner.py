"""TravelPlanner: plans are read as models write them, and judged as officially."""

from __future__ import annotations

import re
from typing import Any

import pandas as pd
import pytest

from optim.datasets import Question
from optim.scorers import Score, ScorerError
from optim.scorers.travelplanner import TravelPlannerScorer, rates
from optim.scorers.travelplanner.plan import read_plan


def table(*lines: str, index: bool = False) -> str:
    """Rows as the data set has them: printed by pandas, with a left-aligned index or without."""
    header, *rows = (line.split("|") for line in lines)
    return pd.DataFrame(rows, columns=header).to_string(index=index)


def section(description: str, content: str) -> dict[str, str]:
    return {"Description": description, "Content": content}


def flight(number: str, start: str, end: str) -> dict[str, str]:
    columns = "Flight Number|Price|DepTime|ArrTime|ActualElapsedTime|FlightDate|OriginCityName"
    row = f"{number}|50|10:00|12:00|2 hours 0 minutes|2022-03-01|{start}|{end}|300.0"
    content = table(f"{columns}|DestCityName|Distance", row)
    return section(f"Flight from {start} to {end} on 2022-03-01", content)


def drive(start: str, end: str) -> dict[str, str]:
    told = f"self-driving, from {start} to {end}, duration: 9 hours, distance: 1,000 km, cost: 50"
    return section(f"Self-driving from {start} to {end}", told)


MEALS = (
    "Alpha|10|American, Tea", "Beta|10|French", "Gamma|10|Indian, Cafe", "Gamma Express|10|Pizza",
    "Delta|10|Chinese", "Epsilon|10|Mexican", "Zeta|10|BBQ", "Eta|10|Seafood",
)  # fmt: skip
BEDS = (
    "Loft,  by the river|100.0|Entire home/apt|No smoking & No parties|2.0",
    "Room|100.0|Private room|No pets|2.0",
    "Dorm|100.0|Shared room|No smoking & No parties|5.0",
)
SIGHTS = ("Old Museum", "Zoo", "3 Oaks Park")
REFERENCE = [
    section("Attractions in Bay City", table(
        "Name|Latitude|Longitude|Address|Phone|Website|City",
        *(f"{name}|1.5|-2.5|1 Main St, Somewhere|Unknown|https://x.example/|Bay City"
          for name in SIGHTS),
    )),
    section("Restaurants in Bay City", table(
        "Name|Average Cost|Cuisines|Aggregate Rating|City",
        *(f"{meal}|4.5|Bay City" for meal in MEALS), index=True,
    )),
    section("Accommodations in Bay City", table(
        "NAME|price|room type|house_rules|minimum nights|maximum occupancy|review rate number|city",
        *(f"{bed}|2|3.0|Bay City" for bed in BEDS),
    )),
    flight("F1234567", "St. Home", "Bay City"),
    flight("F7654321", "Bay City", "St. Home"),
    drive("St. Home", "Bay City"),
    section("Taxi from St. Home to Bay City", "taxi, from St. Home to Bay City, cost: 1,000"),
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
    return Question("q", "?", metadata=usual | tables | other)


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
        ([], 5, 2 * 250),
        (DRIVE, 5, 100),  # five fit into a car
        (DRIVE, 6, 200),
        (TAXI, 4, 1000 + 200),  # four into a taxi; they fly back
        (TAXI, 5, 2000 + 250),
    ],
)
def test_everyone_pays_and_cars_and_rooms_are_shared(
    changes: list[tuple[str, str]], people: int, fares: int
) -> None:
    judged = score(change(*changes), question(people_number=people, budget=9999))
    assert judged.metadata["cost"] == fares + 60 * people + 200 * ((people + 1) // 2)


@pytest.mark.parametrize(
    ("wishes", "kept"),
    [
        ({"house_rule": "pets"}, True),
        ({"house_rule": "smoking"}, False),
        ({"house_rule": "parities"}, False),
        ({"room_type": "entire room"}, True),
        ({"room_type": "private room"}, False),
        ({"room_type": "shared room"}, False),
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


SANDBOX = [
    ("Zoo", "Moo"),
    ("3 Oaks Park, Bay City.", "4 Oaks Park, Bay City"),
    ("Alpha, Bay City", "Alpha"),
    ("F1234567", "F7654321"),
    ("Flight Number: F1234567", "Train"),
    ("Flight Number: F7654321", "Taxi"),  # "No valid information."
]
COMPLETE = [
    ("Lunch: Delta, Bay City", "Lunch: -"),
    ("Lunch: Delta, Bay City\n", ""),
    ("Current City: Bay City", "Current City: Other"),
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
        (("Lunch: Delta, Bay City", "Lunch: Delta, Nowhere"), "within_current_city"),
    ],
)
def test_other_commonsense_is_reported(pair: tuple[str, str], check: str) -> None:
    judged = score(change(pair), question(budget=9999))
    assert not judged.metadata["commonsense"][check]
    assert judged.metadata["reasons"][check]


@pytest.mark.parametrize(
    "text",
    [
        PLAN.replace("Lunch:", "- **Lunch:**").replace("Day 2:", "### Day 2:"),
        PLAN.replace("Day ", "**Day ").replace(":\nCurrent", ":**\nCurrent"),
        PLAN.replace("Breakfast:", "🍳 Breakfast :").replace("Dinner:", "4. **Dinner**: "),
        PLAN.replace("Attraction:", "Attractions:").replace(
            " Zoo, Bay City;3 Oaks Park, Bay City.", "\n- Zoo, Bay City\n- 3 Oaks Park, Bay City"
        ),
        re.sub(r"\n(?!Day)", "; ", PLAN).replace(":; ", ": "),
        re.sub(r"Day (\d):?", r"### Day: \1", PLAN),
        "<think>Day 1:\nCurrent City: Nowhere</think>" + PLAN,
        PLAN + "\nCosts:\nDay 1:\nTransportation: $150\nLunch: $30\nDay 2 was cheap.",
    ],
)  # fmt: skip
def test_a_plan_is_read_as_models_write_it(text: str) -> None:
    judged = score(text)
    assert judged.value == 1, judged.explanation
    assert judged.answer is not None
    assert score(judged.answer).value == 1


@pytest.mark.parametrize(
    "entry",
    [
        *("N/A", "n.a.", "None", "\N{EM DASH}", "Not applicable", "not needed.", "None required"),
        *("No accommodation needed", "Not applicable (departure day)", "Nothing planned"),
        *("Not needed as the trip ends", "N/A, as they fly home", "No lunch", "- (return home)"),
    ],
)
def test_an_entry_that_says_it_is_not_needed_is_empty(entry: str) -> None:
    plan = PLAN.replace(": -\n", f": {entry}\n")
    assert plan != PLAN
    judged = score(plan)
    assert judged.value == 1, judged.explanation


@pytest.mark.parametrize("name", ["Nothing But Noodles", "No Name Diner", "Not Just Tea", "Nan's"])
def test_a_place_with_such_a_name_is_none_the_less_a_place(name: str) -> None:
    day = read_plan(f"Day 1:\nCurrent City: Bay City\nLunch: {name}, Bay City")
    assert day is not None
    assert day[0].lunch == f"{name}, Bay City"


@pytest.mark.parametrize("text", ["", "I cannot plan this.", "<think>" + PLAN])
def test_what_is_no_plan_is_not_delivered(text: str) -> None:
    judged = score(text, wishing(cuisine=["French"]))
    assert (judged.value, judged.answer, judged.metadata["delivered"]) == (0, None, False)
    assert judged.metadata["hard"] == {"budget": False, "cuisine": False}


def test_a_plan_in_the_form_of_the_official_submissions_scores_as_its_text() -> None:
    days = [
        {line.partition(": ")[0].lower().replace(" ", "_"): line.partition(": ")[2] for line in day}
        for day in (part.splitlines()[1:] for part in PLAN.strip().split("\n\n"))
    ]
    days[0].pop("day_1:", None)
    assert score(f"```json\n{days}\n```").value == score(str([*days, {}])).value == 1


@pytest.mark.parametrize(
    "other", [{"reference_information": []}, {"local_constraint": {"room type": "igloo"}}]
)
def test_a_broken_question_is_an_error_not_a_0(other: dict[str, Any]) -> None:
    with pytest.raises(ScorerError, match="'q' is not a TravelPlanner item"):
        score(asked=question(**other))


@pytest.mark.parametrize(
    ("cities", "reason"),
    [
        ("from St. Home to A|A|from A to B|B|from B to St. Home", None),
        ("from Other to A|A|from A to B|B|from B to St. Home", "starts in Other"),
        ("from St. Home to A|A|from A to B|B|from B to A", "does not end"),
        ("from St. Home to A|A|from A to B|from B to A|from A to St. Home", "A is visited twice"),
        ("from St. Home to A|C|from A to B|B|from B to St. Home", "A is entered but not left"),
        ("from St. Home to A|A|from A to B|C|from C to St. Home", "B is entered but not left"),
    ],
)
def test_the_route_is_a_circle(cities: str, reason: str | None) -> None:
    days = [f"Day {n}:\nCurrent City: {city}" for n, city in enumerate(cities.split("|"), start=1)]
    judged = score("\n".join(days), question(days=5))
    found = judged.metadata["reasons"].get("reasonable_route")
    assert found == reason or (reason and reason in found)


def test_a_drive_listed_one_way_is_known_both_ways() -> None:
    judged = score(change(*DRIVE), question(budget=9999))  # the reference lists the way there
    assert (judged.value, judged.metadata["cost"]) == (1, 100 + 180 + 400)


def test_rates_are_those_of_the_benchmark() -> None:
    asked = wishing(cuisine=["Seafood"])
    items = [
        score().metadata,  # everything: 1 of 1 hard, 8 of 8 commonsense
        score(asked=asked).metadata,  # 1 of 2 hard
        score(change(("Zoo", "Moo")), asked).metadata,  # kept out: 0 of 2 hard, 7 of 8
        TravelPlannerScorer().unanswered(asked),  # not delivered: 0 of 2, 0 of 8
    ]
    found = rates(items)
    assert found["delivery"] == 3 / 4
    assert found["hard_micro"] == 2 / 7
    assert found["hard_macro"] == 1 / 4
    assert found["commonsense_micro"] == (8 + 8 + 7) / 32
    assert found["commonsense_macro"] == 2 / 4
    assert found["final"] == 1 / 4
