"""One page of HTML that holds everything: it loads nothing and runs nothing."""

from __future__ import annotations

import base64
import hashlib
import re
import shlex
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from optim.e3 import MIN_UNBIASED_QUESTIONS
from optim.reporting import charts, formatting, tables
from optim.reporting.formatting import factor, format_interval, number
from optim.reporting.published import notes, paper_figures

_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_ALPHA = 0.05
_MARKS = {1.0: "✓", 0.0: "✗"}


def render(template: str, **context: object) -> str:
    """Fill a template of this package that extends ``reporting/base.html.j2``.

    Everything is escaped unless it is markup. The page's policy forbids scripts, and allows the
    one style sheet by its hash. Control characters and lone surrogates are replaced.

    Args:
        template: Path of the template within `optim`.
        context: Values for the template.
    """
    style = Markup(files("optim.reporting").joinpath("page.css").read_text("utf-8"))  # noqa: S704
    hashed = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{hashed}'; base-uri 'none'; form-action 'none'"
    html = _environment().get_template(template).render(style=style, policy=policy, **context)
    return _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", html).encode("utf-8", "replace").decode()


@cache
def _environment() -> Environment:
    found = Environment(
        loader=PackageLoader("optim", ""), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True,
    )  # fmt: skip
    names = ("count", "factor", "number", "p_value")
    found.filters |= {name: getattr(formatting, name) for name in names}
    found.globals |= {"DASH": formatting.DASH, "interval": format_interval}
    return found


def page(table: pd.DataFrame, baseline: str | None = None, *, paper: bool = False) -> str:
    """Return the page about answers, with one section for each data set, solver and planner.

    Args:
        table: Answers, from `optim.reporting.answers`.
        baseline: Method to compare with; None for vanilla, else global_budget, else the first.
        paper: Whether to show the paper's figures beside.
    """
    studies = table.groupby(list(tables.STUDY), sort=False)
    views = [
        _view(study, f"s{n}", dict(zip(tables.STUDY, key, strict=True)), baseline, paper)
        for n, (key, study) in enumerate(studies)
    ]
    return render(
        "reporting/page.html.j2",
        title=": ".join(", ".join(dict.fromkeys(table[name])) for name in ("dataset", "model")),
        views=views,
        answers=len(table),
        tokens=int(table.tokens.sum()),
        few=MIN_UNBIASED_QUESTIONS,
        tips={column.head: column.tip for column in formatting.COLUMNS},
    )


def _view(
    study: pd.DataFrame, name: str, about: dict[str, Any], baseline: str | None, paper: bool
) -> dict[str, Any]:
    """Return what the template shows of one study."""
    frame = tables.figures(study)
    rows = tables.to_rows(frame)
    wanted = baseline if baseline in set(study.method) else None
    against = tables.choose_baseline(study, wanted)
    paired = tables.paired(study, against)
    pairs = tables.to_rows(paired)
    levels = tables.by_level(study[study.level.notna()])
    drawn: dict[str, charts.Chart] = {}
    if len(frame.get("e3", pd.Series(dtype=float)).dropna()):
        drawn["Accuracy against tokens"] = charts.plane(frame)
        drawn["Where the tokens went"] = charts.parts(tables.token_parts(study))
    if len(frame) > 1 and "ratio" in paired and (paired.ratio > 0).any():
        drawn["Ratio of E³"] = charts.ratios(paired)
    if len(levels) and "accuracy" in levels:
        drawn["Accuracy by level"] = charts.by_level(levels)
    made_by = study.groupby("method", sort=False).made_by.first()
    extra = {
        "By level": [{"level": row["level"]} | shown for row, shown in _with_display(levels)],
        "TravelPlanner's rates, %": _plain(tables.travel_rates(study)),
        "Estimated levels against the data set's labels": _plain(tables.level_estimates(study)),
        "Mean credits by position": _plain(tables.credits_by_position(study)),
        "E³ by B_init and B_per_level": _plain(tables.budget_grid(study).reset_index()),
        "Seconds of model time": _plain(tables.latency(study)),
    }
    for title, printed in _paper(about["dataset"]).items() if paper else ():
        extra[f"In the paper: {title}"] = printed
    return about | {
        "id": name,
        "baseline": against,
        "facts": _facts(study, made_by),
        "findings": list(_findings(rows, pairs, against)),
        "doubts": list(_doubts(study, rows, made_by)),
        "figures": formatting.displayed(rows),
        "pairs": pairs,
        "charts": {t: charts.to_svg(c, f"{name}{n}") for n, (t, c) in enumerate(drawn.items())},
        "tables": {title: found for title, found in extra.items() if found},
        "notes": notes() if paper else [],
        "settings": {
            method: formatting.settings_in_full(made["settings"])
            for method, made in made_by.items()
            if "settings" in made
        },
        "prompts": {m: made["prompt"] for m, made in made_by.items() if made.get("prompt")},
        "methods": list(frame.method),
        "questions": list(_questions(study)),
    }


def _facts(study: pd.DataFrame, made_by: pd.Series[Any]) -> dict[str, str]:
    """Return who solved and planned, and how the rows came about."""
    told: dict[str, list[str]] = {}
    for made in made_by:
        for name, value in made.items():
            if name not in {"settings", "prompt", "gaps"} and value is not None:
                text = shlex.join(value) if isinstance(value, list) else formatting.setting(value)
                told.setdefault(name.replace("_", " "), []).append(text)
    dates = sorted(date[:16].replace("T", " ") for date in told.pop("date", []))
    return {
        "solver": study.model.iloc[0],
        "planner": study.planner.iloc[0],
        "questions": number(study.question.nunique()),
        "answers to each": number(study.epoch.max()),
        "date": f" {formatting.DASH} ".join(dict.fromkeys(dates[:1] + dates[-1:])),
    } | {name: "; ".join(dict.fromkeys(values)) for name, values in told.items()}


def _findings(
    rows: Sequence[dict[str, Any]], pairs: Sequence[dict[str, Any]], baseline: str
) -> Iterator[str]:
    """Say which row is the cheapest without a proven loss, and what rows with more E³ lose."""
    known = {row["method"]: row for row in rows if row.get("e3") is not None}
    if not known:
        yield "Nothing has a score yet."
        return
    if not any(row["accuracy"] for row in known.values()):
        yield "No answer is right: E³ is 0 for every method, and its interval only an upper end."
        return
    versus = {pair["method"]: pair for pair in pairs if pair.get("accuracy_difference") is not None}
    if baseline not in known or not versus:
        return
    safe = [baseline, *(n for n, pair in versus.items() if n in known and not _is_loss(pair))]
    best = min(safe, key=lambda name: known[name]["money"])
    row = known[best]
    loss = f"; {_difference(versus[best])}" if best in versus else ""
    yield Markup(
        "Cheapest row without a proven loss of accuracy against {}: <b>{}</b>, {} % at {} "
        "completion and {} prompt tokens, E³ {}{}."
    ).format(
        baseline, best, number(row["accuracy"], 1), number(row["tokens"]),
        number(row["input_tokens"]), factor(row["e3"]), loss,
    )  # fmt: skip
    for name, other in known.items():
        if other["e3"] > row["e3"] and name in versus:
            verdict = "loses accuracy" if _is_loss(versus[name]) else "costs more"
            yield Markup("<b>{}</b> has more E³ ({}), but {}: {}, {} % in all.").format(
                name, factor(other["e3"]), verdict, _difference(versus[name]),
                number(other["accuracy"], 1),
            )  # fmt: skip
    clear = [n for n, p in versus.items() if p.get("p_value_holm") is not None
             and p["p_value_holm"] < _ALPHA]  # fmt: skip
    yield (
        f"E³ differs from that of {baseline} at the 5 % level, after Holm's correction: "
        f"{', '.join(clear)}."
        if clear
        else f"After Holm's correction no row's E³ differs from that of {baseline} at the 5 % "
        "level: the order of the rows may be chance."
    )


def _is_loss(pair: dict[str, Any]) -> bool:
    p = pair["accuracy_p_value_holm"]
    return pair["accuracy_difference"] < 0 and p is not None and p < _ALPHA


def _difference(pair: dict[str, Any]) -> str:
    if not pair["discordant"]:
        return "accuracy undecided, no question differs"
    ends = format_interval(pair["accuracy_lower"], pair["accuracy_upper"], 1)
    return f"{number(pair['accuracy_difference'], 1)} points ({ends})"


def _doubts(
    study: pd.DataFrame, rows: Sequence[dict[str, Any]], made_by: pd.Series[Any]
) -> Iterator[str]:
    """Say what makes the figures weak."""
    if failed := {row["method"]: row["errors"] for row in rows if row["errors"]}:
        each = ", ".join(f"{name} ({errors})" for name, errors in failed.items())
        total = formatting.count(sum(failed.values()), "answer")
        yield f"{total} ended in an error and have no score: {each}. They are in no figure."
    asked = study.groupby("method", sort=False).question.nunique()
    if missing := {m: study.question.nunique() - n for m, n in asked.items()}:
        lacking = ", ".join(f"{name} ({n} missing)" for name, n in missing.items() if n)
        if lacking:
            yield (
                f"Not every method was asked every question: {lacking}. The rows are about "
                "different questions; each paired difference is about shared ones."
            )
    for gaps in dict.fromkeys(made["gaps"] for made in made_by if made.get("gaps")):
        names = [name for name, made in made_by.items() if made.get("gaps") == gaps]
        yield f"Not all of {', '.join(names)} is here: {gaps}."
    if any(row.get("e3") is not None and row["questions"] < MIN_UNBIASED_QUESTIONS for row in rows):
        yield (
            f"E³ of fewer than {MIN_UNBIASED_QUESTIONS} questions, and a ratio of it, is biased "
            "upwards."
        )
    if told := [row["method"] for row in rows if row["level_source"] == "label"]:
        yield f"Level: label. {', '.join(told)} took the levels from the data set, free of charge."
    if not study.is_measured.all():
        yield "Some tokens are estimated: the server reports none."


def _questions(study: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Yield each question with a mark per method, and the classes by which it can be filtered."""
    methods = list(dict.fromkeys(study.method))
    ordered = study.assign(rank=study.level.fillna(0)).sort_values("rank", kind="stable")
    for question, group in ordered.groupby("question", sort=False):
        cells, means = {}, []
        for method, own in group.groupby("method"):
            scores = own.score.dropna().astype(float)
            score = scores.mean() if len(scores) else None
            means.append(score)
            text = "error" if score is None else _MARKS.get(score, f"{100 * score:.0f} %")
            cells[method] = text + (" cut" if own.is_cut.any() else "")
        wrong = any(score is None or score < 1 for score in means)
        classes = ["wrong"] * wrong + ["differ"] * (len(set(means)) > 1)
        classes += ["cut"] * bool(group.is_cut.any())
        yield {
            "id": question,
            "level": group.level.iloc[0],
            "class": " ".join(classes),
            "cells": [cells.get(method, formatting.DASH) for method in methods],
        }


def _with_display(frame: pd.DataFrame) -> Iterator[tuple[dict[str, Any], dict[str, str]]]:
    rows = tables.to_rows(frame)
    yield from zip(rows, formatting.displayed(rows), strict=True)


def _plain(frame: pd.DataFrame) -> list[dict[str, str]]:
    """Return a table as text; columns of the study are left out."""
    shown = frame.drop(columns=[name for name in tables.STUDY if name in frame])
    return [
        {
            name.replace("_", " "): factor(v) if isinstance(v, float) else formatting.DASH
            if v is None else str(v)
            for name, v in row.items()
        }
        for row in tables.to_rows(shown)
    ]  # fmt: skip


def _paper(dataset: str) -> dict[str, list[dict[str, str]]]:
    rows = paper_figures("rows", dataset)
    found = {f"planned by {planner}": own for planner, own in rows.groupby("planner", sort=False)}
    found |= {"Certaindex": paper_figures("certaindex", dataset)}
    found |= {"latency, seconds": paper_figures("latency", dataset)}
    found |= {"tokens by budget": paper_figures("budget_cells", dataset)}
    return {title: _plain(own) for title, own in found.items() if len(own)}
