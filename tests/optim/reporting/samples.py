"""Records as a run could have left them: eleven methods, thirty questions, seeded."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from optim.methods import NAMES
from optim.records import Record
from pb_graph.budget.bill import Bill
from pb_graph.types import Report, StepReport, Usage

_STEPS = ("Read what is given.", "Set up the equation.", "Solve it for the unknown.")


def records(  # noqa: PLR0913 -- each makes another kind of run
    methods: Sequence[str] = NAMES,
    *,
    questions: int = 30,
    epochs: int = 1,
    errors: bool = True,
    skill: float = 0.55,
    seed: int = 0,
    **fields: Any,  # noqa: ANN401 -- of every record
) -> list[Record]:
    """Answers that get worse and longer with the level; ``skill=0`` is never right."""
    return [
        record(method, question, epoch, errors=errors, skill=skill, seed=seed, **fields)
        for method in methods
        for question in range(questions)
        for epoch in range(1, epochs + 1)
    ]


def record(  # noqa: PLR0913
    method: str, question: int, epoch: int = 1, *,
    errors: bool = False, skill: float = 0.55, seed: int = 0, **fields: Any,  # noqa: ANN401
) -> Record:  # fmt: skip
    chance = random.Random(f"{seed} {method} {question} {epoch}")  # noqa: S311
    ease = random.Random(f"{seed} {question}").random()  # noqa: S311 -- the same for all methods
    level = question % 5 + 1
    luck = 0.7 * ease + 0.3 * chance.random()
    right = skill > 0 and luck < skill * (1.6 - 0.18 * level)
    failed = errors and chance.random() < 0.015
    account = report(method, level, chance)
    shown: dict[str, Any] = {
        "dataset": "math500",
        "method": method,
        "model": "local:qwen2.5-coder-1.5b",
        "planner": "local:qwen2.5-coder-1.5b",
        "question": f"test/algebra/{100 + question}.json",
        "epoch": epoch,
        "level": level,
        "score": None if failed else float(right),
        "error": "the server answered HTTP 500" if failed else None,
        "output": "" if failed else f"\\boxed{{{question}}}",
        "target": str(question if right else question + 1),
        "report": account,
        "question_text": f"What is the value of x if 2x = {2 * question} and y < 3 & z > 4?",
        "explanation": "",
    }
    return Record(**(shown | fields))


def answered(  # noqa: PLR0913
    place: int, tokens: int, score: float, *, calls: int = 1, level: int = 2, prompt: int = 50
) -> Record:
    """Return an answer of one solving call behind 2 tokens of planning."""
    base = record("default", place)
    solving = {"input_tokens": prompt, "output_tokens": tokens, "total_tokens": prompt + tokens}
    planning = {"input_tokens": 100, "output_tokens": 2, "total_tokens": 102}
    rest: dict[str, Any] = {"calls": calls, "seconds": 1.0, "measured": True}
    whole = {"input_tokens": prompt + 100, "output_tokens": tokens + 2}
    whole["total_tokens"] = sum(whole.values())
    usage = {
        **whole,
        **rest,
        "by_model": {"m": whole},
        "by_node": {
            "plan": {**planning, **rest, "calls": 1, "by_model": {"m": planning}},
            "answer": {**solving, **rest, "by_model": {"m": solving}},
        },
    }
    report: Any = {**base.report, "usage": usage}
    return replace(base, score=score, error=None, report=report, level=level)


def travelled(question: int) -> Record:
    """A plan for a journey: the first passes everything, the last could not be read."""
    delivered, good = question < 3, question == 0
    checks = {"delivered": delivered, "commonsense": {"sandbox": delivered and question < 2,
              "route": good or question == 2}, "hard": {"budget": good}}  # fmt: skip
    return record("vanilla", question, dataset="travelplanner", score=float(good), error=None,
                  score_metadata=checks)  # fmt: skip


def report(method: str, level: int, chance: random.Random) -> Report:
    baseline = method in NAMES[:4]
    stepwise, planned = method == "stepwise", method.startswith("planned") or not baseline
    budget = None if method.endswith("vanilla") else 100 + 100 * level
    steps = _steps(budget if not baseline else None, chance, stepwise=stepwise) if planned else []
    solved = sum(step["tokens"] or 0 for step in steps)
    whole = round(chance.lognormvariate(0, 0.45) * (180 + 90 * level) * (0.7 if budget else 1.0))
    nodes = {"plan": chance.randint(70, 130)} if planned else {}
    nodes |= {"estimate": chance.randint(20, 40)} if budget and not baseline else {}
    nodes |= {"solve": solved, "synthesize": 18} if stepwise else {"answer": whole}
    by_node = {node: _usage(tokens, 1) for node, tokens in nodes.items()}
    return Report(
        method=method if baseline else "plan_and_budget",
        execution=None if baseline else "stepwise" if stepwise else "single_pass",
        schedule=None if baseline else "cosine" if stepwise else method,
        level=level,
        budget=budget,
        limit=1500,
        answer="",
        steps=steps,
        usage={**_usage(sum(nodes.values()), len(nodes)), "by_node": by_node},
        warnings=[],
    )


def _steps(budget: int | None, chance: random.Random, *, stepwise: bool) -> list[StepReport]:
    shares = [None if budget is None else budget // part for part in (2, 3, 6)]
    return [
        StepReport(
            index=index,
            question=question,
            hint="One thing after the other.",
            depends_on=[index - 1] if index else [],
            level=3 if budget else None,
            credit=100 / 3 if budget else None,
            budget=share,
            cap=share,
            tokens=round(share * chance.uniform(0.3, 0.98)) if stepwise and share else None,
            finish="stop" if stepwise else None,
            answer="x = 4" if stepwise else None,
        )
        for index, (question, share) in enumerate(zip(_STEPS, shares, strict=True))
    ]


def _usage(tokens: int, calls: int) -> Usage:
    return Usage(
        **Bill(input=200 * calls, output=tokens).usage(),
        by_model={},
        calls=calls,
        seconds=tokens / 25,
        measured=True,
    )
