"""Plan-and-Budget in five plain functions, as the paper has the algorithm (arXiv:2505.16122).

Nothing is capped, retried or counted here. `pb_graph/nodes/` has a file for each function, with all
of that. Run it with any model: python examples/algorithm.py openai:gpt-5-mini "How many …?"
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

Ask = Callable[[str], str]
"""Sends a prompt to a model, and returns its reply."""

BUDGETS = {1: 200, 2: 250, 3: 350, 4: 450, 5: 600}
"""Tokens of a question by its level."""


def plan(ask: Ask, question: str) -> list[str]:
    """Split a question into sub-questions, the last of which gives the answer."""
    form = 'Reply with JSON only: ["sub-question", …], two to five in the order of the work.'
    parts: list[str] = json.loads(ask(f"Split this question into parts.\n{question}\n{form}"))
    return parts


def estimate(ask: Ask, question: str, parts: list[str]) -> tuple[int, list[float]]:
    """Judge the level of a question, 1 to 5, and the share of the work of each sub-question."""
    listed = "\n".join(f"{number}. {part}" for number, part in enumerate(parts, 1))
    form = 'Reply with JSON only: {"level": 1 to 5, "credits": [of each part, 100 in all]}.'
    judged = json.loads(ask(f"How hard is this question?\n{question}\nParts:\n{listed}\n{form}"))
    return judged["level"], judged["credits"]


def allocate(level: int, credit: list[float], gamma: float = 0.9) -> list[int]:
    """Split the budget of a level by credits times a decay: b_j = B c_j d_j / sum(c d) (Eq. 7)."""
    weights = [share * gamma**place for place, share in enumerate(credit)]
    return [int(BUDGETS[level] * weight / sum(weights)) for weight in weights]


def solve(ask: Ask, question: str, parts: list[str], shares: list[int]) -> list[str]:
    """Solve one sub-question after another, each with its share and what was found so far."""
    found: list[str] = []
    for part, share in zip(parts, shares, strict=True):
        known = "\n".join(found)
        said = ask(f"{question}\n{known}\nNow only this, in at most {share} tokens: {part}")
        found.append(f"{part} {said}")
    return found


def synthesize(ask: Ask, question: str, found: list[str]) -> str:
    """Put the results together."""
    return ask("\n".join([*found, f"From this, answer in one sentence: {question}"]))


def answer(ask: Ask, question: str) -> str:
    """Answer a question by the five steps."""
    parts = plan(ask, question)
    level, credit = estimate(ask, question, parts)
    found = solve(ask, question, parts, allocate(level, credit))
    return synthesize(ask, question, found)


if __name__ == "__main__":
    from langchain.chat_models import init_chat_model

    model: Any = init_chat_model(sys.argv[1])
    print(answer(lambda prompt: str(model.invoke(prompt).text), sys.argv[2]))
