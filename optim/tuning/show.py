"""Show a tuning: tables and prompts at a terminal, a page, a drawing, and its progress."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Self

import pandas as pd
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from optim.report.figures import ORIGINAL, Point, key, scatter, scatters
from optim.report.figures import Figure as Drawing
from optim.report.formatting import NOTHING, certainty, factor, lines_of, number, setting, settings
from optim.statistics.comparison import FEW
from optim.tuning.artefact import changed_settings, tuning_of
from optim.tuning.candidate import DEFAULT_INSTRUCTIONS
from pb_graph.cli.display import safe
from pb_graph.planner.planner import Planner
from pb_graph.settings import Settings

if TYPE_CHECKING:
    from rich.console import RenderableType

    from optim.tuning.artefact import CandidateRecord, Figures, Tuning
    from optim.tuning.options import TuneBudget
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
_WORDS = {
    *("set", "program", "setting", "before", "default", "tuned"),
    *("candidate", "role", "changes"),
}
_EVERY = 30.0  # seconds between two lines where no bar can be drawn
# Name and mark of each role, in the order of drawing: the original is drawn last, on top.
_MARKS = {
    "other": ("candidate", 0),
    "chosen": ("best on dev", 3),
    "original": ("original", ORIGINAL),
}


def candidates_frame(tuning: Tuning) -> pd.DataFrame:
    """Return a row for each candidate, the highest E³ on dev first, with plain figures."""
    rows = [
        {
            "candidate": one.name,
            "role": "" if one.role == "other" else one.role,
            "front": one.is_on_front,
            **one.figures.model_dump(),
            "changes": _changes(one),
        }
        for one in tuning.candidates
    ]
    return pd.DataFrame(rows).sort_values("e3", ascending=False, kind="stable", ignore_index=True)


def comparison_frame(tuning: Tuning) -> pd.DataFrame:
    """Return the original and the winner of dev on each set of questions, with plain figures.

    ``ratio`` and ``confidence`` (one-sided, that E³ is higher) are those of the held-out questions;
    the dev questions chose the winner and flatter it.
    """
    by_role = {one.role: one.figures for one in tuning.candidates}
    pairs: list[tuple[str, str, Figures]] = [
        ("dev", role, by_role[role]) for role in ("original", "chosen") if role in by_role
    ]
    if tuning.held_out is not None:
        pairs += [("held out", "original", tuning.held_out.original)]
        pairs += [("held out", "chosen", tuning.held_out.chosen)]
    frame = pd.DataFrame(
        [{"set": where, "program": who} | f.model_dump() for where, who, f in pairs]
    )
    if tuning.held_out is not None:
        compared = tuning.held_out.comparison
        names = ("ratio", "lower", "upper", "tokens_ratio", "discordant", "probability_higher")
        for name in names:
            frame.loc[frame.index[-1], name] = getattr(compared, name)
    return frame


def html(tuning: Tuning) -> str:
    """Return a page with the verdict, a drawing and every candidate; nothing in it can run."""
    from optim.report.template import render  # noqa: PLC0415 -- brings jinja2

    points = _points(tuning)
    return render(
        "tuning/page.html.j2",
        title=f"Tuning on {tuning.data.name}",
        tuning=tuning,
        facts=facts_of(tuning),
        before=lines_of(tuning.settings_before.model_dump(mode="json")),
        verdict=VERDICTS[tuning.verdict],
        figures=scatters(points),
        keys=[(key(mark, 20), name) for name, mark in _MARKS.values()],
        compared=_compared(tuning),
        note=_note(tuning),
        candidates=_candidates(tuning),
    )


def plot_candidates(tuning: Tuning) -> Drawing:
    """Draw every candidate: accuracy against tokens, with 95 % intervals and the Pareto front.

    Args:
        tuning: ``result.record`` of what `optim.tune` returns.
    """
    return Drawing(scatter(_points(tuning), 640, 440))


def shown(program: PlannerProgram) -> Iterator[RenderableType]:
    """Yield what a person wants to know of a planner program, piece by piece.

    Raises:
        PlannerProgramError: Its prompts do not fit this version.
    """
    prompts, tuning = _prompts(program), tuning_of(program)
    if tuning is not None:
        style = "bold green" if tuning.verdict == "better" else "bold yellow"
        reason = safe(f" {tuning.reason}", "not bold default")
        yield Text(VERDICTS[tuning.verdict], style).append_text(reason)
        yield safe("\n".join(f"{name}: {value}" for name, value in facts_of(tuning).items()))
        yield _grid(_compared(tuning))
        if note := _note(tuning):
            yield Text(note, "dim")
    changes = settings_changes(program, tuning)
    if changes:
        names = ("setting", "before" if tuning else "default", "tuned")
        values = ((name, *map(setting, pair)) for name, pair in changes.items())
        yield _grid([dict(zip(names, row, strict=True)) for row in values])
    for name, prompt in prompts.items():
        examples = f", {prompt['examples']} examples" if prompt["examples"] else ""
        if not prompt["changed"]:
            yield Text(f"{name}: the package's own prompt{examples}", "dim")
            continue
        yield Text(f"{name}, against the package's own prompt{examples}:", "bold")
        yield from (safe(f"- {line}", "red") for line in prompt["own"].splitlines())
        yield from (safe(f"+ {line}", "green") for line in prompt["tuned"].splitlines())
    if tuning is not None:
        rows = _candidates(tuning)
        yield _grid(rows[:_BEST])
        if len(rows) > _BEST:
            yield Text(f"and {len(rows) - _BEST} more", "dim")


def document(program: PlannerProgram) -> dict[str, Any]:
    """Return the whole file as plain JSON, with the prompts beside the package's own."""
    tuning = tuning_of(program)
    changes = {
        name: {"before": before, "after": after}
        for name, (before, after) in settings_changes(program, tuning).items()
    }
    whole = program.model_dump(mode="json", exclude={"state", "tuning"})
    whole["tuning"] = tuning.model_dump(mode="json") if tuning else None
    return whole | {"prompts": _prompts(program), "settings_changed": changes}


def settings_changes(
    program: PlannerProgram, tuning: Tuning | None
) -> Mapping[str, tuple[Any, Any]]:
    """Return the settings that differ from those before the tuning, else from the defaults."""
    if program.settings is None:
        return {}
    base = tuning.settings_before if tuning else Settings()
    before = base.model_dump(mode="json")
    changed = changed_settings(program.settings, base)
    return {name: (before[name], after) for name, after in changed.items()}


def facts_of(tuning: Tuning) -> dict[str, str]:
    """Return who took part, how the tuning came about, and what it cost."""
    data = tuning.data
    return {
        "optimizer": tuning.optimizer,
        "seed": str(tuning.seed),
        **{role: name or NOTHING for role, name in tuning.models.items()},
        "questions": f"{data.train} to train on, {data.dev} dev, {data.held_out} held out",
        "fingerprint of the questions": data.fingerprint[:12],
        "answers": number(tuning.answers),
        "completion tokens": number(tuning.tokens),
        "the search ended": tuning.ended,
        "date": f"{tuning.date:%Y-%m-%d %H:%M %Z}",
        "versions": ", ".join(f"{name} {version}" for name, version in tuning.versions.items()),
    } | {name: str(value) for name, value in tuning.made_by.items()}


class TuneProgress:
    """Shows a tuning on standard error: a line for each event, and a bar at a terminal.

    Args:
        budget: The limit that the bar fills up to.
        console: None for standard error as it is now: optimizers are silenced by replacing it.
    """

    def __init__(self, budget: TuneBudget, console: Console | None = None) -> None:
        self._console = console or Console(file=sys.stderr)
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
            disable=not self._console.is_terminal,
        )
        total = budget.answers if budget.answers is not None else budget.tokens
        self._counts_answers = budget.answers is not None
        self._task = self._bar.add_task("tuning", total=total)
        self._said = time.monotonic()

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def __call__(self, event: Event) -> None:
        """Show an event; one without a text only moves the bar."""
        spent = event.spent
        words = f"{spent.answers} answers, {spent.tokens:,} tokens"
        if event.best is not None:
            words += f", best E³ {event.best.measurement.e3:.2f}"
        done = spent.answers if self._counts_answers else spent.tokens
        self._bar.update(self._task, completed=done, description=words)
        now = time.monotonic()
        if event.text:
            self._console.print(safe(event.text))
        elif self._bar.disable and now - self._said >= _EVERY:
            self._said = now
            self._console.print(words)


def _points(tuning: Tuning) -> list[Point]:
    order = list(_MARKS)
    return [
        Point(
            name=one.name,
            kind=_MARKS[one.role][1],
            tokens=one.figures.tokens,
            score=one.figures.accuracy,
            e3=one.figures.e3,
            token_ends=(one.figures.tokens_lower, one.figures.tokens_upper),
            score_ends=(one.figures.accuracy_lower, one.figures.accuracy_upper),
            named=one.role != "other",
        )
        for one in sorted(tuning.candidates, key=lambda one: order.index(one.role))
    ]


def _compared(tuning: Tuning) -> list[dict[str, str]]:
    """Return `comparison_frame` with figures as text, intervals in brackets."""
    rows = []
    for row in comparison_frame(tuning).to_dict("records"):
        compared = row.get("probability_higher")
        is_compared = compared is not None and not pd.isna(compared)
        rows.append(
            {
                "set": row["set"],
                "program": row["program"],
                **_figures(row),
                "ratio of E³": _span(row, "ratio", "lower", "upper") if is_compared else NOTHING,
                "ratio of T": factor(row["tokens_ratio"]) if is_compared else NOTHING,
                "scores that differ": number(row["discordant"]) if is_compared else NOTHING,
                "confidence": certainty(compared) if is_compared else NOTHING,
            }
        )
    return rows


def _candidates(tuning: Tuning) -> list[dict[str, str]]:
    """Return `candidates_frame` with figures as text."""
    return [
        {
            "candidate": row["candidate"],
            "role": row["role"],
            **_figures(row),
            "input tokens": number(row["input_tokens"]),
            "front": "*" if row["front"] else "",
            "changes": row["changes"],
        }
        for row in candidates_frame(tuning).to_dict("records")
    ]


def _figures(row: Mapping[Any, Any]) -> dict[str, str]:
    return {
        "n": number(row["questions"]),
        "accuracy, %": _span(row, "accuracy", "accuracy_lower", "accuracy_upper"),
        "T": _span(row, "tokens", "tokens_lower", "tokens_upper"),
        "E³": _span(row, "e3", "e3_lower", "e3_upper"),
    }


def _span(row: Mapping[Any, Any], name: str, lower: str, upper: str) -> str:
    value, low, high = (None if pd.isna(row[one]) else row[one] for one in (name, lower, upper))
    if value is None or low is None:
        return factor(value)
    return f"{factor(value)} ({factor(low)}{NOTHING}{'∞' if high is None else factor(high)})"


def _changes(one: CandidateRecord) -> str:
    """Return what differs from the original: settings, examples, then instructions."""
    examples = [f"{count} examples for {name}" for name, count in one.examples.items()]
    texts = [" ".join(text.split()) for text in one.instructions.values()]
    return ", ".join(filter(None, [settings(one.settings), *examples, *texts]))


def _note(tuning: Tuning) -> str:
    notes = []
    if any(one.role == "chosen" for one in tuning.candidates):
        notes.append("The winner was chosen by its dev questions, which flatter it.")
    if min(tuning.data.dev, tuning.data.held_out) < FEW:
        notes.append(f"E³ of fewer than {FEW} questions is biased upwards, and so are its ratios.")
    return " ".join(notes)


def _prompts(program: PlannerProgram) -> dict[str, dict[str, Any]]:
    """Return each predictor's instruction, the package's own and the program's, as plain JSON."""
    return {
        name: {
            "own": DEFAULT_INSTRUCTIONS[name],
            "tuned": (text := predictor.signature.instructions),
            "changed": text != DEFAULT_INSTRUCTIONS[name],
            "examples": len(predictor.demos),
        }
        for name, predictor in Planner().adopt(program).named_predictors()
    }


def _grid(rows: list[dict[str, str]]) -> Table:
    grid = Table(box=None, header_style="bold", pad_edge=False)
    words = {
        "set",
        "program",
        "setting",
        "before",
        "default",
        "tuned",
        "candidate",
        "role",
        "changes",
    }
    for name in rows[0]:
        grid.add_column(name, justify="left" if name in words else "right")
    for row in rows:
        grid.add_row(*(safe(row.get(name, "")) for name in rows[0]))
    return grid
