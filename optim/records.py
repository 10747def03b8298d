"""What was measured, read back from Inspect's logs: one record for each answer."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inspect_ai.log import (
    EvalLog,
    read_eval_log,
    read_eval_log_sample_summaries,
    read_eval_log_samples,
)

from optim.methods import NAMES
from optim.planning_cost import PLANNING, planning_tokens
from pb_graph.errors import InputError
from pb_graph.state import Report

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from inspect_ai.log import EvalSample

__all__ = ["LogHeader", "Record", "log_headers", "paid_for_nothing", "read_records"]

Task = tuple[str, str, str, str]
"""Data set, method, model and planner."""

_OURS = "fingerprint"  # a field that the metadata of our logs has


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
        score: From 0 to 1; None when there was no answer, or it could not be scored.
        error: Why there is no score; None when there is one.
        output: The answer as the model wrote it.
        target: The accepted answers, one to a line.
        report: The graph's account; its tokens are counted also where there is no score.
        question_text: What was asked.
        explanation: Of the score, by the scorer.
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


@dataclass(frozen=True, slots=True)
class LogHeader:
    """One log of ours, without its samples.

    Attributes:
        path: The file.
        log: Its header.
    """

    path: Path
    log: EvalLog

    @property
    def metadata(self) -> dict[str, Any]:
        """What `optim.evaluate.task.Job` wrote about the task."""
        return self.log.eval.metadata or {}

    @property
    def task(self) -> Task:
        """Data set, method, model and planner: of several logs of one task the latest counts."""
        about = self.metadata
        return about["dataset"], about["method"], about["model"], about["planner"]

    def errors_and_samples(self) -> tuple[int, int]:
        """How many samples ended in an error, and how many there are."""
        summaries = read_eval_log_sample_summaries(str(self.path))
        return sum(1 for summary in summaries if summary.error), len(summaries)


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


def log_headers(log_dir: str | Path) -> list[LogHeader]:
    """Give the headers of our logs in a folder and below it, oldest first; other logs are left out.

    Raises:
        InputError: There is no such folder, or a log cannot be read.
    """
    folder = Path(log_dir)
    if not folder.is_dir():
        msg = f"there is no folder {folder}; give the --log-dir of an evaluation"
        raise InputError(msg)
    headers = [_header(path) for path in sorted(folder.rglob("*.eval"))]
    return sorted((header for header in headers if _OURS in header.metadata), key=_age)


def read_records(log_dir: str | Path) -> list[Record]:
    """Read every answer in a folder of logs, and in those below it.

    Of several logs of one task (data set, method, model and planner) the latest counts, also an
    unfinished one; so no answer counts twice. Samples that were never started are in no log.

    Raises:
        InputError: There is no such folder, no log of ours in it, or one cannot be read.
    """
    latest = {header.task: header for header in log_headers(log_dir)}
    if not latest:
        msg = f"{log_dir} holds no log of `pb-optim eval`"
        raise InputError(msg)
    return [record for task in sorted(latest, key=_rank) for record in records_of(latest[task])]


def records_of(header: LogHeader) -> Iterator[Record]:
    """Read the answers of one log, in the order of its data set."""
    samples = read_eval_log_samples(
        str(header.path),
        all_samples_required=False,
        resolve_attachments="core",
        exclude_fields={"events", "messages"},
    )
    return (_record(header, sample) for sample in samples if "report" in sample.store)


def _age(header: LogHeader) -> tuple[str, int]:
    """When a log was begun, to the second, and for quick ones when it was last written."""
    return header.log.eval.created, header.path.stat().st_mtime_ns


def _rank(task: Task) -> tuple[str, str, str, int, str]:
    """Methods in the order of the paper's tables; others follow by name."""
    dataset, method, model, planner = task
    place = NAMES.index(method) if method in NAMES else len(NAMES)
    return dataset, model, planner, place, method


def _header(path: Path) -> LogHeader:
    try:
        return LogHeader(path, read_eval_log(str(path), header_only=True))
    except Exception as error:
        msg = f"cannot read the log {path}: {error}"
        raise InputError(msg) from error


def _record(header: LogHeader, sample: EvalSample) -> Record:
    dataset, method, model, planner = header.task
    score, explanation = _score(sample)
    report: Report = sample.store["report"]
    return Record(
        dataset=dataset,
        method=method,
        model=model,
        planner=planner,
        question=str(sample.id),
        epoch=sample.epoch,
        level=(sample.metadata or {}).get("level"),
        score=score,
        error=None if score is not None else _reason(sample),
        output=report["answer"],
        target="\n".join(_targets(sample.target)),
        report=report,
        question_text=str(sample.input),
        explanation=explanation,
    )


def _score(sample: EvalSample) -> tuple[float | None, str]:
    for score in (sample.scores or {}).values():
        if isinstance(score.value, dict):
            return float(score.value["score"] or 0.0), score.explanation or ""
    return None, ""


def _reason(sample: EvalSample) -> str:
    ours = sample.store.get("error")
    theirs = sample.error.message if sample.error else "the sample was not finished"
    return str(ours or theirs)


def _targets(target: str | Iterable[str]) -> list[str]:
    return [target] if isinstance(target, str) else list(target)
