"""Print the tables of measured.md, runs.md and other pages, and rebuild them, from `answers.csv`.

    python tests/benchmarks/measured.py math500 --rows level_first,vanilla --against vanilla
    python tests/benchmarks/measured.py          # every table of the pages, and the picture

`answers.csv`, beside this file, holds what was counted: the day, the data set, the place of a
question in its draw (``--limit 300 --seed 0``; of arithmetic 24 and 1), the row, the score,
completion and prompt tokens of all calls, whether the answer ended by itself, and in the row
``level_first`` the estimated level. ``NAME@400`` is a row's answers cut off at 400 tokens, wrong
where they had not ended: at temperature 0 that is what such a cap gives. `texts.jsonl.xz` holds
the answers since 28 November in words, by data set, place and row.

Rows are compared on the questions that both have; p-values of E³ are Holm's. Money is prompt tokens
plus four times completion tokens, nothing cached, relative to the row that is compared with.
"""

import argparse
import csv
import re
import shlex
import sys
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

import altair as alt
import pandas as pd

sys.path.insert(0, str(Path(__file__).parents[2]))
from optim.e3 import Comparison, Sample, compare, holm
from optim.reporting.charts import to_svg
from optim.statistics.estimates import accuracy_interval

_DAYS = "2026-11-25,2026-11-26,2026-11-27,2026-11-28"
ANSWERS = Path(__file__).with_name("answers.csv")
TEXTS = Path(__file__).with_name("texts.jsonl.xz")
DOCS = Path(__file__).parents[2] / "docs"
PAGES = [DOCS / name for name in ("measured.md", "runs.md", "models.md", "travelplanner.md")]
PICTURE = DOCS / "pictures" / "measured.svg"
OUTPUT_PRICE = 4  # prompt tokens that cost as much as one completion token
_TABLE = re.compile(r"(<!-- measured\.py (.*) -->\n\n)(?:(?:\|.*\n)+\n)?")


class DataSet(NamedTuple):
    """A data set of the results: title, name, places, the default's row, and the days."""

    title: str
    name: str
    places: str
    default: str
    days: str


RESULTS = [
    DataSet("MATH", "math-train", "36:126", "default", "2026-11-29"),
    DataSet("GSM8K", "gsm8k", "260:284", "uncapped@600", "2026-11-28"),
    DataSet(
        *("NaturalInstructions", "natural_instructions", "120:200", "default"),
        "2026-11-25,2026-11-28",
    ),
    DataSet("reasoning-gym", "reasoning_gym", "90:690", "default", "2026-11-28,2026-11-30"),
]
"""Questions at places that chose no prompt and no setting."""


class Row:
    """The answers of one row to one data set on one day, by the place of their question."""

    def __init__(self, name: str, lines: list[dict[str, str]]) -> None:
        self.name, _, cap = name.partition("@")
        self.answers: dict[int, Sample] = {}
        self.prompts: dict[int, int] = {}
        for line in lines:
            if line["row"] == self.name:
                place, tokens = int(line["place"]), int(line["tokens"])
                fits = not cap or (line["ended"] == "1" and tokens <= int(cap))
                score = float(line["score"]) if fits else 0.0
                self.answers[place] = Sample(str(place), score, min(tokens, int(cap or tokens)))
                if line["prompt_tokens"]:
                    self.prompts[place] = int(line["prompt_tokens"])
        if not self.answers:
            rows = sorted({line["row"] for line in lines})
            sys.exit(f"no answers of {name!r} on these days at these places; rows: {rows}")

    def money(self, places: set[int]) -> float | None:
        """Return the mean price of an answer in prompt tokens; None where they are unknown."""
        if not places <= self.prompts.keys():
            return None
        return mean(OUTPUT_PRICE * self.answers[p].tokens + self.prompts[p] for p in places)

    def cells(self) -> list[str]:
        """Return questions, accuracy, completion tokens and prompt tokens."""
        scores = [answer.score for answer in self.answers.values()]
        tokens = [answer.tokens for answer in self.answers.values()]
        low, high = accuracy_interval(scores)
        return [
            str(len(scores)),
            f"{100 * mean(scores):.1f} ({low:.0f} to {high:.0f})",
            f"{mean(tokens):,.0f}",
            f"{mean(self.prompts.values()):,.0f}" if self.prompts else "?",
        ]


class Pair(NamedTuple):
    """A row against the reference: the comparison, the ratio of money, and Holm's p-value."""

    comparison: Comparison
    money: float | None
    p: float | None

    def cells(self) -> list[str]:
        """Return the difference of accuracy, and the ratios of money and of E³."""
        one = self.comparison
        p = " <0.01" if self.p is not None and self.p < 0.01 else f" {shown(self.p)}"
        ends = f"{shown(one.lower)} to {shown(one.upper)}; p{p}"
        points = f"{one.accuracy_difference:+.1f}"
        return [points, shown(self.money), f"{shown(one.ratio)} ({ends})"]


def beside(rows: dict[str, Row], reference: Row) -> dict[str, Pair]:
    """Return each other row against the reference, on the questions of both."""
    others = {name: row for name, row in rows.items() if row is not reference}
    pairs = {
        name: compare(row.answers.values(), reference.answers.values(), missing="drop")
        for name, row in others.items()
    }
    known = {name: one.p_value for name, one in pairs.items() if one.p_value is not None}
    adjusted, found = holm(known), {}
    for name, pair in pairs.items():
        both = rows[name].answers.keys() & reference.answers.keys()
        price, usual = rows[name].money(both), reference.money(both)
        money = price / usual if price and usual else None
        found[name] = Pair(pair, money, adjusted.get(name))
    return found


def shown(value: float | None) -> str:
    """Return a figure, or a question mark where there is none."""
    return "?" if value is None else f"{value:.2f}"


def answers(
    dataset: str, places: str, days: str, levels: str | None = None
) -> list[dict[str, str]]:
    """Return the lines of a data set at places FIRST:END, on days, at estimated levels."""
    chosen = range(*map(int, places.split(":")))
    with ANSWERS.open(encoding="utf-8", newline="") as file:
        lines = [
            line
            for line in csv.DictReader(file)
            if line["dataset"] == dataset and line["day"] in days.split(",")
            if int(line["place"]) in chosen
        ]
    at = None if levels is None else levels.split(",")
    wanted = {line["place"] for line in lines if at is None or line["level"] in at}
    return [line for line in lines if line["place"] in wanted]


def table(arguments: list[str]) -> str:
    """Return the table that these arguments of the command line ask for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dataset", help="such as math500")
    parser.add_argument("--places", default="0:690", help="of the draw, FIRST:END")
    parser.add_argument("--levels", help="as the default of then estimated them")
    parser.add_argument("--rows", required=True, help="NAME or NAME@CAP, with commas between")
    parser.add_argument("--against", required=True, help="the row that they are compared with")
    parser.add_argument("--days", default=_DAYS, help="of the answers")
    given = parser.parse_args(arguments)
    lines = answers(given.dataset, given.places, given.days, given.levels)
    names = dict.fromkeys([*given.rows.split(","), given.against])
    rows = {name: Row(name, lines) for name in names}
    compared = beside(rows, rows[given.against])
    heads = ["row", "questions", "accuracy, % (95 %)", "completion", "prompt"]
    cells = [
        [f"`{name}`", *row.cells(), *(compared[name].cells() if name in compared else [""] * 3)]
        for name, row in rows.items()
    ]
    return _markdown([*heads, "points", "money", "E³, times (95 %)"], cells)


def results() -> str:
    """Return the table of results: the default against the plain prompt."""
    cells = []
    for one in RESULTS:
        lines = answers(one.name, one.places, one.days)
        default, plain = Row(one.default, lines), Row("vanilla", lines)
        pair = beside({one.default: default, "vanilla": plain}, plain)[one.default]
        both = default.answers.keys() & plain.answers.keys()
        right = [100 * mean(row.answers[p].score for p in both) for row in (plain, default)]
        tokens = [mean(row.answers[p].tokens for p in both) for row in (plain, default)]
        points, money, e3 = pair.cells()
        cells.append(
            [
                f"{one.title} ({len(both)})",
                f"{right[0]:.1f} → {right[1]:.1f}",
                f"{points} ({pair.comparison.gained} won, {pair.comparison.lost} lost)",
                f"{tokens[0]:.0f} → {tokens[1]:.0f}",
                money,
                e3,
            ]
        )
    heads = ["data set (questions)", "accuracy, %", "points", "completion tokens", "money"]
    return _markdown([*heads, "E³, times (95 %)"], cells)


def _markdown(heads: list[str], rows: list[list[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines).replace("| --- ", "|---")


def page(text: str) -> str:
    """Return a page with every table below a comment ``measured.py ...`` built anew."""
    return _TABLE.sub(
        lambda found: (
            f"{found[1]}{results() if found[2] == 'results' else table(shlex.split(found[2]))}\n"
        ),
        text,
    )


def picture() -> str:
    """Return the drawing of accuracy against money as an SVG."""
    points = []
    for one in RESULTS:
        lines = answers(one.name, one.places, one.days)
        plain = Row("vanilla", lines)
        for name, row in (("default", Row(one.default, lines)), ("plain", plain)):
            both = row.answers.keys() & plain.answers.keys()
            scores = [row.answers[place].score for place in both]
            ends = accuracy_interval(scores)
            money = (row.money(both) or 0.0) / (plain.money(both) or 1.0)
            figures = {"accuracy": 100 * mean(scores), "lower": ends[0], "upper": ends[1]}
            points.append({"dataset": one.title, "method": name, "money": money, **figures})
    x = alt.X("money:Q", title="money (plain = 1)").scale(domain=[0, 1.25])
    y = alt.Y("accuracy:Q", title="accuracy, %").scale(domain=[0, 100])
    kinds, legend = ["default", "plain"], alt.Legend(title=None, orient="top")
    shape = alt.Shape("method:N", legend=legend).scale(domain=kinds, range=["square", "circle"])
    color = alt.Color("method:N", legend=legend).scale(domain=kinds, range=["#3b6ea5", "#8a8a8a"])
    base = alt.Chart().encode(x.axis(values=[0, 0.5, 1]), y)
    layers = [
        base.mark_rule(opacity=0.6).encode(y="lower:Q", y2="upper:Q"),
        base.mark_point(filled=True, opacity=1, size=120).encode(shape=shape, color=color),
    ]
    panels = alt.layer(*layers, data=pd.DataFrame(points)).properties(width=120, height=170)
    titles = alt.Column("dataset:N", title=None, sort=[one.title for one in RESULTS])
    sizes: dict[str, Any] = {"labelFontSize": 13, "titleFontSize": 13}
    drawing = panels.facet(titles).configure_axis(**sizes).configure_header(**sizes)
    return f"{to_svg(drawing.configure_legend(**sizes))}\n"


def main() -> None:
    """Print one table, or rebuild the pages and the picture."""
    if sys.argv[1:]:
        print(table(sys.argv[1:]), end="")
        return
    for path in PAGES:
        path.write_text(page(path.read_text(encoding="utf-8")), encoding="utf-8")
    PICTURE.write_text(picture(), encoding="utf-8")


if __name__ == "__main__":
    main()
