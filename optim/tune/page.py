"""The candidates of a tuning on the accuracy-token plane: one picture, and a page around it."""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optim.report.figures import contour_values
from optim.report.formatting import NOTHING, certainty, factor, lines_of, number
from optim.statistics.comparison import FEW
from pb_graph.errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from optim.tune.artefact import CandidateRecord, Figure, Measured, Paired, Tuning

__all__ = ["KINDS", "NEEDS", "by_rank", "html", "png", "verdict_words", "write"]

NEEDS = ("jinja2", "matplotlib")
"""Modules that writing the page and the picture takes."""

PAGE, PICTURE = "candidates.html", "candidates.png"
_INK, _QUIET = "#22262b", "#5d6670"
_DPI = 150
# Kinds in the order of drawing: mark, colour, size, and whether it is filled. The original comes
# last and is an open square that is larger than the rest, so that it can be seen around a
# candidate that measured the same.
KINDS: dict[str, tuple[str, str, int, bool]] = {
    "given up early": ("o", "#6a7178", 30, False),
    "candidate": ("o", "#6a7178", 32, True),
    "without a plan": ("s", "#a2661a", 34, True),
    "best on dev": ("^", "#7b3fa0", 60, True),
    "original": ("s", "#1f5fa8", 150, False),
}
_OF_ROLE = {
    "other": "candidate",
    "reference": "without a plan",
    "chosen": "best on dev",
    "original": "original",
}
_VERDICTS = {
    "better": "The tuned program is better.",
    "undecided": "The tuned program is used, but it is undecided whether it is better.",
    "adopted": "The tuned program is used.",  # files of earlier versions
    "kept": "The original is kept.",
}


def write(tuning: Tuning, folder: Path) -> tuple[Path, Path]:
    """Write the page and the picture; give their paths.

    Raises:
        InputError: There is no candidate to show, or the folder cannot be written to.
    """
    page, picture = folder / PAGE, folder / PICTURE
    drawn = png(tuning)
    try:
        page.write_text(html(tuning, drawn), encoding="utf-8")
        picture.write_bytes(drawn)
    except OSError as error:
        msg = f"cannot write to {folder}: {error.strerror}"
        raise InputError(msg) from error
    return page, picture


def html(tuning: Tuning, picture: bytes | None = None) -> str:
    """A page that holds everything: the verdict, the picture, and every proposal.

    Text of models is escaped, and the page's policy forbids any script.

    Args:
        tuning: What to show.
        picture: As `png` draws it, which takes longer than all the rest; None to draw it here.

    Raises:
        InputError: There is no candidate to show.
    """
    from optim.report.page import render  # noqa: PLC0415 -- brings jinja2

    return render(
        "tune/page.html.j2",
        pictures=True,
        title=f"Tuning on {tuning.data.name}",
        tuning=tuning,
        facts=_facts(tuning),
        before=lines_of(tuning.settings_before.model_dump(mode="json")),
        verdict=verdict_words(tuning),
        picture=base64.b64encode(png(tuning) if picture is None else picture).decode("ascii"),
        splits=list(_splits(tuning)),
        notes=list(notes_on(tuning)),
        candidates=by_rank(tuning.candidates),
    )


def _facts(tuning: Tuning) -> dict[str, str]:
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
        "minutes": number(cost.seconds / 60, 1),
        "date": f"{tuning.date:%Y-%m-%d %H:%M %Z}",
        "versions": ", ".join(f"{name} {version}" for name, version in tuning.versions.items()),
    } | {name: str(value) for name, value in tuning.made_by.items()}


def verdict_words(tuning: Tuning) -> str:
    """The verdict as a sentence."""
    return _VERDICTS[tuning.verdict]


def by_rank(candidates: Iterable[CandidateRecord]) -> list[CandidateRecord]:
    """The highest E³ first; those that were asked fewer questions come after the others."""
    every = list(candidates)
    whole = max((one.questions for one in every), default=0)
    return sorted(
        every, key=lambda one: (one.questions < whole, not one.is_measured, -(one.e3 or 0.0))
    )


def png(tuning: Tuning) -> bytes:
    """The plane as a picture.

    Raises:
        InputError: There is no candidate to show.
    """
    from matplotlib.figure import Figure as Canvas  # noqa: PLC0415 -- takes a second

    shown = [one for one in tuning.candidates if one.is_measured]
    if not shown:
        msg = "the tuning holds no candidate to show; keep some in the artefact"
        raise InputError(msg)
    canvas = Canvas(figsize=(8, 5), dpi=_DPI, layout="constrained")
    axes = canvas.add_subplot()
    whole = tuning.dev.before.questions
    _frame(axes, shown)
    _lines_of_equal_e3(axes, [one.e3 or 0.0 for one in shown])
    _front(axes, [one for one in shown if one.questions >= whole])
    for kind in KINDS:
        _marks(axes, kind, [one for one in shown if kind_of(one, whole) == kind], tuning)
    canvas.legend(loc="outside lower center", ncols=len(KINDS), frameon=False)
    title = f"{tuning.data.name}: {verdict_words(tuning)}"
    axes.set_title(title, parse_math=False, loc="left", fontsize=10)
    file = io.BytesIO()
    canvas.savefig(file, format="png", metadata={"Software": None})
    return file.getvalue()


def kind_of(candidate: CandidateRecord, whole: int) -> str:
    """How it is drawn, given how many questions dev has."""
    early = candidate.questions < whole
    return "given up early" if early else _OF_ROLE[candidate.role]


def compared(paired: Paired, *, on_dev: bool) -> tuple[str, str, str, str]:
    """Ratio of E³, ratio of tokens, how many scores differ, and how sure the first is.

    Of dev there is no confidence: the winner was chosen by these questions.
    """
    differ = NOTHING
    if paired.discordant is not None:
        undecided = "" if paired.discordant else ": accuracy undecided"
        differ = f"{paired.discordant} of {paired.questions}{undecided}"
    sure = None if on_dev else paired.probability_higher
    return (
        _with_ends(paired.ratio, paired.lower, paired.upper),
        _with_ends(paired.tokens_ratio, paired.tokens_lower, paired.tokens_upper),
        differ,
        NOTHING if sure is None else certainty(sure),
    )


def notes_on(tuning: Tuning) -> Iterator[str]:
    """What has to be known to read the figures before and after."""
    if tuning.dev.paired is not None:
        yield "The winner was chosen by its dev questions, which flatter it."
    splits = [split for split in (tuning.dev, tuning.held_out) if split is not None]
    if any(split.before.questions < FEW for split in splits):
        yield f"E³ of fewer than {FEW} questions is biased upwards, and so are ratios of it."


def _with_ends(value: float | None, lower: float | None, upper: float | None) -> str:
    if value is None or lower is None:
        return factor(value)
    return f"{factor(value)} ({factor(lower)}{NOTHING}{'∞' if upper is None else factor(upper)})"


def _splits(tuning: Tuning) -> Iterator[tuple[str, str, Measured, Sequence[str]]]:
    """Split, program, its figures, and how it compares in words."""
    for name, split in (("dev", tuning.dev), ("held out", tuning.held_out)):
        if split is None:
            continue
        yield name, "original", split.before, [NOTHING] * 4
        if split.paired is not None:
            yield name, "best on dev", split.after, compared(split.paired, on_dev=name == "dev")


def _xy(one: CandidateRecord) -> tuple[float, float]:
    return one.tokens or 0.0, one.accuracy or 0.0


def _frame(axes: Axes, shown: Sequence[CandidateRecord]) -> None:
    tokens, scores = zip(*map(_xy, shown), strict=True)
    room = 0.12 * max(max(tokens) - min(tokens), 0.5 * max(tokens), 1.0)
    axes.set_xlim(max(0.0, min(tokens) - room), max(tokens) + room)
    axes.set_ylim(max(0.0, min(scores) - 12), min(103.0, max(scores) + 12))
    axes.set_xlabel("T: completion tokens per query, planning included")
    axes.set_ylabel("score, %")
    axes.spines[["top", "right"]].set_visible(False)


def _lines_of_equal_e3(axes: Axes, values: Sequence[float]) -> None:
    """A few round values from the lowest to the highest, written where a line leaves."""
    (low, high), (floor, top) = axes.get_xlim(), axes.get_ylim()
    tokens = [low + (high - low) * step / 200 for step in range(201)]
    for value in contour_values(values):
        points = [(t, math.sqrt(value * t)) for t in tokens]
        inside = [(t, score) for t, score in points if floor <= score <= top]
        if not inside:
            continue
        style: dict[str, Any] = {"color": _QUIET, "linewidth": 0.8, "linestyle": (0, (1, 4))}
        axes.plot(*zip(*inside, strict=True), **style)
        axes.text(*inside[-1], f"E³ = {value:g}", ha="right", color=_QUIET, fontsize=8)


def _front(axes: Axes, shown: Sequence[CandidateRecord]) -> None:
    """The Pareto front: nothing else scores higher for fewer tokens."""
    best: list[tuple[float, float]] = []
    for tokens, score in sorted(map(_xy, shown), key=lambda point: (point[0], -point[1])):
        if not best or score > best[-1][1]:
            best.append((tokens, score))
    if len(best) > 1:
        axes.step(*zip(*best, strict=True), where="post", color=_INK, linewidth=1.5, alpha=0.6)


def _marks(axes: Axes, kind: str, candidates: Sequence[CandidateRecord], tuning: Tuning) -> None:
    mark, colour, size, filled = KINDS[kind]
    if not candidates:
        return
    tokens, scores = zip(*map(_xy, candidates), strict=True)
    axes.scatter(
        tokens,
        scores,
        marker=mark,
        s=size,
        facecolors=colour if filled else "none",
        edgecolors="white" if filled else colour,
        linewidths=1.0 if filled else 1.8,
        zorder=3 + list(KINDS).index(kind),
        label=kind,
    )
    ends = {"original": tuning.dev.before, "best on dev": tuning.dev.after}.get(kind)
    for one in candidates:
        if ends is not None:
            _whiskers(axes, one, ends, colour)
        if kind not in {"candidate", "given up early"}:
            offset = (9, -14) if kind == "original" else (7, 5)
            place: dict[str, Any] = {"xytext": offset, "textcoords": "offset points", "fontsize": 9}
            axes.annotate(one.name, _xy(one), parse_math=False, **place)


def _whiskers(axes: Axes, one: CandidateRecord, measured: Measured, colour: str) -> None:
    tokens, score = _xy(one)
    style: dict[str, Any] = {"color": colour, "alpha": 0.4, "scalex": False, "scaley": False}
    if measured.tokens.lower is not None and measured.tokens.upper is not None:
        axes.plot([measured.tokens.lower, measured.tokens.upper], [score] * 2, **style)
    axes.plot([tokens] * 2, _ends(measured.accuracy), **style)


def _ends(figure: Figure) -> tuple[float, float]:
    low, high = figure.lower, figure.upper
    return figure.value if low is None else low, figure.value if high is None else high
