"""The figures that the paper printed, to show beside measured ones."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

_PAPERS_NAME = {
    "math500": "MATH-500",
    "natural_instructions": "NaturalInstructions",
    "travelplanner": "TravelPlanner",
}


@dataclass(frozen=True, slots=True)
class PublishedRow:
    """One cell group of the paper's result tables.

    Attributes:
        dataset: ``MATH-500``, ``NaturalInstructions`` or ``TravelPlanner``.
        planner: The model that decomposed and assessed the questions.
        method: One of the ten methods; the six schedules are those of Plan-and-Budget.
        model: The model that solved the questions.
        score: Mean score in percent: accuracy, ROUGE or hard constraint pass rate.
        score_std: Its standard deviation over five runs, in percent.
        tokens: Mean completion tokens per query. The paper's text says that planning is included;
            its released code does not count it, and its figures leave no room for it.
        tokens_std: Its standard deviation over five runs.
        e3: E³ as printed; `optim.e3.e3` gives the same number from `score` and `tokens`.
    """

    dataset: str
    planner: str
    method: str
    model: str
    score: float
    score_std: float
    tokens: float
    tokens_std: float
    e3: float


@cache
def published_rows() -> tuple[PublishedRow, ...]:
    """Give the 240 rows of the six result tables, in the paper's order."""
    text = files("optim.report").joinpath("published.json").read_text(encoding="utf-8")
    return tuple(PublishedRow(**row) for row in json.loads(text)["rows"])


def published_of(dataset: str) -> list[PublishedRow]:
    """Give the paper's rows on a data set; none where it has none."""
    return [row for row in published_rows() if row.dataset == _PAPERS_NAME.get(dataset)]
