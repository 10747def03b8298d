"""Puts what came of a tuning into the file that is deployed."""

from __future__ import annotations

from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from optim.datasets.dataset import digest
from optim.e3 import accuracy_interval, token_interval
from optim.statistics.comparison import FEW
from optim.tune.artefact import (
    MAX_CANDIDATES,
    CandidateRecord,
    Cost,
    Data,
    Figure,
    Measured,
    Models,
    Paired,
    SplitRecord,
    Tuning,
    changed,
)
from pb_graph.planner.planner import Planner

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from optim.e3 import Comparison
    from optim.tune.candidate import Candidate
    from optim.tune.search import SearchResult
    from optim.tune.selection import Measurement, Trial
    from pb_graph.program import PlannerProgram
    from pb_graph.settings import Settings

_PACKAGES = ("plan-and-budget", "dspy", "gepa", "langgraph", "langchain-core")


def artefact_of(
    result: SearchResult, *, dataset: str, models: Mapping[str, str | None]
) -> PlannerProgram:
    """Put a result into the form that `build_graph` loads."""
    candidate = result.candidate
    tuning = Tuning(
        date=datetime.now(UTC).replace(microsecond=0),
        optimizer=result.optimizer,
        seed=result.seed,
        verdict=result.verdict.verdict,
        reason=result.verdict.reason,
        models=Models.model_validate(models),
        data=_data(result, dataset),
        versions=dict(_versions()),
        settings_before=result.original.candidate.settings,
        dev=_dev(result),
        held_out=_held_out(result),
        cost=Cost(
            metric_calls=result.spent.calls,
            tokens=result.spent.tokens,
            seconds=round(result.spent.seconds, 1),
        ),
        **_candidates(result),
    )
    record = tuning.model_dump(mode="json", exclude_none=True)
    program = (candidate.planner() or Planner()).program()
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
        try:
            yield name, version(name)
        except PackageNotFoundError:
            continue


def _dev(result: SearchResult) -> SplitRecord:
    before, winner = result.original.measurement, result.verdict.winner
    if winner is None:
        return _split(before, before, None)
    after = winner.measurement
    return _split(before, after, after.against(before, result.seed))


def _held_out(result: SearchResult) -> SplitRecord | None:
    found = result.verdict
    if found.original is None or found.measurement is None:
        return None
    return _split(found.original, found.measurement, found.comparison)


def _split(before: Measurement, after: Measurement, compared: Comparison | None) -> SplitRecord:
    paired = None
    if compared:
        kept = {name: getattr(compared, name) for name in Paired.model_fields}
        if compared.questions < FEW or compared.accuracy_undecided:
            kept["probability_better"] = None
        paired = Paired(**kept)
    return SplitRecord(before=_measured(before), after=_measured(after), paired=paired)


def _candidates(result: SearchResult) -> dict[str, Any]:
    """The original, the winner, and the best of the others; what was not measured last."""
    base = result.original.candidate.settings
    rows = [_of_trial(trial, place, result) for place, trial in enumerate(result.trials)]
    known = {trial.candidate.identity for trial in result.trials}
    for place, one in enumerate(result.dropped, start=1):
        if one.candidate.identity not in known or one.fell.startswith("duplicate"):
            name = f"{one.origin} round {one.round}, proposal {place}"
            rows.append(_record(name, "other", one.candidate, one.measurement, base, one.fell))
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
    name, role, fell = f"{trial.origin} {place}", "other", None
    if trial is original:
        name = role = "original"
        fell = "replaced" if result.adopted else None
    elif trial is winner:
        role = "chosen"
        fell = None if result.adopted else "best on dev, but not kept on the held-out questions"
    else:
        role = "reference" if base.plans and not trial.candidate.settings.plans else "other"
        lower = trial.measurement.e3 <= original.measurement.e3
        fell = f"not above the {'original' if lower else 'best'} on dev"
    return _record(name, role, trial.candidate, trial.measurement, base, fell)


def _record(  # noqa: PLR0913, PLR0917 -- one for each field
    name: str,
    role: str,
    candidate: Candidate,
    measurement: Measurement | None,
    base: Settings,
    fell: str | None,
) -> CandidateRecord:
    names = ("accuracy", "tokens", "input_tokens", "e3") if measurement else ()
    figures = {name: getattr(measurement, name) for name in names}
    return CandidateRecord.model_validate(
        {
            "name": name,
            "role": role,
            "instructions": dict(candidate.instructions),
            "settings": changed(candidate.settings, base),
            "examples": {name: len(shown) for name, shown in candidate.examples.items()},
            "questions": len(measurement.results) if measurement else 0,
            "fell": fell,
            **figures,
        }
    )
