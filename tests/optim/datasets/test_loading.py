import csv
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

from optim.datasets import (
    DATASETS,
    DataSet,
    HubSource,
    Question,
    data_set,
    dataset,
    load,
)
from optim.datasets.dataset import Row
from optim.scorers import NAMES, as_scorer
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


# --- every data set


@pytest.mark.parametrize("chosen", DATASETS.values(), ids=lambda chosen: chosen.name)
def test_a_data_set_says_what_the_solver_and_the_scorer_need(chosen: DataSet) -> None:
    assert chosen.scorer in NAMES
    assert chosen.domain
    assert chosen.instruction
    assert chosen.answer_format
    # What stands between the braces is copied by small models.
    assert "\\boxed{" not in chosen.answer_format


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(InputError, match=r"no data set named 'maths'.*math500"):
        load("maths")
    assert data_set("gsm8k").hub.path == "openai/gsm8k"


@patch.dict(DATASETS)  # takes it away again at the end
def test_a_data_set_is_one_function_under_the_decorator(tmp_path: Path) -> None:
    @dataset(
        "svamp",
        domain="arithmetic",
        instruction="Solve this.",
        answer_format="As a number.",
        scorer="math",
        hub=HubSource("ChilleD/SVAMP", None, "test"),
    )
    def parse(row: Row) -> Question:
        question = f"{row.text('Body')} {row.text('Question')}"
        targets = (row.text("Answer"),)
        return Question(row.text("ID"), question, targets=targets)

    row = {"ID": "chal-1", "Body": "Two and two.", "Question": "Sum?", "Answer": 4.0}
    (question,) = load("svamp", path=written(tmp_path / "a.jsonl", row))
    assert question == parse(row)
    assert (question.question, question.targets) == ("Two and two. Sum?", ("4.0",))
    assert (question.domain, question.instruction) == ("arithmetic", "Solve this.")
    assert question.answer_format == "As a number."


# --- files


def test_every_kind_of_file_reads_the_same(good: Path, tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet  # noqa: PLC0415 - only where the extra is installed

    written(tmp_path / "a.json", ROWS)
    with (tmp_path / "a.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, list(ROWS[0]))
        table.writeheader()
        table.writerows(ROWS)
    parquet.write_table(pyarrow.Table.from_pylist(ROWS), tmp_path / "a.parquet")
    for ending in ("json", "csv", "parquet"):
        assert load("jsonl", path=str(tmp_path / f"a.{ending}")) == load("jsonl", path=good)
    assert [question.id for question in load("jsonl", path=good)] == [row["id"] for row in ROWS]


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.json", "{", "cannot read .*a.json as a .jsonl, .json, .csv or .parquet file"),
        ("a.json", "{}", "holds dict, not a list"),
        ("a.csv", "question,answer\nz?,1,2\n", "has more cells than the header"),
        ("a.jsonl", "", "has no question"),
    ],
)
def test_a_file_that_cannot_be_read_says_why(
    tmp_path: Path, name: str, content: str, reason: str
) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=reason):
        load("jsonl", path=tmp_path / name)


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ("{not json", "line 4: Expecting"),
        ({"answer": "1"}, "no 'question' (columns: answer)"),
        ({"question": "  ", "answer": "1"}, "'question' is empty"),
        ({"question": "b?", "answers": []}, "'answers' is an empty list"),
        ({"question": "c?", "answer": "1", "level": 6}, "level '6' is outside 1 to 5"),
        ({"question": "h?", "answer": "1", "id": "q1"}, "its id 'q1' is that of an earlier row"),
        ({"question": "i?", "answer": {"value": 1}}, "'answer' holds dict, not text"),
    ],
)
def test_a_row_that_is_no_question_is_named_by_its_place(
    tmp_path: Path, bad: object, reason: str
) -> None:
    path = written(tmp_path / "a.jsonl", *ROWS[:3], bad, *ROWS[3:])
    with pytest.raises(InputError, match=re.escape(reason)) as refused:
        load("jsonl", path=path)
    assert "4" in str(refused.value)


# --- choices


def test_a_field_map_names_the_columns(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", {"prompt": "p?", "gold": ["a", "b", "a"], "hard": "3"})
    fields = {"question": "prompt", "answers": "gold", "level": "hard"}
    (question,) = load("jsonl", path=path, fields=fields)
    assert (question.question, question.targets, question.level) == ("p?", ("a", "b"), 3)
    with pytest.raises(InputError, match="no column 'text', which the field map names"):
        load("jsonl", path=path, fields={"question": "text"})


def test_a_file_may_say_what_the_solver_is_told(tmp_path: Path) -> None:
    told = {"instruction": "Do.", "answer_format": "So.", "domain": "law", "reference": "Act 1"}
    path = written(tmp_path / "a.jsonl", {"question": "q?", "answer": 42, **told})
    (question,) = load("jsonl", path=path)
    assert {name: getattr(question, name) for name in told} == told
    assert question.targets == ("42",)


def test_choices_are_shown_with_letters_of_which_one_is_the_answer(tmp_path: Path) -> None:
    row = {"question": "Which?", "answer": "b", "choices": ["x", "y"]}
    (question,) = load("jsonl", path=written(tmp_path / "a.jsonl", row))
    assert question.question == "Which?\n\nA) x\nB) y"
    assert question.targets == ("B",)
    with pytest.raises(InputError, match="a letter from A to B"):
        load("jsonl", path=written(tmp_path / "a.jsonl", row | {"answer": "y"}))


def test_ids_that_a_file_lacks_come_from_the_text(tmp_path: Path) -> None:
    rows = [{key: row[key] for key in ("question", "answer")} for row in ROWS]
    there = load("jsonl", path=written(tmp_path / "a.jsonl", *rows))
    back = load("jsonl", path=written(tmp_path / "b.jsonl", *reversed(rows)))
    assert {q.id: q.question for q in there} == {q.id: q.question for q in back}


def test_limit_seed_and_levels_choose(good: Path) -> None:
    drawn = load("jsonl", path=good, limit=10, seed=1)
    assert sorted(q.level or 0 for q in drawn) == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    assert drawn == load("jsonl", path=good, limit=10, seed=1)
    assert drawn != load("jsonl", path=good, limit=10, seed=2)
    assert {q.level for q in load("jsonl", path=good, levels=[2, 3])} == {2, 3}
    with pytest.raises(InputError, match="no question of level 6"):
        load("jsonl", path=good, levels=[6])
    with pytest.raises(InputError, match="at least 1"):
        load("jsonl", path=good, limit=0)


# --- the hub


def library(monkeypatch: pytest.MonkeyPatch, load_dataset: Callable[..., object]) -> None:
    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=load_dataset))


def test_without_a_path_the_hub_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def load_dataset(*where: object, split: str) -> list[dict[str, str]]:
        asked.append((*where, split))
        return [{"question": "q?", "answer": "so\n#### 1,000"}]

    library(monkeypatch, load_dataset)
    (question,) = load("gsm8k")
    load("gsm8k", split="train")
    assert question.targets == ("1000",)
    assert asked == [("openai/gsm8k", "main", "test"), ("openai/gsm8k", "main", "train")]


def test_a_hub_out_of_reach_names_the_way_around(monkeypatch: pytest.MonkeyPatch) -> None:
    def load_dataset(*_: object, split: str) -> None:
        msg = f"no route to {split}"
        raise ConnectionError(msg)

    library(monkeypatch, load_dataset)
    with pytest.raises(InputError, match=r"no route to test.*--data PATH"):
        load("math500")
    with pytest.raises(InputError, match="give a local file with --data PATH"):
        load("natural_instructions")


# --- what comes with the package, and what is generated


def test_the_frozen_word_problems_are_sixty_of_each_level() -> None:
    found = load("arithmetic")
    assert Counter(question.level for question in found) == dict.fromkeys(range(1, 6), 60)
    assert all(question.targets[0].isdecimal() for question in found)


def test_reasoning_gym_makes_questions_of_every_level_for_its_own_checker() -> None:
    pytest.importorskip("reasoning_gym")
    found = load("reasoning_gym:leg_counting", limit=10, seed=3)
    assert Counter(question.level for question in found) == dict.fromkeys(range(1, 6), 2)
    assert found == load("reasoning_gym:leg_counting", limit=10, seed=3)
    assert found[0].question != load("reasoning_gym:leg_counting", limit=10, seed=4)[0].question
    for question in found:
        said = rf"\boxed{{{question.targets[0]}}}"
        assert as_scorer("reasoning_gym").score(said, question).value == 1
        assert as_scorer("reasoning_gym").score(r"\boxed{none}", question).value < 1
    with pytest.raises(InputError, match=r"no task 'leg_counts'.*leg_counting"):
        load("reasoning_gym:leg_counts")
