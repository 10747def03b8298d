"""The cheapest row of a study whose loss of accuracy is proven to stay below a bound."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from optim.datasets.dataset import digest
from optim.reporting.tables import STUDY, figures
from optim.statistics.certificate import (
    NonInferiorityTest,
    least_questions,
    order_for_testing,
    run_in_order,
)
from optim.statistics.checks import check_confidence
from optim.statistics.estimates import PERCENT
from pb_graph.errors import InputError


@dataclass(frozen=True, slots=True)
class Certificate:
    """Result of `certify`.

    Attributes:
        certified: The cheapest row whose loss is proven; None if there is none.
        sentence: The result in words.
        reference: Row that it is compared with.
        loss: Allowed loss of accuracy, in percentage points.
        confidence: In percent: no row is certified that loses more.
        ordering_questions: Questions that chose the order; no test uses them.
        rows: Every row on the questions of the tests: its figures, and of tested rows ``place``
            (in the order), ``worse``, ``better``, ``loss``, ``bound`` (points), ``kind`` and
            ``is_proven``.
    """

    certified: str | None
    sentence: str
    reference: str
    loss: float
    confidence: float
    ordering_questions: int
    rows: pd.DataFrame


def certify(  # noqa: PLR0913 -- choices of one analysis, all with defaults
    table: pd.DataFrame,
    *,
    loss: float = 3.0,
    confidence: float = 95.0,
    reference: str = "vanilla",
    order: Sequence[str] | None = None,
    split: float = 20.0,
    seed: int = 0,
) -> Certificate:
    """Find the cheapest row whose loss of accuracy is proven to stay below a bound.

    An answer that failed counts as wrong for its row. In the reference it is left out, since a
    wrong answer would make the reference easier to match.

    Args:
        table: Answers of one data set, solver and planner, from `optim.reporting.answers`.
        loss: Allowed loss of accuracy, in percentage points above 0.
        confidence: In percent.
        reference: Row to compare with.
        order: Rows in the order of their tests, chosen before these answers were seen. None lets
            a part of the questions choose the order, which the tests then do without.
        split: That part, in percent of the questions.
        seed: Seed of the draw of that part.

    Raises:
        InputError: No such row, several studies, too few questions, or a number out of its range.
    """
    check_confidence(confidence / PERCENT)
    if len(table[list(STUDY)].drop_duplicates()) != 1:
        msg = "a certificate is about one data set, solver and planner: read their logs only"
        raise InputError(msg)
    methods = list(dict.fromkeys(table.method))
    for name in [reference, *(order or ())]:
        if name not in methods:
            msg = f"no row named {name!r}; there are: {', '.join(methods)}"
            raise InputError(msg)
    if order is not None and (reference in order or len(set(order)) < len(order)):
        msg = f"--order names each row once, and not the reference {reference!r}"
        raise InputError(msg)
    table = table[(table.method != reference) | table.score.notna()]
    answered = table.question[table.method == reference].unique()
    chosen_by, kept = _split(list(answered), 0.0 if order is not None else split / PERCENT, seed)
    if order is None:
        order = _order(table[table.question.isin(chosen_by)], reference)
    tested = table[table.question.isin(kept)]
    filled = tested.assign(
        score=tested.score.fillna(0.0).astype(float), rank=tested.question.map(kept.index)
    ).sort_values("rank", kind="stable")
    scores = {
        name: group.groupby("question", sort=False).score.agg(list).to_dict()
        for name, group in filled.groupby("method")
    }
    ends = {"loss": loss / PERCENT, "confidence": confidence / PERCENT}
    tests = list(run_in_order(order, scores[reference], scores, **ends))
    trials = pd.DataFrame(tests, columns=NonInferiorityTest._fields)
    trials = trials.astype({"loss": float, "bound": float}).assign(place=range(1, len(tests) + 1))
    trials[["loss", "bound"]] *= PERCENT
    rows = figures(tested, ("method",)).merge(trials, on="method", how="left")
    cost = dict(zip(rows.method, rows.tokens, strict=True))
    proven = [one.method for one in tests if one.is_proven]
    certified = min(proven, key=lambda name: cost[name]) if proven else None
    goal = f"at most {loss:g} points against {reference}, with {confidence:g} % confidence"
    if certified is not None:
        ours, theirs = (
            tested[(tested.method == name) & tested.score.notna()]
            for name in (certified, reference)
        )
        theirs = theirs[theirs.question.isin(ours.question)]  # paired, where rows are incomplete
        saved = ours.tokens.mean() / theirs.tokens.mean()
        sentence = f"{certified} loses {goal}, at {saved:.2f} times its tokens."
    elif tests:
        needed = least_questions(tests[-1].kind, loss / PERCENT, confidence / PERCENT)
        sentence = (
            f"No row is proven to lose {goal}. A proof takes at least {needed} questions, even "
            "where both rows score alike on all of them."
        )
    else:
        sentence = f"No row is cheaper than {reference} on the questions that chose the order."
    return Certificate(certified, sentence, reference, loss, confidence, len(chosen_by), rows)


def _split(questions: Sequence[str], share: float, seed: int) -> tuple[list[str], list[str]]:
    """Return the questions for the order and those for the tests, drawn without their answers."""
    if not 0.0 <= share < 1.0:
        msg = f"--split lies between 0 and 100 percent, not at {PERCENT * share:g}"
        raise InputError(msg)
    drawn = sorted(questions, key=lambda question: digest([seed, question]))
    count = round(share * len(drawn))
    if len(drawn) == count or (share and not count):
        msg = f"{len(drawn)} questions are too few to choose an order and to test; give --order"
        raise InputError(msg)
    return drawn[:count], drawn[count:]


def _order(table: pd.DataFrame, reference: str) -> list[str]:
    told = table.assign(cost=table.tokens.where(table.score.notna()), right=table.score.fillna(0.0))
    known = told.groupby("method")[["cost", "right"]].mean().dropna()
    return order_for_testing(
        {row.Index: (row.cost, row.right) for row in known.itertuples()}, reference
    )
