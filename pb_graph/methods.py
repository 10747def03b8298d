"""Ways to answer a question: the paper's five, and how to add one.

A method is a function under `method`, registered wherever its module is imported; settings, their
JSON schema, help texts and error messages list its name. The function is one of two kinds, told
apart by ``async``:

A prompt. It returns the messages to send; the ``answer`` node sends them once, within the budget if
there is one, and streams the reply::

    @method("tidy", "Asks for a tidy answer.", source="us")
    def tidy(given: MethodInput) -> list[PromptMessage]:
        return [("system", "Be tidy."), ("human", question_block(given.query, show_level=False))]

Several calls. A coroutine that asks the model through ``run`` and returns what the ``answer`` node
adds to the state: ``answer`` at least, and how it ended (``finish``)::

    @method("twice", "Asks, and asks again.", source="us", ceiling=lambda s, _: 2 * s.cutoff)
    async def twice(given: MethodInput, run: Run) -> State:
        draft = await run.ask(..., CallOptions(cap, purpose=Purpose("answer")))
        reply = await run.call_within_budget(..., given.budget, given.query, Purpose("answer"))
        return reply.update()

Every call through ``run`` is charged; ``run.warn`` adds a warning to the report. A `ModelCallError`
that a method lets pass ends in an empty answer and a warning. Before the answer, the graph does
what the method's fields say: ``plans`` decomposes the question, ``budgets`` sets a total,
``splits`` gives each sub-question a share.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pb_graph.method import METHODS, PAPER, Method, method
from pb_graph.prompts import PromptMessage, Style, single_call_prompt

if TYPE_CHECKING:
    from pb_graph.settings import Settings
    from pb_graph.types import Query, SubQuestion

__all__ = ["METHODS", "PAPER", "Method", "MethodInput", "method"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodInput:
    """The input of a method.

    Attributes:
        query: The question and what was given with it.
        settings: The settings of the run.
        style: How the solver is to write, for methods that go by ``Settings.style``.
        budget: Completion tokens to stay below; None without a budget.
        plan: Sub-questions; none for methods that do not plan, and for a plan of one step.
        shares: Tokens of each sub-question by its index; None where the budget is not split.
    """

    query: Query
    settings: Settings
    style: Style
    budget: int | None = None
    plan: Sequence[SubQuestion] = ()
    shares: Mapping[int, int] | None = None


# The lowest is registered first.
@method(
    "plan_and_budget",
    "Plans, splits the budget over the sub-questions, and solves each within its share.",
    source=PAPER,
    style="auto",
    plans=True,
    budgets=True,
    splits=True,
)
@method(
    "planned_global_budget",
    "Asks the question with a plan and says a total budget.",
    source=PAPER,
    style="prose",
    plans=True,
    budgets=True,
)
@method(
    "planned_vanilla", "Asks the question with a plan.", source=PAPER, style="prose", plans=True
)
@method(
    "global_budget",
    "Asks the question and says a total budget.",
    source=PAPER,
    style="prose",
    budgets=True,
)
@method("vanilla", "Asks the question, and no more.", source=PAPER, style="prose")
def ask_in_one_call(given: MethodInput) -> list[PromptMessage]:
    """Return the question with its plan and its budget, as far as the method has them.

    The total of a plan of one step is a cap, and only said where nothing enforces it: said, it
    makes short answers longer.
    """
    chosen, settings = METHODS[given.settings.method], given.settings
    says_total = chosen.budgets and not (chosen.splits and given.plan)
    if chosen.splits and settings.enforcement != "prompt":
        says_total = False
    return single_call_prompt(
        given.query,
        settings,
        given.style,
        given.plan,
        budget=given.budget if says_total else None,
        shares=given.shares if given.plan else None,
    )
