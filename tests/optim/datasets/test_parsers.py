import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from optim.datasets import Question, load
from optim.datasets.travelplanner import parse as parse_trip
from pb_graph.errors import InputError


def read(tmp_path: Path, name: str, *rows: dict[str, Any]) -> list[Question]:
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    return load(name, path=path)


def refusal(tmp_path: Path, name: str, row: dict[str, Any]) -> str:
    with pytest.raises(InputError) as refused:
        read(tmp_path, name, row)
    return str(refused.value)


MATH = {
    "problem": "What is $1+1$?",
    "answer": "2",
    "level": 1,
    "unique_id": "test/prealgebra/1.json",
}


def test_math500_row(tmp_path: Path) -> None:
    (question,) = read(tmp_path, "math500", MATH)
    assert question.id == "test/prealgebra/1.json"
    assert (question.question, question.targets, question.level) == ("What is $1+1$?", ("2",), 1)
    assert "no 'level'" in refusal(tmp_path, "math500", {k: MATH[k] for k in ("problem", "answer")})


@pytest.mark.parametrize(
    ("final", "target"), [("1,080", "1080"), ("-3", "-3"), ("$10.50", "10.50")]
)
def test_gsm8k_row(tmp_path: Path, final: str, target: str) -> None:
    row = {"question": "How many?", "answer": f"2*36=<<2*36=72>>72 of them\n#### {final}"}
    (question,) = read(tmp_path, "gsm8k", row)
    assert "####" in refusal(tmp_path, "gsm8k", row | {"answer": "#### many"})
    assert question.targets == (target,)
    assert question.level is None


TASK = {
    "Definition": ["Name the colour."],
    "Instances": [
        {"id": "task1-a", "input": "the sky", "output": ["blue", "azure"]},
        {"id": "task1-b", "input": "grass", "output": ["green"]},
    ],
}


def test_natural_instructions_row(tmp_path: Path) -> None:
    row = {"id": "t-1", "query": "Instruction: x\nInput: y", "answer": "z", "level": 4}
    several, blank = {"query": "other", "answers": ["a", "b"]}, {"query": "b", "answer": " "}
    one, two = read(tmp_path, "natural_instructions", row, blank, several)  # leaves out the blank
    assert (one.id, one.targets, one.level) == ("t-1", ("z",), 4)
    assert (two.targets, two.level) == (("a", "b"), None)
    assert "no 'answer'" in refusal(tmp_path, "natural_instructions", {"query": "a"})


def test_an_official_task_becomes_its_instances(tmp_path: Path) -> None:
    (tmp_path / "task1.json").write_text(json.dumps(TASK))
    sky, grass = load("natural_instructions", path=tmp_path / "task1.json")
    assert sky.question == "Instruction: Name the colour.\nInput: the sky"
    assert (sky.id, sky.targets, grass.targets) == ("task1-a", ("blue", "azure"), ("green",))
    for broken in ({"id": "x", "output": ["c"]}, "text"):
        task = TASK | {"Instances": [TASK["Instances"][0], broken]}
        (tmp_path / "task1.json").write_text(json.dumps(task))
        with pytest.raises(InputError, match="instance 2 has no text as its 'input'"):
            load("natural_instructions", path=tmp_path / "task1.json")


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
TEXT: dict[str, Any] = {**TRIP, "days": "3", "budget": "1700", "people_number": 2.0}


@pytest.mark.parametrize("write", [lambda value: value, repr], ids=["as is", "python"])
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


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("org", None, "'org' is empty"),
        ("local_constraint", "__import__('os')", "is not a Python literal"),
        ("reference_information", "'none'", "not a list of"),
    ],
)
def test_travelplanner_refuses(field: str, value: object, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        parse_trip({**TRIP, field: value})
