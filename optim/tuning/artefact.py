"""The record of a tuning, in the file that is deployed: what was tried, and the evidence.

A planner program (`pb_graph.program`) carries it unread. Format version 1: what earlier versions
wrote is read, and fields that they did not have are optional.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from optim.datasets.dataset import digest
from optim.e3 import accuracy_interval, token_interval
from optim.report import formatting
from pb_graph.errors import PlannerProgramError
from pb_graph.program import PlannerProgram, Text, describe_damage
from pb_graph.settings import Settings

if TYPE_CHECKING:
    from optim.e3 import Comparison
    from optim.tuning.optimizer import Proposal
    from optim.tuning.search import SearchResult
    from optim.tuning.selection import Measurement, Trial

_PACKAGES = ("plan-and-budget", "dspy", "gepa", "langgraph", "langchain-core")

MAX_CANDIDATES = 500
"""More than the widest search of settings proposes."""

_Count = Annotated[int, Field(ge=0)]
_Amount = Annotated[float, Field(ge=0)]
_Percent = Annotated[float, Field(ge=0, le=100)]
_Role = Literal["original", "reference", "chosen", "other"]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Figure(_Part):
    """A measured figure and the ends of its 95 % interval, None where there is none."""

    value: _Amount
    lower: _Amount | None = None
    upper: _Amount | None = None

    @property
    def ends(self) -> tuple[float | None, float | None]:
        """Of the interval."""
        return self.lower, self.upper


class Measured(_Part):
    """What a program achieved: A in percent, T in completion tokens with planning, E³ = A²/T."""

    questions: Annotated[int, Field(ge=1)]
    accuracy: Figure
    tokens: Figure
    e3: Figure


class Paired(_Part):
    """The tuned program against the original on the same questions, paired by question.

    Attributes:
        ratio: E³ of the tuned over that of the original; None when the latter is 0.
        lower: Lower end of the ratio's interval; None where the log scale does not apply.
        upper: Upper end, likewise.
        p_value: Two-sided, for equal E³.
        probability_higher: One-sided confidence that the tuned one's E³ is higher.
        accuracy_difference: In percentage points.
        tokens_ratio: Mean tokens of the tuned over those of the original.
        discordant: On how many questions the two scores differ; None in earlier files.
        questions: How many are compared.
        confidence: Nominal coverage of the intervals.
    """

    ratio: _Amount | None = None
    lower: _Amount | None = None
    upper: _Amount | None = None
    p_value: _Amount | None = None
    probability_higher: _Amount | None = None
    accuracy_difference: float
    tokens_ratio: _Amount | None = None
    tokens_lower: _Amount | None = None
    tokens_upper: _Amount | None = None
    discordant: _Count | None = None
    questions: _Count
    confidence: float


class SplitRecord(_Part):
    """Before and after on one split; without another program to compare, both are the same."""

    before: Measured
    after: Measured
    paired: Paired | None = None


class CandidateRecord(_Part):
    """One program that was proposed.

    Attributes:
        name: Short, unique within the tuning.
        role: The original, one that is measured for reference only, the chosen one, or any other.
        instructions: Tuned texts by predictor; empty for the original's.
        settings: The fields that differ from the original's settings.
        examples: How many worked examples it shows, by predictor; those of the package are not
            counted.
        questions: On how many it was measured; fewer than others when it was given up early, 0
            when it was not measured at all.
        accuracy: Percent; None without a question, as the next three.
        tokens: Mean completion tokens per query.
        input_tokens: Mean prompt tokens per query; None in files of earlier versions, too.
        e3: A²/T.
        fell: Why it is not what is used now; None for what is, and in files of earlier versions.
    """

    name: Text
    role: _Role = "other"
    instructions: dict[str, Text] = Field(default_factory=dict)
    settings: dict[str, Any] = Field(default_factory=dict)
    examples: dict[str, _Count] = Field(default_factory=dict)
    questions: _Count
    accuracy: _Percent | None = None
    tokens: _Amount | None = None
    input_tokens: _Amount | None = None
    e3: _Amount | None = None
    fell: Text | None = None

    @property
    def other(self) -> str:
        """What differs from the original beside instructions, in a few words."""
        shown = [f"{count} examples for {name}" for name, count in self.examples.items()]
        return ", ".join(filter(None, [formatting.settings(self.settings), *shown]))

    @property
    def is_measured(self) -> bool:
        """Whether it met any question."""
        return self.questions > 0


class Models(_Part):
    """Names of the models; never their addresses or keys."""

    solver: Text
    planner: Text
    reflection: Text | None = None


class Data(_Part):
    """Which questions were used: the data set, its fingerprint, and the sizes of the splits."""

    name: Text
    fingerprint: Text
    train: _Count
    dev: _Count
    held_out: _Count


class Cost(_Part):
    """Questions answered, and completion tokens of all models with reflection."""

    metric_calls: _Count
    tokens: _Count


class Tuning(_Part):
    """How the program was come by.

    Attributes:
        date: With its time zone; written in UTC.
        verdict: ``better``, ``undecided`` (the program holds the winner of dev in both) or
            ``kept``; ``adopted`` in files of earlier versions, which did not tell the first two
            apart.
        versions: Package to version.
        settings_before: What the original was measured with.
        dev: Before and after where the choice was made.
        held_out: Before and after where it was judged.
        candidates: What was proposed, `MAX_CANDIDATES` at most.
        left_out: How many more there were.
        ended: Why the search ended; None in earlier files.
        made_by: How it came about, as far as the command knows: the command itself, data file or
            repository, split, and scorer. Empty where a notebook called `tune`, and in earlier
            files.
    """

    date: AwareDatetime
    optimizer: Text
    seed: int
    verdict: Literal["better", "undecided", "kept", "adopted"]
    reason: Text
    models: Models
    data: Data
    versions: dict[str, Text]
    settings_before: Settings
    dev: SplitRecord
    held_out: SplitRecord | None = None
    cost: Cost
    candidates: tuple[CandidateRecord, ...] = Field(default=(), max_length=MAX_CANDIDATES)
    left_out: _Count = 0
    ended: Text | None = None
    made_by: dict[str, Any] = Field(default_factory=dict)

    @property
    def adopted(self) -> bool:
        """Whether the winner of dev is what the program holds."""
        return self.verdict != "kept"


def tuning_of(program: PlannerProgram) -> Tuning | None:
    """Read the record that a program carries; None for prompts written by hand.

    Raises:
        PlannerProgramError: It is damaged, or of a version to come.
    """
    if program.tuning is None:
        return None
    try:
        return Tuning.model_validate(program.tuning)
    except ValidationError as error:
        fault = describe_damage("The planner program", error, "tuning")
        raise PlannerProgramError(fault) from error


def changed(settings: Settings, base: Settings) -> dict[str, Any]:
    """The fields that differ from the base, as plain JSON."""
    ours, theirs = settings.model_dump(mode="json"), base.model_dump(mode="json")
    return {name: value for name, value in ours.items() if value != theirs[name]}


def artefact_of(
    result: SearchResult, *, dataset: str, models: Mapping[str, str | None]
) -> PlannerProgram:
    """Put a result into the form that `build_graph` loads."""
    candidate, found, spent = result.candidate, result.verdict, result.spent
    before, after = found.original, found.measurement
    tuning = Tuning(
        date=datetime.now(UTC).replace(microsecond=0),
        optimizer=result.optimizer,
        seed=result.seed,
        verdict=found.verdict,
        reason=found.reason,
        models=Models.model_validate(models),
        data=_data(result, dataset),
        versions=dict(_versions()),
        settings_before=result.original.candidate.settings,
        dev=_dev(result),
        held_out=_split(before, after, found.comparison) if before and after else None,
        cost=Cost(metric_calls=spent.calls, tokens=spent.tokens),
        ended=result.ended,
        **_candidates(result),
    )
    record = tuning.model_dump(mode="json", exclude_none=True)
    program = candidate.prompts().program()
    return program.model_copy(update={"settings": candidate.settings, "tuning": record})


def _measured(measurement: Measurement) -> Measured:
    """The figures of a set of answers, with their 95 % intervals."""
    spread = measurement.interval
    low, high = accuracy_interval(measurement.scores)
    least, most = token_interval(measurement.costs)
    return Measured(
        questions=len(measurement.results),
        accuracy=Figure(value=measurement.accuracy, lower=low, upper=high),
        tokens=Figure(value=measurement.tokens, lower=least, upper=most),
        e3=Figure(value=spread.e3, lower=spread.lower, upper=spread.upper),
    )


def _data(result: SearchResult, dataset: str) -> Data:
    split, compared = result.split, result.verdict.measurement
    return Data(
        name=dataset,
        fingerprint=digest(split.identity),
        train=0 if split.train is split.dev else len(split.train),
        dev=len(split.dev),
        held_out=len(compared.results) if compared else len(split.held_out),
    )


def _versions() -> Iterator[tuple[str, str]]:
    for name in _PACKAGES:
        with suppress(PackageNotFoundError):
            yield name, version(name)


def _dev(result: SearchResult) -> SplitRecord:
    before, winner = result.original.measurement, result.verdict.winner
    if winner is None:
        return _split(before, before, None)
    after = winner.measurement
    return _split(before, after, after.against(before))


def _split(before: Measurement, after: Measurement, compared: Comparison | None) -> SplitRecord:
    paired = Paired.model_validate(compared, from_attributes=True) if compared else None
    return SplitRecord(before=_measured(before), after=_measured(after), paired=paired)


def _candidates(result: SearchResult) -> dict[str, Any]:
    """The original, the winner, and the best of the others; what was not measured last."""
    base = result.original.candidate.settings
    rows = [_of_trial(trial, place, result) for place, trial in enumerate(result.trials)]
    known = {trial.candidate.identity for trial in result.trials}
    for place, one in enumerate(result.dropped, start=1):
        if one.candidate.identity not in known or one.fell.startswith("duplicate"):
            name = f"{one.origin} round {one.round}, proposal {place}"
            rows.append(_record(one, name, "other", one.fell, base))
    ranked = sorted(rows, key=lambda row: (row.role not in {"original", "chosen"}, -(row.e3 or 0)))
    kept = {row.name for row in ranked[:MAX_CANDIDATES]}
    return {
        "candidates": tuple(row for row in rows if row.name in kept),
        "left_out": max(0, len(rows) - MAX_CANDIDATES),
    }


def _of_trial(trial: Trial, place: int, result: SearchResult) -> CandidateRecord:
    """A method without a plan beside those that have one is there for reference, but may win."""
    original, winner = result.original, result.verdict.winner
    base = original.candidate.settings
    name = f"{trial.origin} {place}"
    if trial is original:
        fell = "replaced" if result.adopted else None
        return _record(trial, "original", "original", fell, base)
    if trial is winner:
        fell = None if result.adopted else "best on dev, but not kept on the held-out questions"
        return _record(trial, name, "chosen", fell, base)
    lower = trial.measurement.e3 <= original.measurement.e3
    fell = f"not above the {'original' if lower else 'best'} on dev"
    plain = base.has_plan and not trial.candidate.settings.has_plan
    return _record(trial, name, "reference" if plain else "other", fell, base)


def _record(
    one: Trial | Proposal, name: str, role: _Role, fell: str | None, base: Settings
) -> CandidateRecord:
    candidate, found = one.candidate, one.measurement
    names = ("accuracy", "tokens", "input_tokens", "e3") if found else ()
    return CandidateRecord(
        name=name,
        role=role,
        instructions=dict(candidate.instructions),
        settings=changed(candidate.settings, base),
        examples={name: len(shown) for name, shown in candidate.examples.items()},
        questions=len(found.results) if found else 0,
        fell=fell,
        **{name: getattr(found, name) for name in names},
    )
