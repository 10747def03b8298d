"""Draw the questions of the data set `math-train` in answers.csv from MATH's training split.

    python tests/benchmarks/math_places.py FOLDER > math_train.jsonl

FOLDER holds the seven files of the split (`algebra.json` and so on, hendrycks/MATH, MIT: a list of
problem, level, type and solution each). MATH-500 is of the test split, so none of these questions
is in it. Subjects have the shares of MATH-500; the order is that of SHA-256. A place is the
position in ``load("math500", path="math_train.jsonl", limit=300, seed=0)``: even over the levels.
"""

import hashlib
import json
import sys
from pathlib import Path

SHARES = {
    "algebra": 124,
    "intermediate_algebra": 97,
    "prealgebra": 82,
    "number_theory": 62,
    "precalculus": 56,
    "geometry": 41,
    "counting_and_probability": 38,
}
"""Problems of each subject in MATH-500; twice as many are drawn."""


def boxed(solution: str) -> str | None:
    """Return what stands in the last box of a solution; None where there is no box in braces."""
    start = solution.rfind("\\boxed{")
    depth, begin = 0, start + len("\\boxed{")
    for place in range(begin - 1, len(solution)) if start >= 0 else ():
        depth += (solution[place] == "{") - (solution[place] == "}")
        if depth == 0:
            return solution[begin:place]
    return None


def main() -> None:
    """Print the questions as JSON lines."""
    for subject, share in SHARES.items():
        text = (Path(sys.argv[1]) / f"{subject}.json").read_text(encoding="utf-8")
        rows = {
            hashlib.sha256(f"places:{r['problem']}".encode()).hexdigest(): r
            for r in json.loads(text)
        }
        usable = [
            {
                "problem": row["problem"],
                "answer": answer,
                "subject": row["type"],
                "level": int(row["level"][-1]),
                "unique_id": f"math-train/{subject}/{key[:12]}",
            }
            for key, row in sorted(rows.items())
            if (answer := boxed(row["solution"])) is not None and row["level"][-1].isdigit()
        ]
        for row in usable[: 2 * share]:
            print(json.dumps(row))


if __name__ == "__main__":
    main()
