import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from optim.datasets import BadRowError, Question, load
from optim.datasets.travelplanner import parse as parse_trip
from pb_graph.errors import InputError


def read(tmp_path: Path, name: str, *rows: dict[str, Any]) -> list[Question]:
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    return load(name, path=path)


def refusal(tmp_path: Path, name: str, row: dict[str, Any]) -> str:
    with pytest.raises(BadRowError) as refused:
        read(tmp_path, name, row)
    return refused.value.reason


# --- MATH-500

MATH = {
    "problem": "What is $1+1$?",
    "solution": r"It is $\boxed{2}$.",
    "answer": "2",
    "subject": "Prealgebra",
    "level": 1,
    "unique_id": "test/prealgebra/1.json",
}


def test_math500_row(tmp_path: Path) -> None:
    (question,) = read(tmp_path, "math500", MATH)
    assert question.id == "test/prealgebra/1.json"
    assert (question.question, question.targets, question.level) == ("What is $1+1$?", ("2",), 1)
    assert question.metadata == {"subject": "Prealgebra", "solution": r"It is $\boxed{2}$."}
    assert question.reference is None


@pytest.mark.parametrize("field", ["problem", "answer", "level"])
def test_math500_needs(tmp_path: Path, field: str) -> None:
    row = {name: value for name, value in MATH.items() if name != field}
    assert refusal(tmp_path, "math500", row).startswith(f"no '{field}'")


@pytest.mark.parametrize("level", ["Level ?", 7, -1, "12", "easy"])
def test_math500_refuses_other_levels(tmp_path: Path, level: object) -> None:
    assert "is outside 1 to 5" in refusal(tmp_path, "math500", {**MATH, "level": level})


# --- GSM8K


@pytest.mark.parametrize(
    ("final", "target"),
    [("72", "72"), ("1,080", "1080"), ("-3", "-3"), ("$10.50", "10.50"), (" 5 ", "5")],
)
def test_gsm8k_row(tmp_path: Path, final: str, target: str) -> None:
    row = {"question": "How many?", "answer": f"2*36=<<2*36=72>>72 of them\n#### {final}"}
    (question,) = read(tmp_path, "gsm8k", row)
    assert question.targets == (target,)
    assert question.metadata["solution"] == "2*36=72 of them"
    assert question.level is None


@pytest.mark.parametrize("answer", ["72", "#### many", "####", "#### 1 2"])
def test_gsm8k_needs_a_final_number(tmp_path: Path, answer: str) -> None:
    assert "####" in refusal(tmp_path, "gsm8k", {"question": "q?", "answer": answer})


# --- NaturalInstructions

TASK = {
    "Definition": ["Name the colour."],
    "Positive Examples": [{"input": str(i), "output": "red", "explanation": ""} for i in range(4)],
    "Categories": ["Naming"],
    "Instances": [
        {"id": "task1-a", "input": "the sky", "output": ["blue", "azure"]},
        {"id": "task1-b", "input": "grass", "output": ["green"]},
    ],
}


def test_natural_instructions_row(tmp_path: Path) -> None:
    row = {"id": "t-1", "query": "Instruction: x\nInput: y", "answer": "z", "level": 4}
    several = {"query": "other", "answers": ["a", "b"], "metadata": "not ours"}
    one, two = read(tmp_path, "natural_instructions", {**row, "solution": None}, several)
    assert (one.id, one.targets, one.level) == ("t-1", ("z",), 4)
    assert (two.targets, two.level, two.metadata) == (("a", "b"), None, {})


def test_items_with_an_empty_reference_are_left_out_and_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "rows.jsonl"
    rows = [
        {"query": "a", "answer": "x"},
        {"query": "b", "answer": " "},
        {"query": "c", "answers": [""]},
        {"query": "d", "answers": "", "answer": "y"},
    ]
    path.write_text("\n".join(map(json.dumps, rows)))
    questions = load("natural_instructions", path=path)
    assert [question.question for question in questions] == ["a", "d"]
    assert "2 rows skipped, first line 2: its reference answer is empty" in caplog.text
    assert "no 'answer'" in refusal(tmp_path, "natural_instructions", {"query": "a"})


def test_an_official_task_becomes_its_instances(tmp_path: Path) -> None:
    (tmp_path / "task1.json").write_text(json.dumps(TASK))
    sky, grass = load("natural_instructions", path=tmp_path / "task1.json")
    assert sky.question == "Instruction: Name the colour.\nInput: the sky"
    assert (sky.id, sky.targets, grass.targets) == ("task1-a", ("blue", "azure"), ("green",))
    assert len(sky.metadata["positive_examples"]) == 2


def test_a_bad_instance_is_named_by_its_place(tmp_path: Path) -> None:
    task = {**TASK, "Instances": [*TASK["Instances"], {"id": "task1-c", "output": ["x"]}]}
    (tmp_path / "task1.json").write_text(json.dumps(task))
    with pytest.raises(BadRowError, match=r"line 3 of .*: no 'query'"):
        load("natural_instructions", path=tmp_path / "task1.json")


@pytest.mark.parametrize("missing", ["Definition", "Instances"])
def test_a_task_needs_a_definition_and_instances(tmp_path: Path, missing: str) -> None:
    task = {name: value for name, value in TASK.items() if name != missing}
    (tmp_path / "task1.json").write_text(json.dumps(task))
    with pytest.raises(InputError, match="'Definition' and a list of 'Instances'"):
        load("natural_instructions", path=tmp_path / "task1.json")


# --- TravelPlanner

TABLES = [
    {"Description": "Restaurants in York", "Content": "Name City\n  Aa York"},
    {"Description": "Attractions in York", "Content": [{"Name": "Wall", "City": "York"}]},
]
WISHES = {"house rule": None, "cuisine": ["French"], "room type": None, "transportation": None}
TRIP: dict[str, Any] = {
    "org": "Bath",
    "dest": "York",
    "days": 3,
    "visiting_city_number": 1,
    "date": ["2022-03-16", "2022-03-17", "2022-03-18"],
    "people_number": 2,
    "local_constraint": WISHES,
    "budget": 1700,
    "query": "Plan a trip from Bath to York.",
    "level": "medium",
    "reference_information": TABLES,
}
TEXT: dict[str, Any] = {**TRIP, "days": "3", "budget": "$1,700", "people_number": 2.0}


@pytest.mark.parametrize(
    "write", [lambda value: value, json.dumps, repr], ids=["as is", "json", "python"]
)
def test_travelplanner_structures_come_in_any_writing(write: Callable[[object], object]) -> None:
    structures = ("date", "local_constraint", "reference_information")
    question = parse_trip({**TEXT, **{name: write(TRIP[name]) for name in structures}})
    names = ("org", "dest", "days", "people_number", "budget", "visiting_city_number", *structures)
    assert question.metadata == {name: TRIP[name] for name in names}
    assert (question.level, question.targets) == (3, ())
    assert question.reference == (
        "Restaurants in York\nName City\n  Aa York\n\nAttractions in York\nName | City\nWall | York"
    )
    json.dumps(dict(question.metadata))


def test_travelplanner_shows_every_column_of_a_table_whichever_row_has_it() -> None:
    rows = [{"Name": "Aa", "City": "York"}, {"Name": "Bb", "Cost": 9}]
    tables = [{"Description": "Restaurants in York", "Content": rows}]
    assert parse_trip({**TRIP, "reference_information": tables}).reference == (
        "Restaurants in York\nName | City | Cost\nAa | York | \nBb |  | 9"
    )


def test_travelplanner_tables_may_be_a_mapping() -> None:
    mapping = {table["Description"]: table["Content"] for table in TABLES}
    question = parse_trip({**TRIP, "reference_information": mapping})
    assert question.metadata["reference_information"] == TABLES


@pytest.mark.parametrize(("level", "number"), [("easy", 1), ("Hard", 5), (4, 4), (None, None)])
def test_travelplanner_levels(level: object, number: int | None) -> None:
    assert parse_trip({**TRIP, "level": level}).level == number


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("query", "", "'query' is empty"),
        ("org", None, "'org' is empty"),
        ("budget", "plenty", "not a whole number above 0"),
        ("days", "inf", "not a whole number above 0"),
        ("level", "extreme", "outside 1 to 5"),
        ("local_constraint", "[1]", "not a mapping"),
        ("local_constraint", "__import__('os')", "neither JSON nor a Python literal"),
        ("reference_information", None, "'reference_information' is empty"),
        ("reference_information", [{"Description": "x"}], "not a list of"),
        ("reference_information", "(" * 50_000, "neither JSON nor"),
        ("reference_information", "[" * 50_000, "neither JSON nor"),
        ("reference_information", "'" + "x" * 4_000_000 + "'", "longer than"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_travelplanner_refuses(field: str, value: object, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        parse_trip({**TRIP, field: value})


def test_nothing_written_in_a_file_is_run(tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    row = {**TRIP, "local_constraint": f"open({str(trap)!r}, 'w')"}
    with pytest.raises(InputError):
        parse_trip(row)
    assert not trap.exists()


def test_the_prescribed_plan_names_every_field() -> None:
    question = parse_trip(TRIP)
    fields = "Current City", "Transportation", "Breakfast", "Attraction", "Lunch", "Dinner"
    assert all(f"'{field}:'" in question.answer_format for field in (*fields, "Accommodation"))
