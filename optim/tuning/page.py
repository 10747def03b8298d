"""The candidates of a tuning on the accuracy-token plane, and a page around them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from optim.report.figures import EARLY, ORIGINAL, Point, key, scatter, scatters
from optim.report.figures import Figure as Drawing
from optim.report.formatting import NOTHING, certainty, factor, lines_of, number
from optim.statistics.comparison import FEW
from pb_graph.errors import InputError

if TYPE_CHECKING:
    from optim.tuning.artefact import CandidateRecord, Measured, Paired, Tuning

PAGE = "candidates.html"
# Name and mark of each role, in the order of drawing. The original comes last and is an open square
# that is larger than the rest, so that it can be seen around a candidate that measured the same.
_MARKS = {
    "early": ("given up early", EARLY),
    "other": ("candidate", 0),
    "reference": ("without a plan", 1),
    "chosen": ("best on dev", 3),
    "original": ("original", ORIGINAL),
}
VERDICTS = {
    "better": "The tuned program is better.",
    "undecided": "The tuned program is used, but it is undecided whether it is better.",
    "adopted": "The tuned program is used.",  # files of earlier versions
    "kept": "The original is kept.",
}
"""The verdicts as sentences."""


def html(tuning: Tuning) -> str:
    """A page that holds everything: the verdict, the picture, and every proposal.

    Text of models is escaped, and the page's policy forbids any script.

    Raises:
        InputError: There is no candidate to show.
    """
    from optim.report.template import render  # noqa: PLC0415 -- brings jinja2

    points = _points(tuning)
    drawn = {point.kind for point in points}
    return render(
        "tuning/page.html.j2",
        title=f"Tuning on {tuning.data.name}",
        tuning=tuning,
        facts=facts_of(tuning),
        before=lines_of(tuning.settings_before.model_dump(mode="json")),
        verdict=VERDICTS[tuning.verdict],
        figures=scatters(points),
        keys=[(key(mark, 20), name) for name, mark in _MARKS.values() if mark in drawn],
        splits=before_and_after(tuning),
        notes=list(notes_on(tuning)),
        proposals=proposals(tuning),
        candidates=by_rank(tuning.candidates),
    )


def facts_of(tuning: Tuning) -> dict[str, str]:
    """Who took part, how it came about, and what it cost."""
    models, data, cost = tuning.models, tuning.data, tuning.cost
    return {
        "optimizer": tuning.optimizer,
        "seed": str(tuning.seed),
        "solver": models.solver,
        "planner": models.planner,
        "reflection": models.reflection or NOTHING,
        "questions": f"{data.train} to train on, {data.dev} dev, {data.held_out} held out",
        "fingerprint of the questions": data.fingerprint[:12],
        "answers": number(cost.metric_calls),
        "completion tokens": number(cost.tokens),
        "the search ended": tuning.ended or NOTHING,
        "date": f"{tuning.date:%Y-%m-%d %H:%M %Z}",
        "versions": ", ".join(f"{name} {version}" for name, version in tuning.versions.items()),
    } | {name: str(value) for name, value in tuning.made_by.items()}


def by_rank(candidates: Iterable[CandidateRecord]) -> list[CandidateRecord]:
    """The highest E³ first; those that were asked fewer questions come after the others."""
    every = list(candidates)
    whole = max((one.questions for one in every), default=0)
    return sorted(
        every, key=lambda one: (one.questions < whole, not one.is_measured, -(one.e3 or 0.0))
    )


def plot_candidates(tuning: Tuning) -> Drawing:
    """Draw every measured candidate: accuracy against tokens, with 95 % intervals of two.

    Args:
        tuning: ``result.record`` of what `optim.tune` gives.

    Raises:
        InputError: There is no candidate to show.
    """
    return Drawing(scatter(_points(tuning), 640, 440))


def _points(tuning: Tuning) -> list[Point]:
    """Every measured candidate, in the order of drawing."""
    whole, roles = tuning.dev.before.questions, list(_MARKS)
    measured = {"original": tuning.dev.before, "chosen": tuning.dev.after}
    met = [
        (one, "early" if one.questions < whole else str(one.role))
        for one in tuning.candidates
        if one.is_measured
    ]
    if not met:
        msg = "the tuning holds no candidate to show; keep some in the artefact"
        raise InputError(msg)
    return [
        Point(
            name=one.name,
            kind=_MARKS[role][1],
            tokens=one.tokens or 0.0,
            score=one.accuracy or 0.0,
            e3=one.e3 or 0.0,
            token_ends=measured[role].tokens.ends if role in measured else (None, None),
            score_ends=measured[role].accuracy.ends if role in measured else (None, None),
            named=role in {*measured, "reference"},
            ranked=role != "early",
        )
        for one, role in sorted(met, key=lambda pair: roles.index(pair[1]))
    ]


def notes_on(tuning: Tuning) -> Iterator[str]:
    """What has to be known to read the figures before and after."""
    if tuning.dev.paired is not None:
        yield "The winner was chosen by its dev questions, which flatter it."
    splits = [split for split in (tuning.dev, tuning.held_out) if split is not None]
    if any(split.before.questions < FEW for split in splits):
        yield f"E³ of fewer than {FEW} questions is biased upwards, and so are ratios of it."


def before_and_after(tuning: Tuning) -> list[dict[str, str]]:
    """A row for each program on each split: its figures, and how it compares with the original."""
    rows = []
    for name, split in (("dev", tuning.dev), ("held out", tuning.held_out)):
        if split is not None:
            rows.append(_figures(name, "original", split.before, None))
            if split.paired is not None:
                program = "tuned" if tuning.adopted else "best on dev"
                rows.append(_figures(name, program, split.after, split.paired))
    return rows


def _figures(split: str, program: str, found: Measured, paired: Paired | None) -> dict[str, str]:
    """Of dev there is no confidence: the winner was chosen by these questions."""
    cells = {
        "split": split,
        "program": program,
        "n": number(found.questions),
        "accuracy, %": _with_ends(
            found.accuracy.value, *found.accuracy.ends, partial(number, digits=1)
        ),
        "T": _with_ends(found.tokens.value, *found.tokens.ends, number),
        "E³": _with_ends(found.e3.value, *found.e3.ends),
    }
    names = ("ratio of E³", "ratio of T", "scores that differ", "confidence")
    if paired is None:
        return cells | dict.fromkeys(names, NOTHING)
    differ = NOTHING
    if paired.discordant is not None:
        undecided = "" if paired.discordant else ": accuracy undecided"
        differ = f"{paired.discordant} of {paired.questions}{undecided}"
    sure = None if split == "dev" else paired.probability_higher
    compared = (
        _with_ends(paired.ratio, paired.lower, paired.upper),
        _with_ends(paired.tokens_ratio, paired.tokens_lower, paired.tokens_upper),
        differ,
        NOTHING if sure is None else certainty(sure),
    )
    return cells | dict(zip(names, compared, strict=True))


def _with_ends(
    value: float | None,
    lower: float | None,
    upper: float | None,
    shown: Callable[[float | None], str] = factor,
) -> str:
    if value is None or lower is None:
        return shown(value)
    return f"{shown(value)} ({shown(lower)}{NOTHING}{'∞' if upper is None else shown(upper)})"


def proposals(tuning: Tuning, most: int | None = None) -> list[dict[str, str]]:
    """A row for each candidate, by rank: all, or the best beside those that have a role."""
    ranked = by_rank(tuning.candidates)
    if most is not None:
        named = [one for one in ranked if one.role != "other"]
        rest = [one for one in ranked if one.role == "other"]
        ranked = by_rank([*named, *rest[: max(0, most - len(named))]])
    rows = [
        {
            "candidate": one.name,
            "role": "" if one.role == "other" else one.role,
            "n": number(one.questions),
            "accuracy, %": number(one.accuracy, 1),
            "T": number(one.tokens),
            "E³": factor(one.e3),
            "input tokens": number(one.input_tokens),
            "other differences": one.other,
            "why it fell": one.fell or "",
        }
        for one in ranked
    ]
    more = len(tuning.candidates) - len(ranked) + tuning.left_out
    return [*rows, {"candidate": f"and {number(more)} more"}] if more else rows
