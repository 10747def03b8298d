"""By kind: each question is asked as does best for questions that are written as it is."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

from pb_graph.methods.calculation import calculated, wants_more_than_a_number
from pb_graph.methods.direct import direct
from pb_graph.methods.numbered_steps import numbered_steps
from pb_graph.methods.registry import METHODS, OURS, Asked, method
from pb_graph.prompts import whole_question
from pb_graph.types import Purpose

if TYPE_CHECKING:
    from pb_graph.runtime.budgeted_call import NodeContext
    from pb_graph.settings import Settings
    from pb_graph.state import State
    from pb_graph.types import Query

# As pandoc has it, what stands between dollar signs that are no prices or variables of a shell:
# nothing blank inside of them, and no letter or digit after the second. Else what LaTeX alone
# writes, a command with braces; or a power in digits. Linear, as a question may be long.
_FORMULA = re.compile(
    r"\$(?=\S)[^$]*(?<=\S)\$(?!\w)|\\[a-zA-Z]{1,30}\{|[\w)]\^\{?-?\d",
)
_BRACKETS = ((r"\(", r"\)"), (r"\[", r"\]"))
_NUMBER = re.compile(
    r"\d+(?:[.,/]\d+)*|\b(?:two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|twenty|"
    r"thirty|forty|fifty|hundred|thousand|dozen|half|third|quarter|once|twice|double|triple)\b",
    re.IGNORECASE,
)
_HOW_MANY = re.compile(r"\bhow (?:many|much|long|far|old|often|fast|tall|high)\b", re.IGNORECASE)
_QUESTION = re.compile(r"[^.?!]*\?")
_ASKS = re.compile(r"\?|\b(?:calculate|compute|determine|evaluate|find|solve)\b", re.IGNORECASE)
_ENDING = 300  # characters: before it comes to the question, a long text speaks of much else
_FIELDS = frozenset({"mathematics", "math", "maths", "arithmetic"})


def kind_of(query: Query) -> Literal["formulas", "words", "task"] | None:
    """How a question is written.

    Returns:
        ``formulas`` if it has any. ``words`` for other questions of mathematics; one of another
        field is taken for a word problem if it names two numbers and ends in asking how many.
        ``task`` if a format says what its answer is, and nothing asks how many, or for something
        that may have to be computed of two numbers. None for the rest.
    """
    question = query["question"]
    if _FORMULA.search(question) or any(a in question and b in question for a, b in _BRACKETS):
        return "formulas"
    ending, numbers = question[-_ENDING:], len(_NUMBER.findall(question)) > 1
    if query["domain"].strip().casefold() in _FIELDS or (numbers and _HOW_MANY.search(ending)):
        return "words"
    computed = _HOW_MANY.search(ending) or (numbers and _ASKS.search(ending))
    return "task" if query["answer_format"] and not computed else None


def _asks_for_several(question: str) -> bool:
    """Whether it has two results or more, of which a calculation would give one."""
    questions = _QUESTION.findall(question[-_ENDING:])
    return len(questions) > 1 or any(len(_HOW_MANY.findall(one)) > 1 for one in questions)


def _most(settings: Settings, query: Query) -> int:
    """One call, or for words the two of `calculation`."""
    return METHODS["calculation" if kind_of(query) == "words" else "vanilla"].most(settings, query)


@method(
    "by_kind",
    "Asks as calculation, numbered_steps, direct or vanilla, by how the question is written.",
    source=OURS,
    uses=("reserve",),
    ceiling=_most,
)
async def by_kind(asked: Asked, run: NodeContext) -> State:
    """Words as `calculation`, formulas as `numbered_steps`, tasks as `direct`, the rest plainly.

    Words that ask for several results are asked as formulas are: a calculation has one. What
    shortens one kind costs right answers in another: an answer without working wherever something
    is to be worked out; the wish to be concise alone saves nearly nothing anywhere, and costs some
    (docs/measured.md). Where the solver has tools, or the answer has a
    type, all is asked plainly; and so are words whose answer is JSON, or in another such form.
    """
    return await answered_by_kind(asked, run, asked.budget)


async def answered_by_kind(
    asked: Asked, run: NodeContext, budget: int | None, *, surprisal: float = 0.0
) -> State:
    """Answer as `by_kind` within a budget.

    Args:
        asked: The question.
        run: The models, and the settings.
        budget: Completion tokens; None for those of the settings.
        surprisal: Nats beyond which a reply to a question in formulas is over; 0 for no limit.

    Raises:
        ModelCallError: A call failed for good.
    """
    fixed = run.options.tools or run.options.answer_type
    kind = None if fixed else kind_of(asked.query)
    if kind == "words" and wants_more_than_a_number(asked.query):
        kind = None
    if kind == "words" and not _asks_for_several(asked.query["question"]):
        return await calculated(asked, run, budget)
    if kind is None:  # as `vanilla` does, also where there is a budget: it is not spoken of
        prompt = whole_question(asked.query, asked.settings)
    else:
        prompt = direct(asked) if kind == "task" else numbered_steps(asked)
    purpose = Purpose("answer", level=asked.query["level"])
    most = surprisal if kind == "formulas" else 0.0
    reply = await run.call_within_budget(prompt, budget, asked.query, purpose, surprisal=most)
    return reply.update()
