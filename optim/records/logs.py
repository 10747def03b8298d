"""Inspect's logs as records: which logs of ours there are, and what is in them.

Inspect takes seconds to import, so that is done where a log is read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from optim.extras import require_modules
from optim.methods import NAMES
from optim.records.parts import pooled
from optim.records.record import LevelSource, Record, Records, paid_for_nothing
from pb_graph.errors import InputError
from pb_graph.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from inspect_ai.log import EvalLog, EvalSample

    from pb_graph.types import Report

REMOTE: Final = "://"
"""What an address has and a path has not."""

Task = tuple[str, str, str, str]
"""Data set, method, model and planner."""

_OURS = "fingerprint"  # a field that the metadata of our logs has
_NO_ANSWER = "No answer, after"  # how `pb_graph` tells that it finished, and nothing came of it


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
        """What was written about the task when it was begun."""
        return self.log.eval.metadata or {}

    @property
    def task(self) -> Task:
        """Data set, method, model and planner: of several logs of one task the latest counts."""
        about = self.metadata
        return about["dataset"], about["method"], about["model"], about["planner"]

    @property
    def part(self) -> dict[str, Any] | None:
        """What `Part.metadata` said of its part; None where the run was not cut."""
        found: dict[str, Any] | None = self.metadata.get("part")
        return found

    @property
    def made_by(self) -> dict[str, Any]:
        """How the log came about; what an old log does not tell is left out."""
        conditions = self.metadata.get("conditions", {})
        known = {
            "date": self.log.eval.created,
            "data": conditions.get("source") or self.metadata["dataset"],
            "seed": conditions.get("seed"),
            "scorer": self.metadata.get("scorer"),
            "epochs": self.log.eval.config.epochs,
            "settings": conditions.get("settings"),
        }
        told = known | self.metadata.get("made_by", {})
        return {name: value for name, value in told.items() if value is not None}

    def errors_and_samples(self) -> tuple[int, int]:
        """How many samples ended in an error, and how many there are."""
        from inspect_ai.log import read_eval_log_sample_summaries  # noqa: PLC0415

        summaries = read_eval_log_sample_summaries(str(self.path))
        return sum(1 for summary in summaries if summary.error), len(summaries)


def log_headers(log_dir: str | Path) -> list[LogHeader]:
    """Give the headers of our logs in a folder and below it, oldest first; other logs are left out.

    Raises:
        InputError: There is no such folder, its store cannot be reached, or a log cannot be read.
    """
    folder = location(log_dir)
    if not is_there(folder):
        msg = f"there is no folder {folder}; give the --log-dir of an evaluation"
        raise InputError(msg)
    headers = [_header(path) for path in sorted(folder.rglob("*.eval"))]
    ours = [header for header in headers if _OURS in header.metadata]
    return sorted(ours, key=lambda header: (header.log.eval.created, _written(header.path)))


def is_there(folder: Path) -> bool:
    """Whether there is such a folder; a store such as S3 has no empty ones.

    Raises:
        InputError: Its store cannot be reached.
    """
    try:
        return folder.is_dir()
    except Exception as error:  # any of the store's client
        raise _unreachable(folder, error) from error


def location(log_dir: str | Path) -> Path:
    """A log folder by its path, or by its address in a store that fsspec knows, such as S3.

    Inspect, which brings fsspec, writes and reads logs there under the same address.

    Raises:
        InputError: There is no such store, or its client is not installed.
    """
    if REMOTE not in str(log_dir):
        return Path(log_dir)
    from upath import UPath  # noqa: PLC0415 -- comes with Inspect

    try:
        # Else S3's client lists what was there before Inspect wrote, by a client of its own.
        return cast("Path", UPath(log_dir, use_listings_cache=False))
    except (ValueError, ImportError) as error:
        raise _unreachable(log_dir, error) from error


def _unreachable(folder: str | Path, error: Exception) -> InputError:
    return InputError(f"cannot reach {folder}: {type(error).__name__}: {error}")


def _written(path: Path) -> float:
    """When a log was last written, which tells those apart that were begun in the same second.

    A store may tell only when a file was made, which it makes anew each time.
    """
    stat = path.stat()
    return stat.st_mtime or float(getattr(stat, "st_birthtime", 0.0))


def _folders(log_dir: str | Path) -> list[str | Path]:
    """A folder; of a store, where no shell does it, those that an address with a * stands for."""
    parent, _, pattern = str(log_dir).rstrip("/").rpartition("/")
    if REMOTE not in parent or "*" not in pattern:
        return [log_dir]
    store = location(parent)
    try:
        found: list[str | Path] = [*sorted(map(str, store.glob(pattern)))]
    except Exception as error:  # any of the store's client
        raise _unreachable(store, error) from error
    return found or [log_dir]


def read_records(
    log_dir: str | Path | Iterable[str | Path],
    *,
    partial: bool = False,
    methods: Collection[str] | None = None,
) -> Records:
    """Read every answer in a folder of logs, and in those below it; or in several, pooled.

    Of several logs of one task (data set, method, model and planner), and of one part of it, the
    latest in a folder counts, also an unfinished one; so no answer counts twice. Samples that were
    never started are in no log. ``read_records(log_dir).frame()`` is a pandas DataFrame.

    Args:
        log_dir: A folder, or several, such as those of the parts of one evaluation; also addresses
            such as ``s3://bucket/run/part-*``.
        partial: Whether answers of parts may be missing.
        methods: Names of those that are wanted; None for all.

    Raises:
        MissingPackageError: Inspect is not installed.
        InputError: There is no such folder, no log of ours in it, or one cannot be read. Parts are
            missing or unfinished, an answer is in two folders, or they do not belong together; or
            methods that would be compared were asked or scored otherwise.
    """
    require_modules("inspect_ai")
    given = [log_dir] if isinstance(log_dir, str | Path) else log_dir
    folders = [folder for one in given for folder in _folders(one)]
    found = {folder: _latest(folder) for folder in folders}
    empty = [folder for folder, headers in found.items() if not headers]
    headers = [h for f in folders for h in found[f] if not methods or h.task[1] in methods]
    # A part without a question has no log, and one that is missing is told of by the others.
    if not headers or (empty and not all(header.part for header in headers)):
        msg = f"{', '.join(map(str, empty)) or 'no folder'} holds no log of `pb-optim eval`"
        raise InputError(msg)
    tasks: dict[Task, list[LogHeader]] = {}
    for header in headers:
        tasks.setdefault(header.task, []).append(header)
    records = Records(
        record
        for task in sorted(tasks, key=_rank)
        for record in pooled([(h, list(records_of(h))) for h in tasks[task]], partial=partial)
    )
    _refuse_other_questions(records)
    return records


def records_of(header: LogHeader) -> Iterator[Record]:
    """Read the answers of one log, in the order of its data set."""
    from inspect_ai.log import read_eval_log_samples  # noqa: PLC0415

    made_by = header.made_by
    samples = read_eval_log_samples(
        str(header.path),
        all_samples_required=False,
        resolve_attachments="core",
        exclude_fields={"events", "messages"},
    )
    return (_record(header, made_by, sample) for sample in samples if "report" in sample.store)


def _refuse_other_questions(records: Records) -> None:
    """Refuse two methods whose answers under one id are no pair: asked or scored otherwise."""
    first: dict[tuple[str, ...], Record] = {}
    for other in records:
        one = first.setdefault((other.dataset, other.model, other.planner, other.question), other)
        differ = [
            name
            for name, ours, theirs in (
                ("text", one.question_text, other.question_text),
                ("accepted answers", one.target, other.target),
                ("scorer", one.made_by.get("scorer"), other.made_by.get("scorer")),
            )
            if ours != theirs and None not in {ours, theirs}
        ]
        if differ:
            msg = (
                f"question {other.question!r} of {other.dataset!r} differs in {', '.join(differ)} "
                f"between {one.method!r} and {other.method!r}, so the two cannot be compared. Run "
                "both with the same data and scorer, or keep their logs in folders of their own, "
                "and read these one by one."
            )
            raise InputError(msg)


def _latest(folder: str | Path) -> list[LogHeader]:
    """The latest log of each task in a folder, and of each part of it."""
    headers = log_headers(folder)
    latest = {(h.task, h.part and (h.part["number"], h.part["of"])): h for h in headers}
    return list(latest.values())


def _rank(task: Task) -> tuple[str, str, str, int, str]:
    """Methods in the order of the paper's tables; others follow by name."""
    dataset, method, model, planner = task
    place = NAMES.index(method) if method in NAMES else len(NAMES)
    return dataset, model, planner, place, method


def _header(path: Path) -> LogHeader:
    from inspect_ai.log import read_eval_log  # noqa: PLC0415

    try:
        return LogHeader(path, read_eval_log(str(path), header_only=True))
    except Exception as error:
        msg = f"cannot read the log {path}: {error}. Move it elsewhere to read the others."
        raise InputError(msg) from error


def _record(header: LogHeader, made_by: Mapping[str, Any], sample: EvalSample) -> Record:
    dataset, method, model, planner = header.task
    report: Report = sample.store["report"]
    level = (sample.metadata or {}).get("level")
    source: LevelSource | None = None
    if report["level"] is not None and _uses_level(made_by, report):
        own = level is None or header.metadata.get("conditions", {}).get("estimate_level", False)
        source = "estimated" if own else "label"
    target = sample.target
    return Record(
        dataset=dataset,
        method=method,
        model=model,
        planner=planner,
        question=str(sample.id),
        epoch=sample.epoch,
        level=level,
        **_verdict(sample, report),
        output=report["answer"],
        target=target if isinstance(target, str) else "\n".join(target),
        report=report,
        question_text=str(sample.input),
        level_source=source,
        made_by=made_by,
    )


def _uses_level(made_by: Mapping[str, Any], report: Report) -> bool:
    """Whether the level bore on the answer; a label is in the report of any method.

    Where settings cannot be read, as of a method that is gone, all methods but one are said to.
    """
    told = made_by.get("settings") or {}
    try:
        settings = Settings.read({**told, "method": report["method"]})
    except InputError:
        return report["method"] != "vanilla"
    return settings.has_plan or settings.needs_level


def _verdict(sample: EvalSample, report: Report) -> dict[str, Any]:
    """Score, error, explanation and metadata: of a sample that was scored, or of one that failed.

    Logs of earlier versions have an error where nothing came of an answer that was paid for.
    """
    for score in (sample.scores or {}).values():
        if isinstance(score.value, dict):
            return {
                "score": float(score.value["score"] or 0.0),
                "error": None,
                "explanation": score.explanation or "",
                "score_metadata": score.metadata or {},
            }
    theirs = sample.error.message if sample.error else "the sample was not finished"
    reason = str(sample.store.get("error") or theirs)
    if reason.startswith(_NO_ANSWER) and paid_for_nothing(report):
        return {"score": 0.0, "error": None, "explanation": reason}
    return {"score": None, "error": reason, "explanation": ""}
