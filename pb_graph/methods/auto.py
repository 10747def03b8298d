"""Auto: the question as `by_kind` asks it, within a cap; by a policy, after short tries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, Field, NonNegativeFloat, PositiveInt

from pb_graph.answers import comparable, stated_answer
from pb_graph.budget.ledger import Purpose
from pb_graph.budget.rules import Level
from pb_graph.errors import ModelCallError
from pb_graph.methods.by_kind import answered_by_kind, kind_of
from pb_graph.methods.registry import METHODS, OURS, Asked, method
from pb_graph.methods.worked_examples import examples_prompt

if TYPE_CHECKING:
    from pb_graph.runtime.node import NodeContext
    from pb_graph.settings import Settings
    from pb_graph.state import Query, State

MATHEMATICS, OTHERS = 1000, 4000
"""Completion tokens at length. Of mathematics, no longer answer that was seen was right; other
questions may want a plan, a program or a story, which is no use cut off."""


class AutoPolicy(BaseModel):
    """What `method="auto"` tries, in which order; `pb-optim tune --tune auto` fits it to logs.

    The default is a fixed rule: the question as `by_kind` asks it, and no short try: on the
    questions that it was measured on, believing one cost more right answers than it saved.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    short: PositiveInt = Field(default=200, description="Completion tokens of a short try.")
    tries: Literal[0, 1, 2] = Field(
        default=0, description="Short tries; two must state the same answer to be believed."
    )
    confidence: float = Field(
        default=0.3,
        ge=0,
        lt=1,
        description="Least confidence at which a short try is believed: how probable its figures "
        "are together. Where the server tells no probabilities, there is no single short try; 0 to "
        "believe any.",
    )
    plain: PositiveInt | None = Field(
        default=None,
        description="Completion tokens of the question at length, its ending included; null for "
        f"{MATHEMATICS:,} for mathematics, and {OTHERS:,} for all else, which may be a long text.",
    )
    surprisal: NonNegativeFloat = Field(
        default=30.0,
        description="Nats: how improbable, as a whole, a reply to a question in formulas may "
        "become before it is over, and asked for its result. Where the run has no budget of its "
        "own, the temperature is 0, and the server tells probabilities and can be made to stop; "
        "0 for no limit.",
    )
    plain_from: Level | None = Field(
        default=None,
        description="Questions known to be of this level or above are asked at length at once.",
    )

    def starts_short(self, level: int | None) -> bool:
        """Whether a question of this level gets a short try; one of unknown level does."""
        hard = self.plain_from is not None and level is not None and level >= self.plain_from
        return self.tries > 0 and not hard

    def at_length(self, query: Query) -> int:
        """Completion tokens of a question at length."""
        if self.plain is not None:
            return self.plain
        return MATHEMATICS if kind_of(query) in ("formulas", "words") else OTHERS

    def believes(self, confidence: float | None) -> bool:
        """Whether a short try that the model wrote with this confidence is believed.

        Where none is told, it is if any is, or if another try has to agree.
        """
        if confidence is None:
            return self.confidence == 0 or self.tries > 1
        return confidence >= self.confidence


def _most(settings: Settings, query: Query) -> int:
    """Where budgets are only said, the question at length is bounded by the cutoff alone."""
    policy, cutoff = settings.auto, settings.cutoff
    length = min(policy.at_length(query), cutoff)
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
    if starts_short and (policy.believes(None) or await run.calls.tells_probabilities()):
        cap = policy.short if total is None else min(policy.short, total // (policy.tries + 1))
        answer, paid = await _short(asked, run, cap, warnings) if cap else (None, 0)
        if answer is not None:
            return {"answer": answer, "finish": "stop", "warnings": warnings}
    budget = policy.at_length(asked.query) if total is None else total - paid
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
                confidence=True,
            )
        except ModelCallError as failure:
            warnings.append(f"short: {failure}")
            return None, paid + run.gone(failure.lost)
        paid += run.gone((*reply.lost, reply.charge))
        text = reply.text
        answer = stated_answer(text)
        believed = policy.believes(reply.charge.get("confidence"))
        if reply.finish == "length" or answer is None or not believed:
            return None, paid
        stated.add(comparable(answer))
        if len(stated) > 1:
            return None, paid
    return text, paid
