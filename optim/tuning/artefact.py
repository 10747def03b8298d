"""The record of a tuning in the file that is deployed: every candidate, and the evidence.

A planner program (`pb_graph.program`) carries the record unread.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from optim.datasets.dataset import digest
from optim.e3 import Comparison, accuracy_interval, token_interval
from optim.tuning.select import VerdictName
from pb_graph.errors import PlannerProgramError
from pb_graph.program import PlannerProgram, Text, describe_damage
from pb_graph.settings import Settings

if TYPE_CHECKING:
    from optim.tuning.search import SearchResult
    from optim.tuning.select import Measurement, Trial

_PACKAGES = ("plan-and-budget", "dspy", "gepa", "langgraph", "langchain-core")

_Count = Annotated[int, Field(ge=0)]
_Amount = Annotated[float, Field(ge=0)]
_Percent = Annotated[float, Field(ge=0, le=100)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Figures(_Part):
    """Figures of a set of answers: accuracy in percent, mean tokens, E³; ends of 95 % intervals."""

    questions: Annotated[int, Field(ge=1)]
    accuracy: _Percent
    accuracy_lower: _Percent | None = None
    accuracy_upper: _Percent | None = None
    tokens: _Amount
    tokens_lower: _Amount | None = None
    tokens_upper: _Amount | None = None
    input_tokens: _Amount
    e3: _Amount
    e3_lower: _Amount | None = None
    e3_upper: _Amount | None = None

    @classmethod
    def of(cls, measurement: Measurement) -> Figures:
        """Return the figures of a measurement."""
        spread = measurement.interval
        ends = {
            "accuracy": accuracy_interval(measurement.scores),
            "tokens": token_interval(measurement.costs),
            "e3": (spread.lower, spread.upper),
        }
        names = ("accuracy", "tokens", "input_tokens", "e3")
        return cls.model_validate(
            {"questions": len(measurement.results)}
            | {name: getattr(measurement, name) for name in names}
            | {f"{name}_lower": pair[0] for name, pair in ends.items()}
            | {f"{name}_upper": pair[1] for name, pair in ends.items()}
        )


class CandidateRecord(_Part):
    """A candidate that was measured on the whole of dev.

    Attributes:
        name: Its optimizer and number; unique.
        role: ``original``, ``chosen`` (the winner of dev), or ``other``.
        instructions: Changed instructions by predictor.
        settings: Settings that differ from the original's.
        examples: Number of examples by predictor.
        is_on_front: Whether it is on the Pareto front of accuracy and tokens.
        figures: Its figures on dev.
    """

    name: Text
    role: Literal["original", "chosen", "other"] = "other"
    instructions: dict[str, Text] = Field(default_factory=dict)
    settings: dict[str, Any] = Field(default_factory=dict)
    examples: dict[str, _Count] = Field(default_factory=dict)
    is_on_front: bool = False
    figures: Figures


class HeldOut(_Part):
    """The original and the winner of dev on the held-out questions, paired by question."""

    original: Figures
    chosen: Figures
    comparison: Comparison


class Data(_Part):
    """The questions: name and fingerprint of the data set, and the sizes of the three sets."""

    name: Text
    fingerprint: Text
    train: _Count
    dev: _Count
    held_out: _Count


class Tuning(_Part):
    """The record of a tuning.

    Attributes:
        date: In UTC.
        verdict: ``better``, ``undecided`` or ``kept``.
        reason: The verdict in words.
        ended: Why the search ended.
        models: Names of solver, planner and reflection model; never an address.
        versions: Version by package.
        settings_before: Settings of the original.
        answers: Answers that the run folder has cost.
        tokens: Completion tokens, those of the reflection model included.
        candidates: Every candidate that was measured on dev, the original first.
        held_out: The comparison that decided; None where there was none.
        made_by: Command, data, split and scorer, where `pb-optim tune` made it.
    """

    date: AwareDatetime
    optimizer: Text
    seed: int
    verdict: VerdictName
    reason: Text
    ended: Text
    models: dict[str, Text | None]
    data: Data
    versions: dict[str, Text]
    settings_before: Settings
    answers: _Count
    tokens: _Count
    candidates: tuple[CandidateRecord, ...]
    held_out: HeldOut | None = None
    made_by: dict[str, Any] = Field(default_factory=dict)


def tuning_of(program: PlannerProgram) -> Tuning | None:
    """Read the record of a program; None for prompts written by hand.

    Raises:
        PlannerProgramError: The record is damaged.
    """
    if program.tuning is None:
        return None
    try:
        return Tuning.model_validate(program.tuning)
    except ValidationError as error:
        fault = describe_damage("The planner program", error, "tuning")
        raise PlannerProgramError(fault) from error


def changed_settings(settings: Settings, base: Settings) -> dict[str, Any]:
    """Return the settings that differ from the base, as plain JSON."""
    before = base.model_dump(mode="json")
    after = settings.model_dump(mode="json")
    return {name: value for name, value in after.items() if value != before[name]}


def artefact_of(
    result: SearchResult,
    *,
    dataset: str,
    models: Mapping[str, str | None],
    made_by: Mapping[str, Any],
) -> PlannerProgram:
    """Return the planner program that `build_graph` loads, with the record.

    Args:
        result: The outcome of the search.
        dataset: Name of the questions.
        models: Names of the models.
        made_by: How it came about.
    """
    verdict, split = result.verdict, result.split
    held_out = None
    if verdict.original and verdict.measurement and verdict.comparison:
        held_out = HeldOut(
            original=Figures.of(verdict.original),
            chosen=Figures.of(verdict.measurement),
            comparison=verdict.comparison,
        )
    tuning = Tuning(
        date=datetime.now(UTC).replace(microsecond=0),
        optimizer=result.optimizer,
        seed=result.seed,
        verdict=verdict.verdict,
        reason=verdict.reason,
        ended=result.ended,
        models=dict(models),
        data=Data(
            name=dataset,
            fingerprint=digest(split.identity),
            train=0 if split.train is split.dev else len(split.train),
            dev=len(split.dev),
            held_out=len(split.held_out),
        ),
        versions=dict(_versions()),
        settings_before=result.original.candidate.settings,
        answers=result.spent.answers,
        tokens=result.spent.tokens,
        candidates=tuple(
            _record(trial, place, result) for place, trial in enumerate(result.trials)
        ),
        held_out=held_out,
        made_by=dict(made_by),
    )
    record = tuning.model_dump(mode="json", exclude_none=True)
    program = result.candidate.prompts().program()
    return program.model_copy(update={"settings": result.candidate.settings, "tuning": record})


def _versions() -> Iterator[tuple[str, str]]:
    for name in _PACKAGES:
        with suppress(PackageNotFoundError):
            yield name, version(name)


def _record(trial: Trial, place: int, result: SearchResult) -> CandidateRecord:
    candidate, is_original = trial.candidate, trial is result.original
    chosen = trial is result.verdict.winner
    return CandidateRecord(
        name="original" if is_original else f"{trial.origin} {place}",
        role="original" if is_original else "chosen" if chosen else "other",
        instructions=dict(candidate.instructions),
        settings=changed_settings(candidate.settings, result.original.candidate.settings),
        examples={name: len(shown) for name, shown in candidate.examples.items()},
        is_on_front=any(trial is one for one in result.front),
        figures=Figures.of(trial.measurement),
    )
