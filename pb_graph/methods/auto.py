"""Auto: the cheapest way first, and the plain question only where that settled nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pb_graph.answers import comparable, stated_answer
from pb_graph.budget.ledger import Purpose
from pb_graph.errors import ModelCallError
from pb_graph.methods.registry import OURS, Asked, method
from pb_graph.methods.worked_examples import examples_prompt
from pb_graph.prompts import whole_question

if TYPE_CHECKING:
    from pb_graph.runtime.node import NodeContext
    from pb_graph.settings import AutoPolicy
    from pb_graph.state import State


@method(
    "auto",
    "Tries a short answer first, and asks plainly where that did not finish or is not sure.",
    source=OURS,
    ceiling=lambda settings: settings.auto.most(settings.cutoff),
)
async def auto(asked: Asked, run: NodeContext) -> State:
    """Short tries after worked examples, then, if they settle nothing, the plain question.

    A try is accepted when it ended by itself and states an answer; where `AutoPolicy.tries` is 2,
    when two of them, with the examples in different orders, state the same. The plain question has
    a cap of its own, and its forced ending. Every try is charged.
    """
    policy = run.settings.auto
    warnings: list[str] = []
    if policy.starts_short(asked.query["level"]):
        answer = await _short(asked, run, policy, warnings)
        if answer is not None:
            return {"answer": answer, "warnings": warnings}
    reply = await run.call_within_budget(
        whole_question(asked.query, asked.settings),
        policy.plain,
        asked.query,
        Purpose("answer"),
    )
    return {"answer": reply.text, "warnings": [*warnings, *reply.notes("answer")]}


async def _short(
    asked: Asked, run: NodeContext, policy: AutoPolicy, warnings: list[str]
) -> str | None:
    """The answer that the short tries settle on; None where they settle nothing."""
    prompt = await examples_prompt(asked, run)
    turns, question = prompt[1:-1], prompt[-1]
    stated = set()
    for number in range(policy.tries):
        pairs = [turns[i : i + 2] for i in range(0, len(turns), 2)]
        shown = turns if number == 0 else [turn for pair in reversed(pairs) for turn in pair]
        try:
            reply = await run.calls.solver(
                [prompt[0], *shown, question],
                min(policy.short, run.settings.cutoff),
                Purpose("short"),
            )
        except ModelCallError as failure:
            warnings.append(f"short: {failure}")
            return None
        answer = stated_answer(reply.text)
        if reply.finish == "length" or answer is None:
            return None
        stated.add(comparable(answer))
        if len(stated) > 1:
            return None
    return reply.text
