"""The solver's prompts. What comes from outside is set apart as data; budgets are ours to say.

A prompt is plain data here, turns of a role and a text: whoever only wants to know what is said
loads no LangChain.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

if TYPE_CHECKING:
    from pb_graph.settings import Settings
    from pb_graph.types import Query, StepResult, SubQuestion

Turn = tuple[Literal["system", "human", "ai"], str | list[str | dict[str, Any]]]
"""Who speaks, and what: a message as LangChain's models take it, too. Blocks hold what is no text,
such as an image.
"""

T = TypeVar("T")

WORDS_PER_TOKEN = 0.75
"""English text runs at about four tokens for three words."""

DEFAULT_INSTRUCTION = "Answer the question correctly and without detours."
_LAST_LINE = 'one line that starts with "Final answer:" and holds nothing else.'
DEFAULT_FORMAT = f"End with {_LAST_LINE}"
WITH_WORKING = f"Write the working, then end with {_LAST_LINE}"
"""Asked to end with such a line only, a small model writes that line and nothing before it."""

STEP_BY_STEP = "Reason step by step."
FORCE_STEP = "Stop here. State the result of this sub-question in one short line."
FORCE_FINAL = "Stop here. From what has been found so far, write only the final answer."

_OUR_TAGS = re.compile(r"<(?=\s*/?\s*(?:question|reference|conversation|turn)\b)", re.IGNORECASE)


def amount(tokens: int, settings: Settings) -> str:
    """A budget as the solver is told it; the paper calls its token shares words."""
    if settings.prompt_unit == "tokens":
        return f"{tokens} tokens"
    as_they_are = settings.prompt_unit == "words_as_tokens"
    words = tokens if as_they_are else round(tokens * WORDS_PER_TOKEN)
    return f"{max(1, words)} words"


def whole_question(  # noqa: PLR0913 -- one argument for each thing the prompt says
    query: Query,
    settings: Settings,
    plan: Sequence[SubQuestion] = (),
    *,
    budget: int | None = None,
    shares: Mapping[int, int] | None = None,
    way: str = STEP_BY_STEP,
    last: str = "",
) -> list[Turn]:
    """Ask the whole question in one call: all single-call methods of the paper.

    Args:
        query: The question and what was given with it.
        settings: Of the run.
        plan: Sub-questions to lead the way; none for the direct methods.
        budget: Total to stay below, for the global-budget methods.
        shares: Tokens of each sub-question by index, for plan-and-budget in a single pass.
        way: How to go about it; none where no working is wanted.
        last: What is said after the answer's format.
    """
    parts = [problem(query, show_level=bool(plan))]
    if plan:
        lead = "These sub-questions outline one way to solve it; take a better way if you see one:"
        parts.append("\n".join([lead, *(_outline(step, shares, settings) for step in plan)]))
    parts.append(way)
    if budget is not None:
        parts.append(f"Use less than {amount(budget, settings)} in all.")
    parts.append(f"{answer_format(query, WITH_WORKING if way else DEFAULT_FORMAT)} {last}".rstrip())
    return [system(query), _human("\n\n".join(filter(None, parts)), query)]


Example = tuple[str, str, str]
"""A worked example: the question, the working, and the answer alone."""

Exchange = tuple[str, str]
"""A question, and all of the reply to it."""

SHORT_LINES = """Work in short lines: one for each step that the answer needs, an equation where \
one can say it, with every intermediate result. Do not restate the question, explain, or check."""
"""The solver's instruction where it is shown worked examples; tuning may replace it."""


class Teaching(NamedTuple):
    """What a planner program tells the solver."""

    instruction: str
    examples: Sequence[Exchange] = ()


def exchanges(query: Query, examples: Sequence[Example]) -> list[Exchange]:
    """Worked examples as replies that end as the query's answer is to end."""
    return [
        (question, f"{working}\n{final_line(query, answer)}")
        for question, working, answer in examples
    ]


def after_examples(query: Query, teaching: Teaching, *, says_format: bool = True) -> list[Turn]:
    """Ask the whole question in one call, after examples that look exactly as the question does.

    What all of them have in common is said once, in the system message: every example that repeated
    it would cost input tokens at each question; and where only the question asks for the answer
    alone, a small model gives that and leaves the working out.

    Args:
        query: The question and what was given with it.
        teaching: How to work, said after the caller's own instruction if there is one; and
            exchanges to imitate.
        says_format: Whether to say how the answer has to look; not where what is asked for is none.
    """
    form = answer_format(query) if says_format else None
    said = [query["instruction"], teaching.instruction, form]
    turns: list[Turn] = [("system", "\n".join(filter(None, said)))]
    for question, reply in teaching.examples:
        asked: Query = {**query, "question": question, "reference": None, "conversation": None}
        turns += [("human", problem(asked, show_level=False)), ("ai", reply)]
    return [*turns, _human(problem(query, show_level=False), query)]


def one_step(  # noqa: PLR0913 -- one argument for each thing the prompt says
    query: Query,
    settings: Settings,
    plan: Sequence[SubQuestion],
    index: int,
    earlier: Sequence[StepResult],
    *,
    budget: int,
    closing: bool,
) -> list[Turn]:
    """Ask one sub-question, after those it builds on and their answers.

    The messages of a step begin with those of the steps before it, so that a provider's prefix
    cache pays for the question and the plan only once.

    Args:
        query: The question and what was given with it.
        settings: Of the run.
        plan: All sub-questions.
        index: The one to solve.
        earlier: Results of the sub-questions it builds on, in order of their index.
        budget: Its share, in tokens.
        closing: Whether it also has to give the final answer.
    """
    lines = [_outline(step, None, settings) for step in plan]
    lead = (
        "The plan, one way to solve it. Where a sub-question rests on a mistake, leave it and "
        "find what the question needs instead:"
    )
    opening = "\n".join([problem(query, show_level=True), "", lead, *lines])
    asks = [
        *(_ask(plan[done["index"]], amount(done["budget"], settings)) for done in earlier),
        _ask(plan[index], amount(budget, settings)),
    ]
    asks[0] = f"{opening}\n\n{asks[0]}"
    if closing:
        asks[-1] += "\n\nThis is the last one, so end with the answer to the whole question. "
        asks[-1] += answer_format(query, WITH_WORKING)
    messages: list[Turn] = [system(query)]
    said = [_human(asks[0], query), *(("human", ask) for ask in asks[1:])]
    for ask, done in zip(said, earlier, strict=False):
        messages += [ask, ("ai", done["answer"] or "(no result)")]
    return [*messages, said[-1]]


def put_together(
    query: Query,
    settings: Settings,
    plan: Sequence[SubQuestion],
    results: Sequence[StepResult],
    *,
    budget: int,
) -> list[Turn]:
    """Ask for the final answer, given what the steps found."""
    found = "\n".join(
        f"{done['index'] + 1}. {plan[done['index']]['question']}\n   Found: {done['answer']}"
        for done in results
    )
    text = "\n\n".join(
        [
            problem(query, show_level=False),
            f"Its sub-questions have been worked on:\n{found}",
            f"From these, answer the question in at most {amount(budget, settings)}.",
            answer_format(query),
        ]
    )
    return [system(query), _human(text, query)]


def forced(messages: Sequence[T], partial: str, query: Query, *, final: bool) -> list[T | Turn]:
    """Interrupt a call that ran into its cap, and ask for its result only.

    Asked for the answer alone, small models leave its box out: that is shown.
    """
    demand = f"{FORCE_FINAL} {answer_format(query)}" if final else FORCE_STEP
    if final and r"\boxed" in answer_format(query):
        demand += rf" Reply with {final_line(query, '...')} and nothing else."
    return [*messages, ("ai", partial or "(still thinking)"), ("human", demand)]


def system(query: Query) -> Turn:
    """The part of the prompt that all calls of a query share."""
    return ("system", query["instruction"] or DEFAULT_INSTRUCTION)


def problem(query: Query, *, show_level: bool) -> str:
    """The question, and what was given with it, marked off as data."""
    before = query.get("conversation")
    lines = [f"{before}\n\nThe question to answer now:"] if before else []
    lines.append(f"<question>\n{as_data(query['question'])}\n</question>")
    if query["reference"]:
        lines.append(f"<reference>\n{as_data(query['reference'])}\n</reference>")
    if show_level and query["level"] is not None:
        lines.append(f"Difficulty: level {query['level']} of 5.")
    return "\n".join(lines)


def text_of(content: str | Sequence[str | Mapping[str, Any]]) -> str:
    """The text of a message, each part of it on lines of its own: one is not the other's end."""
    if isinstance(content, str):
        return content
    blocks = ({"type": "text", "text": part} if isinstance(part, str) else part for part in content)
    said = (block.get("text") for block in blocks if block.get("type") == "text")
    return "\n".join(text for text in said if text)


def as_data(text: str) -> str:
    """Text that cannot close, or pretend to open, the tags it stands between."""
    return _OUR_TAGS.sub("&lt;", text)


def _human(text: str, query: Query) -> Turn:
    """The turn that asks the question, with the images and files that belong to it."""
    media = query.get("media")
    return ("human", [{"type": "text", "text": text}, *media] if media else text)


def answer_format(query: Query, default: str = DEFAULT_FORMAT) -> str:
    """How the final answer has to look: in the caller's words if any; always said last."""
    return query["answer_format"] or default


def final_line(query: Query, answer: str) -> str:
    r"""An answer as the format wants it: in a box where that speaks of one, else on its line."""
    boxed = r"\boxed" in answer_format(query)
    return rf"\boxed{{{answer}}}" if boxed else f"Final answer: {answer}"


def _outline(step: SubQuestion, shares: Mapping[int, int] | None, settings: Settings) -> str:
    hint = f" (hint: {step['hint']})" if step["hint"] else ""
    line = f"{step['index'] + 1}. {step['question']}{hint}"
    if shares is None:
        return line
    share = amount(shares[step["index"]], settings)
    return f"{line} Think briefly and solve it in at most {share}."


def _ask(step: SubQuestion, share: str) -> str:
    return (
        f"Solve sub-question {step['index'] + 1} now, and only that: {step['question']} "
        f"Think briefly and use at most {share}."
    )
