"""Read off an uncapped run what each cap would give: a longer answer is cut off, and wrong.

An answer of at most b tokens is the same under a cap of b at temperature 0, so one run tells the
accuracy and the price of every cap (`The Coupling Tax`, arXiv:2605.07686, predicts both from the
lengths of the answers alone).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, cast

import pandas as pd

from optim.e3 import Comparison, Sample, compare
from optim.records import PLANNING, Records
from optim.reporting.tables import answers, figures
from pb_graph.budget.rules import LEVELS, LevelTable
from pb_graph.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from optim.records import Record
    from pb_graph.types import Report

_QUANTILES = (0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)  # of the lengths, where the ladder has its caps
_FEWEST = 4  # answers: two halves of two
_STEP = 10  # tokens to which caps are rounded up


@dataclass(frozen=True, slots=True)
class Caps:
    """What caps would give on the questions of one run.

    Attributes:
        ladder: The figures of each cap, as `optim.reporting.figures` gives them, with ``cap`` and
            ``ended``, the percentage of the answers that end by themselves below the cap.
        chosen: The cap with the highest E³ among those that lose at most ``loss`` points.
        held_out: The choice against the uncapped answers, made for each half of the questions on
            the other half.
        by_level: The caps chosen at each level, for levels with answers.
    """

    ladder: pd.DataFrame
    chosen: int
    held_out: Comparison
    by_level: Mapping[int, int]

    def settings(self, *, by_level: bool = False) -> dict[str, Any]:
        """Return settings that cut answers off at the chosen cap, or at those of each level."""
        budget: Any = self.chosen
        if by_level:
            tokens = {level: self.by_level.get(level, self.chosen) for level in LEVELS}
            budget = LevelTable(tokens=tokens).model_dump(mode="json")
        return {"budget": budget, "enforcement": "cap"}


def read_caps(
    records: Iterable[Record],
    *,
    caps: Sequence[int] | None = None,
    objective: Literal["e3", "money"] = "e3",
    loss: float = 3.0,
    **prices: Any,  # noqa: ANN401 -- of `optim.reporting.answers`
) -> Caps:
    """Return what caps would give, and the best of them.

    Args:
        records: Answers of one method on one data set, without a cap that cuts many of them off,
            and with one solving call each.
        caps: Caps in tokens; None for those that 30 to 95 % of the answers stay below.
        objective: ``e3`` chooses by accuracy² / tokens, ``money`` by accuracy² / money.
        loss: Points of accuracy that the choice may lose against the uncapped answers.
        prices: ``prices`` and ``price_ratio``, as for `optim.reporting.answers`.

    Raises:
        InputError: If there are several methods, fewer than four answers, or nothing is right; or
            an answer was made of several solving calls, such as a plan's steps or a forced ending.
    """
    given = [record for record in records if record.score is not None]
    if len({(r.dataset, r.method, r.model) for r in given}) != 1 or len(given) < _FEWEST:
        msg = "caps are read off four answers or more of one method: choose one with --method"
        raise InputError(msg)
    lengths = sorted(record.tokens - _planned(record) for record in given)
    if not caps:
        known = (lengths[math.ceil(q * len(lengths)) - 1] for q in _QUANTILES)
        caps = [max(1, math.ceil(length / _STEP)) * _STEP for length in (*known, lengths[-1])]
    rungs = sorted(set(caps))
    tables = {
        cap: answers(Records(_cut(record, cap) for record in given), **prices)
        for cap in (*rungs, max(rungs[-1], lengths[-1]))
    }
    ladder = pd.concat([figures(tables[cap]).assign(cap=cap) for cap in rungs], ignore_index=True)
    ladder["ended"] = [100 * sum(n <= cap for n in lengths) / len(lengths) for cap in rungs]
    asked = sorted({record.question for record in given}, key=_order)
    parts = [set(asked[::2]), set(asked[1::2])]
    cost = "money" if objective == "money" else "tokens"
    ours: list[Sample] = []
    for chosen_on, used_on in (parts, parts[::-1]):
        cap = _best(tables, rungs, cost, loss, lambda t, on=chosen_on: t.question.isin(on))
        ours += _samples(tables[cap], used_on, cost)
    uncapped = _samples(tables[max(tables)], {*asked}, cost)
    by_level = {
        level: _best(tables, rungs, cost, loss, lambda t, level=level: t.level == level)
        for level in sorted({record.level for record in given if record.level is not None})
    }
    chosen = _best(tables, rungs, cost, loss, lambda t: t.question.notna())
    return Caps(ladder, chosen, compare(ours, uncapped), by_level)


def _best(
    tables: Mapping[int, pd.DataFrame],
    rungs: Sequence[int],
    cost: str,
    loss: float,
    chosen: Any,  # noqa: ANN401
) -> int:
    """Return the best cap on the chosen rows; the longest where nothing is right."""
    means = {cap: table[chosen(table)][["score", cost]].mean() for cap, table in tables.items()}
    least = means[max(means)].score - loss / 100
    fitting = [cap for cap in rungs if means[cap].score >= least] or [rungs[-1]]
    return max(fitting, key=lambda cap: means[cap].score ** 2 / means[cap][cost])


def _samples(table: pd.DataFrame, questions: set[str], cost: str) -> list[Sample]:
    rows = table[table.question.isin(questions)][["question", "score", cost]]
    return [Sample(*row) for row in rows.itertuples(index=False)]


def _order(question: str) -> bytes:
    return hashlib.sha256(question.encode()).digest()


def _planned(record: Record) -> int:
    return record.tokens - record.solving_tokens


def _cut(record: Record, cap: int) -> Record:
    """Return an answer as a cap of its solving call leaves it.

    Raises:
        InputError: If it has several solving calls.
    """
    usage = record.report["usage"]
    nodes = {name: part for name, part in usage["by_node"].items() if name not in PLANNING}
    if sum(part["calls"] for part in nodes.values()) != 1:
        msg = (
            f"question {record.question!r} was solved in several calls, so no cap can be read off: "
            "run it with plan_from=null and enforcement=cap, and a budget that few answers reach"
        )
        raise InputError(msg)
    if record.solving_tokens <= cap:
        return record
    ((name, part),) = nodes.items()
    ((model, _),) = part["by_model"].items()
    less = record.solving_tokens - cap
    by_node = usage["by_node"] | {name: _shorter(part, model, less)}
    account = {**record.report, "usage": {**_shorter(usage, model, less), "by_node": by_node}}
    return replace(record, score=0.0, report=cast("Report", account))


def _shorter(usage: Any, model: str, less: int) -> Any:  # noqa: ANN401 -- a usage, or a node's
    """Return a usage in which a model wrote fewer completion tokens."""
    names = ("output_tokens", "total_tokens")
    of_model = usage["by_model"][model]
    shorter = {**of_model, **{name: of_model[name] - less for name in names}}
    totals = {name: usage[name] - less for name in names}
    return {**usage, **totals, "by_model": {**usage["by_model"], model: shorter}}
