"""Measured answers: one record each, as a DataFrame, and read from Inspect's logs.

Runs of different conditions are never mixed. Inspect takes seconds to import, so it is imported
where a log is read.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Self

from optim.extras import import_or_explain, require_modules
from optim.methods import NAMES
from pb_graph.budget.bill import Bill
from pb_graph.errors import InputError
from pb_graph.types import Report

if TYPE_CHECKING:
    import pandas as pd
    from inspect_ai.log import EvalLog, EvalSample

LevelSource = Literal["label", "estimated"]
"""The source of a question's level: the data set, free of charge, or the planner, paid for it."""

REMOTE: Final = "://"
"""Part of an address that no path has."""

ANSWERS: Final = "answers.jsonl"
"""The file of a tuning's folder with every answer, as `Records.save` writes it."""

_NAMES = ("dataset", "method", "model", "planner")
_WRITTEN = {*_NAMES, "uses_level", "conditions", "made_by"}

Task = tuple[str, str, str, str]
"""Data set, method, model and planner."""

PLANNING: Final = frozenset({"plan", "estimate"})
"""The nodes whose calls are planning; the others solve."""


@dataclass(frozen=True, slots=True, kw_only=True)
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

    dataset: str = ""
    method: str
    model: str
    planner: str
    question: str
    epoch: int
    level: int | None
    score: float | None = None
    error: str | None = None
    output: str
    target: str
    report: Report
    question_text: str
    explanation: str = ""
    level_source: LevelSource | None = None
    score_metadata: Mapping[str, Any] = field(default_factory=dict)
    made_by: Mapping[str, Any] = field(default_factory=dict, compare=False)
    identity: str = ""

    def __post_init__(self) -> None:
        known = {*self.report, *self.report.get("usage", ())}
        if lacking := {"answer", "steps", "usage", "by_node", "warnings"} - known:
            msg = f"its report has no {min(lacking)!r}"
            raise InputError(msg)

    @property
    def tokens(self) -> int:
        """Completion tokens, planning included."""
        return self.report["usage"]["output_tokens"]

    def cost(self, prompt_price: float = 0.0) -> int:
        """Return its completion tokens, and its prompt tokens at a price in completion tokens."""
        return self.tokens + round(prompt_price * self.report["usage"]["input_tokens"])

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
            lines = Path(path).read_text(encoding="utf-8").split("\n")  # texts have other breaks
            return cls(Record(**json.loads(line)) for line in lines if line)
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
        rows = []
        for record in self:
            row = {name: getattr(record, name) for name in (*_FIELDS, "report", *_FIGURES[:2])}
            row |= {n: v for n, v in record.report["usage"].items() if n in _FIGURES}
            row |= {n: record.report.get(n) for n in ("budget", "limit")}
            row["planning_tokens"] = planning_tokens(record.report)
            row["cached_tokens"] = Bill.of(record.model, record.report["usage"]).cached
            rows.append(row)
        pandas = import_or_explain("pandas")  # takes a second
        table: pd.DataFrame = pandas.DataFrame(rows, columns=_COLUMNS)
        whole = dict.fromkeys(("level", "budget", "limit"), "Int64")
        return table.astype({"score": "Float64"} | whole)


_FIGURES = (
    *("tokens", "solving_tokens", "planning_tokens", "input_tokens", "cached_tokens"),
    *("seconds", "calls", "budget", "limit"),
)
_FIELDS = [f.name for f in fields(Record) if f.name not in {"made_by", "report", "identity"}]
_COLUMNS = [*_FIELDS[:8], *_FIGURES, *_FIELDS[8:], "report"]


def planning_tokens(report: Report) -> int:
    """Return the completion tokens of planning and estimation, repairs included."""
    by_node = report["usage"]["by_node"]
    return sum(part["output_tokens"] for node, part in by_node.items() if node in PLANNING)


def solving_calls(nodes: Mapping[str, Any]) -> int:
    """Return the number of calls that were no planning, of a report's usage by node."""
    return sum(part["calls"] for name, part in nodes.items() if name not in PLANNING)


def level_source(report: Report, label: int | None, *, estimates: bool) -> LevelSource | None:
    """Return the source of an answer's level; None where it has none."""
    if report["level"] is None:
        return None
    return "estimated" if label is None or estimates else "label"


BY_RUN: Final = frozenset({"asked", "epochs", "scorer", "scorer_code"})
"""Conditions that a later run of the same folder may change: its log replaces the earlier one.

`optim.bench.bench.conditions` lists all conditions.
"""

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


def read_records(log_dir: str | Path | Iterable[str | Path], *, partial: bool = False) -> Records:
    """Read every answer in one or several folders of logs, subfolders included.

    If a folder has several logs of one task (data set, method, model and planner) and part, the
    latest counts, even if it is unfinished. So no answer counts twice. Each subfolder is a folder
    of its own. A log does not contain samples that were never started.
    ``read_records(log_dir).frame()`` is a pandas DataFrame.

    Args:
        log_dir: A folder, or several, such as the parts of one evaluation; also addresses such as
            ``s3://bucket/run``.
        partial: Whether answers of parts may be missing.

    Raises:
        MissingPackageError: If Inspect is not installed.
        InputError: If a folder has no log of `pb-optim eval`, or a log cannot be read. Parts are
            missing or unfinished, an answer is in two folders, or logs under different conditions
            would be mixed; or methods that would be compared were asked or scored otherwise.
    """
    require_modules("inspect_ai")
    folders = [log_dir] if isinstance(log_dir, str | Path) else list(log_dir)
    found = {folder: log_headers(folder) for folder in folders}
    latest: dict[tuple[str, Task, int | None], EvalLog] = {}
    for log in (log for logs in found.values() for log in logs):
        about, place = metadata_of(log), log.location.rpartition("/")[0]
        key = (place, task_key(about), part_of_log(log).get("number"))
        earlier = latest.setdefault(key, log)
        _refuse_mixing(earlier, log, BY_RUN)
        latest[key] = log
    tuned = {
        folder: [one for file in sorted(Path(folder).rglob(ANSWERS)) for one in Records.load(file)]
        for folder in folders
        if REMOTE not in str(folder)
    }
    # A part without a question has no log, and the logs of the others name a part that is missing.
    empty = [str(folder) for folder in folders if not found[folder] and not tuned.get(folder)]
    if empty and (not latest or not all(map(part_of_log, latest.values()))):
        msg = f"{', '.join(empty)} holds no log of `pb-optim eval`, and no answers of a tuning"
        raise InputError(msg)
    tasks: dict[Task, list[EvalLog]] = {}
    for (_, task, _), log in latest.items():
        tasks.setdefault(task, []).append(log)
    records = Records(
        record for task in sorted(tasks, key=_rank) for record in pool(tasks[task], partial=partial)
    )
    for folder, answers in tuned.items():
        places = {(one.dataset, one.method, one.model, one.question) for one in answers}
        if len(places) < len(answers):
            msg = f"{folder} holds several tunings on the same questions: read each one on its own"
            raise InputError(msg)
        records += answers
    _refuse_other_questions(records)
    return records


def _refuse_mixing(earlier: EvalLog, later: EvalLog, ignored: Collection[str]) -> None:
    """Raise `InputError` if two logs of one task differ in other conditions than these."""
    old, new = (metadata_of(log)["conditions"] for log in (earlier, later))
    if differ := differences(old, new, ignored):
        name = f"{metadata_of(earlier)['method']!r} on {metadata_of(earlier)['dataset']!r}"
        msg = f"{name} differs between {earlier.location} and {later.location} in "
        msg += f"{', '.join(differ)}. Give each of them a name or a folder of its own."
        raise InputError(msg)


def log_headers(log_dir: str | Path, *, recursive: bool = True) -> list[EvalLog]:
    """Return our logs in a folder without their samples, oldest first."""
    from inspect_ai.log import list_eval_logs, read_eval_log  # noqa: PLC0415

    # Else S3's client lists what was there before Inspect wrote, by a client of its own.
    options = {"use_listings_cache": False} if REMOTE in str(log_dir) else {}
    logs, place = [], str(log_dir)
    try:
        files = list_eval_logs(place, formats=["eval"], recursive=recursive, fs_options=options)
        for file in sorted(files, key=lambda file: (file.mtime or 0.0, file.name)):
            place = file.name.removeprefix("file://")
            logs.append(read_eval_log(place, header_only=True))
    except Exception as error:  # any of a store's client
        msg = f"cannot read the log {place}: {type(error).__name__}: {error}"
        raise InputError(msg) from error
    ours = [log for log in logs if "conditions" in (log.eval.metadata or {})]
    for log in ours:
        if lacking := _WRITTEN - (log.eval.metadata or {}).keys():
            raise _other_version(log, f"it has no {min(lacking)!r}")
    return sorted(ours, key=lambda log: log.eval.created)


def metadata_of(log: EvalLog) -> dict[str, Any]:
    """Return the metadata that `optim.evaluation.task` wrote when the task began.

    The number of epochs is Inspect's, whose command line may set another one.
    """
    metadata = log.eval.metadata or {}
    conditions = metadata["conditions"] | {"epochs": log.eval.config.epochs or 1}
    return metadata | {"conditions": conditions}


def task_key(metadata: Mapping[str, Any]) -> Task:
    """Return the task of a log's metadata: of several logs of one task the latest counts."""
    return metadata["dataset"], metadata["method"], metadata["model"], metadata["planner"]


def part_of_log(log: EvalLog) -> dict[str, Any]:
    """Return a log's part: ``number``, ``of``, and ``filled``, the parts with questions; or {}."""
    return metadata_of(log).get("part") or {}


def pool(logs: Iterable[EvalLog], *, partial: bool = False) -> list[Record]:
    """Read and pool one task's logs. Their ``made_by`` lists missing parts under ``gaps``."""
    parts = sorted(logs, key=lambda log: int(part_of_log(log).get("number", 0)))
    first, answers = parts[0], [_read_answers(log) for log in parts]
    name = f"{metadata_of(first)['method']!r} on {metadata_of(first)['dataset']!r}"
    places: dict[tuple[str, int], str] = {}
    for log, records in zip(parts, answers, strict=True):
        _refuse_mixing(first, log, {"part"})
        for record in records:
            place = places.setdefault((record.question, record.epoch), log.location)
            if place != log.location:
                msg = (
                    f"question {record.question!r} (epoch {record.epoch}) of {name} is both in "
                    f"{place} and in {log.location}. Leave one of these folders out."
                )
                raise InputError(msg)
    of = part_of_log(first).get("of")
    about: dict[str, Any] = {"parts": of} if of else {}
    if gaps := "; ".join(_gaps(parts, answers)):
        if of and not partial:
            msg = f"{name} is cut in {of} parts: {gaps}. Run it with --part, or report without it: "
            raise InputError(msg + "--partial.")
        about["gaps"] = gaps
    return [
        replace(each, made_by={**each.made_by, **about}) for records in answers for each in records
    ]


def _gaps(parts: Sequence[EvalLog], answers: Sequence[Sequence[Record]]) -> Iterator[str]:
    """Yield the missing parts that have questions, and the logs with missing answers."""
    numbers = [part_of_log(log).get("number") for log in parts]
    filled = part_of_log(parts[0]).get("filled", [])
    if missing := [str(number) for number in filled if number not in numbers]:
        yield f"missing parts: {', '.join(missing)}"
    for log, number, records in zip(parts, numbers, answers, strict=True):
        expected = len(log.eval.dataset.sample_ids or ()) * (log.eval.config.epochs or 1)
        if len(records) < expected:
            name = f"part {number}" if number else "its log"
            yield f"{name} has {len(records)} of its {expected} answers"


def _rank(task: Task) -> tuple[str, str, str, int, str]:
    """Sort methods in the order of the paper's tables; others follow by name."""
    dataset, method, model, planner = task
    place = NAMES.index(method) if method in NAMES else len(NAMES)
    return dataset, model, planner, place, method


def _refuse_other_questions(records: Records) -> None:
    """Refuse methods that were asked another question under one id, or under other conditions."""
    first: dict[tuple[str, ...], Record] = {}
    for new in records:
        earlier = first.setdefault((new.dataset, new.model, new.planner, new.question), new)
        if earlier.method == new.method:
            continue
        asked = {"question_text": "text", "target": "accepted answers"}
        differ = [text for at, text in asked.items() if getattr(earlier, at) != getattr(new, at)]
        if not differ and earlier.identity != new.identity:
            differ = ["reference, instruction or form"]
        old, now = (each.made_by.get("conditions", {}) for each in (earlier, new))
        if differ := [*differ, *differences(old, now, BY_ROW)]:
            msg = (
                f"question {new.question!r} of {new.dataset!r} differs between {earlier.method!r} "
                f"and {new.method!r} in {', '.join(differ)}. Run both with the same data, scorer "
                "and sampling, or read their logs from folders of their own."
            )
            raise InputError(msg)


def _read_answers(log: EvalLog) -> list[Record]:
    """Read the answers of a log, in the order of the data set."""
    from inspect_ai.event import ModelEvent  # noqa: PLC0415
    from inspect_ai.log import read_eval_log_sample, read_eval_log_samples  # noqa: PLC0415

    about = metadata_of(log)
    made_by = {"date": log.eval.created, **about["made_by"], "conditions": about["conditions"]}
    try:
        samples = read_eval_log_samples(
            log.location,
            all_samples_required=False,
            resolve_attachments="core",
            exclude_fields={"events", "messages"},
        )
        answered = [sample for sample in samples if "report" in sample.store]
        if answered:  # the prompts of one answer, each once by its first message
            one = read_eval_log_sample(
                log.location, answered[0].id, answered[0].epoch, resolve_attachments="core"
            )
            prompts: dict[str, str] = {}
            for event in one.events:
                if isinstance(event, ModelEvent) and event.input:
                    turns = (f"[{message.role}]\n{message.text}" for message in event.input)
                    prompts.setdefault(event.input[0].text, "\n\n".join(turns))
            made_by["prompt"] = "\n\n".join(prompts.values())
        return [_record(about, sample, made_by) for sample in answered]
    except Exception as error:  # of Inspect, or of a report with other fields
        raise _other_version(log, f"{type(error).__name__}: {error}") from error


def _other_version(log: EvalLog, reason: str) -> InputError:
    return InputError(
        f"{log.location} is damaged or of another version: {reason}. Run its command again with "
        "another --log-dir, or leave the log out."
    )


def _record(task: Mapping[str, Any], sample: EvalSample, made_by: Mapping[str, Any]) -> Record:
    """Return the record of a sample of a task with this metadata."""
    report: Report = sample.store["report"]
    metadata, estimates = sample.metadata or {}, task["conditions"]["estimate_level"]
    level = metadata.get("level")
    score = next((s for s in (sample.scores or {}).values() if isinstance(s.value, dict)), None)
    value: Any = score.value if score else {}
    reason = sample.error.message if sample.error else "the sample was not finished"
    return Record(
        **{name: "".join(filter(str.isprintable, task[name])) for name in _NAMES},
        question=str(sample.id),
        epoch=sample.epoch,
        level=level,
        score=float(value["score"] or 0.0) if score else None,
        error=None if score else str(sample.store.get("error") or reason),
        output=report["answer"],
        target=sample.target if isinstance(sample.target, str) else "\n".join(sample.target),
        report=report,
        question_text=str(sample.input),
        identity=metadata.get("identity", ""),
        explanation=(score.explanation or "") if score else "",
        level_source=(
            level_source(report, level, estimates=estimates) if task["uses_level"] else None
        ),
        score_metadata=(score.metadata or {}) if score else {},
        made_by=made_by,
    )
