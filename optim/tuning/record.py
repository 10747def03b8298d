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
    factor,
    format_confidence,
    format_interval,
    number,
    setting,
    settings,
    settings_in_full,
)
from optim.statistics.comparison import MIN_UNBIASED_QUESTIONS
from optim.tuning.candidate import DEFAULT_INSTRUCTIONS
from pb_graph.cli.display import safe
from pb_graph.planner.planner import Planner
from pb_graph.settings import Settings

if TYPE_CHECKING:
    from rich.console import RenderableType

    from optim.reporting.charts import Chart
    from optim.tuning.search import Search
    from optim.tuning.select import Trial
    from pb_graph.program import PlannerProgram

Record = dict[str, Any]

_PACKAGES = ("plan-and-budget", "dspy", "langgraph", "langchain-core")
_VERDICTS = {
    "better": "The tuned program is better.",
    "undecided": "The tuned program is used, but it is undecided whether it is better.",
    "kept": "The original is kept.",
}
_BEST = 12  # candidates at a terminal
_FIGURES = ("n", "accuracy, %", "completion", "prompt", "E³")
_ROLES = {"other": "candidate", "chosen": "best on dev", "original": "original"}  # drawn last


def record_of(
    result: Search,
    *,
    dataset: str,
    models: Mapping[str, str | None],
    made_by: Mapping[str, Any],
) -> Record:
    """Return the record of a search as plain JSON.

    Args:
        result: The outcome of the search.
        dataset: Name of the questions.
        models: Names of solver, planner and reflection model; never an address.
        made_by: How it came about.

    Returns:
        ``verdict`` and ``reason``; ``ended``, why the search ended; ``settings_before``, those of
        the original; ``answers`` and ``tokens``, the cost of the run folder; ``candidates``, every
        candidate that was measured on dev, the original first; ``held_out``, the figures of both
        sides and the comparison that decided, None where there was none.
    """
    verdict, split = result.verdict, result.split
    held_out = None
    if verdict.original and verdict.measurement and verdict.comparison:
        held_out = {
            "original": verdict.original.figures(),
            "chosen": verdict.measurement.figures(),
            "comparison": asdict(verdict.comparison) | {"dropped": []},
        }
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        "verdict": verdict.verdict,
        "reason": verdict.reason,
        "ended": result.ended,
        "models": dict(models),
        "dataset": dataset,
        "train": 0 if split.train is split.dev else len(split.train),
        "dev": len(split.dev),
        "held_out_questions": len(split.held_out),
        "versions": {name: version(name) for name in _PACKAGES},
        "settings_before": result.original.candidate.settings.model_dump(mode="json"),
        **asdict(result.spent),
        "candidates": [
            _candidate(trial, place, result) for place, trial in enumerate(result.trials)
        ],
        "held_out": held_out,
        "made_by": dict(made_by),
    }


def _candidate(trial: Trial, place: int, result: Search) -> Record:
    candidate, is_chosen = trial.candidate, trial is result.verdict.winner
    return {
        "name": f"{trial.origin} {place}" if place else "original",
        "role": ("chosen" if is_chosen else "other") if place else "original",
        "instructions": dict(candidate.instructions),
        "settings": _changed(candidate.settings, result.original.candidate.settings),
        "examples": {name: len(shown) for name, shown in candidate.examples.items()},
        "is_on_front": any(trial is one for one in result.front),
        **trial.measurement.figures(),
    }


def _changed(after: Settings, before: Settings) -> Record:
    base = before.model_dump(mode="json")
    return {n: value for n, value in after.model_dump(mode="json").items() if value != base[n]}


def document(program: PlannerProgram) -> Record:
    """Return the whole file as plain JSON, with prompts and settings beside the originals."""
    before = Settings(**(program.tuning or {}).get("settings_before", {}))
    changed = _changed(program.settings, before) if program.settings else {}
    base = before.model_dump(mode="json")
    prompts = {
        name: {
            "own": DEFAULT_INSTRUCTIONS[name],
            "tuned": (text := predictor.signature.instructions),
            "changed": text != DEFAULT_INSTRUCTIONS[name],
            "examples": len(predictor.demos),
        }
        for name, predictor in Planner().adopt(program).named_predictors()
    }
    return program.model_dump(mode="json", exclude={"state"}) | {
        "prompts": prompts,
        "settings_changed": {n: {"before": base[n], "tuned": v} for n, v in changed.items()},
    }


def shown(program: PlannerProgram) -> Iterator[RenderableType]:
    """Yield what a person wants to know of a planner program, piece by piece."""
    whole, record = document(program), program.tuning
    if record is not None:
        style = "bold green" if record["verdict"] == "better" else "bold yellow"
        reason = safe(f" {record['reason']}", "not bold default")
        yield Text(_VERDICTS[record["verdict"]], style).append_text(reason)
        yield safe("\n".join(f"{name}: {value}" for name, value in _facts(record).items()))
        yield _grid(_compared(record))
        yield Text(_note(record), "dim")
    if changes := whole["settings_changed"]:
        cells = {
            name: {side: setting(pair[side]) for side in pair} for name, pair in changes.items()
        }
        yield _grid([{"setting": name} | pair for name, pair in cells.items()])
    for name, prompt in whole["prompts"].items():
        examples = f", {prompt['examples']} examples" if prompt["examples"] else ""
        if not prompt["changed"]:
            yield Text(f"{name}: the package's own prompt{examples}", "dim")
            continue
        yield Text(f"{name}, against the package's own prompt{examples}:", "bold")
        yield from (safe(f"- {line}", "red") for line in prompt["own"].splitlines())
        yield from (safe(f"+ {line}", "green") for line in prompt["tuned"].splitlines())
    if record is not None:
        listed = _listed(record)
        yield _grid(listed[:_BEST])
        if len(listed) > _BEST:
            yield Text(f"and {len(listed) - _BEST} more", "dim")


def html(record: Record) -> str:
    """Return a page with the verdict, a drawing and every candidate; nothing in it can run."""
    from optim.reporting.charts import to_svg  # noqa: PLC0415 -- brings Altair
    from optim.reporting.page import render  # noqa: PLC0415

    return render(
        "tuning/page.html.j2",
        title=f"Tuning on {record['dataset']}",
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

    order = list(_ROLES)
    rows = [
        one
        | {
            "method": one["name"],
            "kind": _ROLES[one["role"]],
            "is_labelled": one["role"] != "other",
        }
        for one in sorted(record["candidates"], key=lambda one: order.index(one["role"]))
    ]
    ends = ("tokens_lower", "tokens_upper", "accuracy_lower", "accuracy_upper")
    return plane(pd.DataFrame(rows).astype(dict.fromkeys(ends, float)))


def _facts(record: Record) -> dict[str, str]:
    """Return who took part, how the tuning came about, and what it cost."""
    sizes = "{train} to train on, {dev} dev, {held_out_questions} held out".format_map(record)
    return {
        "optimizer": record["optimizer"],
        "seed": str(record["seed"]),
        **{role: name or DASH for role, name in record["models"].items()},
        "questions": f"{record['dataset']}: {sizes}",
        "answers": number(record["answers"]),
        "completion tokens": number(record["tokens"]),
        "the search ended": record["ended"],
        "date": record["date"],
        "versions": ", ".join(f"{name} {told}" for name, told in record["versions"].items()),
    } | {name: str(value) for name, value in record["made_by"].items()}


def _figures(row: Mapping[str, Any]) -> dict[str, str]:
    known = defaultdict(lambda: None, row)  # one run has no deviations
    return {head: COLUMNS[head](known) for head in _FIGURES}


def _compared(record: Record) -> list[dict[str, str]]:
    """Return the original and the winner of dev on each set of questions, as text.

    The ratios and the one-sided confidence are of the held-out questions: dev chose the winner.
    """
    rows = [
        {"program": f"{one['role']}, dev", **_figures(one)}
        for one in record["candidates"]
        if one["role"] != "other"
    ]
    if (found := record["held_out"]) is None:
        return rows
    rows += [
        {"program": f"{name}, held out", **_figures(found[name])} for name in ("original", "chosen")
    ]
    compared = found["comparison"]
    interval = format_interval(compared["lower"], compared["upper"])
    sure = compared["probability_higher"]
    rows[-1] |= {
        "E³ ratio": f"{factor(compared['ratio'])} ({interval})",
        "T ratio": factor(compared["tokens_ratio"]),
        "differ": number(compared["discordant"]),
        "confidence": DASH if sure is None else format_confidence(sure),
    }
    return [{name: row.get(name, "") for name in rows[-1]} for row in rows]


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
    few = min(record["dev"], record["held_out_questions"]) < MIN_UNBIASED_QUESTIONS
    return note + (" E³ of few questions is biased upwards, and so are its ratios." if few else "")


def _grid(rows: list[dict[str, str]]) -> Table:
    grid = Table(*rows[0], box=None, header_style="bold", pad_edge=False)
    for row in rows:
        grid.add_row(*map(safe, row.values()))
    return grid
