"""Write reports: a self-contained HTML page without scripts, or figures as JSON and CSV."""

from __future__ import annotations

import base64
import hashlib
import json
import shlex
from collections.abc import Iterable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from optim.records import Record
from optim.reporting import caps, charts, formatting, tables
from optim.reporting.formatting import COLUMNS, DASH, PAIR_COLUMNS, difference, displayed, number
from optim.statistics.comparison import MIN_UNBIASED_QUESTIONS
from pb_graph.errors import InputError

Row = dict[str, Any]
Tables = dict[str, pd.DataFrame]

_TEMPLATES = Environment(
    loader=PackageLoader("optim", ""), autoescape=True, undefined=StrictUndefined,
    trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True,
)  # fmt: skip
_ALPHA = 0.05
_DRAWN = ("figures", "paired", "token_parts")  # tables that have a place of their own
_FOUND = ("accuracy, %", "completion", "prompt", "money", "E³")  # figures of the first sentence


def report(
    records: Iterable[Record] | pd.DataFrame,
    path: str | Path = "report.html",
    *,
    baseline: str | None = None,
    paper: bool = False,
) -> Path:
    """Write the figures of an evaluation to a file: an HTML page, JSON or CSV.

    Args:
        records: Records of an evaluation or of `optim.read_records`; or a table of `answers`, which
            takes other prices.
        path: File that ends with .html, .json or .csv; an existing one is replaced.
        baseline: Method to compare with; None for vanilla, else global_budget, else the first.
        paper: Whether to show the paper's published figures beside.

    Raises:
        InputError: If ending or baseline are unknown, no record is given, or writing fails.
    """
    file = Path(path)
    table = records if isinstance(records, pd.DataFrame) else tables.answers(records)
    content = rendered(table, file.suffix.removeprefix("."), baseline, paper=paper)
    try:
        file.write_text(content, encoding="utf-8", errors="replace")
    except OSError as error:
        msg = f"cannot write {file}: {error.strerror}"
        raise InputError(msg) from error
    return file


def rendered(
    table: pd.DataFrame, kind: str, baseline: str | None = None, *, paper: bool = False
) -> str:
    """Return a report as HTML, JSON (all tables) or CSV (a line a method); see `report`."""
    if kind not in _KINDS:
        msg = f"a report ends with .html, .json or .csv, not .{kind}"
        raise InputError(msg)
    if table.empty:
        msg = "there is no answer to report on yet"
        raise InputError(msg)
    tables.choose_baseline(table, baseline)
    studies = [
        (study, _tables(study, baseline if baseline in set(study.method) else None, paper=paper))
        for _, study in table.groupby(list(tables.STUDY), sort=False)
    ]
    return _KINDS[kind](studies)


def _csv(studies: list[tuple[pd.DataFrame, Tables]]) -> str:
    lines = [
        found["figures"].merge(
            found["paired"].add_prefix("vs_"), "left", left_on="method", right_on="vs_method"
        )
        for _, found in studies
    ]
    table = pd.concat(lines).map(
        lambda cell: f"'{cell}" if isinstance(cell, str) and cell[:1] in {*"=+-@"} else cell
    )
    text: str = table.to_csv(index=False, lineterminator="\n")  # no cell is a formula
    return text


def _json(studies: list[tuple[pd.DataFrame, Tables]]) -> str:
    document = [
        {name: study[name].iloc[0] for name in tables.STUDY}
        | {"questions": study.question.nunique(), "made_by": _made_by(study)}
        | {name: tables.to_rows(frame) for name, frame in found.items()}
        for study, found in studies
    ]
    return json.dumps({"studies": document}, ensure_ascii=False, allow_nan=False) + "\n"


def _html(studies: list[tuple[pd.DataFrame, Tables]]) -> str:
    """Fill the template, which escapes everything except markup.

    The page's policy forbids scripts, and allows one style sheet by its hash.
    """
    style = Markup(files("optim.reporting").joinpath("page.css").read_text("utf-8"))  # noqa: S704
    hashed = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    table = pd.concat([study for study, _ in studies])
    return _TEMPLATES.get_template("reporting/page.html.j2").render(
        style=style,
        policy=f"default-src 'none'; style-src 'sha256-{hashed}'; base-uri 'none'; "
        "form-action 'none'",
        title=": ".join(", ".join(table[name].unique()) for name in ("dataset", "model")),
        views=[_view(study, found, f"s{n}") for n, (study, found) in enumerate(studies)],
        total=f"{number(len(table))} answers, {number(table.tokens.sum())} completion tokens",
        tips={head: one.tip for head, one in (COLUMNS | PAIR_COLUMNS).items() if one.tip},
        notes=tables.paper_notes() if "paper_rows" in studies[0][1] else [],
    )


_KINDS = {"html": _html, "json": _json, "csv": _csv}


def _tables(study: pd.DataFrame, baseline: str | None, *, paper: bool) -> Tables:
    """Return every table of one study by its name."""
    frames = {
        "figures": tables.figures(study),
        "paired": tables.paired(study, tables.choose_baseline(study, baseline)),
        "token_parts": tables.token_parts(study),
        "by_level": tables.by_level(study),
        "ladder_of_caps": caps.ladders(study),
        "travelplanner_rates": tables.travel_rates(study),
        "budget_grid": tables.budget_grid(study).reset_index(),
    }
    if paper:
        names: tuple[tables.PaperTable, ...] = ("rows", "certaindex", "latency", "budget_cells")
        dataset = study.dataset.iloc[0]
        frames |= {f"paper_{name}": tables.paper_figures(name, dataset) for name in names}
    return frames


def _made_by(study: pd.DataFrame) -> dict[str, Row]:
    records: dict[str, Row] = study.groupby("method", sort=False).made_by.first().to_dict()
    return records


def _view(study: pd.DataFrame, frames: Tables, name: str) -> Row:
    """Return the data of one study for the template."""
    frame, pairs, levels = frames["figures"], frames["paired"], frames["by_level"]
    made_by = _made_by(study)
    drawings: dict[str, charts.Chart] = {}
    if frame.e3.notna().any():
        drawings["Accuracy against tokens"] = charts.plane(frame)
        drawings["Accuracy against money"] = charts.plane(frame, "money")
        drawings["Where the tokens went"] = charts.parts(frames["token_parts"])
    if len(frames["ladder_of_caps"]):
        drawings["What a cap would give"] = charts.ladder(frames["ladder_of_caps"])
    if levels.accuracy.notna().any():
        drawings["Accuracy by level"] = charts.by_level(levels)
    return {
        "id": name,
        **{label: study[label].iloc[0] for label in tables.STUDY},
        "facts": _facts(study, made_by),
        "findings": list(_findings(frame, pairs)),
        "doubts": [*_doubts(study, frame, made_by), *formatting.remarks(frame)],
        "figures": displayed(frame).to_dict("records"),
        "baseline": pairs.baseline.max(),
        "pairs": displayed(pairs, PAIR_COLUMNS).to_dict("records"),
        "charts": {title: charts.to_svg(chart) for title, chart in drawings.items()},
        "tables": {
            key.replace("_", " ").capitalize(): _texts(table).to_dict("records")
            for key, table in frames.items()
            if key not in _DRAWN and len(table)
        },
        "prompts": _by_text({m: str(about.get("prompt") or "") for m, about in made_by.items()}),
        "settings": {
            method: "\n".join(formatting.format_settings(about["settings"]))
            for method, about in made_by.items()
            if "settings" in about
        },
    }


def _texts(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table as text, without the labels that are equal in all rows."""
    if "e3_lower" in frame:
        return displayed(frame)
    equal = [name for name in tables.STUDY if name in frame and len(set(frame[name])) == 1]
    texts = frame.drop(columns=equal).rename(columns=lambda name: str(name).replace("_", " "))
    return texts.map(
        lambda v: formatting.factor(v) if isinstance(v, float) else DASH if v is None else str(v)
    )


def _by_text(texts: dict[str, str]) -> dict[str, str]:
    """Return each text once, under the names of all methods that have it."""
    groups: dict[str, list[str]] = {}
    for name, text in texts.items():
        groups.setdefault(text, []).append(name)
    return {", ".join(names): text for text, names in groups.items() if text}


def _facts(study: pd.DataFrame, made_by: dict[str, Row]) -> dict[str, str]:
    """Return who solved and planned, and how the methods were run."""
    table = pd.DataFrame(made_by.values(), dtype=object)
    table = table.drop(columns=["settings", "prompt", "gaps", "conditions"], errors="ignore")
    facts = {
        name: [shlex.join(v) if isinstance(v, list) else str(v) for v in values.dropna()]
        for name, values in table.items()
    }
    if "date" in facts:
        facts["date"] = [min(facts["date"])[:16].replace("T", " ")]
    return {
        "solver": study.model.iloc[0],
        "planner": study.planner.iloc[0],
        "questions": number(study.question.nunique()),
        "answers to each": number(study.epoch.max()),
    } | {str(n).replace("_", " "): "; ".join(dict.fromkeys(v)) for n, v in facts.items()}


def _findings(frame: pd.DataFrame, versus: pd.DataFrame) -> Iterator[str]:
    """Describe the cheapest method without a visible loss, and what methods with more E³ lose."""
    rows = {row["method"]: row for row in tables.to_rows(frame) if row["e3"] is not None}
    pairs = {pair["method"]: pair for pair in tables.to_rows(versus) if pair.get("questions")}
    if not any(row["accuracy"] for row in rows.values()):
        yield "No answer is right." if rows else "Nothing has a score yet."
        return
    if not pairs:
        return
    baseline = versus.baseline.iloc[0]
    fewest = min(pair["questions"] for pair in pairs.values())
    if fewest < MIN_UNBIASED_QUESTIONS:
        yield (
            f"{fewest:g} questions are too few to see a loss of accuracy against {baseline}: "
            f"answer {MIN_UNBIASED_QUESTIONS} at least."
        )
        return
    table = versus.set_index("method")  # what is missing is below nothing
    is_visible = (table.accuracy_upper < 0) | (table.accuracy_p_value_holm < _ALPHA)
    losing = list(table.index[(table.accuracy_difference < 0) & is_visible])
    safe = [name for name in (baseline, *pairs) if name not in losing]
    best = min(safe, key=lambda name: rows[name]["money"])
    cells = [f"{head} {COLUMNS[head].show(rows[best])}" for head in _FOUND]
    if best in pairs:
        cells.append(f"accuracy, points: {difference(pairs[best])}")
    yield Markup(
        "Cheapest method without a visible loss of accuracy against {}: <b>{}</b>; {}."
    ).format(baseline, best, "; ".join(cells))
    for name, pair in pairs.items():
        if rows[name]["e3"] > rows[best]["e3"]:
            yield Markup("<b>{}</b> has more E³, {}, but {}; accuracy, points: {}.").format(
                name, COLUMNS["E³"].show(rows[name]),
                "loses accuracy" if name in losing else "costs more", difference(pair),
            )  # fmt: skip
    clear = table.index[table.p_value_holm < _ALPHA]
    yield (
        f"E³ differs from that of {baseline} at the 5 % level, after Holm's correction: "
        f"{', '.join(clear) or 'for no method, so the order of the methods may be chance'}."
    )


def _doubts(study: pd.DataFrame, frame: pd.DataFrame, made_by: dict[str, Row]) -> Iterator[str]:
    """Describe which answers are missing."""
    failed = frame[frame.errors > 0]
    if len(failed):
        each = ", ".join(f"{row.method} ({row.errors})" for row in failed.itertuples())
        yield f"Answers that ended in an error, and are in no figure: {each}."
    counts = study.groupby("method", sort=False).question.nunique()
    missing = study.question.nunique() - counts
    if lacking := ", ".join(f"{name} ({n} missing)" for name, n in missing.items() if n):
        yield f"Not every method answered the same questions: {lacking}."
    for names, gaps in _by_text({m: about.get("gaps", "") for m, about in made_by.items()}).items():
        yield f"Not all of {names} is here: {gaps}."
