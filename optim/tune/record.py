"""A tuning's outcome as the artefact that is deployed: prompts, settings, and the evidence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, Literal

from optim.fingerprint import digest
from optim.statistics.estimates import accuracy_interval, token_interval
from pb_graph.artefact import (
    MAX_CANDIDATES,
    Artefact,
    Candidate,
    Cost,
    Data,
    Figure,
    Measured,
    Models,
    Paired,
    Split,
    Tuning,
)
from pb_graph.planner.planner import Planner

if TYPE_CHECKING:
    from optim.answering import Staff
    from optim.e3 import Comparison
    from optim.tune.candidate import Candidate as Measurable
    from optim.tune.loop import SearchResult
    from optim.tune.standing import Standing, Trial
    from pb_graph.settings import Settings

__all__ = ["artefact_of", "changed", "measured", "paired"]

_PACKAGES = ("plan-and-budget", "dspy", "gepa", "optuna", "langgraph", "langchain-core")

_Role = Literal["original", "chosen", "reference", "other"]


def artefact_of(
    result: SearchResult,
    *,
    dataset: str,
    staff: Staff,
    reflection: str | None = None,
    tried: Sequence[tuple[Measurable, Standing]] = (),
) -> Artefact:
    """Put a result into the form that `build_graph` loads.

    Args:
        result: Of `search`.
        dataset: Name of the data set.
        staff: The bench's, for the names of its models.
        reflection: Name of the reflection model.
        tried: What the search measured on its way, also on a part of dev only.
    """
    candidate = result.candidate
    tuning = Tuning(
        date=datetime.now(UTC).replace(microsecond=0),
        optimizer=result.optimizer,
        seed=result.seed,
        verdict=result.verdict.verdict,
        reason=result.verdict.reason,
        models=Models(solver=staff.model, planner=staff.planner_model, reflection=reflection),
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
        **_candidates(result, _given_up(result, tried)),
    )
    program = (candidate.planner() or Planner()).program()
    return program.model_copy(update={"settings": candidate.settings, "tuning": tuning})


def measured(standing: Standing) -> Measured:
    """The figures of a set of answers, with their 95 % intervals."""
    spread = standing.interval
    questions = [result.question for result in standing.results]
    low, high = accuracy_interval(standing.scores, clusters=questions)
    cheap, dear = token_interval(standing.costs, clusters=questions)
    return Measured(
        questions=len(standing.results),
        accuracy=Figure(value=standing.accuracy, lower=low, upper=high),
        tokens=Figure(value=standing.tokens, lower=cheap, upper=dear),
        e3=Figure(value=spread.e3, lower=spread.lower, upper=spread.upper),
    )


def paired(comparison: Comparison) -> Paired:
    """A comparison, as far as the artefact keeps it."""
    return Paired(
        ratio=comparison.ratio,
        lower=comparison.lower,
        upper=comparison.upper,
        p_value=comparison.p_value,
        probability_better=comparison.probability_better,
        accuracy_difference=comparison.accuracy_difference,
        questions=comparison.questions,
        confidence=comparison.confidence,
    )


def _data(result: SearchResult, dataset: str) -> Data:
    split = result.split
    return Data(
        name=dataset,
        fingerprint=digest(split.identity),
        train=0 if split.train is split.dev else len(split.train),
        dev=len(split.dev),
        held_out=len(split.held_out),
    )


def _versions() -> Iterator[tuple[str, str]]:
    for name in _PACKAGES:
        try:
            yield name, version(name)
        except PackageNotFoundError:
            continue


def _dev(result: SearchResult) -> Split:
    before, chosen = result.original.standing, result.verdict.chosen
    if chosen is None:
        return Split(before=measured(before), after=measured(before))
    after = chosen.trial.standing
    comparison = after.against(before, result.seed)
    return Split(before=measured(before), after=measured(after), paired=paired(comparison))


def _held_out(result: SearchResult) -> Split | None:
    before, chosen = result.verdict.original, result.verdict.chosen
    if before is None or chosen is None:
        return None
    return Split(
        before=measured(before),
        after=measured(chosen.standing),
        paired=paired(chosen.comparison),
    )


def _given_up(
    result: SearchResult, tried: Sequence[tuple[Measurable, Standing]]
) -> list[Candidate]:
    """What did not get to meet the whole of dev."""
    base, whole = result.original.candidate.settings, len(result.split.dev)
    return [
        _row(f"given up {place}", "other", candidate, found, base)
        for place, (candidate, found) in enumerate(tried)
        if len(found.results) < whole
    ]


def _candidates(result: SearchResult, more: Sequence[Candidate]) -> dict[str, Any]:
    """The original, the chosen one, and the best of the others."""
    chosen = result.verdict.chosen.trial if result.verdict.chosen else None
    rows = [_candidate(trial, place, result, chosen) for place, trial in enumerate(result.trials)]
    rows += more
    ranked = sorted(rows, key=lambda row: (row.role not in {"original", "chosen"}, -row.e3))
    kept = {row.name for row in ranked[:MAX_CANDIDATES]}
    return {
        "candidates": tuple(row for row in rows if row.name in kept),
        "left_out": max(0, len(rows) - MAX_CANDIDATES),
    }


def _candidate(trial: Trial, place: int, result: SearchResult, chosen: Trial | None) -> Candidate:
    name = "original" if trial is result.original else f"{trial.origin} {place}"
    base = result.original.candidate.settings
    return _row(name, _role(trial, result, chosen), trial.candidate, trial.standing, base)


def _row(
    name: str, role: _Role, candidate: Measurable, standing: Standing, base: Settings
) -> Candidate:
    return Candidate(
        name=name,
        role=role,
        instructions=dict(candidate.instructions),
        settings=changed(candidate.settings, base),
        questions=len(standing.results),
        accuracy=standing.accuracy,
        tokens=standing.tokens,
        e3=standing.e3,
    )


def _role(trial: Trial, result: SearchResult, chosen: Trial | None) -> _Role:
    """A method without a plan beside those that have one is there for reference, but may win."""
    original = result.original
    if trial is original:
        return "original"
    if trial is chosen:
        return "chosen"
    planless = original.candidate.settings.plans and not trial.candidate.settings.plans
    return "reference" if planless else "other"


def changed(settings: Settings, base: Settings) -> dict[str, Any]:
    """The fields that differ from the base, as plain JSON."""
    ours, theirs = settings.model_dump(mode="json"), base.model_dump(mode="json")
    return {name: value for name, value in ours.items() if value != theirs[name]}
