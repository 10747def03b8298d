"""One measured answer, answers as a DataFrame, and the conditions that are never mixed."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Self

from optim.extras import missing_extra
from pb_graph.budget.bill import Bill
from pb_graph.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from pb_graph.types import Report

LevelSource = Literal["label", "estimated"]
"""The source of a question's level: the data set, free of charge, or the planner, paid for it."""

PLANNING: Final = frozenset({"plan", "estimate"})
"""The nodes whose calls are planning; the others solve."""


@dataclass(frozen=True, slots=True)
class Record:
    """One answer to one question.

    Attributes:
        dataset: Name of the data set.
        method: Name of the method.
        model: Name of the model that solved.
        planner: Name of the model that planned.
        question: The question's id.
        epoch: Number of the repetition, from 1.
        level: The data set's label of its difficulty, or None.
        score: From 0 to 1. None when a call failed or the answer could not be scored. An answer
            that was paid for and stayed empty has score 0.
        error: The reason why there is no score, or None.
        output: The answer as the model wrote it.
        target: The accepted answers, one to a line.
        report: The graph's report; its tokens count also where there is no score.
        question_text: The text of the question.
        identity: Digest of everything that was asked, `Question.identity`.
        explanation: The scorer's explanation of the score.
        level_source: The source of the level, or None where the method used none.
        score_metadata: Details of the scorer.
        made_by: Origin of the log: date, version, command, data, split, seed, scorer, epochs,
            temperature, top_p, the settings in full, and the prompts of one answer.
    """

    dataset: str
    method: str
    model: str
    planner: str
    question: str
    epoch: int
    level: int | None
    score: float | None
    error: str | None
    output: str
    target: str
    report: Report
    question_text: str
    explanation: str
    level_source: LevelSource | None = None
    score_metadata: Mapping[str, Any] = field(default_factory=dict)
    made_by: Mapping[str, Any] = field(default_factory=dict, compare=False)
    identity: str = ""

    @property
    def tokens(self) -> int:
        """Completion tokens, planning included."""
        return self.report["usage"]["output_tokens"]

    def cost(self, prompt_price: float = 0.0) -> int:
        """Return its completion tokens, and its prompt tokens at a price in completion tokens."""
        return self.tokens + round(prompt_price * self.report["usage"]["input_tokens"])

    @property
    def answer(self) -> str:
        """The answer, by the name that predictions of DSPy have for it."""
        return self.output

    @property
    def solving_tokens(self) -> int:
        """Completion tokens without planning."""
        return self.tokens - planning_tokens(self.report)


class Records(list[Record]):
    """Answers, as a list."""

    def __repr__(self) -> str:
        methods = ", ".join(dict.fromkeys(record.method for record in self))
        return f"{len(self)} records of {methods or 'no method'}; .frame() gives a DataFrame"

    def save(self, path: str | Path) -> None:
        """Write one line of JSON for each answer, which `load` reads."""
        lines = (json.dumps(asdict(record), ensure_ascii=False) for record in self)
        Path(path).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what `save` wrote.

        Raises:
            InputError: If the file cannot be read, or another version wrote it.
        """
        try:
            lines = Path(path).read_text(encoding="utf-8").splitlines()
            return cls(Record(**json.loads(line)) for line in lines)
        except (OSError, ValueError, TypeError) as error:
            msg = f"{path} is damaged or of another version: {error}. Run its command again."
            raise InputError(msg) from error

    def frame(self) -> pd.DataFrame:
        """Return a pandas DataFrame with a row for each answer.

        Returns:
            The fields of `Record` without ``made_by`` and ``identity``, and ``tokens``,
            ``solving_tokens``, ``planning_tokens``, ``input_tokens``, ``cached_tokens``,
            ``seconds``, ``calls``, ``budget`` and ``limit`` of its report.
            ``score``, ``level``, ``budget`` and ``limit`` may be missing.

        Raises:
            MissingPackageError: If pandas is not installed.
        """
        try:
            import pandas as pd  # noqa: PLC0415 -- takes a second, and is of an extra
        except ModuleNotFoundError as error:
            raise (missing_extra(error) or error) from None

        names, rows = [*_FIELDS, "report", "tokens", "solving_tokens"], []
        for record in self:
            row = {name: getattr(record, name) for name in names}
            shown = (*record.report["usage"].items(), *record.report.items())
            row |= {name: value for name, value in shown if name in _TOLD}
            cached = Bill.of(record.model, record.report["usage"]).cached
            planned = planning_tokens(record.report)
            rows.append(row | {"planning_tokens": planned, "cached_tokens": cached})
        table = pd.DataFrame(rows, columns=_COLUMNS)
        whole = dict.fromkeys(("level", "budget", "limit"), "Int64")
        return table.astype({"score": "Float64"} | whole)


_TOLD = ("input_tokens", "cached_tokens", "seconds", "calls", "budget", "limit")
_FIGURES = ("tokens", "solving_tokens", "planning_tokens", *_TOLD)
_LEFT_OUT = ("made_by", "report", "identity")
_FIELDS = [name for name in (f.name for f in fields(Record)) if name not in _LEFT_OUT]
_COLUMNS = [*_FIELDS[:8], *_FIGURES, *_FIELDS[8:], "report"]


def planning_tokens(report: Report) -> int:
    """Return the completion tokens of planning and estimation, repairs included."""
    by_node = report["usage"]["by_node"]
    return sum(part["output_tokens"] for node, part in by_node.items() if node in PLANNING)


def level_source(
    report: Report, label: int | None, *, uses_level: bool, estimates: bool
) -> LevelSource | None:
    """Return the source of the level that an answer used; None where it used none."""
    if report["level"] is None or not uses_level:
        return None
    return "estimated" if label is None or estimates else "label"


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """Everything that bears on the answers of a method and on their scores, as plain JSON.

    Models, program, scorer and questions are digests. No address of a server is in them.
    """

    settings: Mapping[str, Any]
    solver: str
    planner: str
    program: str | None
    estimate_level: bool
    temperature: float | None
    epochs: int
    seed: int
    source: list[str | None]
    scorer: str
    scorer_code: str
    part: str | None = None
    parts: int | None = None
    asked: str = ""


BY_RUN: Final = frozenset({"asked", "epochs", "scorer", "scorer_code"})
"""Conditions that a later run of the same folder may change: its log replaces the earlier one."""

BY_LOG: Final = frozenset({"part"})
"""Conditions in which the logs of one row may differ."""

BY_ROW: Final = frozenset(
    {"settings", "program", "estimate_level", "seed", "source", "part", "parts", "asked"}
)
"""Conditions in which the rows of one table may differ; each question is compared on its own."""

_LABELS = {  # conditions that are digests, which say nothing to a person
    "solver": "the model's parameters",
    "planner": "the planner's parameters",
    "program": "the planner's program",
    "scorer_code": "the scorer's code",
    "asked": "the questions",
}


def differences(
    before: Mapping[str, Any], now: Mapping[str, Any], ignored: Collection[str] = ()
) -> list[str]:
    """Return the conditions in which two runs differ, such as "cutoff: 8192 → 77"."""
    old, new = (
        {name: value for name, value in each.items() if name not in ignored}
        for each in (before, json.loads(json.dumps(now)))
    )
    old, new = (each | {"settings": None} | (each.get("settings") or {}) for each in (old, new))
    return [
        f"{_LABELS[key]} changed" if key in _LABELS else f"{key}: {old.get(key)} → {new.get(key)}"
        for key in sorted(old.keys() | new.keys())
        if old.get(key) != new.get(key)
    ]
