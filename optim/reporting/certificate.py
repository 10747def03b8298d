"""Find the cheapest method of a study whose loss of accuracy is proven to stay below a bound."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pandas as pd

from optim.datasets.dataset import digest
from optim.reporting.formatting import PAIR_COLUMNS
from optim.reporting.tables import STUDY, choose_baseline, figures, paired, to_rows
from optim.statistics.certificate import (
    NonInferiorityTest,
    betting_upper_bound,
    order_for_testing,
    run_in_order,
)
from optim.statistics.estimates import PERCENT
from pb_graph.errors import InputError

_CHOOSE = 5  # one of every five questions chooses the order of the tests


@dataclass(frozen=True, slots=True)
class Certificate:
    """Result of `certify`.

    Attributes:
        certified: Name of the cheapest method whose loss is proven; None if there is none.
        sentence: The result in words.
        baseline: Method to compare with.
        loss: Allowed loss of accuracy, in percentage points.
        confidence: Confidence of the test, in percent.
        ordering_questions: Questions that chose the order; no test uses them.
        rows: The figures of every method on the questions of the tests, and for tested methods
            ``place`` (in the order), ``worse``, ``better``, ``loss``, ``bound`` (points), ``kind``
            and ``is_proven``.
    """

    certified: str | None
    sentence: str
    baseline: str
    loss: float
    confidence: float
    ordering_questions: int
    rows: pd.DataFrame


def certify(
    table: pd.DataFrame,
    *,
    loss: float = 3.0,
    confidence: float = 95.0,
    baseline: str = "vanilla",
    is_partial: bool = False,
) -> Certificate:
    """Find the cheapest method whose loss of accuracy is proven to stay below a bound.

    A fifth of the questions chooses the order of the tests, and the others test. A failed answer
    counts as wrong, and so does one that is missing: an interrupted run lacks the long, hard
    answers. In the baseline a failed answer is left out, because a wrong one would make the
    baseline easier to match.

    Args:
        table: Answers of one data set, solver and planner, from `optim.reporting.answers`.
        loss: Allowed loss of accuracy, in percentage points above 0.
        confidence: In percent.
        baseline: Name of the method to compare with.
        is_partial: Whether to take an unfinished run as it is.

    Raises:
        InputError: If the method is unknown, the records are of several studies or of an unfinished
            run, there are too few questions, or a number is out of range.
    """
    if len(table[list(STUDY)].drop_duplicates()) != 1:
        msg = "a certificate is about one data set, solver and planner: read their logs only"
        raise InputError(msg)
    choose_baseline(table, baseline)
    gaps = {
        f"{row.method}: {row.made_by['gaps']}"
        for row in table.itertuples()
        if row.made_by.get("gaps")
    }
    if gaps and not is_partial:
        msg = (
            f"the run is not finished ({'; '.join(sorted(gaps))}). Run the same command again, or "
            "take it as it is with --partial."
        )
        raise InputError(msg)
    table = table[(table.method != baseline) | table.score.notna()]
    questions = table.question[table.method == baseline].unique()
    sample = sorted(questions, key=digest)
    places = table.question.map({question: place for place, question in enumerate(sample)})
    table = table.assign(drawn=places, right=table.score.fillna(0.0).astype(float))
    table = table.sort_values("drawn", kind="stable")
    count = len(sample) // _CHOOSE
    if not count:
        msg = f"{len(sample)} questions are too few: a fifth of them chooses the order of the tests"
        raise InputError(msg)
    order = _chosen_order(table[table.drawn < count], baseline)
    rest = table[table.drawn >= count]
    scores = {
        name: group.groupby("question", sort=False).right.agg(list).to_dict()
        for name, group in rest.groupby("method")
    }
    for name in order:
        scores[name] = {
            question: scores[name].get(question, [0.0]) for question in scores[baseline]
        }
    ends = {"loss": loss / PERCENT, "confidence": confidence / PERCENT}
    tests = list(run_in_order(order, scores[baseline], scores, **ends))
    trials = pd.DataFrame(tests, columns=NonInferiorityTest._fields)
    trials = trials.astype({"loss": float, "bound": float}).assign(place=range(1, len(tests) + 1))
    trials[["loss", "bound"]] *= PERCENT
    rows = figures(rest, ("method",)).merge(trials, on="method", how="left")
    proven = rows[rows.is_proven.eq(True)].sort_values("tokens", kind="stable")
    certified = None if proven.empty else str(proven.method.iloc[0])
    goal = f"at most {loss:g} points against {baseline}, with {confidence:g} % confidence"
    if certified is not None:
        [pair] = to_rows(paired(rest[rest.method.isin([certified, baseline])], baseline))
        ratio = PAIR_COLUMNS["ratio of T"](pair)
        sentence = f"{certified} loses {goal}, at {ratio} times its tokens."
    elif tests:
        tested = _fewest(tests[-1].kind, **ends)
        minimum = tested + (tested - 1) // (_CHOOSE - 1)  # a fifth chooses the order
        sentence = (
            f"No method is proven to lose {goal}. A proof needs at least {minimum} questions, even "
            "if both methods have the same scores."
        )
    else:
        sentence = f"No method is cheaper than {baseline} on the questions that chose the order."
    return Certificate(certified, sentence, baseline, loss, confidence, count, rows)


def _fewest(kind: str, *, loss: float, confidence: float) -> int:
    """Return the number of equal questions that prove a loss, by the exact test or by betting."""
    count = math.ceil(math.log(1 - confidence) / math.log(1 - loss))
    while kind == "betting" and betting_upper_bound([0.0] * count, confidence) > loss:
        count += 1
    return count


def _chosen_order(table: pd.DataFrame, baseline: str) -> list[str]:
    """Return the methods in the order of their tests, by tokens and accuracy in this table."""
    costs = table.assign(tokens=table.tokens.where(table.score.notna()))
    known = costs.groupby("method")[["tokens", "right"]].mean().dropna()
    rows = {str(name): (tokens, accuracy) for name, tokens, accuracy in known.itertuples()}
    return order_for_testing(rows, baseline)
