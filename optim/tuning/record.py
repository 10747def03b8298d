"""The record of a tuning: plain JSON in the program file, shown at a terminal and on a page.

A planner program (`pb_graph.program`) carries the record unread.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import pandas as pd
from rich.table import Table
from rich.text import Text

from optim.reporting.formatting import (
    COLUMNS,
    DASH,
    number,
    setting,
    settings,
    settings_in_full,
)
from optim.statistics.comparison import MIN_UNBIASED_QUESTIONS
from optim.tuning.program import DEFAULT_INSTRUCTIONS
from pb_graph.cli.display import safe
from pb_graph.planner.planner import Planner
from pb_graph.settings import Settings

if TYPE_CHECKING:
    from rich.console import RenderableType

    from optim.reporting.charts import Chart
    from optim.tuning.search import Search
    from optim.tuning.verdict import Trial
    from pb_graph.program import PlannerProgram

Record = dict[str, Any]

_PACKAGES = ("plan-and-budget", "dspy", "langgraph", "langchain-core")
_VERDICTS = {
    "better": "The tuned program is better.",
    "undecided": "The tuned program is used, but it is undecided whether it is better.",
    "kept": "The original is kept.",
}
_FIGURES = ("n", "accuracy, %", "completion", "prompt", "E³")
_ROLES = {"other": "candidate", "chosen": "best on dev", "original": "original"}  # drawn last


def record_of(search: Search, about: Mapping[str, Any]) -> Record:
    """Return the record of a search as plain JSON.

    Args:
        search: A search that has been run.
        about: Further facts.

    Returns:
        ``verdict`` and ``reason``; ``facts`` by name: models (never an address), questions, cost;
        ``settings_before``, those of the original; ``candidates``, every candidate that was
        measured on dev, the original first; ``held_out``, the figures of both sides and the
        comparison that decided, None where there was none.
    """
    verdict, split, evaluator = search.verdict, search.split, search.evaluator
    held_out = None
    if verdict.before and verdict.after and verdict.comparison:
        held_out = {
            "original": verdict.before.figures(),
            "chosen": verdict.after.figures(),
            "comparison": asdict(verdict.comparison) | {"dropped": []},
        }
    facts = {
        "optimizer": search.work[0][0].name,
        "seed": evaluator.options.seed,
        "solver": evaluator.models.model,
        "planner": evaluator.models.planner_model,
        "reflection": search.reflector.label if search.reflector else None,
        "train": 0 if split.train is split.dev else len(split.train),
        "dev": len(split.dev),
        "held out": len(split.held_out),
        **asdict(search.spent),
        "ended": search.ended,
        "date": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        "versions": ", ".join(f"{name} {version(name)}" for name in _PACKAGES),
    }
    return {
        "verdict": verdict.verdict,
        "reason": verdict.reason,
        "facts": facts | dict(about),
        "settings_before": search.original.candidate.settings.model_dump(mode="json"),
        "candidates": [_candidate(trial, search) for trial in search.trials],
        "held_out": held_out,
    }


def _candidate(trial: Trial, search: Search) -> Record:
    candidate, place = trial.candidate, search.trials.index(trial)
    role = "chosen" if trial is search.verdict.winner else "other" if place else "original"
    return {
        "name": f"{trial.origin} {place}" if place else "original",
        "role": role,
        "instructions": dict(candidate.instructions),
        "settings": _changed(candidate.settings, search.original.candidate.settings),
        "examples": {name: len(shown) for name, shown in candidate.examples.items()},
        "is_on_front": any(trial is one for one in search.front),
        **trial.figures(),
    }


def _changed(after: Settings, before: Settings) -> Record:
    base = before.model_dump(mode="json")
    return {n: value for n, value in after.model_dump(mode="json").items() if value != base[n]}


def shown(program: PlannerProgram) -> Iterator[RenderableType]:
    """Yield what a person wants to know of a planner program, piece by piece."""
    record = program.tuning
    if record is not None:
        style = "bold green" if record["verdict"] == "better" else "bold yellow"
        reason = safe(f" {record['reason']}", "not bold default")
        yield Text(_VERDICTS[record["verdict"]], style).append_text(reason)
        yield safe("\n".join(f"{name}: {value}" for name, value in _facts(record).items()))
        yield _grid(_compared(record))
        yield Text(_note(record), "dim")
    before = Settings(**(record or {}).get("settings_before", {}))
    if changes := _changed(program.settings or before, before):
        own = before.model_dump(mode="json")
        yield _grid(
            [
                {"setting": name, "before": setting(own[name]), "tuned": setting(value)}
                for name, value in changes.items()
            ]
        )
    for name, predictor in Planner().load(program).named_predictors():
        examples = f", {len(predictor.demos)} examples" if predictor.demos else ""
        own_text, text = DEFAULT_INSTRUCTIONS[name], predictor.signature.instructions
        if text == own_text:
            yield Text(f"{name}: the package's own prompt{examples}", "dim")
            continue
        yield Text(f"{name}, against the package's own prompt{examples}:", "bold")
        yield from (safe(f"- {line}", "red") for line in own_text.splitlines())
        yield from (safe(f"+ {line}", "green") for line in text.splitlines())
    if record is not None:
        yield _grid(_listed(record))


def html(record: Record) -> str:
    """Return a page with the verdict, a drawing and every candidate; nothing in it can run."""
    from optim.reporting.charts import to_svg  # noqa: PLC0415 -- brings Altair
    from optim.reporting.page import render  # noqa: PLC0415

    return render(
        "tuning/page.html.j2",
        title=f"Tuning on {record['facts'].get('dataset', 'examples')}",
        tuning=record,
        facts=_facts(record),
        before=settings_in_full(Settings(**record["settings_before"]).model_dump(mode="json")),
        verdict=_VERDICTS[record["verdict"]],
        figure=to_svg(plot_candidates(record)),
        compared=_compared(record),
        note=_note(record),
        candidates=_listed(record),
    )


def plot_candidates(record: Record) -> Chart:
    """Draw every candidate: accuracy against tokens, with 95 % intervals and the Pareto front.

    Args:
        record: ``result.record`` of what `optim.tune` returns.
    """
    from optim.reporting.charts import plane  # noqa: PLC0415 -- brings Altair

    frame = pd.DataFrame(record["candidates"])
    frame = frame.sort_values("role", key=lambda roles: roles.map(list(_ROLES).index))
    ends = ("tokens_lower", "tokens_upper", "accuracy_lower", "accuracy_upper")
    return plane(
        frame.assign(
            method=frame["name"].where(frame.role != "other", ""), kind=frame.role.map(_ROLES)
        ).astype(dict.fromkeys(ends, float))
    )


def _facts(record: Record) -> dict[str, str]:
    facts = {name: DASH if value is None else value for name, value in record["facts"].items()}
    return {n: number(value) if isinstance(value, int) else value for n, value in facts.items()}


def _figures(row: Mapping[str, Any]) -> dict[str, str]:
    known = defaultdict(lambda: None, row)  # one run has no deviations
    return {head: COLUMNS[head](known) for head in _FIGURES}


def _compared(record: Record) -> list[dict[str, str]]:
    """Return the original and the winner of dev on each set of questions, as text."""
    held_out = record["held_out"] or {}
    sets = [
        *((f"{one['role']}, dev", one) for one in record["candidates"] if one["role"] != "other"),
        *((f"{role}, held out", held_out[role]) for role in ("original", "chosen") if held_out),
    ]
    return [{"program": name, **_figures(figures)} for name, figures in sets]


def _listed(record: Record) -> list[dict[str, str]]:
    """Return every candidate as text, the highest E³ on dev first."""
    rows = []
    for one in sorted(record["candidates"], key=lambda one: -one["e3"]):
        examples = [f"{count} examples for {name}" for name, count in one["examples"].items()]
        texts = [" ".join(text.split()) for text in one["instructions"].values()]
        row = {"candidate": one["name"], "role": one["role"].replace("other", "")}
        row |= _figures(one) | {"front": "*" if one["is_on_front"] else ""}
        changes = [settings(one["settings"]), *examples, *texts]
        rows.append(row | {"changes": ", ".join(filter(None, changes))})
    return rows


def _note(record: Record) -> str:
    note = "Dev questions flatter the winner, which was chosen by them."
    few = min(record["facts"][name] for name in ("dev", "held out")) < MIN_UNBIASED_QUESTIONS
    return note + (" E³ of few questions is biased upwards, and so are its ratios." if few else "")


def _grid(rows: list[dict[str, str]]) -> Table:
    grid = Table(*rows[0], box=None, header_style="bold", pad_edge=False)
    for row in rows:
        grid.add_row(*map(safe, row.values()))
    return grid
