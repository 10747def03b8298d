"""Read off an uncapped run what each cap would give: a longer answer is cut off, and wrong.

An answer of at most b tokens is the same under a cap of b at temperature 0, so one run tells the
accuracy and the price of every cap.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import pandas as pd

from optim.e3 import Comparison, Sample, compare
from optim.records import Record, solving_calls
from optim.reporting.tables import answers, figures
from pb_graph.budget.allocation import LEVELS, LevelTable
from pb_graph.errors import InputError

_QUANTILES = (0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0)  # of the lengths: the caps of the ladder
_STEP = 10  # tokens to which caps are rounded up
_FEWEST = 4  # answers: two halves of two


@dataclass(frozen=True, slots=True)
class Caps:
    """Tell what caps would give on the questions of one run.

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
        return {"budget": budget, "reserve": 0}


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
        InputError: If there are several methods or fewer than four answers, an answer was made of
            several solving calls, such as the steps of a plan, or was cut off below a given cap.
    """
    table = answers(records, prices=None).dropna(subset="score")
    if len(table[["dataset", "method", "model"]].drop_duplicates()) != 1 or len(table) < _FEWEST:
        msg = "caps are read off four answers or more of one method: choose one with --method"
        raise InputError(msg)
    for question, nodes in zip(table.question, table.by_node, strict=True):
        if solving_calls(nodes) != 1:
            msg = f"question {question!r} was solved in several calls, so no cap can be read off: "
            msg += "run it with plan_from=null, reserve=0 and a large budget"
            raise InputError(msg)
    lengths = table.solving_tokens[table.is_cut]
    if caps and max(caps) > lengths.min():
        msg = f"{len(lengths)} answers were cut off, at {lengths.min():,} tokens or more, so no "
        raise InputError(msg + "higher cap can be read off: run it with a higher cutoff")
    caps = caps or _usual_caps(table)
    longest = int(max(table.solving_tokens.max(), *caps))
    tables = {cap: _cut(table, cap, price_ratio) for cap in sorted({*caps, longest})}

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
        ladder=_ladder(table, {cap: tables[cap] for cap in caps}),
        chosen=best(table.score.notna()),
        by_level={int(level): best((table.level == level).fillna(value=False)) for level in levels},
        held_out=compare(*samples),
    )


def cut(record: Record, cap: int) -> Record:
    """Return a scored answer as a cap of its solving call leaves it.

    Args:
        record: An answer of one solving call under a cap that it does not reach.
        cap: The cap in tokens.
    """
    solving = record.solving_tokens
    if solving <= cap:
        return record
    usage = record.report["usage"]
    tokens = usage["output_tokens"] - solving + cap
    report: Any = {**record.report, "usage": {**usage, "output_tokens": tokens}, "cut_off": True}
    return replace(record, score=0.0, explanation=f"cut off at {cap} tokens", report=report)


def ladders(study: pd.DataFrame) -> pd.DataFrame:
    """Return the figures at each ``cap`` of a study's methods that ran without a budget."""
    found = []
    for _, table in study.dropna(subset="score").groupby("method", sort=False):
        is_capped = table.budget.notna().any()
        if len(table) < _FEWEST or is_capped or set(map(solving_calls, table.by_node)) != {1}:
            continue
        # Units of a completion token. Dollars of a completion token are not known here.
        is_known = table.money_unit.iloc[0] == "units"
        paid = (table.money - table.input_tokens).sum() if is_known else float("nan")
        cut = {cap: _cut(table, cap, paid / table.tokens.sum()) for cap in _usual_caps(table)}
        found.append(_ladder(table, cut))
    return pd.concat(found, ignore_index=True) if found else pd.DataFrame()


def _usual_caps(table: pd.DataFrame) -> list[int]:
    lengths = table.solving_tokens.quantile(_QUANTILES, interpolation="higher")
    return list(dict.fromkeys(int(-(-length // _STEP) * _STEP) for length in lengths))


def _ladder(table: pd.DataFrame, cut: Mapping[int, pd.DataFrame]) -> pd.DataFrame:
    ends = table.solving_tokens.mask(table.is_cut, float("inf"))
    rows = [
        figures(answered).assign(cap=cap, ended=100 * (ends <= cap).mean())
        for cap, answered in cut.items()
    ]
    return pd.concat(rows, ignore_index=True)


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
