"""What the README shows of our own runs: `python tests/benchmarks/front_page.py`.

``table LOGS... --methods vanilla,default,auto`` prints the table of log folders, which may be parts
of one evaluation, or hold different methods or data sets: accuracy, mean tokens, E³, and the
dearest question against its ceiling. ``picture REPORT.json`` draws a question, as ``pb-graph solve
--json`` reports it. ``front docs/measured.md`` draws the tables of methods that are in it: accuracy
against tokens. With ``--write`` the table goes into the README, between its two marks, and the
pictures to where they are shown. No model is asked.
"""

import argparse
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

sys.path.insert(0, str(Path(__file__).parents[2]))
from optim import read_records
from optim.records import Record
from optim.reporting.charts import plane, spending, to_svg
from optim.reporting.tables import answers, figures, to_rows

ROOT = Path(__file__).parents[2]
README, PICTURES = ROOT / "README.md", ROOT / "docs" / "pictures"
MARKS = "<!-- the table of tests/benchmarks/front_page.py -->", "<!-- its end -->"
TABLE = re.compile(
    r"^\| \d+ questions of (?P<data>\S+) \| accuracy.*\n\|-.*\n(?P<rows>(?:\|.*\n)+)", re.MULTILINE
)
ROW = re.compile(
    r"^\| \W*(?P<name>[\w@]+)`.*?\| (?P<score>[\d.]+)(?: \((?P<low>\d+) to (?P<high>\d+)\))? "
    r"\| (?P<tokens>\d+) \| (?P<e3>[\d.]+)",
    re.MULTILINE,
)
HEAD = """\
| questions | method | accuracy, % (95 %) | mean tokens | E³ | dearest, of its ceiling | over it |
|---|---|---|---|---|---|---|
"""


def table(records: Sequence[Record], methods: Sequence[str]) -> str:
    """Markdown, a line for each method of each data set."""
    found: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        found.setdefault((record.dataset, record.method), []).append(record)
    there = dict.fromkeys(name for _, name in found)
    if unknown := [name for name in methods if name not in there]:
        sys.exit(f"no answers of {', '.join(unknown)}; there are: {', '.join(there)}")
    data = dict.fromkeys(name for name, _ in found)
    wanted = [(name, method) for name in data for method in methods or there]
    return HEAD + "".join(line(found[one]) for one in wanted if one in found)


def line(records: Sequence[Record]) -> str:
    """One method. All its answers can be too dear, those that have no score as well."""
    (row,) = to_rows(figures(answers(records)))
    dearest = max(records, key=lambda record: record.tokens)
    limits = [record.report["ceiling"] for record in records]
    over = sum(
        limit is not None and record.tokens > limit
        for record, limit in zip(records, limits, strict=True)
    )
    ceiling = "no ceiling" if dearest.report["ceiling"] is None else dearest.report["ceiling"]
    cells = (
        f"{len(records)} of {row['dataset']}",
        row["method"],
        f"{row['accuracy']:.1f} ({row['accuracy_lower']:.0f} to {row['accuracy_upper']:.0f})",
        f"{row['tokens']:.0f}",
        "?" if row["e3"] is None else f"{row['e3']:.3g}",
        f"{dearest.tokens} of {ceiling}",
        f"{over}",
    )
    return f"| {' | '.join(cells)} |\n"


def fronts(page: str) -> dict[str, str]:
    """Drawings of a page's first table of methods of each data set, which its head names."""
    return {
        found["data"].lower(): to_svg(
            plane(pd.DataFrame([point(row) for row in ROW.finditer(found["rows"])]))
        )
        for found in reversed([*TABLE.finditer(page)])
    }


def point(row: re.Match[str]) -> dict[str, Any]:
    """A line of such a table; one without an interval is another's answers, cut."""
    ends = (float(row["low"]), float(row["high"])) if row["low"] else (float("nan"),) * 2
    found = {"method": row["name"], "accuracy": float(row["score"]), "e3": float(row["e3"])}
    found |= {"tokens": float(row["tokens"]), "tokens_lower": float("nan")}
    found |= {"tokens_upper": float("nan"), "accuracy_lower": ends[0], "accuracy_upper": ends[1]}
    return found


def main() -> None:
    """Make one of the three."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("table", "picture", "front"))
    parser.add_argument("source", type=Path, nargs="+", help="log folders; a report; a page")
    parser.add_argument("--methods", default="", help="rows in this order, with commas between")
    parser.add_argument("--write", action="store_true", help="into the README's place")
    given = parser.parse_args()
    if given.what != "table":
        text = given.source[0].read_text("utf-8")
        drawn = (
            {"run": to_svg(spending(json.loads(text)))}
            if given.what == "picture"
            else {f"front-{data}": one for data, one in fronts(text).items()}
        )
        for name, one in drawn.items():
            if given.write:
                (PICTURES / f"{name}.svg").write_text(one + "\n", encoding="utf-8")
            print(PICTURES / f"{name}.svg" if given.write else one)
        return
    records = [record for folder in given.source for record in read_records(folder)]
    made = table(records, [name for name in given.methods.split(",") if name])
    if given.write:
        start, end = (re.escape(mark) for mark in MARKS)
        old = README.read_text("utf-8")
        new = f"{MARKS[0]}\n{made}{MARKS[1]}"
        README.write_text(re.sub(f"{start}.*{end}", new, old, flags=re.DOTALL), encoding="utf-8")
    print(made, end="")


if __name__ == "__main__":
    main()
