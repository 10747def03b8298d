"""An evaluation in parts: the same records as in one run, and nothing missing or there twice."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from optim.cli import app
from optim.datasets import load
from optim.evaluation import Evaluation
from optim.records import Record, read_records
from optim.records.shards import Shard
from pb_graph import InputError
from tests.support.chat_model import Call, ScriptedChat
from tests.support.evaluations import (
    evaluated,
    experiment,
    leaks_collected,
    solves,
    solves_the_easy_ones,
    tolerates_inspect,
)
from tests.support.figures import rows

__all__ = ["leaks_collected"]  # applies to every test here

pytestmark = tolerates_inspect

OF = 4
WHOLE: dict[str, Any] = {"methods": "vanilla,cosine", "limit": 20}


def part(model: ScriptedChat, root: Path, number: int, **options: Any) -> Evaluation:  # noqa: ANN401
    folder = root / f"part-{number}"
    return evaluated(model, folder, **WHOLE | {"part": f"{number}/{OF}"} | options)


def folders(root: Path) -> list[Path]:
    return sorted(root.glob("part-*"))


def without_seconds(value: Any) -> Any:  # noqa: ANN401 -- JSON
    if isinstance(value, dict):
        return {k: without_seconds(v) for k, v in value.items() if "second" not in k}
    return [without_seconds(one) for one in value] if isinstance(value, list | tuple) else value


def contents(records: list[Record]) -> list[str]:
    """Everything in the records but the time that they took, and how they came about."""
    plain = [without_seconds(dataclasses.asdict(record) | {"made_by": None}) for record in records]
    return sorted(map(str, plain))


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ScriptedChat]:
    """All parts; the second was killed and run again, the last was run twice."""
    root, model = tmp_path_factory.mktemp("parts"), ScriptedChat(solve=solves_the_easy_ones)
    for number in range(1, OF + 1):
        if number == 2:
            model.solve = dies_at(len(model.calls) + 3, model)
            with pytest.raises(KeyboardInterrupt):
                part(model, root, number, concurrency=1)
            model.solve = solves_the_easy_ones
        part(model, root, number)
    part(model, root, OF)
    return root, model


def dies_at(calls: int, model: ScriptedChat) -> Any:  # noqa: ANN401
    def dies(call: Call) -> str:
        if len(model.calls) >= calls:
            raise KeyboardInterrupt
        return str(solves_the_easy_ones(call))

    return dies


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Evaluation, ScriptedChat]:
    model = ScriptedChat(solve=solves_the_easy_ones)
    return evaluated(model, tmp_path_factory.mktemp("whole"), **WHOLE), model


def pb_report(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["report", *map(str, arguments)])


# Who has which question


def test_every_question_is_in_one_part_whatever_else_is_drawn() -> None:
    ids = [f"test/algebra/{number}.json" for number in range(2000)]
    every = [Shard(number, 16) for number in range(1, 17)]
    had = Counter(one for part in every for one in ids if part.has(one))
    assert set(had.values()) == {1}
    assert min(sum(part.has(one) for one in ids) for part in every) > 0.7 * len(ids) / 16


def test_a_question_stays_in_its_part_from_version_to_version() -> None:
    """Another hash would have a folder's paid work thrown away."""
    found = {one: next(n for n in range(1, 17) if Shard(n, 16).has(one)) for one in "abé"}
    assert found == {"a": 11, "b": 11, "é": 4}


@pytest.mark.parametrize("text", ["0/16", "17/16", "3", "1/4/2", ""])
def test_what_is_no_part_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"a part is such as 3/16, from 1/16 to 16/16, not"):
        experiment(ScriptedChat(), tmp_path, part=text)


def test_levels_are_judged_by_the_same_examples_in_every_part(tmp_path: Path) -> None:
    """They come from what no part asks, so that all parts have the same settings."""
    data = tmp_path / "own.jsonl"
    tasks = ({"query": f"Say {i}.", "answer": "x", "level": 1 + i % 5} for i in range(60))
    data.write_text("\n".join(map(json.dumps, tasks)))
    base = dataclasses.replace(
        experiment(ScriptedChat(), tmp_path, methods="cosine", limit=20),
        dataset="natural_instructions", data=data, part="1/2",
    )  # fmt: skip
    pool = base.source.read()
    (row,) = base.chosen_methods(pool)
    assert row.settings.level_examples
    assert dataclasses.replace(base, part="2/2").chosen_methods(pool) == (row,)


# The whole


def test_parts_give_the_same_records_as_one_run_though_one_was_killed_and_one_repeated(
    parts: tuple[Path, ScriptedChat], whole: tuple[Evaluation, ScriptedChat]
) -> None:
    (root, model), (undivided, undivided_model) = parts, whole
    pooled = read_records(folders(root))
    assert contents(pooled) == contents(undivided.records) == contents(read_records(root))
    assert len(pooled) == 40
    assert model.output_tokens == undivided_model.output_tokens  # a killed part pays nothing twice
    for ours, theirs in zip(rows(pooled), rows(undivided.records), strict=True):
        assert (ours.method, ours.n, ours.accuracy) == (theirs.method, theirs.n, theirs.accuracy)
        assert (ours.e3, ours.e3_lower) == pytest.approx((theirs.e3, theirs.e3_lower))
    assert {record.made_by["parts"] for record in pooled} == {OF}
    assert not any("gaps" in record.made_by for record in pooled)


def test_a_part_without_a_question_is_no_gap_and_no_failure(tmp_path: Path) -> None:
    ids = [question.id for question in load("arithmetic", limit=2)]
    empty = {n for n in range(1, 4) if not any(Shard(n, 3).has(one) for one in ids)}
    model = ScriptedChat(solve=solves)
    given = {n: tmp_path / str(n) for n in range(1, 4)}
    for n, folder in given.items():
        found = evaluated(model, folder, limit=2, part=f"{n}/3")
        assert (found.not_started, not found.records) == (0, n in empty)
        assert any(folder.glob("*.eval")) is (n not in empty)
    assert empty
    assert len(read_records(list(given.values()))) == 2


def test_the_folder_of_a_part_takes_no_other(parts: tuple[Path, ScriptedChat]) -> None:
    root, model = parts
    with pytest.raises(InputError, match=r"other conditions \(part: 4/4 → 3/4\).*another --log-"):
        evaluated(model, root / "part-4", **WHOLE, part="3/4")


# Gaps and overlaps


def test_a_missing_part_is_refused_unless_it_may_be_partial(
    parts: tuple[Path, ScriptedChat], tmp_path: Path
) -> None:
    few = folders(parts[0])[:2]
    done = pb_report(*few, "-o", tmp_path / "page.html")
    assert done.exit_code == 2
    assert "'vanilla' on 'arithmetic' is cut in 4 parts: parts 3, 4 are missing" in done.stderr
    done = pb_report(*few, "--partial", "-o", tmp_path / "page.html")
    assert done.exit_code == 0, done.stderr
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Not all of vanilla, cosine is here: parts 3, 4 are missing." in page


def part_in(model: ScriptedChat, folder: Path, **options: Any) -> Evaluation:  # noqa: ANN401
    return evaluated(model, folder, **{"limit": 10} | options)


def test_an_unfinished_part_is_a_gap(tmp_path: Path) -> None:
    model = ScriptedChat(solve=solves)
    part_in(model, tmp_path / "1", part="1/2")
    part_in(model, tmp_path / "2", part="2/2", max_tokens_total=1, concurrency=1)
    both = [tmp_path / "1", tmp_path / "2"]
    mine = sum(Shard(2, 2).has(question.id) for question in load("arithmetic", limit=10))
    with pytest.raises(InputError, match=f"2 parts: part 2 has 1 of its {mine} answers"):
        read_records(both)
    assert len(read_records(both, partial=True)) == 10 - mine + 1
    part_in(model, tmp_path / "2", part="2/2")
    assert len(read_records(both)) == 10


def test_an_answer_that_is_there_twice_is_refused_even_where_it_may_be_partial(
    parts: tuple[Path, ScriptedChat], tmp_path: Path
) -> None:
    copy = shutil.copytree(parts[0] / "part-4", tmp_path / "copy")
    done = pb_report(*folders(parts[0]), copy, "--partial", "-o", tmp_path / "page.html")
    assert done.exit_code == 2
    told = " ".join(done.stderr.split())
    assert "(epoch 1) of 'vanilla' on 'arithmetic' is both in" in told
    assert "Leave one of these folders out" in told


@pytest.mark.parametrize(
    ("other", "named"),
    [
        ({"settings": {"cutoff": 77}}, "cutoff"),
        ({"limit": 15}, "drawn of the parts"),
        ({"part": "2/3"}, "of of the parts"),
        ({"part": None}, "of of the parts, drawn of the parts"),
    ],
)
def test_parts_of_different_runs_are_refused(
    tmp_path: Path, other: dict[str, Any], named: str
) -> None:
    model = ScriptedChat(solve=solves)
    part_in(model, tmp_path / "1", part="1/2")
    part_in(model, tmp_path / "2", **{"part": "2/2"} | other)
    with pytest.raises(InputError, match=rf"'vanilla' on .* differs between .* in {named}"):
        read_records([tmp_path / "1", tmp_path / "2"], partial=True)


class Served(ScriptedChat):
    """A model with a parameter of its provider's, at an address."""

    base_url: str = "http://one"
    effort: str = "low"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {"effort": self.effort, "base_url": self.base_url}


def test_parts_may_differ_in_the_address_of_the_model_and_in_no_parameter(tmp_path: Path) -> None:
    part_in(Served(solve=solves), tmp_path / "1", part="1/2")
    part_in(Served(solve=solves, base_url="http://two"), tmp_path / "2", part="2/2")
    part_in(Served(solve=solves, effort="high"), tmp_path / "3", part="2/2")
    assert len(read_records([tmp_path / "1", tmp_path / "2"])) == 10
    with pytest.raises(InputError, match="the model's parameters changed"):
        read_records([tmp_path / "1", tmp_path / "3"])


def test_methods_of_several_folders_are_pooled_without_parts(tmp_path: Path) -> None:
    model = ScriptedChat(solve=solves)
    for method in ("vanilla", "cosine"):
        evaluated(model, tmp_path / method, methods=method)
    found = read_records([tmp_path / "cosine", tmp_path / "vanilla"])
    assert [row.method for row in rows(found)] == ["vanilla", "cosine"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="empty holds no log of `pb-optim eval`"):
        read_records([tmp_path / "vanilla", tmp_path / "empty"])
