"""Print the tables of docs/measured.md from the answers in `answers.csv`, beside this file.

    python tests/benchmarks/measured.py math500 --rows default,vanilla --against vanilla

`answers.csv` holds what was counted and nothing of the questions: the day, the data set, the place
of a question in its draw (``--limit 300 --seed 0``; of arithmetic 24 and 1), the row, the score,
completion and prompt tokens of all calls, whether the answer ended by itself, and in the row
``default`` the estimated level. ``NAME@400`` is a row's answers cut off at 400 tokens, wrong where
they had not ended: at temperature 0 that is what such a cap gives.

Rows are compared on the questions that both have; p-values of E³ are Holm's. Money is prompt tokens
plus four times completion tokens, nothing cached, relative to the row that is compared with.
"""

import argparse
import csv
import sys
from pathlib import Path
from statistics import mean

sys.path.insert(0, str(Path(__file__).parents[2]))
from optim.e3 import Sample, compare, holm
from optim.statistics.estimates import accuracy_interval, interval, token_interval

_DAYS = "2026-11-25,2026-11-26,2026-11-27,2026-11-28"
ANSWERS = Path(__file__).with_name("answers.csv")
OUTPUT_PRICE = 4  # prompt tokens that cost as much as one completion token


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
        """Return questions, accuracy, completion tokens, prompt tokens and E³."""
        scores = [answer.score for answer in self.answers.values()]
        tokens = [answer.tokens for answer in self.answers.values()]
        (low, high), e3 = accuracy_interval(scores), interval(scores, tokens)
        return [
            str(len(scores)),
            f"{100 * mean(scores):.1f} ({low:.0f} to {high:.0f})",
            f"{mean(tokens):.0f}",
            f"{mean(self.prompts.values()):.0f}" if self.prompts else "?",
            f"{e3.e3:.2f} ({e3.lower:.2f} to {shown(e3.upper)})",
        ]

    def figures(self) -> dict[str, float | None]:
        """Return accuracy in percent and completion tokens, with the ends of their intervals."""
        scores = [answer.score for answer in self.answers.values()]
        tokens = [answer.tokens for answer in self.answers.values()]
        ends = (*accuracy_interval(scores), *token_interval(tokens))
        names = ("accuracy_lower", "accuracy_upper", "tokens_lower", "tokens_upper")
        means = (100 * mean(scores), mean(tokens))
        return dict(zip(("accuracy", "tokens", *names), (*means, *ends), strict=True))


def beside(rows: dict[str, Row], reference: Row) -> dict[str, list[str]]:
    """Return the cells that compare each row with the reference, on the questions of both."""
    others = {name: row for name, row in rows.items() if row is not reference}
    pairs = {
        name: compare(row.answers.values(), reference.answers.values(), missing="drop")
        for name, row in others.items()
    }
    known = {name: one.p_value for name, one in pairs.items() if one.p_value is not None}
    adjusted = holm(known)
    cells = {}
    for name, pair in pairs.items():
        both = rows[name].answers.keys() & reference.answers.keys()
        price, usual = rows[name].money(both), reference.money(both)
        ends = f"{shown(pair.lower)} to {shown(pair.upper)}; p {shown(adjusted.get(name))}"
        cells[name] = [
            f"{shown(pair.ratio)} ({ends})",
            f"{pair.accuracy_difference:+.1f} ({pair.discordant} of {pair.questions} differ)",
            shown(pair.tokens_ratio),
            shown(price / usual if price and usual else None),
        ]
    return cells


def shown(value: float | None) -> str:
    """Return a figure, or a question mark where there is none."""
    return "?" if value is None else f"{value:.2f}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dataset", help="such as math500")
    parser.add_argument("--places", default="0:300", help="of the draw, FIRST:END")
    parser.add_argument("--levels", default=",1,2,3,4,5", help="as the default estimated them")
    parser.add_argument("--rows", required=True, help="NAME or NAME@CAP, with commas between")
    parser.add_argument("--against", required=True, help="the row that they are compared with")
    parser.add_argument("--days", default=_DAYS, help="of the answers")
    given = parser.parse_args()
    places = range(*map(int, given.places.split(":")))
    with ANSWERS.open(encoding="utf-8", newline="") as file:
        lines = [
            line
            for line in csv.DictReader(file)
            if (line["dataset"], line["day"] in given.days.split(",")) == (given.dataset, True)
            and int(line["place"]) in places
        ]
    wanted = {line["place"] for line in lines if line["level"] in given.levels.split(",")}
    lines = [line for line in lines if line["place"] in wanted]
    rows = {name: Row(name, lines) for name in [*given.rows.split(","), given.against]}
    compared = beside(rows, rows[given.against])
    titles = ["row", "questions", "accuracy, % (95 %)", "completion tokens", "prompt tokens"]
    titles += ["E³ (95 %)", "E³, paired", "accuracy, points", "tokens", "money"]
    print(f"| {' | '.join(titles)} |")
    print("|---" * len(titles) + "|")
    for name, row in rows.items():
        cells = [f"`{name}`", *row.cells(), *compared.get(name, ["", "", "", ""])]
        print(f"| {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
