"""Questions of files, the hub and lists: read, refused, chosen and drawn."""

from __future__ import annotations

import csv
import gzip
import json
import re
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optim.datasets import DATASETS, Question, Questions, dataset, load, sample
from optim.datasets.dataset import Row
from optim.datasets.travelplanner import parse as parse_trip
from optim.scorers import as_scorer
from pb_graph.errors import InputError

ROWS: list[dict[str, Any]] = [
    {"id": f"q{i}", "question": f"What is {i} + {i}?", "answer": str(2 * i), "level": 1 + i % 5}
    for i in range(20)
]


def written(path: Path, *lines: object) -> Path:
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_text("\n".join(texts) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def good(tmp_path: Path) -> Path:
    return written(tmp_path / "good.jsonl", *ROWS)


@patch.dict(DATASETS)  # takes it away again at the end
def test_a_data_set_is_one_function_under_the_decorator(tmp_path: Path) -> None:
    @dataset(
        "svamp",
        domain="arithmetic",
        instruction="Solve this.",
        answer_format="As a number.",
        scorer="math",
    )
    def parse(row: Row) -> Question:
        return Question(row.text("ID"), row.text("Question"), targets=row.targets("Answer"))

    row = {"ID": "chal-1", "Question": "Sum?", "Answer": 4.0}
    (question,) = load("svamp", path=written(tmp_path / "a.jsonl", row))
    assert question == parse(row)
    assert (question.targets, question.domain) == (("4.0",), "arithmetic")
    assert (question.instruction, question.answer_format) == ("Solve this.", "As a number.")
    with pytest.raises(InputError, match=r"no data set named 'swamp'.*math500.*'svamp'"):
        load("swamp")


@patch.dict(DATASETS)
def test_questions_are_a_data_set_a_file_or_a_list(good: Path, tmp_path: Path) -> None:
    alone = Questions(data=good, limit=3)
    assert (alone.label, alone.load()) == ("jsonl", load("jsonl", path=good, limit=3))
    listed = Questions(dataset=load("jsonl", path=good), levels=[2], limit=3)
    assert (listed.label, listed.load()) == ("list", load("jsonl", path=good, levels=[2], limit=3))
    own = written(tmp_path / "own.py", OWN)
    found = Questions(dataset=f"{own}:parse", data=written(tmp_path / "a.jsonl", {"n": 4}))
    assert (found.label, found.load()[0].question) == ("own", "What is 4?")
    complaints = {
        "give the questions: --dataset NAME": Questions,
        "duplicate questions: q": lambda: Questions(dataset=[Question("q", "?")] * 2).load(),
        "is no data set: put @dataset": lambda: load(f"{own}:Question"),
        "list has no question of level 5": lambda: Questions(
            dataset=[Question("q", "?")], levels=[5]
        ).load(),
    }
    for complaint, made in complaints.items():
        with pytest.raises(InputError, match=complaint):
            made()


OWN = """
from optim.datasets import Question, dataset
@dataset("own", domain="", instruction="", answer_format="", scorer="match")
def parse(row):
    return Question(str(row["n"]), f"What is {row['n']}?")
"""


def test_every_kind_of_file_reads_the_same(good: Path, tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet  # noqa: PLC0415 - only where the extra is installed

    written(tmp_path / "a.json", ROWS)
    with (tmp_path / "a.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, list(ROWS[0]))
        table.writeheader()
        table.writerows(ROWS)
    parquet.write_table(pyarrow.Table.from_pylist(ROWS), tmp_path / "a.parquet")
    with (tmp_path / "a.tsv").open("w", newline="") as file:
        file.write((tmp_path / "a.csv").read_text().replace(",", "\t"))
    (tmp_path / "a.ndjson").write_bytes(good.read_bytes())
    for plain in ("a.ndjson", "a.json", "a.csv"):
        (tmp_path / f"{plain}.gz").write_bytes(gzip.compress((tmp_path / plain).read_bytes()))
    (tmp_path / "paper.json").write_text(json.dumps({"total": 20, "note": [], "stats": ROWS}))
    columns = {name: [row[name] for row in ROWS] for name in ROWS[0]}
    (tmp_path / "columns.json").write_text(json.dumps(columns))
    texts = good.read_text(), (tmp_path / "a.csv").read_text()
    (tmp_path / "lines.json").write_text(texts[0])  # as `datasets` writes them
    (tmp_path / "wide.JSONL").write_text(texts[0], encoding="utf-16")
    (tmp_path / "commas.jsonl").write_text(texts[0].replace("}\n", "},\r\n"))
    (tmp_path / "excel.csv").write_text(
        f"sep=;\n{texts[1].replace(',', ' ; ', 3)}".replace(",", ";")
    )
    others = "columns.json", "wide.JSONL", "commas.jsonl", "excel.csv", "lines.json", "paper.json"
    endings = "json", "csv", "parquet", "tsv", "ndjson", "ndjson.gz", "json.gz", "csv.gz"
    for other in (*others, *(f"a.{ending}" for ending in endings)):
        assert load("jsonl", path=str(tmp_path / other)) == load("jsonl", path=good), other
    assert [question.id for question in load("jsonl", path=good)] == [row["id"] for row in ROWS]


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (["question,answer", "what, now?,1"], "has more cells than the header"),
        (["question,answer,answer", "q?,1,2"], "the column 'answer' stands 2 times in the header"),
        (["prompt,answer", "q?,1"], "map its columns: --field question=NAME"),
    ],
)
def test_a_table_is_refused_for_what_is_wrong_in_it(
    tmp_path: Path, lines: list[str], reason: str
) -> None:
    with pytest.raises(InputError, match=re.escape(reason)):
        load("jsonl", path=written(tmp_path / "a.csv", *lines))


def test_a_table_of_a_spreadsheet_is_read(tmp_path: Path) -> None:
    lines = ["question,answers,choices,", 'a?,"[""B"", ""a""]","[\'x\', \'y\']",', ",,,"]
    first, second = load("jsonl", path=written(tmp_path / "a.csv", *lines, "b?,[1],,"))
    assert (first.targets, first.metadata["choices"]) == (("B", "A"), ["x", "y"])
    assert second.targets == ("1",)
    texts = load("jsonl", path=written(tmp_path / "b.csv", "question;answer", "c?;[1,2]", "d?;nan"))
    assert [one.targets for one in texts] == [("[1,2]",), ("nan",)]  # an interval, and a word


@pytest.mark.parametrize("content", [b"", b"\x1f\x8b\x08", b"PK\x03\x04", b"[" * 100_000])
@pytest.mark.parametrize("name", ["a.jsonl.gz", "a.csv.gz", "a.json", "a.tsv", "a.parquet", "a.x"])
def test_a_file_that_cannot_be_read_is_an_input_error(
    tmp_path: Path, name: str, content: bytes
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=name):
        load("jsonl", path=tmp_path / name)


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ("{not json", "line 4: Expecting"),
        ({"answer": "1"}, "no 'question' (columns: answer)"),
        (
            {"question": "h?", "answer": "1", "id": "q1"},
            "the id 'q1' is already used by an earlier row",
        ),
        ({"question": "i?", "answer": {"value": 1}}, "'answer' holds dict, not text"),
        ({"question": "i?", "answer": float("nan")}, "'answer' is empty"),
        ({"question": "i?", "answers": ["", " "]}, "'answers' is empty"),
        ('["a", "list"]', "row 4 of"),
        ('"text"', "it is a str, not an object with columns"),
    ],
)
def test_a_row_that_is_no_question_is_named_by_its_place(
    tmp_path: Path, bad: object, reason: str
) -> None:
    path = written(tmp_path / "a.jsonl", *ROWS[:3], bad, *ROWS[3:])
    with pytest.raises(InputError, match=re.escape(reason)) as refused:
        load("jsonl", path=path)
    assert "4" in str(refused.value)


def test_a_field_map_names_the_columns(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", {"prompt": "p?", "gold": ["a", "b", "a"], "hard": "3"})
    fields = {"question": "prompt", "answers": "gold", "level": "hard"}
    (question,) = load("jsonl", path=path, fields=fields)
    assert (question.question, question.targets, question.level) == ("p?", ("a", "b"), 3)
    with pytest.raises(InputError, match="no column 'text', although the field map names it"):
        load("jsonl", path=path, fields={"question": "text"})
    with pytest.raises(InputError, match="no field 'context' to map; available: answer"):
        load("jsonl", path=path, fields=fields | {"context": "prompt"})


def test_choices_are_shown_with_letters_of_which_one_is_the_answer(tmp_path: Path) -> None:
    row = {"question": "Which?", "answer": "b", "choices": ["x", "y"]}
    (question,) = load("jsonl", path=written(tmp_path / "a.jsonl", row))
    assert question.question == "Which?\n\nA) x\nB) y"
    assert question.targets == ("B",)
    others = [row, row | {"choices": ["x", "z"]}, row | {"reference": "A text."}]
    assert len({one.id for one in load("jsonl", path=written(tmp_path / "b.jsonl", *others))}) == 3
    assert "a letter from A to B" in refusal(tmp_path, "jsonl", row | {"answer": "y"})
    assert "must be a list" in refusal(tmp_path, "jsonl", row | {"choices": '["x", "y"]'})


def test_ids_that_a_file_lacks_come_from_the_text(tmp_path: Path) -> None:
    rows = [{key: row[key] for key in ("question", "answer")} for row in ROWS]
    there = load("jsonl", path=written(tmp_path / "a.jsonl", *rows))
    back = load("jsonl", path=written(tmp_path / "b.jsonl", *reversed(rows)))
    assert {q.id: q.question for q in there} == {q.id: q.question for q in back}


def test_limit_seed_and_levels_choose(good: Path) -> None:
    drawn = load("jsonl", path=good, limit=10, seed=1)
    assert sorted(q.level or 0 for q in drawn) == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    assert {q.level for q in load("jsonl", path=good, levels=[2, 3])} == {2, 3}
    with pytest.raises(InputError, match="no question of level 6"):
        load("jsonl", path=good, levels=[6])


def test_without_a_path_the_hub_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def load_dataset(*where: object, split: str) -> list[dict[str, str]]:
        asked.append((*where, split))
        return [{"question": "q?", "answer": "so\n#### 1,000"}]

    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=load_dataset))
    (question,) = load("gsm8k")
    load("gsm8k", split="train")
    assert question.targets == ("1000",)
    assert asked == [("openai/gsm8k", "main", "test"), ("openai/gsm8k", "main", "train")]


def test_a_hub_out_of_reach_names_the_way_around(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=None))
    with pytest.raises(InputError, match=r"cannot read split 'test'.*--data PATH"):
        load("math500")


def test_the_frozen_word_problems_are_sixty_of_each_level() -> None:
    found = load("arithmetic")
    assert Counter(question.level for question in found) == dict.fromkeys(range(1, 6), 60)
    assert all(question.targets[0].isdecimal() for question in found)


def test_reasoning_gym_makes_questions_of_every_level_for_its_own_checker() -> None:
    pytest.importorskip("reasoning_gym")
    found = load("reasoning_gym:leg_counting", limit=10, seed=3)
    assert Counter(question.level for question in found) == dict.fromkeys(range(1, 6), 2)
    assert found == load("reasoning_gym:leg_counting", limit=10, seed=3)
    for question in found:
        said = rf"\boxed{{{question.targets[0]}}}"
        assert as_scorer("reasoning_gym").score(said, question).value == 1
        assert as_scorer("reasoning_gym").score(r"\boxed{none}", question).value < 1


LEVELS = st.lists(st.sampled_from([1, 2, 3, 4, 5, None]), min_size=1, max_size=60)
SEED = st.integers(0, 10)


def pool(levels: list[int | None]) -> list[Question]:
    return [Question(f"q{i}", f"text of q{i}", level) for i, level in enumerate(levels)]


@given(LEVELS, st.integers(1, 70), SEED)
def test_levels_differ_by_one_at_most_unless_one_runs_out(
    levels: list[int | None], n: int, seed: int
) -> None:
    drawn = sample(pool(levels), n, seed)
    assert len({q.id for q in drawn}) == len(drawn) == min(n, len(levels))
    there, taken = Counter(levels), Counter(q.level for q in drawn)
    most = max(taken.values())
    assert all(taken[level] >= min(most - 1, there[level]) for level in there)


@given(LEVELS, st.integers(1, 30), st.integers(0, 30), SEED)
def test_samples_are_nested(levels: list[int | None], n: int, more: int, seed: int) -> None:
    assert sample(pool(levels), n + more, seed)[:n] == sample(pool(levels), n, seed)


@given(LEVELS, st.randoms(), SEED)
def test_the_order_of_the_file_does_not_matter(levels: list[int | None], random, seed: int) -> None:  # noqa: ANN001 - hypothesis gives no public type
    shuffled = pool(levels)
    random.shuffle(shuffled)
    assert sample(shuffled, 10, seed) == sample(pool(levels), 10, seed)


def test_the_draw_is_the_same_on_every_machine() -> None:
    drawn = sample(pool([1, 2, 3] * 10), 6, seed=0)
    assert [q.id for q in drawn] == ["q15", "q16", "q26", "q29", "q27", "q13"]


def read(tmp_path: Path, name: str, *rows: dict[str, Any]) -> list[Question]:
    return load(name, path=written(tmp_path / "rows.jsonl", *rows))


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
