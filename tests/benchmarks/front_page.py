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

sys.path.insert(0, str(Path(__file__).parents[2]))
from optim import read_records
from optim.records import Record
from optim.report import plot_spending
from optim.report.figures import Figure, Point, scatter
from optim.summary import grouped, rows

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
    found = grouped(records, ("dataset", "method"))
    there = dict.fromkeys(name for _, name in found)
    if unknown := [name for name in methods if name not in there]:
        sys.exit(f"no answers of {', '.join(unknown)}; there are: {', '.join(there)}")
    data = dict.fromkeys(name for name, _ in found)
    wanted = [(name, method) for name in data for method in methods or there]
    return HEAD + "".join(line(found[one]) for one in wanted if one in found)


def line(records: Sequence[Record]) -> str:
    """One method. All its answers can be too dear, those that have no score as well."""
    (row,) = rows(records)
    dearest = max(records, key=lambda record: record.tokens)
    limits = [record.report["ceiling"] for record in records]
    over = sum(
        limit is not None and record.tokens > limit
        for record, limit in zip(records, limits, strict=True)
    )
    ceiling = "no ceiling" if dearest.report["ceiling"] is None else dearest.report["ceiling"]
    cells = (
        f"{len(records)} of {row.dataset}",
        row.method,
        f"{row.accuracy:.1f} ({row.accuracy_lower:.0f} to {row.accuracy_upper:.0f})",
        f"{row.tokens:.0f}",
        "?" if row.e3 is None else f"{row.e3:.3g}",
        f"{dearest.tokens} of {ceiling}",
        f"{over}",
    )
    return f"| {' | '.join(cells)} |\n"


def fronts(page: str) -> dict[str, str]:
    """Drawings of a page's first table of methods of each data set, which its head names."""
    return {
        found["data"].lower(): Figure(
            scatter([point(row) for row in ROW.finditer(found["rows"])], 760, 440)
        )._repr_svg_()
        for found in reversed([*TABLE.finditer(page)])
    }


def point(row: re.Match[str]) -> Point:
    """A line of such a table; one without an interval is another's answers, cut."""
    score = float(row["score"])
    ends = (float(row["low"]), float(row["high"])) if row["low"] else (None, None)
    tokens, e3 = float(row["tokens"]), float(row["e3"])
    return Point(row["name"], 0, tokens, score, e3, token_ends=(None, None), score_ends=ends)


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
            {"run": plot_spending(json.loads(text))._repr_svg_()}
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
