"""How often a model's plans can be read, and what planning and estimating cost.

    python tests/benchmarks/planner_quality.py --model local:qwen2.5-coder-1.5b \
        --dataset math500 --data math500.jsonl --limit 40

Runs the whole graph, with so small a budget that solving costs next to nothing.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from statistics import mean

from optim.datasets import Question, load
from pb_graph import NoAnswerError, Report, Settings, build_graph
from pb_graph.budget import PerLevel
from pb_graph.types import WarningCode

SETTINGS = Settings(
    execution="single_pass", enforcement="cap", budget=PerLevel(initial=8, per_level=0)
)


async def plan_all(questions: Sequence[Question], model: str, concurrency: int) -> list[Report]:
    """Plan every question; levels are estimated, not taken from the data set."""
    graph, gate = build_graph(model, settings=SETTINGS), asyncio.Semaphore(concurrency)

    async def one(question: Question) -> Report:
        async with gate:
            try:
                out = await graph.ainvoke(
                    {"question": question.question, "domain": question.domain}
                )
            except NoAnswerError as error:
                return error.report
        return out["report"]

    return await asyncio.gather(*map(one, questions))


def tokens(reports: Sequence[Report], node: str) -> float:
    """Mean completion tokens of a node."""
    nodes = [report["usage"]["by_node"] for report in reports]
    return mean(by_node[node]["output_tokens"] if node in by_node else 0 for by_node in nodes)


def warned(reports: Sequence[Report], code: WarningCode) -> int:
    """How many reports have a warning of this kind."""
    return sum(any(code == note["code"] for note in report["warnings"]) for report in reports)


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="local:qwen2.5-coder-1.5b")
    parser.add_argument("--dataset", default="arithmetic")
    parser.add_argument("--data")
    parser.add_argument("--limit", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--concurrency", type=int, default=4)
    given = parser.parse_args()
    questions = load(given.dataset, path=given.data, limit=given.limit, seed=given.seed)
    reports = asyncio.run(plan_all(questions, given.model, given.concurrency))
    steps = mean(len(report["steps"]) for report in reports)
    plan, estimate = tokens(reports, "plan"), tokens(reports, "estimate")
    print(f"{len(reports)} questions, {steps:.1f} sub-questions each")
    print(f"plans without the fallback: {len(reports) - warned(reports, 'single_step')}")
    print(f"with a reply that could not be read: {warned(reports, 'unreadable_reply')}")
    print(f"completion tokens: {plan:.1f} plan + {estimate:.1f} estimate = {plan + estimate:.1f}")


if __name__ == "__main__":
    main()
