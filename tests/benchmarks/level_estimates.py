"""How well a model judges levels, and for how many tokens: alone, as L3, or as JSON with grades.

    python tests/benchmarks/level_estimates.py --model local:qwen2.5-coder-1.5b \
        --dataset math500 --data math500.jsonl --limit 60

Prints, for each way, Spearman's rank correlation with the data set's labels (with its 95 % interval
by bootstrap), the share of equal levels, and completion tokens; last the difference of the first
two correlations on the same questions. Good is a level alone whose correlation is not below the
JSON's, for fewer tokens.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from statistics import mean
from typing import Any

import numpy as np

from optim.datasets import Question, load
from pb_graph.errors import ModelCallError
from pb_graph.models.client import AsyncIO, ChatClient, WrapperClient
from pb_graph.models.reply import Reply
from pb_graph.models.resolve import resolve
from pb_graph.planner.engine import ask_planner
from pb_graph.planner.planner import load_planner
from pb_graph.planner.requests import (
    PlannerRequest,
    UnreadableReplyError,
    estimate_request,
    level_request,
)
from pb_graph.settings import Settings
from pb_graph.types import Query

RESAMPLES = 2000
MIDDLE = 3.0


@dataclass
class Way:
    """The estimates of one way; an unreadable one counts as the middle, as in the graph."""

    name: str
    levels: list[float] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    unread: int = 0


class Counter(WrapperClient):
    """Counts the completion tokens of its calls."""

    tokens = 0

    async def call(self, *given: Any) -> Reply:  # noqa: ANN401
        """Make one call."""
        reply = await self.wrapped.call(*given)
        self.tokens += reply.tokens
        return reply


async def estimates(questions: Sequence[Question], model: str, program: str | None) -> list[Way]:
    """Ask for every level both ways, one question after another."""
    settings = Settings()
    client, planner = Counter(ChatClient(resolve(model, settings))), load_planner(program)
    alone, full = Way("alone"), Way("JSON")
    for question in questions:
        query = Query(
            question=question.question,
            reference=question.reference,
            instruction=None,
            answer_format=None,
            domain=question.domain,
            level=None,
        )
        for way in (alone, full):
            brief = way is alone
            request: PlannerRequest[Any] = (
                level_request(query, settings) if brief else estimate_request(query, [], settings)
            )
            level, client.tokens = None, 0
            with suppress(UnreadableReplyError, ModelCallError):
                found = await ask_planner(
                    planner, client, request, settings, traced=False, io=AsyncIO()
                )
                level = found.level
            way.unread += level is None
            way.tokens.append(client.tokens)
            way.levels.append(MIDDLE if level is None else min(max(level, 1.0), 5.0))
    return [alone, full]


def spearman(levels: Sequence[float], labels: Sequence[float]) -> float:
    """Rank correlation, ties by their mean rank; 0 where one side does not vary."""
    pairs = np.array([levels, labels], dtype=float)
    if any(len(set(row)) < 2 for row in pairs):
        return 0.0
    ranks = [[np.mean(row < v) + np.mean(row <= v) for v in row] for row in pairs]
    return float(np.corrcoef(ranks)[0, 1])


def interval(values: Sequence[float]) -> str:
    """The middle 95 % of resampled values."""
    low, high = np.percentile(values, [2.5, 97.5])
    return f"({low:+.2f} to {high:+.2f})"


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="local:qwen2.5-coder-1.5b")
    parser.add_argument("--dataset", default="math500")
    parser.add_argument("--data")
    parser.add_argument("--limit", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--program", help="a planner program to use")
    given = parser.parse_args()
    loaded = load(given.dataset, path=given.data, limit=given.limit, seed=given.seed)
    questions = [question for question in loaded if question.level is not None]
    labels = np.array([question.level for question in questions], dtype=float)
    ways = asyncio.run(estimates(questions, given.model, given.program))
    rng = np.random.default_rng(0)
    picks = [rng.integers(len(labels), size=len(labels)) for _ in range(RESAMPLES)]
    print(f"{len(labels)} questions of {given.dataset}, {given.model}")
    drawn = {}
    for way in ways:
        levels = np.array(way.levels)
        drawn[way.name] = [spearman(levels[pick], labels[pick]) for pick in picks]
        print(
            f"{way.name:12} Spearman {spearman(levels, labels):+.2f} {interval(drawn[way.name])}, "
            f"equal {100 * np.mean(levels == labels):.0f} %, {mean(way.tokens):.1f} tokens, "
            f"{way.unread} unreadable"
        )
    gain = np.array(drawn["alone"]) - np.array(drawn["JSON"])
    print(f"alone - JSON: {interval(gain.tolist())}")


if __name__ == "__main__":
    main()
