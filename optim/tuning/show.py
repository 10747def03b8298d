"""Show a tuning: tables and prompts at a terminal, a page, a drawing, and its progress."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Self

import pandas as pd
from rich.console import Console
from rich.table import Table
from rich.text import Text

from optim.reporting.formatting import (
    DASH,
    factor,
    format_confidence,
    number,
    setting,
    settings,
    settings_in_full,
)
from optim.statistics.comparison import MIN_UNBIASED_QUESTIONS
from optim.tuning.artefact import changed_settings, tuning_of
from optim.tuning.candidate import DEFAULT_INSTRUCTIONS
from pb_graph.cli.display import safe
from pb_graph.planner.planner import Planner
from pb_graph.settings import Settings

if TYPE_CHECKING:
    from rich.console import RenderableType

    from optim.reporting.charts import Chart
    from optim.tuning.artefact import Tuning
    from optim.tuning.search import Event
    from pb_graph.program import PlannerProgram

PAGE = "candidates.html"
VERDICTS = {
    "better": "The tuned program is better.",
    "undecided": "The tuned program is used, but it is undecided whether it is better.",
    "kept": "The original is kept.",
}
"""The verdicts as sentences."""

_BEST = 12  # candidates at a terminal
_ROLES = {  # names, in the order of drawing; the original is drawn last, on top
    "other": "candidate",
    "chosen": "best on dev",
    "original": "original",
}
_HEADS = {"questions": "n", "accuracy": "accuracy, %", "tokens": "T", "e3": "E³"}
_WORDS = {"set", "program", "setting", "before", "tuned", "candidate", "role", "changes"}


def candidates_frame(tuning: Tuning) -> pd.DataFrame:
    """Return a row for each candidate, the highest E³ on dev first, with plain figures."""
    rows = []
    for one in tuning.candidates:
        examples = [f"{count} examples for {name}" for name, count in one.examples.items()]
        texts = [" ".join(text.split()) for text in one.instructions.values()]
        changes = ", ".join(filter(None, [settings(one.settings), *examples, *texts]))
        row = {"candidate": one.name, "role": one.role.replace("other", "")}
        front = "*" if one.is_on_front else ""
        rows.append(row | one.figures.model_dump() | {"front": front, "changes": changes})
    return pd.DataFrame(rows).sort_values("e3", ascending=False, kind="stable", ignore_index=True)


def comparison_frame(tuning: Tuning) -> pd.DataFrame:
    """Return the original and the winner of dev on each set of questions, with plain figures.

    ``ratio`` (of E³), ``ratio of T``, ``differ`` (questions whose score differs) and ``confidence``
    (one-sided, that E³ is higher) are of the held-out questions: those of dev chose the winner.
    """
    rows = [
        {"set": "dev", "program": one.role} | one.figures.model_dump()
        for one in tuning.candidates
        if one.role != "other"
    ]
    if (found := tuning.held_out) is not None:
        both = {"original": found.original, "chosen": found.chosen}
        rows += [{"set": "held out", "program": n} | f.model_dump() for n, f in both.items()]
        names = {"ratio": "ratio", "ratio_lower": "lower", "ratio_upper": "upper"}
        names |= {"ratio of T": "tokens_ratio", "differ": "discordant"}
        names |= {"confidence": "probability_higher"}
        rows[-1] |= {ours: getattr(found.comparison, name) for ours, name in names.items()}
    return pd.DataFrame(rows).drop(columns="input_tokens")


def html(tuning: Tuning) -> str:
    """Return a page with the verdict, a drawing and every candidate; nothing in it can run."""
    from optim.reporting.charts import to_svg  # noqa: PLC0415 -- brings Altair
    from optim.reporting.page import render  # noqa: PLC0415

    return render(
        "tuning/page.html.j2",
        title=f"Tuning on {tuning.data.name}",
        tuning=tuning,
        facts=facts_of(tuning),
        before=settings_in_full(tuning.settings_before.model_dump(mode="json")),
        verdict=VERDICTS[tuning.verdict],
        figure=to_svg(plot_candidates(tuning)),
        compared=_cells(comparison_frame(tuning)),
        note=_note(tuning),
        candidates=_cells(candidates_frame(tuning)),
    )


def plot_candidates(tuning: Tuning) -> Chart:
    """Draw every candidate: accuracy against tokens, with 95 % intervals and the Pareto front.

    Args:
        tuning: ``result.record`` of what `optim.tune` returns.
    """
    from optim.reporting.charts import plane  # noqa: PLC0415 -- brings Altair

    order = list(_ROLES)
    rows = [
        one.figures.model_dump()
        | {"method": one.name, "kind": _ROLES[one.role], "is_labelled": one.role != "other"}
        for one in sorted(tuning.candidates, key=lambda one: order.index(one.role))
    ]
    ends = ("tokens_lower", "tokens_upper", "accuracy_lower", "accuracy_upper")
    return plane(pd.DataFrame(rows).astype(dict.fromkeys(ends, float)))


def shown(program: PlannerProgram) -> Iterator[RenderableType]:
    """Yield what a person wants to know of a planner program, piece by piece.

    Raises:
        PlannerProgramError: Its prompts do not fit this version.
    """
    whole, tuning = document(program), tuning_of(program)
    if tuning is not None:
        style = "bold green" if tuning.verdict == "better" else "bold yellow"
        reason = safe(f" {tuning.reason}", "not bold default")
        yield Text(VERDICTS[tuning.verdict], style).append_text(reason)
        yield safe("\n".join(f"{name}: {value}" for name, value in facts_of(tuning).items()))
        yield _grid(_cells(comparison_frame(tuning)))
        yield Text(_note(tuning), "dim")
    if changes := whole["settings_changed"]:
        rows = [{"setting": name} | pair for name, pair in changes.items()]
        yield _grid([{name: setting(value) for name, value in row.items()} for row in rows])
    for name, prompt in whole["prompts"].items():
        examples = f", {prompt['examples']} examples" if prompt["examples"] else ""
        if not prompt["changed"]:
            yield Text(f"{name}: the package's own prompt{examples}", "dim")
            continue
        yield Text(f"{name}, against the package's own prompt{examples}:", "bold")
        yield from (safe(f"- {line}", "red") for line in prompt["own"].splitlines())
        yield from (safe(f"+ {line}", "green") for line in prompt["tuned"].splitlines())
    if tuning is not None:
        yield _grid(_cells(candidates_frame(tuning).head(_BEST)))
        if len(tuning.candidates) > _BEST:
            yield Text(f"and {len(tuning.candidates) - _BEST} more", "dim")


def document(program: PlannerProgram) -> dict[str, Any]:
    """Return the whole file as plain JSON, with prompts and settings beside the originals."""
    tuning = tuning_of(program)
    base = tuning.settings_before if tuning else Settings()
    before = base.model_dump(mode="json")
    changed = changed_settings(program.settings, base) if program.settings else {}
    prompts = {
        name: {
            "own": DEFAULT_INSTRUCTIONS[name],
            "tuned": (text := predictor.signature.instructions),
            "changed": text != DEFAULT_INSTRUCTIONS[name],
            "examples": len(predictor.demos),
        }
        for name, predictor in Planner().adopt(program).named_predictors()
    }
    return program.model_dump(mode="json", exclude={"state", "tuning"}) | {
        "tuning": tuning.model_dump(mode="json") if tuning else None,
        "prompts": prompts,
        "settings_changed": {
            name: {"before": before[name], "tuned": value} for name, value in changed.items()
        },
    }


def facts_of(tuning: Tuning) -> dict[str, str]:
    """Return who took part, how the tuning came about, and what it cost."""
    data = tuning.data
    return {
        "optimizer": tuning.optimizer,
        "seed": str(tuning.seed),
        **{role: name or DASH for role, name in tuning.models.items()},
        "questions": f"{data.train} to train on, {data.dev} dev, {data.held_out} held out",
        "fingerprint of the questions": data.fingerprint[:12],
        "answers": number(tuning.answers),
        "completion tokens": number(tuning.tokens),
        "the search ended": tuning.ended,
        "date": f"{tuning.date:%Y-%m-%d %H:%M %Z}",
        "versions": ", ".join(f"{name} {version}" for name, version in tuning.versions.items()),
    } | {name: str(value) for name, value in tuning.made_by.items()}


class TuneProgress:
    """Prints each event of a tuning, and shows at a terminal what is spent.

    Optimizers are silenced by replacing standard error, so the one of today is kept.
    """

    def __init__(self) -> None:
        self._console = Console(file=sys.stderr)
        self._status = self._console.status("")

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._status.stop()

    def __call__(self, event: Event) -> None:
        """Show an event; one without a text changes the status only."""
        spent = event.spent
        best = "" if event.best is None else f", best E³ {event.best.measurement.e3:.2f}"
        self._status.update(f"{spent.answers} answers, {spent.tokens:,} tokens{best}")
        if event.text:
            self._console.print(safe(event.text))


def _cells(frame: pd.DataFrame) -> list[dict[str, str]]:
    """Return the rows of a frame as text, with ``…_lower`` and ``…_upper`` in brackets."""
    return [
        {
            _HEADS.get(name, name.replace("_", " ")): _cell(name, row)
            for name in row
            if not name.endswith(("_lower", "_upper"))
        }
        for row in frame.to_dict("records")
    ]


def _cell(name: Any, row: Mapping[Any, Any]) -> str:  # noqa: ANN401
    value, low, high = (row.get(one) for one in (name, f"{name}_lower", f"{name}_upper"))
    if isinstance(value, str):
        return value
    if value is None or pd.isna(value):
        return DASH
    if name == "confidence":
        return format_confidence(value)
    if low is None or pd.isna(low):
        return number(value) if float(value).is_integer() else factor(value)
    return f"{factor(value)} ({factor(low)}{DASH}{'∞' if pd.isna(high) else factor(high)})"


def _note(tuning: Tuning) -> str:
    notes = []
    if any(one.role == "chosen" for one in tuning.candidates):
        notes.append("The winner was chosen by its dev questions, which flatter it.")
    if min(tuning.data.dev, tuning.data.held_out) < MIN_UNBIASED_QUESTIONS:
        few = MIN_UNBIASED_QUESTIONS
        notes.append(f"E³ of fewer than {few} questions is biased upwards, and so are its ratios.")
    return " ".join(notes)


def _grid(rows: list[dict[str, str]]) -> Table:
    grid = Table(box=None, header_style="bold", pad_edge=False)
    for name in rows[0]:
        grid.add_column(name, justify="left" if name in _WORDS else "right")
    for row in rows:
        grid.add_row(*map(safe, row.values()))
    return grid
