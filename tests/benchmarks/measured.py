"""The tables of docs/measured.md from the answers themselves: `tests/benchmarks/measured.py`.

`answers.csv`, beside this file, holds what was counted and nothing of the questions: the data set,
the place of a question in its draw (``--limit 200 --seed 0``), the row, the score, the completion
tokens of all calls, and whether the answer ended by itself. A row is a method, or what was tried:
"short" was told to begin with "Short solution:", or had its answer begun so. ``NAME@400`` is a
row's answers cut off at 400 tokens, wrong where they had not ended: at temperature 0 that is what
such a cap gives.

    python tests/benchmarks/measured.py math500 --places 40:140 --rows brief,short --against brief

Pairs are compared on the questions that both rows have; p-values of E³ are Holm's, for all pairs of
the table. A measurement gets here by a line for each answer. No model is asked.
"""

import argparse
import csv
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from optim.e3 import Sample, compare, holm
from optim.statistics.estimates import accuracy_interval, interval

ANSWERS = Path(__file__).with_name("answers.csv")
Answers = dict[int, Sample]


def answers(dataset: str, places: range, row: str) -> Answers:
    """A row's answers by the place of their question; ``NAME@CAP`` cuts them."""
    name, _, cap = row.partition("@")
    with ANSWERS.open(encoding="utf-8", newline="") as file:
        lines = [line for line in csv.DictReader(file) if line["dataset"] == dataset]
    found = {}
    for line in lines:
        place, tokens, ended = int(line["place"]), int(line["tokens"]), line["ended"] == "1"
        if line["row"] != name or place not in places:
            continue
        fits = not cap or (ended and tokens <= int(cap))
        score = float(line["score"]) if fits else 0.0
        found[place] = Sample(str(place), score, min(tokens, int(cap or tokens)))
    if not found:
        rows = sorted({line["row"] for line in lines})
        sys.exit(f"no answers of {row!r} to {dataset} at these places; rows: {', '.join(rows)}")
    return found


def alone(row: str, of: Answers) -> str:
    """A line of Markdown: accuracy, tokens and E³, with their intervals."""
    scores, tokens = [one.score for one in of.values()], [one.tokens for one in of.values()]
    (low, high), e3 = accuracy_interval(scores), interval(scores, tokens)
    return (
        f"| `{row}` | {len(of)} | {100 * sum(scores) / len(of):.1f} ({low:.0f} to {high:.0f}) "
        f"| {sum(tokens) / len(of):.0f} | {e3.e3:.2f} ({e3.lower:.2f} to {shown(e3.upper)}) |"
    )


def beside(rows: dict[str, Answers], reference: str) -> dict[str, str]:
    """What a line says of its row against the reference, on the questions that both have."""
    pairs = {
        row: compare(of.values(), rows[reference].values(), missing="drop")
        for row, of in rows.items()
        if row != reference
    }
    adjusted = holm({row: pair.p_value for row, pair in pairs.items() if pair.p_value is not None})
    return {
        row: f" {shown(pair.ratio)} times ({shown(pair.lower)} to {shown(pair.upper)}; "
        f"p {shown(adjusted.get(row))}), {pair.accuracy_difference:+.0f} points "
        f"({pair.discordant} of {pair.questions} differ), tokens {shown(pair.tokens_ratio)} "
        f"({shown(pair.tokens_lower)} to {shown(pair.tokens_upper)}) |"
        for row, pair in pairs.items()
    }


def shown(value: float | None) -> str:
    """A figure, or a question mark for an end that there is not."""
    return "?" if value is None else f"{value:.2f}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dataset", choices=("math500", "gsm8k", "natural_instructions"))
    parser.add_argument("--places", default="0:200", help="of the draw, FIRST:END")
    parser.add_argument("--rows", required=True, help="NAME or NAME@CAP, with commas between")
    parser.add_argument("--against", required=True, help="the row that they are compared with")
    given = parser.parse_args()
    places = range(*map(int, given.places.split(":")))
    named = dict.fromkeys([*given.rows.split(","), given.against])
    rows = {row: answers(given.dataset, places, row) for row in named}
    against = beside(rows, given.against)
    print(f"| row | questions | accuracy, % (95 %) | T | E³ (95 %) | against `{given.against}` |")
    print("|---|---|---|---|---|---|")
    for row, of in rows.items():
        print(alone(row, of) + against.get(row, " |"))


if __name__ == "__main__":
    main()
