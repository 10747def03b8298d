"""Read off an uncapped run what each cap would give: a longer answer is cut off, and wrong.

An answer of at most b tokens is the same under a cap of b at temperature 0, so one run tells the
accuracy and the price of every cap.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import pandas as pd

from optim.e3 import Comparison, Sample, compare
from optim.records import PLANNING
from optim.reporting.tables import answers, figures
from pb_graph.budget.rules import LEVELS, LevelTable
from pb_graph.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from optim.records import Record

_QUANTILES = (0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0)  # of the lengths: the caps of the ladder
_STEP = 10  # tokens to which caps are rounded up
_FEWEST = 4  # answers: two halves of two


@dataclass(frozen=True, slots=True)
class Caps:
    """What caps would give on the questions of one run.

    Attributes:
        ladder: The figures of each ``cap``, see `optim.reporting.figures`. ``ended``: the
            percentage of the answers that end by themselves below the cap.
        chosen: The cap with the highest E³ among those that lose at most ``loss`` points.
        by_level: The same for the questions of each level.
        held_out: The choice against the uncapped answers; made on each half of the questions for
            the other half.
    """

    ladder: pd.DataFrame
    chosen: int
    by_level: Mapping[int, int]
    held_out: Comparison

    def settings(self, *, by_level: bool = False) -> dict[str, Any]:
        """Return settings that cut answers off at the chosen cap, or at those of each level."""
        tokens = {level: self.by_level.get(level, self.chosen) for level in LEVELS}
        budget = LevelTable(tokens=tokens).model_dump(mode="json") if by_level else self.chosen
        return {"budget": budget, "enforcement": "cap"}


def read_caps(
    records: Iterable[Record],
    *,
    caps: Sequence[int] | None = None,
    objective: Literal["e3", "money"] = "e3",
    loss: float = 3.0,
    price_ratio: float = 4.0,
) -> Caps:
    """Return what caps would give, and the best of them.

    Args:
        records: Answers of one method on one data set, of one solving call each, under a cap that
            few of them reach.
        caps: Caps in tokens. None for those that 30 to 100 % of the answers stay below.
        objective: ``e3`` chooses by accuracy² / tokens, ``money`` by accuracy² / money.
        loss: Points of accuracy that the choice may lose against the uncapped answers.
        price_ratio: Price of a completion token in prompt tokens, the unit of money.

    Raises:
        InputError: If there are several methods or fewer than four answers, or an answer was made
            of several solving calls, such as the steps of a plan.
    """
    table = answers(records, prices=None).dropna(subset="score")
    if len(table[["dataset", "method", "model"]].drop_duplicates()) != 1 or len(table) < _FEWEST:
        msg = "caps are read off four answers or more of one method: choose one with --method"
        raise InputError(msg)
    for question, nodes in zip(table.question, table.by_node, strict=True):
        if sum(part["calls"] for name, part in nodes.items() if name not in PLANNING) != 1:
            msg = f"question {question!r} was solved in several calls, so no cap can be read off: "
            msg += "run it with plan_from=null, enforcement=cap and a large budget"
            raise InputError(msg)
    lengths = table.solving_tokens
    if not caps:
        known = lengths.quantile(_QUANTILES, interpolation="higher")
        caps = [int(-(-length // _STEP) * _STEP) for length in known]
    longest = int(max(lengths.max(), *caps))
    tables = {cap: _cut(table, cap, price_ratio) for cap in sorted({*caps, longest})}
    ladder = [
        figures(tables[cap]).assign(cap=cap, ended=100 * (lengths <= cap).mean()) for cap in caps
    ]

    def best(rows: pd.Series[bool]) -> int:
        """Return the best cap on these answers."""
        means = {cap: tables[cap][rows][["score", cost]].mean() for cap in sorted(set(caps))}
        least = tables[longest][rows].score.mean() - loss / 100
        fitting = [cap for cap, mean in means.items() if mean.score >= least] or [max(caps)]
        return max(fitting, key=lambda cap: means[cap].score ** 2 / means[cap][cost])

    cost = "money" if objective == "money" else "tokens"
    order = {text: hashlib.sha256(text.encode()).digest() for text in table.question}
    half = table.question.isin(sorted(order, key=order.__getitem__)[::2])
    parts = [tables[best(~half)][half], tables[best(half)][~half]]
    pair = [pd.concat(parts), tables[longest]]
    columns = ["question", "score", cost]
    samples = [[Sample(*row) for row in t[columns].itertuples(index=False)] for t in pair]
    levels = sorted(table.level.dropna().unique())
    return Caps(
        ladder=pd.concat(ladder, ignore_index=True),
        chosen=best(table.score.notna()),
        by_level={int(level): best((table.level == level).fillna(value=False)) for level in levels},
        held_out=compare(*samples),
    )


def _cut(table: pd.DataFrame, cap: int, price_ratio: float) -> pd.DataFrame:
    """Return the answers as a cap of the solving call leaves them."""
    solving = table.solving_tokens.clip(upper=cap)
    tokens = table.tokens - table.solving_tokens + solving
    return table.assign(
        score=table.score.where(table.solving_tokens <= cap, 0.0),
        tokens=tokens,
        solving_tokens=solving,
        money=table.input_tokens + price_ratio * tokens,
    )
