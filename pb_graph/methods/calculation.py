"""Calculation: the model writes how it is computed, as assignments; the package works it out."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pb_graph.answers import is_in_form
from pb_graph.arithmetic import result_of
from pb_graph.budget.context import available_tokens
from pb_graph.errors import ModelCallError
from pb_graph.methods.numbered_steps import numbered_steps
from pb_graph.methods.registry import Asked, method
from pb_graph.prompts import Teaching, Turn, after_examples, final_line, forced
from pb_graph.types import Purpose

if TYPE_CHECKING:
    from fractions import Fraction

    from pb_graph.runtime.budgeted_call import NodeContext
    from pb_graph.settings import Settings
    from pb_graph.state import State
    from pb_graph.types import Query

WAY = """Write the solution as Python assignments, one line for each step, under a short \
comment that says what it is and why. Give each quantity a name in words, and compute it from \
numbers of the question and from names above; leave the arithmetic to Python. The last line \
assigns the result to `answer`."""

LONGEST = 300
"""Completion tokens of a calculation: the longest of 60 that were looked at has 175."""

_LEAST = 48  # below that, there is no room for one
_WANTS_NUMBER = re.compile(r"\b(?:number|integer|numeral|figure)s?\b", re.IGNORECASE)
# A form that a number alone does not fill, or a number that is not in digits.
_WANTS_MORE = re.compile(
    r"json|xml|yaml|(?<!\\boxed)\{|</|#|\b(?:roman|in words|(?:full|complete) sentence)\b",
    re.IGNORECASE,
)
_QUOTED = re.compile(r"[<\"`]")
_OURS = re.compile(r"final answer:|\\boxed", re.IGNORECASE)

_SHOWN = """\
Pears cost $3 for 4. Mia pays for 20 pears with a $20 note. What change does she get?
# pears come in bundles of 4
bundles = 20 / 4
# each bundle costs $3
cost = bundles * 3
# change is what is left of $20
answer = 20 - cost

A tank holds 240 litres and is one third full. Each hour 15 litres flow in and 5 are drawn off. \
After 4 hours, what share of the tank is full, in percent?
# a third of 240 litres at the start
start = 240 / 3
# each hour 15 in, 5 out
gain_per_hour = 15 - 5
# litres after 4 hours
after = start + 4 * gain_per_hour
# share of the whole tank in percent
answer = after / 240 * 100

Tom is 4 years older than Ann. In 5 years their ages will add up to 40. How old is Ann now?
# in 5 years both are 5 years older, so now the sum is 10 less
sum_now = 40 - 2 * 5
# Tom is 4 older: without these 4, it is twice Ann's age
answer = (sum_now - 4) / 2

Of the 90 seats in a hall, two fifths are taken by children and a third of the rest by teachers. \
All others are empty, but for 6 parents. How many seats are empty?
# two fifths of 90 seats are taken by children
children = 90 * 2 / 5
# seats without children
rest = 90 - children
# a third of these are teachers'
teachers = rest / 3
# neither teachers nor the 6 parents
answer = rest - teachers - 6

Eva reads twice as many pages on Sunday as on Saturday, and 10 fewer on Monday than on Sunday. On \
Monday she reads 50. How many pages is that in the three days?
# Monday's 50 are 10 fewer than Sunday's
sunday = 50 + 10
# Sunday is twice Saturday
saturday = sunday / 2
# all three days
answer = saturday + sunday + 50

A van carries 8 children. How many vans do the 3 classes of 25 children each need for a trip?
# children in all
children = 3 * 25
# a van that is not full is needed, too
answer = ceil(children / 8)

In a box of 45 buttons there is one white button; of the others three times as many are black as \
red. How many are black?
# all but the white one
others = 45 - 1
# 3 parts are black and 1 part is red
part = others / (3 + 1)
answer = 3 * part

Leo works 4 hours a day, 5 days a week, for $12 an hour, and a quarter of it goes in taxes. He \
wants a bike that costs $1,100 with 20% off. How much is still missing after 4 weeks?
# hours in 4 weeks
hours = 4 * 5 * 4
# three quarters of the pay is left after taxes
saved = hours * 12 * (1 - 1 / 4)
# price with 20% off
price = 1100 * (1 - 20 / 100)
answer = price - saved"""
EXAMPLES = [
    (question, lines) for question, _, lines in (e.partition("\n") for e in _SHOWN.split("\n\n"))
]


def wants_more_than_a_number(query: Query) -> bool:
    """Whether the answer is to stand in a form that a number alone does not fill."""
    form = query["answer_format"] or ""
    quotes_another = _QUOTED.search(form) and not _OURS.search(form)
    return bool(quotes_another or _WANTS_MORE.search(form))


def _most(settings: Settings, _: Query) -> int:
    """The calculation, and the question at length where that is not believed."""
    return min(LONGEST, settings.cutoff) + settings.cutoff


@method(
    "calculation",
    "Writes the calculation, which is worked out exactly; where it fails, asks as numbered_steps.",
    source="PAL, arXiv:2211.10435",
    tools=False,
    uses=("reserve",),
    ceiling=_most,
)
async def calculation(asked: Asked, run: NodeContext) -> State:
    """As program-aided language models, for arithmetic alone: nothing of what is written is run.

    The answer is the calculation and, below it, its result in the form that is asked for. What is
    no calculation, and a result that such a question hardly has (below zero, or in parts of a
    hundredth), is not believed; the question is then asked as `numbered_steps`. All is charged. A
    model that thinks whatever it is told has no room for it, and is asked for one no second time;
    nor is one whose answer has a type.
    """
    return await calculated(asked, run, asked.budget)


async def calculated(asked: Asked, run: NodeContext, budget: int | None) -> State:
    """Answer by `calculation` within a budget; the calculation may take half of it.

    Raises:
        ModelCallError: The calculation failed for good, or what was asked instead of it.
    """
    query, level = asked.query, asked.query["level"]
    room, paid = run.cap_of(budget), 0
    there = available_tokens(room)
    cap = min(LONGEST, room if budget is None and there == room else there // 2)
    fits = cap >= _LEAST and not run.options.answer_type
    if fits and not await run.calls.thinks_regardless():
        prompt = after_examples(query, Teaching(WAY, EXAMPLES), says_format=False)
        written = await run.calls.solver(
            prompt, cap, Purpose("calculation", level=level), thinking="off"
        )
        paid = written.tokens
        result = None if written.finish == "length" else result_of(written.text)
        if result is not None and _is_plausible(result):
            # Fenced: a remark would be a heading to whoever shows the answer as Markdown.
            fenced = written.text if "```" in written.text else f"```python\n{written.text}\n```"
            return await _stated(fenced, _in_digits(result), prompt, room - paid, query, run)
        if budget is not None and paid >= room:  # a server that takes no notice of caps
            note = f"answer: the server wrote {paid - room} tokens more than its budget"
            return {"answer": written.text, "finish": "length", "warnings": [note]}
    left = None if budget is None else room - paid
    reply = await run.call_within_budget(
        numbered_steps(asked), left, query, Purpose("answer", level=level)
    )
    return reply.update()


def _is_plausible(result: Fraction) -> bool:
    """Whether things and money are counted so; of another result, the working is worth a look."""
    return result >= 0 and (100 * result).denominator == 1


def _in_digits(result: Fraction) -> str:
    whole, hundredths = divmod(int(100 * result), 100)
    return f"{whole}.{hundredths:02}".rstrip("0").rstrip(".")


async def _stated(  # noqa: PLR0913, PLR0917 -- what was found, and what is left to say it
    calculation: str, result: str, prompt: list[Turn], left: int, query: Query, run: NodeContext
) -> State:
    """The answer; a result that is to look like anything but a number, the model puts into form.

    Of the two ways that it is stated then, the answer has the model's alone: whoever reads it looks
    for one.
    """
    answer = f"{calculation}\n\n{final_line(query, result)}"
    form = query["answer_format"]
    if not form or left < 1 or (_WANTS_NUMBER.search(form) and not wants_more_than_a_number(query)):
        return {"answer": answer, "finish": "stop"}
    cap, purpose = min(left, run.settings.reserve), Purpose("answer", level=query["level"])
    try:
        reply = await run.calls.solver(
            forced(prompt, answer, query, final=True), cap, purpose, thinking="off"
        )
    except ModelCallError as failure:  # what was paid for already is kept
        return {"answer": answer, "finish": "stop", "warnings": [f"answer: {failure}"]}
    complete = reply.finish != "length" and reply.text and is_in_form(reply.text, form)
    return {"answer": f"{calculation}\n\n{reply.text}" if complete else answer, "finish": "stop"}
