"""One answer as it was measured, several of them, and what a graph's report says of one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any, Final, Literal

from optim.extras import require_modules

if TYPE_CHECKING:
    import pandas as pd

    from pb_graph.types import Report

LevelSource = Literal["label", "estimated"]
"""Whose word a question's level is: the data set's, free of charge, or the planner's, paid for."""

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
        epoch: Which time it was asked, from 1.
        level: The data set's label of its difficulty, or None.
        score: From 0 to 1; None when there was no answer for an outside reason, or it could not be
            scored. An answer that was paid for and stayed empty has score 0.
        error: Why there is no score; None when there is one.
        output: The answer as the model wrote it.
        target: The accepted answers, one to a line.
        report: The graph's account; its tokens are counted also where there is no score.
        question_text: What was asked.
        explanation: Of the score, by the scorer.
        level_source: Where the method had the question's level from; None where it used none.
        score_metadata: What else the scorer says of the answer.
        made_by: How the log came about: date, version, command, data, split, seed, scorer, epochs,
            temperature, top_p, and the settings in full; of an old log what is known.
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

    @property
    def tokens(self) -> int:
        """Completion tokens, planning included."""
        return self.report["usage"]["output_tokens"]

    @property
    def solving_tokens(self) -> int:
        """Completion tokens without planning."""
        return self.tokens - planning_tokens(self.report)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON, such as a row of ``pandas.DataFrame(map(Record.to_dict, records))``."""
        return asdict(self) | {"tokens": self.tokens, "solving_tokens": self.solving_tokens}


class Records(list[Record]):
    """Answers, as a list; in a notebook they are shown as a table of them."""

    def __repr__(self) -> str:
        methods = ", ".join(dict.fromkeys(record.method for record in self))
        return f"{len(self)} records of {methods or 'no method'}; .frame() gives a DataFrame"

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        html: str = self.frame().drop(columns=_LONG)._repr_html_()  # pandas escapes texts
        return html

    def frame(self) -> pd.DataFrame:
        """Give a pandas DataFrame with a row for each answer.

        Returns:
            The fields of `Record` as columns, without ``made_by``, and ``tokens``,
            ``solving_tokens``, ``planning_tokens``, ``seconds``, ``calls``, ``budget`` and
            ``ceiling`` of its report. Missing values are pandas' own: in ``score`` of an answer
            that has none, in ``level`` of one without a label.

        Raises:
            MissingPackageError: pandas is not installed.
        """
        require_modules("pandas")
        import pandas as pd  # noqa: PLC0415 -- takes a second, and is of an extra

        table = pd.DataFrame([_cells(record) for record in self], columns=_FRAME)
        whole = dict.fromkeys(("level", "budget", "ceiling"), "Int64")
        return table.astype({"score": "Float64"} | whole)


_FROM_REPORT = (
    *("tokens", "solving_tokens", "planning_tokens", "seconds", "calls", "budget", "ceiling"),
)
_FIELDS = [name for name in (f.name for f in fields(Record)) if name not in ("made_by", "report")]
_FRAME = [*_FIELDS[:8], *_FROM_REPORT, *_FIELDS[8:], "report"]
_LONG = ["output", "target", "question_text", "explanation", "score_metadata", "report"]


def _cells(record: Record) -> dict[str, Any]:
    report, usage = record.report, record.report["usage"]
    tokens = (record.tokens, record.solving_tokens, planning_tokens(report))
    figures = (*tokens, usage["seconds"], usage["calls"], report["budget"], report["ceiling"])
    cells = {name: getattr(record, name) for name in [*_FIELDS, "report"]}
    return cells | dict(zip(_FROM_REPORT, figures, strict=True))


def level_of(record: Record) -> int | None:
    """The data set's label, else what was estimated."""
    return record.level or record.report["level"]


def planning_tokens(report: Report) -> int:
    """Completion tokens of planning and estimation, repairs included."""
    by_node = report["usage"]["by_node"]
    return sum(part["output_tokens"] for node, part in by_node.items() if node in PLANNING)


def cut_off(record: Record) -> bool:
    """Whether an answer, or a step of it, was cut off: at its cap, or as its reply was left.

    A report of before has no word for that where a question is answered in one call, so it is read
    off the tokens: those up to the ceiling, less what a forced ending keeps back.
    """
    report = record.report
    if any(step["finish"] in {"length", "forced"} for step in report["steps"]):
        return True
    if "finish" in report:
        return report["finish"] in {"length", "forced"}
    if report["ceiling"] is None:
        return False
    settings = record.made_by.get("settings") or {}
    room = report["ceiling"] - planning_tokens(report)
    forces = settings.get("enforcement") == "force" and report["budget"] is not None
    reserve = min(settings.get("reserve", 0), room * 2 // 3) if forces else 0
    return record.solving_tokens >= max(1, room - reserve)


def paid_for_nothing(report: Report) -> bool:
    """Whether solving was charged and no answer came of it: a wrong answer, not a missing one.

    Thinking that runs into its cap without a visible word is the method's own doing. Where a call
    failed instead (a step that ended in an error, or no solving call that came back at all), the
    reason lies outside, and the question has no answer to be judged.
    """
    solved = sum(
        usage["output_tokens"]
        for node, usage in report["usage"]["by_node"].items()
        if node not in PLANNING
    )
    failed = any(step["finish"] == "error" for step in report["steps"])
    return not report["answer"] and solved > 0 and not failed
