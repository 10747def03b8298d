"""Logs read back: all that was run, in parts or whole, and nothing mixed."""
# ruff: noqa: ANN401 -- options of an evaluation

from __future__ import annotations

import dataclasses
import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from optim.evaluation import Evaluation, evaluate
from optim.evaluation.experiment import part_of, read_part
from optim.records import Records, read_records
from pb_graph import InputError
from tests.support.chat_model import ScriptedChat
from tests.support.evaluations import (
    QUESTIONS,
    contents,
    evaluated,
    experiment,
    fails_on_the_hardest,
    leaks_collected,
    solves,
    solves_the_easy_ones,
    tolerates_inspect,
)

__all__ = ["leaks_collected"]  # applies to every test here

pytestmark = tolerates_inspect


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Evaluation:
    model = ScriptedChat(solve=fails_on_the_hardest, plan=["A | b|c?", "Then?\n<script>"])
    folder = tmp_path_factory.mktemp("logs")
    return evaluated(model, folder, methods="stepwise,vanilla", epochs=2)


def test_records_read_back_are_what_was_run(run: Evaluation) -> None:
    found = read_records(run.log_dir)
    assert sorted(found, key=str) == sorted(run.records, key=str)
    assert list(dict.fromkeys(record.method for record in found)) == ["vanilla", "stepwise"]
    record = next(r for r in found if r.method == "stepwise" and r.level == 1)
    question = next(q for q in QUESTIONS if q.id == record.question)
    assert (record.dataset, record.model) == ("arithmetic", "scripted-1")
    assert record.question_text == question.question
    assert record.target == question.targets[0]
    assert record.output == rf"It is \boxed{{{record.target}}}"
    assert (record.score, record.error, record.epoch) == (1.0, None, 1)
    assert record.explanation == f"{record.target} equals {record.target}"
    assert {"date", "version", "command", "seed", "scorer", "settings"} <= record.made_by.keys()


def test_a_record_has_the_prompts_of_its_row_each_kind_once(run: Evaluation) -> None:
    prompts = {record.method: record.made_by["prompt"] for record in run.records}
    assert prompts["vanilla"].count("<question>") == 1
    assert prompts["vanilla"].startswith("[system]\n")
    planned = prompts["stepwise"]
    assert planned.count("[system]") == 2  # the plan, and the first of two steps


def test_a_record_says_whose_word_the_level_is(tmp_path: Path) -> None:
    model = ScriptedChat(solve=solves, level=2)
    chosen = "vanilla,concise,planned_vanilla,global_budget"
    told = evaluated(model, tmp_path / "a", methods=chosen).records
    guessed = evaluated(model, tmp_path / "b", methods=chosen, estimate_level=True).records
    by_method = {(r.method, r.level_source) for r in told}
    unaware = {("vanilla", None), ("concise", None)}
    assert by_method == unaware | {("planned_vanilla", "label"), ("global_budget", "label")}
    asked = {("planned_vanilla", "estimated"), ("global_budget", "estimated")}
    assert {(r.method, r.level_source) for r in guessed} == unaware | asked


@pytest.mark.parametrize(
    ("row", "options", "named"),
    [
        ({"question": "What is 2 + 3?", "answer": "5"}, {}, "text, accepted answers"),
        ({"reference": "It is 4."}, {}, "reference, instruction or form"),
        ({}, {"scorer": "rouge"}, "scorer: math → rouge"),
        ({}, {"epochs": 2}, "epochs: 1 → 2"),
    ],
)
def test_methods_that_were_asked_or_scored_otherwise_are_not_compared(
    tmp_path: Path, row: dict[str, str], options: dict[str, Any], named: str
) -> None:
    own_question(tmp_path, "vanilla")
    own_question(tmp_path, "concise", row, **options)
    with pytest.raises(InputError, match=f"'q' of 'jsonl' differs between .* in {named}"):
        read_records(tmp_path)


def own_question(
    folder: Path, methods: str, row: dict[str, str] | None = None, **options: Any
) -> None:
    """Ask a question of a file of one's own."""
    data = folder.parent / "own.jsonl"
    data.write_text(
        json.dumps({"id": "q", "question": "What is 2 + 2?", "answer": "4"} | (row or {}))
    )
    own = {"dataset": "jsonl", "data": data, "limit": None, "scorer": "math"} | options
    asked = experiment(ScriptedChat(solve="4"), folder, methods=methods)
    evaluate(dataclasses.replace(asked, **own), console=Console(quiet=True))


def test_a_run_below_the_folder_is_never_replaced_by_another(tmp_path: Path) -> None:
    own_question(tmp_path / "x", "vanilla")
    own_question(tmp_path / "y", "vanilla", settings={"cutoff": 50})
    with pytest.raises(InputError, match=r"'vanilla' on 'jsonl' differs between .* cutoff: 8192"):
        read_records(tmp_path)
    own_question(tmp_path / "z", "vanilla")
    with pytest.raises(InputError, match=r"question 'q' .* is both in"):
        read_records([tmp_path / "x", tmp_path / "z"])


def test_what_a_log_lacks_is_told_and_the_latest_log_counts(tmp_path: Path) -> None:
    model = ScriptedChat(solve=solves)
    few = evaluated(model, tmp_path, limit_tokens=5, concurrency=1, epochs=2).records
    for found in (few, read_records(tmp_path)):
        assert {r.made_by["gaps"] for r in found} == {f"its log has {len(few)} of its 10 answers"}
    evaluated(model, tmp_path, epochs=2)
    records = read_records(tmp_path)
    assert (len(records), len(list(tmp_path.glob("*.eval")))) == (10, 2)
    assert not any("gaps" in record.made_by for record in records)


def test_a_folder_without_logs_says_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no log of `pb-optim eval`"):
        read_records(tmp_path)
    (tmp_path / "broken.eval").write_text("no log")
    with pytest.raises(InputError, match="cannot read the log"):
        read_records(tmp_path)


def test_text_has_line_breaks_of_its_own_and_another_versions_report_is_refused(
    run: Evaluation, tmp_path: Path
) -> None:
    said = dataclasses.replace(run.records[0], output="one\u2028two\x85three")
    Records([said]).save(tmp_path / "answers.jsonl")
    assert Records.load(tmp_path / "answers.jsonl") == [said]
    older: Any = {name: value for name, value in said.report.items() if name != "steps"}
    with pytest.raises(InputError, match="its report has no 'steps'"):
        dataclasses.replace(said, report=older)


OF = 3
WHOLE: dict[str, Any] = {"methods": "vanilla,cosine", "limit": 15}
Parts = tuple[Path, ScriptedChat]


def part(model: ScriptedChat, root: Path, number: int, **options: Any) -> Evaluation:
    folder = root / f"part-{number}"
    return evaluated(model, folder, **WHOLE | {"part": f"{number}/{OF}"} | options)


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Parts:
    """Return the folder of all parts, and the model that was asked."""
    root, model = tmp_path_factory.mktemp("parts"), ScriptedChat(solve=solves_the_easy_ones)
    for number in range(1, OF + 1):
        part(model, root, number)
    return root, model


def test_every_question_is_in_one_part_whatever_else_is_drawn() -> None:
    ids = [f"test/algebra/{number}.json" for number in range(2000)]
    sizes = Counter(part_of(one, 16) for one in ids)
    assert set(sizes) == {*range(1, 17)}
    assert min(sizes.values()) > 0.7 * len(ids) / 16
    # Another hash would have a folder's paid work thrown away.
    assert [part_of(one, 16) for one in "abé"] == [11, 11, 4]


@pytest.mark.parametrize("text", ["0/16", "17/16", "3"])
def test_what_is_no_part_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"a part must be I/N, such as 3/16, .* 1 to N, not"):
        read_part(text)


def test_parts_give_the_same_records_as_one_run(parts: Parts, tmp_path: Path) -> None:
    root, model = parts
    undivided = ScriptedChat(solve=solves_the_easy_ones)
    whole = evaluated(undivided, tmp_path, **WHOLE)
    pooled = read_records(sorted(root.iterdir()))
    assert contents(pooled) == contents(whole.records) == contents(read_records(root))
    assert len(pooled) == 30
    assert model.output_tokens == undivided.output_tokens
    assert {record.made_by["parts"] for record in pooled} == {OF}
    assert not any("gaps" in record.made_by for record in pooled)
    empty = evaluated(model, tmp_path / "empty", methods="vanilla", limit=1, part="1/50")
    assert (empty.records, repr(empty).strip()) == ([], "")


def test_a_missing_part_is_refused_unless_it_may_be_partial(parts: Parts) -> None:
    with pytest.raises(InputError, match=r"'vanilla' on .* is cut in 3 parts: missing parts: 2, 3"):
        read_records(parts[0] / "part-1")
    found = read_records(parts[0] / "part-1", partial=True)
    assert {record.made_by["gaps"] for record in found} == {"missing parts: 2, 3"}


def test_an_answer_that_is_there_twice_is_refused_even_where_it_may_be_partial(
    parts: Parts, tmp_path: Path
) -> None:
    copy = shutil.copytree(parts[0] / "part-3", tmp_path / "copy")
    with pytest.raises(InputError, match=r"\(epoch 1\) of 'vanilla' on 'arithmetic' is both in"):
        read_records([parts[0], copy], partial=True)


def test_parts_of_different_runs_are_refused(parts: Parts, tmp_path: Path) -> None:
    for other, named in (
        ({"settings": {"cutoff": 77}}, "cutoff"),
        ({"limit": 10}, "the questions changed"),
        ({"part": "2/4"}, "parts: 3 → 4"),
    ):
        part(parts[1], tmp_path / named, 2, methods="vanilla", **other)
        with pytest.raises(InputError, match=rf"'vanilla' on .* differs between .* in .*{named}"):
            read_records([parts[0] / "part-1", tmp_path / named], partial=True)
