"""Auto: the question as `by_kind` asks it, within a cap; by a policy, after short tries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pb_graph.answers import comparable, stated_answer
from pb_graph.errors import ModelCallError
from pb_graph.methods.by_kind import answered_by_kind, kind_of
from pb_graph.methods.registry import METHODS, OURS, Asked, method
from pb_graph.methods.worked_examples import examples_prompt
from pb_graph.settings import MATHEMATICS, OTHERS, AutoPolicy
from pb_graph.types import Purpose

if TYPE_CHECKING:
    from pb_graph.runtime.budgeted_call import NodeContext
    from pb_graph.settings import Settings
    from pb_graph.state import State
    from pb_graph.types import Query


def at_length(policy: AutoPolicy, query: Query) -> int:
    """Completion tokens of a question at length."""
    if policy.plain is not None:
        return policy.plain
    return MATHEMATICS if kind_of(query) in ("formulas", "words") else OTHERS


def _most(settings: Settings, query: Query) -> int:
    """Where budgets are only said, the question at length is bounded by the cutoff alone."""
    policy, cutoff = settings.auto, settings.cutoff
    length = min(at_length(policy, query), cutoff)
    if settings.enforcement == "prompt":
        length = METHODS["by_kind"].most(settings, query)
    return policy.tries * min(policy.short, cutoff) + length


@method(
    "auto",
    "Asks by_kind within a cap; by a policy fitted to logs, after a short try if that pays.",
    source=OURS,
    budgets="given",
    uses=("auto", "enforcement", "reserve"),
    ceiling=_most,
)
async def auto(asked: Asked, run: NodeContext) -> State:
    """Short tries if the policy has any; then, unless they settle it, the question as `by_kind`.

    A try is accepted when it ended by itself, states an answer, and the model was confident: one
    that writes fluently what is wrong does so with less probable figures. Where the server tells no
    probabilities, nothing tells the two apart and there is no single try, unless any is believed.
    Where `AutoPolicy.tries` is 2, two tries, with the examples in different orders, have to state
    the same. Where the solver has tools, or the answer has a type, there is none, and the question
    is asked plainly: examples show neither. The last call has a cap of its own, and its forced
    ending, and may have to end earlier (`AutoPolicy.surprisal`); with a budget, it has what the
    tries left of that. Every try is charged.
    """
    policy, total = run.settings.auto, asked.budget
    warnings: list[str] = []
    paid = 0
    shown = not (run.options.tools or run.options.answer_type)
    starts_short = shown and policy.starts_short(asked.query["level"])
    if starts_short and policy.believes(None):
        cap = policy.short if total is None else min(policy.short, total // (policy.tries + 1))
        answer, paid = await _short(asked, run, cap, warnings) if cap else (None, 0)
        if answer is not None:
            return {"answer": answer, "finish": "stop", "warnings": warnings}
    budget = at_length(policy, asked.query) if total is None else total - paid
    most = policy.surprisal if total is None else 0.0  # whoever names a budget means to spend it
    update = await answered_by_kind(asked, run, budget, surprisal=most)
    return update | {"warnings": [*warnings, *update.get("warnings", [])]}


async def _short(
    asked: Asked, run: NodeContext, cap: int, warnings: list[str]
) -> tuple[str | None, int]:
    """The answer that the short tries settle on, None if on none; and what they may have cost."""
    prompt = await examples_prompt(asked, run)
    turns, question = prompt[1:-1], prompt[-1]
    stated, paid, text = set(), 0, ""
    policy = run.settings.auto
    for number in range(policy.tries):
        pairs = [turns[i : i + 2] for i in range(0, len(turns), 2)]
        shown = turns if number == 0 else [turn for pair in reversed(pairs) for turn in pair]
        try:
            reply = await run.calls.solver(
                [prompt[0], *shown, question],
                min(cap, run.settings.cutoff),
                Purpose("short", level=asked.query["level"]),
            )
        except ModelCallError as failure:
            warnings.append(f"short: {failure}")
            return None, paid + run.gone(failure.lost)
        paid += run.gone((*reply.lost, reply.charge))
        text = reply.text
        answer = stated_answer(text)
        believed = policy.believes(None)
        if reply.finish == "length" or answer is None or not believed:
            return None, paid
        stated.add(comparable(answer))
        if len(stated) > 1:
            return None, paid
    return text, paid
