"""Reports: one page of HTML that loads and runs nothing, or its figures as JSON and CSV."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
import shlex
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from optim.reporting import charts, formatting, tables
from optim.reporting.formatting import DASH, displayed, factor, format_interval, number
from optim.reporting.tables import STUDY, PaperTable, Prices, answers, figures, paired, to_rows
from pb_graph.errors import InputError

if TYPE_CHECKING:
    from optim.records import Record

Kind = Literal["html", "json", "csv"]
Row = dict[str, Any]

_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_ALPHA = 0.05
_MARKS = {1.0: "✓", 0.0: "✗"}
_TITLES = {
    "by_level": "By level",
    "rates": "TravelPlanner's rates, %",
    "level_estimates": "Estimated levels against the data set's labels",
    "budget_grid": "E³ by B_init and B_per_level",
    "latency": "Seconds of model time",
    "paper_rows": "In the paper",
    "paper_certaindex": "In the paper: Certaindex",
    "paper_latency": "In the paper: latency, seconds",
    "paper_budget_cells": "In the paper: tokens by budget",
}


def report(  # noqa: PLR0913 -- choices of one report, all with defaults
    records: Iterable[Record],
    path: str | Path = "report.html",
    *,
    baseline: str | None = None,
    paper: bool = False,
    prices: Literal["auto"] | Prices | None = "auto",
    price_ratio: float = 4.0,
) -> Path:
    """Write what was measured to a file: a page for people, or its figures for machines.

    Args:
        records: Answers, as `optim.read_records` or an evaluation gives them.
        path: File that ends with .html, .json or .csv; an existing one is replaced.
        baseline: Method to compare with; None for vanilla, else global_budget, else the first.
        paper: Whether to show the paper's published figures beside.
        prices: See `answers`.
        price_ratio: See `answers`.

    Raises:
        InputError: Another ending, no record, no such baseline, or a file that cannot be written.
    """
    file = Path(path)
    kind: Any = file.suffix.removeprefix(".")
    if kind not in get_args(Kind):
        msg = f"a report ends with .html, .json or .csv, not {file.name!r}"
        raise InputError(msg)
    table = answers(records, prices=prices, price_ratio=price_ratio)
    return write(file, rendered(table, kind, baseline, paper=paper))


def rendered(
    table: pd.DataFrame, kind: Kind, baseline: str | None = None, *, paper: bool = False
) -> str:
    """Return a report as the text of a file.

    Args:
        table: Answers, from `answers`.
        kind: ``html`` is the page, ``json`` all of its tables, ``csv`` one line per method.
        baseline: Method to compare with.
        paper: Whether to include the paper's published figures.

    Raises:
        InputError: No answer, or no such baseline.
    """
    if table.empty:
        msg = "there is no answer to report on yet"
        raise InputError(msg)
    tables.choose_baseline(table, baseline)
    studies = [
        (study, _tables(study, baseline if baseline in set(study.method) else None, paper=paper))
        for _, study in table.groupby(list(STUDY), sort=False)
    ]
    if kind == "csv":
        lines = []
        for _, found in studies:
            versus = found["paired"].add_prefix("vs_").rename(columns={"vs_method": "method"})
            line = found["figures"].merge(versus, on="method", how="left")
            rates = found["rates"].reindex(columns=["method", *found["rates"].columns[1:]])
            lines.append(line.merge(rates, on="method", how="left"))
        text: str = pd.concat(lines).to_csv(index=False, lineterminator="\n")
        return text
    if kind == "json":
        document = [
            {name: study[name].iloc[0] for name in STUDY}
            | {"questions": study.question.nunique(), "made_by": _made_by(study)}
            | {name: to_rows(frame) for name, frame in found.items()}
            for study, found in studies
        ]
        return json.dumps({"studies": document}, ensure_ascii=False, allow_nan=False) + "\n"
    return render(
        "reporting/page.html.j2",
        title=": ".join(", ".join(dict.fromkeys(table[name])) for name in ("dataset", "model")),
        views=[_view(study, found, f"s{n}") for n, (study, found) in enumerate(studies)],
        answers=len(table),
        tokens=int(table.tokens.sum()),
        notes=tables.paper_notes() if paper else [],
    )


def render(template: str, **context: object) -> str:
    """Fill a template of this package that extends ``reporting/base.html.j2``.

    Everything is escaped unless it is markup. The page's policy forbids scripts, and allows the
    one style sheet by its hash. Control characters and lone surrogates are replaced.
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
    found.globals |= {"DASH": DASH, "interval": format_interval}
    return found


def write(path: Path, content: str) -> Path:
    """Write a file that the user named, and return its path; raise `InputError` if that fails."""
    try:
        path.write_text(content, encoding="utf-8")
    except OSError as error:
        msg = f"cannot write {path}: {error.strerror}"
        raise InputError(msg) from error
    return path


def _tables(study: pd.DataFrame, baseline: str | None, *, paper: bool) -> dict[str, pd.DataFrame]:
    """Return every table of one study."""
    found = {
        "figures": figures(study),
        "paired": paired(study, tables.choose_baseline(study, baseline)),
        "by_level": tables.by_level(study),
        "rates": tables.travel_rates(study),
        "level_estimates": tables.level_estimates(study),
        "budget_grid": tables.budget_grid(study).reset_index(),
        "latency": tables.latency(study),
        "token_parts": tables.token_parts(study),
    }
    names: tuple[PaperTable, ...] = ("rows", "certaindex", "latency", "budget_cells")
    dataset = study.dataset.iloc[0]
    published = {f"paper_{name}": tables.paper_figures(name, dataset) for name in names}
    return found | published if paper else found


def _made_by(study: pd.DataFrame) -> dict[str, Row]:
    found: dict[str, Row] = study.groupby("method", sort=False).made_by.first().to_dict()
    return found


def _view(study: pd.DataFrame, found: dict[str, pd.DataFrame], name: str) -> Row:
    """Return what the template shows of one study."""
    frame, versus, levels = found["figures"], found["paired"], found["by_level"]
    drawn: dict[str, charts.Chart] = {}
    if frame.e3.notna().any():
        drawn["Accuracy against tokens"] = charts.plane(frame)
        drawn["Where the tokens went"] = charts.parts(found["token_parts"])
    if levels.accuracy.notna().any():
        drawn["Accuracy by level"] = charts.by_level(levels)
    shown = {t: displayed(f) if n == "by_level" else _texts(f)
             for n, t in _TITLES.items() if len(f := found.get(n, pd.DataFrame()))}  # fmt: skip
    made_by, pairs = _made_by(study), to_rows(versus)
    return {name: study[name].iloc[0] for name in STUDY} | {
        "id": name,
        "facts": _facts(study, made_by),
        "findings": list(_findings(to_rows(frame), pairs)),
        "doubts": [*_doubts(study, frame, made_by), *formatting.remarks(frame)],
        "figures": displayed(frame).to_dict("records"),
        "pairs": pairs,
        "charts": {t: charts.to_svg(c, f"{name}{n}") for n, (t, c) in enumerate(drawn.items())},
        "tables": {title: texts.to_dict("records") for title, texts in shown.items()},
        "settings": {
            method: formatting.settings_in_full(made["settings"])
            for method, made in made_by.items()
            if "settings" in made
        },
        "prompts": {m: made["prompt"] for m, made in made_by.items() if made.get("prompt")},
        "methods": list(frame.method),
        "questions": list(_questions(study)),
    }


def _texts(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table as text, without the labels that are equal in all rows."""
    equal = [name for name in STUDY if name in frame and len(set(frame[name])) == 1]
    texts = [
        {n: factor(v) if isinstance(v, float) else DASH if v is None else str(v)
         for n, v in row.items()}
        for row in to_rows(frame.drop(columns=equal))
    ]  # fmt: skip
    return pd.DataFrame(texts).rename(columns=lambda name: name.replace("_", " "))


def _facts(study: pd.DataFrame, made_by: dict[str, Row]) -> dict[str, str]:
    """Return who solved and planned, and how the rows came about."""
    told: dict[str, list[str]] = {}
    for made in made_by.values():
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
        "date": f" {DASH} ".join(dict.fromkeys(dates[:1] + dates[-1:])),
    } | {name: "; ".join(dict.fromkeys(values)) for name, values in told.items()}


def _findings(rows: list[Row], pairs: list[Row]) -> Iterator[str]:
    """Say which row is the cheapest without a proven loss, and what rows with more E³ lose."""
    known = {row["method"]: row for row in rows if row["e3"] is not None}
    versus = {pair["method"]: pair for pair in pairs if pair.get("accuracy_difference") is not None}
    if not any(row["accuracy"] for row in known.values()):
        yield "No answer is right." if known else "Nothing has a score yet."
        return
    if not versus:
        return
    baseline = pairs[0]["baseline"]
    losing = {n for n, pair in versus.items() if pair["accuracy_difference"] < 0
              and (pair["accuracy_p_value_holm"] or 1.0) < _ALPHA}  # fmt: skip
    safe = [baseline, *(name for name in versus if name not in losing)]
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
    for name, pair in versus.items():
        if known[name]["e3"] > row["e3"]:
            yield Markup("<b>{}</b> has more E³ ({}), but {}: {}, {} % in all.").format(
                name, factor(known[name]["e3"]),
                "loses accuracy" if name in losing else "costs more",
                _difference(pair), number(known[name]["accuracy"], 1),
            )  # fmt: skip
    clear = [name for name, pair in versus.items() if (pair["p_value_holm"] or 1.0) < _ALPHA]
    yield (
        f"E³ differs from that of {baseline} at the 5 % level, after Holm's correction: "
        f"{', '.join(clear) or 'in no row, so the order of the rows may be chance'}."
    )


def _difference(pair: Row) -> str:
    if not pair["discordant"]:
        return "accuracy undecided, no question differs"
    ends = format_interval(pair["accuracy_lower"], pair["accuracy_upper"], 1)
    return f"{number(pair['accuracy_difference'], 1)} points ({ends})"


def _doubts(study: pd.DataFrame, frame: pd.DataFrame, made_by: dict[str, Row]) -> Iterator[str]:
    """Say which answers are missing."""
    if failed := frame.errors.sum():
        each = ", ".join(f"{row.method} ({row.errors})" for row in frame.itertuples() if row.errors)
        total = formatting.count(failed, "answer")
        yield f"{total} ended in an error and have no score: {each}. They are in no figure."
    asked = study.groupby("method", sort=False).question.nunique()
    missing = study.question.nunique() - asked
    if lacking := ", ".join(f"{name} ({n} missing)" for name, n in missing.items() if n):
        yield (
            f"Not every method was asked every question: {lacking}. The rows are about "
            "different questions; each paired difference is about shared ones."
        )
    for gaps in dict.fromkeys(made["gaps"] for made in made_by.values() if made.get("gaps")):
        names = [name for name, made in made_by.items() if made.get("gaps") == gaps]
        yield f"Not all of {', '.join(names)} is here: {gaps}."


def _questions(study: pd.DataFrame) -> Iterator[Row]:
    """Yield each question with a mark per method, and the classes by which it can be filtered."""
    methods = list(study.method.unique())
    ordered = study.astype({"score": float}).sort_values(
        "level", kind="stable", na_position="first"
    )
    levels = dict(zip(ordered.question, to_rows(ordered[["level"]]), strict=True))
    groups = ordered.groupby(["question", "method"], sort=False)
    answered = groups.agg({"score": "mean", "is_cut": "any"})
    asked: dict[str, dict[str, tuple[float, bool]]] = {}
    for (question, method), score, is_cut in answered.itertuples():
        asked.setdefault(question, {})[method] = score, is_cut
    for question, found in asked.items():
        scores = {None if math.isnan(score) else score for score, _ in found.values()}
        cells = {
            method: ("error" if math.isnan(score) else _MARKS.get(score, f"{100 * score:.0f} %"))
            + " cut" * is_cut
            for method, (score, is_cut) in found.items()
        }
        classes = {"wrong": scores != {1.0}, "differ": len(scores) > 1,
                   "cut": any(is_cut for _, is_cut in found.values())}  # fmt: skip
        yield levels[question] | {
            "id": question,
            "class": " ".join(name for name, applies in classes.items() if applies),
            "cells": [cells.get(method, DASH) for method in methods],
        }
