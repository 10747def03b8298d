"""Files and figures of an older version: read back, and printed again with nothing gone.

The server of `tests.support.golden` answered. Not pinned is what was meant to change since:
intervals, P-values, and the figures of a method that was paid for an empty answer (``cosine``).
"""

from __future__ import annotations

import csv
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from optim.e3 import Sample, accuracy_interval, compare, holm, interval, token_interval
from optim.records import read_records
from optim.reporting.tables import answers, by_level, figures, latency, paired, to_rows
from tests.support import golden
from tests.support.evaluations import leaks_collected, tolerates_inspect
from tests.support.golden import pb_optim

__all__ = ["leaks_collected"]  # applies to every test here

pytestmark = tolerates_inspect

PAID_FOR_NOTHING = ("cosine", "arithmetic-test-0-3-1")
PINNED = ("n", "errors", "accuracy", "tokens", "solving_tokens", "e3", "a_over_t")


def kept(name: str) -> Any:  # noqa: ANN401 -- a document
    """What a command printed then."""
    return read(name, (golden.FOLDER / name).read_text(encoding="utf-8"))


def read(name: str, content: str) -> Any:  # noqa: ANN401
    if name.endswith(".csv"):
        return list(csv.DictReader(content.splitlines()))
    return json.loads(content)


def check_values(old: Any, new: Any, where: str = "") -> None:  # noqa: ANN401
    """Everything of the old is in the new as it was."""
    if isinstance(old, dict):
        assert old.keys() <= new.keys(), where
        for name, value in old.items():
            check_values(value, new[name], f"{where}.{name}")
    elif isinstance(old, list):
        assert len(old) == len(new), where
        for place, pair in enumerate(zip(old, new, strict=True)):
            check_values(*pair, f"{where}[{place}]")
    else:
        assert new == (pytest.approx(old, rel=1e-9, abs=1e-12) if type(old) is float else old), (
            where
        )


def of_one(rows: Any, method: str = "global_budget") -> list[Any]:  # noqa: ANN401
    """The rows of a method that was never paid for an empty answer."""
    return [row for row in rows if row["method"] == method]


def pinned(rows: Any) -> list[dict[str, Any]]:  # noqa: ANN401
    return [{name: row[name] for name in PINNED} for row in of_one(rows)]


def test_the_answers_of_an_old_log_are_what_they_were() -> None:
    now = [golden.essence(record) for record in read_records(golden.LOGS)]
    then = kept("records.json")
    assert sum(record["failed"] for record in then) == 2
    for old, new in zip(then, now, strict=True):
        if (old["method"], old["question"]) == PAID_FOR_NOTHING:
            assert not new["score"]
            del old["score"], new["score"], old["failed"], new["failed"]
        assert new == old


@pytest.mark.integration
def test_the_same_evaluation_gives_the_same_figures(tmp_path: Path) -> None:
    with golden.served():
        now = json.loads(pb_optim(*golden.EVAL, "--log-dir", str(tmp_path)))
    then = kept("eval.json")
    check_values(pinned(then["rows"]), pinned(now["figures"]))
    assert now["spent"] == then["spent"]


@pytest.mark.parametrize("answers_to_a_question", [1, 2])
def test_the_figures_of_recorded_answers_are_equal(answers_to_a_question: int) -> None:
    """Real answers to MATH-500; with two to a "question" they form clusters."""
    arms: dict[str, list[Sample]] = {}
    with (golden.FOLDER / "answers.csv").open(encoding="utf-8") as file:
        for line in csv.DictReader(file):
            question = str(int(line["place"]) // answers_to_a_question)
            answer = Sample(question, float(line["score"]), int(line["tokens"]))
            arms.setdefault(line["row"], []).append(answer)
    then = kept("figures.json")[f"math500/{answers_to_a_question}"]
    for name, old in then["rows"].items():
        check_values(old, _figures(arms[name]), name)
    pairs = {name: compare(arms[name], arms["vanilla"], missing="drop") for name in then["paired"]}
    for name, old in then["paired"].items():
        now = {**asdict(pairs[name]), "dropped": len(pairs[name].dropped)}
        check_values(old, now, name)
    for key, field in (("holm", "p_value"), ("holm_accuracy", "accuracy_p_value")):
        adjusted = holm({name: getattr(pair, field) for name, pair in pairs.items()})
        check_values(then[key], adjusted)


def _figures(answers: list[Sample]) -> dict[str, Any]:
    columns = [[getattr(a, name) for a in answers] for name in ("score", "tokens", "question")]
    scores, tokens, questions = columns
    found = interval(scores, tokens, clusters=questions)
    names = ("e3", "lower", "upper", "log_se", "clusters")
    return {
        "accuracy": 100 * sum(scores) / len(scores),
        "accuracy_interval": accuracy_interval(scores, clusters=questions),
        "tokens": sum(tokens) / len(tokens),
        "token_interval": token_interval(tokens, clusters=questions),
        **{name: getattr(found, name) for name in names},
    }


def test_the_figures_of_a_recorded_log_are_equal() -> None:
    table = answers(read_records(golden.LOGS))
    then = kept("figures.json")["logs"]
    for old, row in zip(then["rows"], to_rows(figures(table)), strict=True):
        old |= {"level_source": old.pop("level"), "is_measured": old.pop("measured")}
        check_values(old, row)
    for row in to_rows(paired(table, "global_budget")):
        old = then["paired"][row["method"]]
        old["p_value_holm"] = old.pop("adjusted_p")
        old["accuracy_p_value_holm"] = old.pop("adjusted_accuracy_p")
        check_values(old, row | {"dropped": len(row["dropped"])})


def test_the_tables_by_level_and_of_seconds_are_equal() -> None:
    table = answers(read_records(golden.LOGS))
    names = {"T": "tokens", "T_solving": "solving_tokens", "E³": "e3"}
    for old, row in zip(of_one(kept("levels.json")), of_one(to_rows(by_level(table))), strict=True):
        check_values({names.get(name, name): value for name, value in old.items()}, row)
    [old], [row] = of_one(kept("latency.json")), of_one(to_rows(latency(table)))
    then = [old[f"{part}_s"] for part in ("plan", "estimate", "solving", "total")]
    now = [row[f"{part}_seconds"] for part in ("plan", "estimate", "solving")] + [row["seconds"]]
    check_values(then, now)
