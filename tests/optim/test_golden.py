"""Figures of recorded answers, equal to 1e-9 to those that were recorded with them."""

from __future__ import annotations

import csv
import json
import sqlite3
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from optim.e3 import Sample, accuracy_interval, compare, holm, interval, token_interval
from optim.records import read_records
from optim.reporting.tables import answers, by_level, figures, paired, to_rows
from optim.tuning import TuneResult, tune
from tests.support.tuning_world import (
    DEV,
    HELD_OUT,
    MINIMAL,
    PLAIN,
    THOROUGH,
    TRAIN,
    Exact,
    program_of,
    says,
)

FOLDER = Path(__file__).parents[1] / "golden"
RECORDED = json.loads((FOLDER / "figures.json").read_text("utf-8"))
TUNINGS = json.loads((FOLDER / "tunings.json").read_text("utf-8"))
CHOICES: dict[str, dict[str, Any]] = {
    "candidates": {"optimizer": "candidates", "candidates": [PLAIN, THOROUGH, MINIMAL]},
    "gepa": {"optimizer": "gepa"},
    "copro": {"optimizer": "copro"},
}


def check_values(old: Any, new: Any, where: str = "") -> None:  # noqa: ANN401
    """Assert that everything of the old is in the new as it was."""
    if isinstance(old, dict):
        assert old.keys() <= new.keys(), where
        for name, value in old.items():
            check_values(value, new[name], f"{where}.{name}")
    elif isinstance(old, list):
        assert len(old) == len(new), where
        for place, pair in enumerate(zip(old, new, strict=True)):
            check_values(*pair, f"{where}[{place}]")
    else:
        same = pytest.approx(old, rel=1e-9, abs=1e-12) if type(old) is float else old
        assert new == same, where


@pytest.mark.parametrize("answers_to_a_question", [1, 2])
def test_the_figures_of_recorded_answers_are_equal(answers_to_a_question: int) -> None:
    """Real answers to MATH-500; with two to a "question" they form clusters."""
    arms: dict[str, list[Sample]] = {}
    with (FOLDER / "answers.csv").open(encoding="utf-8") as file:
        for line in csv.DictReader(file):
            question = str(int(line["place"]) // answers_to_a_question)
            answer = Sample(question, float(line["score"]), int(line["tokens"]))
            arms.setdefault(line["row"], []).append(answer)
    then = RECORDED[f"math500/{answers_to_a_question}"]
    for name, old in then["rows"].items():
        check_values(old, figures_of(arms[name]), name)
    pairs = {name: compare(arms[name], arms["vanilla"], missing="drop") for name in then["paired"]}
    for name, old in then["paired"].items():
        check_values(old, asdict(pairs[name]) | {"dropped": len(pairs[name].dropped)}, name)
    for key, field in (("holm", "p_value"), ("holm_accuracy", "accuracy_p_value")):
        adjusted = holm({name: getattr(pair, field) for name, pair in pairs.items()})
        check_values(then[key], adjusted)


def figures_of(answers: list[Sample]) -> dict[str, Any]:
    columns = [[getattr(a, name) for a in answers] for name in ("score", "tokens", "question")]
    scores, tokens, questions = columns
    return asdict(interval(scores, tokens, clusters=questions)) | {
        "accuracy": 100 * sum(scores) / len(scores),
        "accuracy_interval": accuracy_interval(scores, clusters=questions),
        "tokens": sum(tokens) / len(tokens),
        "token_interval": token_interval(tokens, clusters=questions),
    }


def test_the_tables_of_a_recorded_log_are_equal() -> None:
    """One question of the two rows could not be asked, one answer was paid for and is empty."""
    table = answers(read_records(FOLDER / "logs"))
    tables: dict[str, pd.DataFrame] = {
        "rows": figures(table),
        "levels": by_level(table),
        "paired": paired(table, "global_budget"),
    }
    check_values(RECORDED["logs"], {name: to_rows(one) for name, one in tables.items()})


@pytest.mark.parametrize("optimizer", CHOICES)
def test_a_recorded_tuning_is_repeated_to_the_token(optimizer: str, tmp_path: Path) -> None:
    """The prompts may change: only what the answers cost, their figures and the verdict count."""
    chosen: dict[str, Any] = {"scorer": Exact(), "budget": 150, "run_dir": tmp_path}
    if optimizer in {"gepa", "copro"}:
        chosen["reflection_model"] = says(PLAIN, THOROUGH, MINIMAL)
    chosen |= CHOICES[optimizer] | {"held_out": HELD_OUT[:10], "callback": lambda _: None}
    check_values(
        TUNINGS[optimizer], told(tune(program_of(), TRAIN[:8], DEV[:20], **chosen), tmp_path)
    )


def told(result: TuneResult, folder: Path) -> dict[str, Any]:
    with closing(sqlite3.connect(folder / "replies.sqlite")) as store:
        replies = store.execute("SELECT tokens FROM replies ORDER BY tokens").fetchall()
    record, kept = result.record, ("role", "accuracy", "tokens", "e3", "e3_lower", "e3_upper")
    held_out = record["held_out"]
    return {
        "verdict": record["verdict"],
        "spent": [record["facts"]["answers"], record["facts"]["tokens"]],
        "candidates": [{name: one[name] for name in kept} for one in record["candidates"]],
        "held_out": [{name: held_out[side][name] for name in kept[1:]}
                     for side in ("original", "chosen")],
        "comparison": held_out["comparison"],
        "replies": [tokens for tokens, in replies],
    }  # fmt: skip
