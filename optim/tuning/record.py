"""The record of a tuning: plain JSON in the program file, shown at a terminal.

A planner program (`pb_graph.program`) carries the record unread.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import pandas as pd
from rich.text import Text

from optim.reporting.formatting import COLUMNS, DASH, displayed, format_settings, text_table
from optim.reporting.tables import answers, figures, to_rows
from optim.statistics.comparison import MIN_UNBIASED_QUESTIONS
from optim.tuning.program import DEFAULT_INSTRUCTIONS
from pb_graph.cli.display import safe
from pb_graph.planner.planner import Planner
from pb_graph.settings import Settings

if TYPE_CHECKING:
    from rich.console import RenderableType

    from optim.records import Records
    from optim.tuning.search import Search, Trial
    from pb_graph.program import PlannerProgram

Record = dict[str, Any]

_PACKAGES = ("plan-and-budget", "dspy", "langgraph", "langchain-core")
_VERDICTS = {
    "better": "The tuned program is better.",
    "undecided": "The tuned program is used, but it is undecided whether it is better.",
    "kept": "The original is kept.",
}
_FIGURES = ("n", "accuracy, %", "completion", "prompt", "money", "E³")
_ENDS = ("", "_lower", "_upper")
_INTERVALS = [f"{name}{end}" for name in ("accuracy", "tokens", "e3") for end in _ENDS]
_KEPT = ("n", *_INTERVALS, "input_tokens", "money", "money_unit")


def record_of(search: Search, answered: Records, about: Mapping[str, Any]) -> Record:
    """Return the record of a search as plain JSON."""
    verdict, split, evaluator = search.verdict, search.split, search.evaluator
    table = figures(answers(answered, prices=evaluator.options.prices))
    rows = [{name: row[name] for name in _KEPT} for row in to_rows(table)]
    held_out = None
    if verdict.comparison:
        original, chosen = rows[len(search.trials) :]
        comparison = asdict(verdict.comparison) | {"dropped": []}
        held_out = {"original": original, "chosen": chosen, "comparison": comparison}
    facts = {
        "optimizer": search.optimizer.name,
        "seed": evaluator.options.seed,
        "solver": evaluator.models.model,
        "planner": evaluator.models.planner_model,
        "reflection": search.reflector.name if search.reflector else None,
        "train": 0 if split.train is split.dev else len(split.train),
        "dev": len(split.dev),
        "held out": len(split.held_out),
        "levels": "estimated" if evaluator.options.estimate_level else "labels, free of charge",
        "answers": evaluator.answers,
        "tokens": evaluator.replies.spent,
        "ended": search.ended,
        "date": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        "versions": ", ".join(f"{name} {version(name)}" for name in _PACKAGES),
    }
    return {
        "verdict": verdict.verdict,
        "reason": verdict.reason,
        "facts": facts | dict(about),
        "settings_before": search.original.candidate.settings.model_dump(mode="json"),
        "candidates": [
            _candidate(trial, search) | row
            for trial, row in zip(search.trials, rows, strict=False)  # those held out are last
        ],
        "held_out": held_out,
    }


def _candidate(trial: Trial, search: Search) -> Record:
    candidate, role = trial.candidate, "original" if trial is search.original else "other"
    if trial is search.verdict.winner:
        role = "chosen" if search.verdict.is_adopted else "best on dev"
    return {
        "name": search.name(trial),
        "role": role,
        "instructions": dict(candidate.instructions),
        "settings": _changed(candidate.settings, search.original.candidate.settings),
        "examples": {name: len(examples) for name, examples in candidate.examples.items()},
        "is_on_front": any(trial is other for other in search.front),
    }


def _changed(after: Settings, before: Settings) -> Record:
    base = before.model_dump(mode="json")
    return {n: value for n, value in after.model_dump(mode="json").items() if value != base[n]}


def shown(program: PlannerProgram) -> Iterator[RenderableType]:
    """Yield the description of a planner program, piece by piece."""
    record = program.tuning
    if record is not None:
        style = "bold green" if record["verdict"] == "better" else "bold yellow"
        reason = safe(f" {record['reason']}", "not bold default")
        yield Text(_VERDICTS[record["verdict"]], style).append_text(reason)
        facts = {n: DASH if value is None else value for n, value in record["facts"].items()}
        yield safe("\n".join(f"{name}: {value}" for name, value in facts.items()))
        yield safe(_table(record))
        yield Text(_note(record), "dim")
        yield from (safe(f"{c['name']}: {_changes(c)}") for c in record["candidates"][1:])
    before = Settings(**(record or {}).get("settings_before", {}))
    if changes := _changed(program.settings or before, before):
        yield safe(f"Changed settings: {', '.join(format_settings(changes))}")
    for name, predictor in Planner().load(program).named_predictors():
        examples = f", {len(predictor.demos)} examples" if predictor.demos else ""
        own_text, text = DEFAULT_INSTRUCTIONS[name], predictor.signature.instructions
        if text == own_text:
            yield Text(f"{name}: the package's own prompt{examples}", "dim")
            continue
        yield Text(f"{name}, against the package's own prompt{examples}:", "bold")
        yield from (safe(f"- {line}", "red") for line in own_text.splitlines())
        yield from (safe(f"+ {line}", "green") for line in text.splitlines())


def _table(record: Record) -> str:
    """Return the figures of every candidate on dev, and of the comparison that decided."""
    rows = []
    for candidate in sorted(record["candidates"], key=lambda candidate: -candidate["e3"]):
        mark = " *" if candidate["is_on_front"] else ""
        role = ", best on dev" if candidate["role"] == "chosen" else ""
        rows.append(candidate | {"method": f"{candidate['name']}{role}{mark}"})
    if held_out := record["held_out"]:
        rows += [held_out[n] | {"method": f"{n}, held out"} for n in ("original", "chosen")]
    kept = [name for name in _FIGURES if name != "money" or "money_unit" in rows[0]]
    return text_table(displayed(pd.DataFrame(rows), {name: COLUMNS[name] for name in kept}))


def _changes(candidate: Record) -> str:
    """Return in one line what a candidate changes."""
    texts = [" ".join(text.split()) for text in candidate["instructions"].values()]
    examples = [f"{count} examples for {name}" for name, count in candidate["examples"].items()]
    return ", ".join([*format_settings(candidate["settings"]), *examples, *texts])


def _note(record: Record) -> str:
    note = "*: on the front of accuracy and tokens. The dev figures favor the winner."
    count: int = min(record["facts"][name] for name in ("dev", "held out"))
    bias = " E³ of few questions is biased upwards, and so are its ratios."
    return note + bias * (count < MIN_UNBIASED_QUESTIONS)
