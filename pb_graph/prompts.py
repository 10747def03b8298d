"""The solver's prompts: what is said, in which style, and what comes from outside as data."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from pb_graph.methods import METHODS
from pb_graph.settings import Settings
from pb_graph.styles import BY_PLAN, CALCULATION_BY_PLAN, COMPOSED, STYLES, Style, final_line
from pb_graph.tasks import RESULT, is_composed
from pb_graph.types import Query, StepResult, SubQuestion

if TYPE_CHECKING:
    from pb_graph.state import SolveTask

PromptMessage = tuple[Literal["system", "human", "ai"], str | list[str | dict[str, Any]]]
"""A role and a text, or a list with images and files: plain data, which loads no LangChain."""
T = TypeVar("T")
_BARE = {name: replace(style, examples=()) for name, style in STYLES.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodInput:
    """The input of a method: the question, the settings of the run, and what shapes the prompt."""

    query: Query
    settings: Settings
    style: Style
    """The way to write, for methods that go by ``Settings.style``."""
    budget: int | None = None
    """Completion tokens to stay below; None without a budget."""
    plan: Sequence[SubQuestion] = ()
    """Sub-questions; none for methods that do not plan, and for a plan of one step."""
    shares: Mapping[int, int] | None = None
    """Tokens of each sub-question by its index; None where the budget is not split."""


DEFAULT_INSTRUCTION = "Answer the question correctly and without detours."
LAST_LINE = 'one line that starts with "Final answer:" and holds nothing else.'
DEFAULT_FORMAT = f"End with {LAST_LINE}"
WITH_WORKING = f"Write the working, then end with {LAST_LINE}"
"""Asked to end with such a line only, a small model writes that line and nothing before it."""

FORCE_STEP = "Stop here. State the result of this sub-question in one short line."
FORCE_FINAL = "Stop here. From what has been found so far, write only the final answer."

_STEPS = """The plan, one way to solve it. Where a sub-question rests on a mistake, leave it and \
find what the question needs instead:"""
_SOLVE = "Solve sub-question {} now, and only that: {} Think briefly and use at most {}."
_PARTS = "The answer is made of these parts, one behind the other:"
_WRITE = "Write part {} now, and only that: {} Use at most {}."
_FORM_OF_PARTS = "The whole answer is asked for in this form, so write each part in it:"
_OUTLINE = "These sub-questions outline one way to solve it; take a better way if you see one:"

_FRAME = """The problem comes with its difficulty, a level out of 5, and with sub-questions as a \
hint. All the credit is for a correct final answer to the whole problem. Solve it efficiently and \
clearly, to earn as much credit as possible."""
_PAPER_OUTLINE = """You may follow these sub-questions as you think, or feel free to use any other \
method that works best for the final answer:"""
_BY_SHARES = "Work through the sub-questions in order; use each result in the next."

_OUR_TAG = re.compile(r"(?i)<(?=\s*/?\s*(?:question|reference|conversation|turn)\b)")
_MAX_PARTIAL = 800  # characters that are shown of a reply that was cut off: its last 250 tokens


def solver_style(
    settings: Settings, query: Query, program_style: Style | None = None, *, is_free: bool = True
) -> Style:
    """Return the style in which a question is solved.

    Args:
        settings: The settings of the run.
        query: The question. Examples that cannot show the format of its answer are left out.
        program_style: A planner program's style, used instead; without instruction, its examples.
        is_free: Whether the answer has no type and the solver no tools, which no example shows.
    """
    name, form = settings.solver_style(query), query["answer_format"]
    style, in_words = STYLES[name or "prose"], STYLES["prose"]
    if program_style and program_style.instruction:
        style = program_style
    elif program_style:
        style = replace(in_words if style.compute else style, examples=program_style.examples)
    elif name not in {"prose", "paper", "answer"} and is_composed(query):
        return COMPOSED
    elif settings.style in {None, "auto"} and settings.model_class != "small":
        style = _BARE[name or "prose"]  # a larger model needs no examples
    if is_free and (program_style or not form or RESULT.search(form)):
        return style
    return in_words if style.compute else replace(style, examples=())


def single_call_prompt(given: MethodInput) -> list[PromptMessage]:
    """Return the prompt of one call, which shows a plan as one way, and states its budgets."""
    query, settings, style, plan = given.query, given.settings, given.style, given.plan
    is_paper, budget = style.is_paper and not style.examples, given.budget
    if is_paper and METHODS[settings.method].plans:
        return _paper_prompt(given)
    parts = [question_block(query, show_level=bool(plan))]
    if plan:
        lead = _PARTS if settings.synthesis == "join" else _OUTLINE
        parts.append("\n".join([lead, *map(_sub_question_line, plan)]))
        by_plan = CALCULATION_BY_PLAN if style.compute else BY_PLAN
        style = by_plan if style.examples else style
        if given.shares is not None:  # of what is thought: "step by step" would contradict them
            parts.append("Think briefly, and spend on each at most:")
            for place, share in given.shares.items():
                parts[-1] += f"\n{place + 1}. {_amount(share, query, settings)}"
            if style.examples and not style.compute:
                style = replace(BY_PLAN, instruction=_BY_SHARES)
            style = STYLES["plain"] if style is STYLES["prose"] else style
        if not style.instruction:  # nothing has to be written out
            style = replace(style, ending="")
    told = f"{budget} tokens" if is_paper or budget is None else _amount(budget, query, settings)
    limit = "" if budget is None else f"Use less than {told} in all."
    if style.examples and not plan:
        form = "" if style.compute else _format(query, DEFAULT_FORMAT)
        system = [query["instruction"], style.instruction, form, style.ending]
        parts.append(limit)
    else:
        system = [query["instruction"] or ("" if is_paper else DEFAULT_INSTRUCTION)]
        parts += [style.instruction, limit, _closing(query, style)]
    return _prompt(query, system, filter(None, parts), style)


def _paper_prompt(given: MethodInput) -> list[PromptMessage]:
    """Return what the paper's appendix says to a method that plans: see docs/evaluation.md."""
    query, plan, budget = given.query, given.plan, given.budget
    splits = given.settings.splits_budget
    # Without a plan the authors' code says the same.
    lines = [*map(_sub_question_line, plan)] or ["1. Solve the problem directly."]
    told = [given.shares[step["index"]] for step in plan] if given.shares else []
    if splits and not plan and budget is not None:
        told, budget = [budget], None
    for place, share in enumerate(told):
        lines[place] += f" Only think a little, and solve it directly in up to {share} words."
    parts = [_FRAME, question_block(query, show_level=True), "\n".join([_PAPER_OUTLINE, *lines])]
    if wanted := _format(query, LAST_LINE[0].upper() + LAST_LINE[1:]):
        strictly = " strictly" if splits else ""
        parts.append(f"Give the final answer{strictly} in this format:\n{wanted}")
    if budget is not None:
        parts.append(f"Think step by step, and use less than {budget} tokens.")
    return _prompt(query, [query["instruction"]], parts)


def step_prompt(task: SolveTask, settings: Settings, style: Style) -> list[PromptMessage]:
    """Return the prompt that asks one sub-question, after those it builds on and their answers.

    A prompt begins with that of the step before it, so that a prefix cache pays for it once.

    Args:
        task: The sub-question with its plan, its share and the results that it builds on.
        settings: The settings of the run.
        style: How to write.
    """
    query, plan, earlier = task["query"], task["plan"], task["results"]
    lead, ask = (_PARTS, _WRITE) if settings.synthesis == "join" else (_STEPS, _SOLVE)
    opening = [question_block(query, show_level=True), "", lead, *map(_sub_question_line, plan)]
    system = [query["instruction"] or DEFAULT_INSTRUCTION]
    if style.examples:
        system.append(style.instruction)
    elif style.instruction:
        opening += ["", style.instruction]
    if lead is _PARTS and query["answer_format"]:
        opening += ["", _FORM_OF_PARTS, query["answer_format"]]
    asks = []
    for step in (*earlier, task):
        place, share = step["index"], _amount(step["share"], query, settings)
        asks.append(ask.format(place + 1, plan[place]["question"], share))
    asks[0] = "\n".join([*opening, "", asks[0]])
    if task["closes"]:
        asks[-1] += "\n\nThis is the last one, so end with the answer to the whole question. "
        asks[-1] += f"{_format(query, WITH_WORKING)} {style.ending}".rstrip()
    messages = _prompt(query, ["\n".join(system)], asks[:1], style)
    for done, text in zip(earlier, asks[1:], strict=True):
        result = done["answer"] or "(This sub-question was cut off without a result.)"
        messages += [("ai", result), ("human", text)]
    return messages


def synthesis_prompt(given: MethodInput, results: Sequence[StepResult]) -> list[PromptMessage]:
    """Return the prompt that asks for the final answer, given what the steps found.

    Args:
        given: The question with its plan, and the budget of the answer.
        results: The results of the steps that have one.
    """
    query, settings, budget = given.query, given.settings, given.budget or 0
    findings = "\n".join(
        f"{done['index'] + 1}. {given.plan[done['index']]['question']}\n   Found: {done['answer']}"
        for done in results
    )
    parts = [
        question_block(query, show_level=False),
        f"Its sub-questions have been worked on:\n{findings}",
        f"From these, answer the question in at most {_amount(budget, query, settings)}.",
        _format(query, DEFAULT_FORMAT),
    ]
    return _prompt(query, [query["instruction"] or DEFAULT_INSTRUCTION], parts)


def forced_answer_prompt(
    messages: Sequence[T], partial: str, query: Query, *, is_final: bool, thought: str = ""
) -> list[T | PromptMessage]:
    """Return the prompt, without examples, that asks for the result of a reply that was cut off.

    Args:
        messages: The prompt of that reply.
        partial: The text of the reply so far.
        query: The question, for the format of its answer.
        is_final: Whether the final answer is asked for, not a sub-question's.
        thought: What the model thought before `partial`, as far as it is visible.
    """
    form = _format(query, DEFAULT_FORMAT)
    demand = f"{FORCE_FINAL} {form}" if is_final else FORCE_STEP
    if is_final and r"\boxed" in form:  # small models omit the box unless the prompt shows it
        demand += rf" Reply with {final_line(query, '...')} and nothing else."
    unsaid = f"My thoughts so far:\n{thought}" if thought else "(still thinking)"
    if len(partial) > _MAX_PARTIAL:
        partial = f"[…] {partial[-_MAX_PARTIAL:]}"
    ours = [(n, pair) for n, pair in enumerate(messages) if isinstance(pair, tuple)]
    start = max((n for n, (_, text) in ours if "<question>" in str(text)), default=0)
    system = [pair for n, pair in ours if n < start and pair[0] == "system"]
    return [*system, *messages[start:], ("ai", partial or unsaid), ("human", demand)]


def continued_thought(
    messages: Sequence[T], thought: str, query: Query, *, is_final: bool
) -> tuple[list[T | PromptMessage], str]:
    """Return a prompt whose last message ends a thought and begins the answer, and that beginning.

    Args:
        messages: The prompt of the reply that was cut off.
        thought: Its thought.
        query: The question, for the format of its answer.
        is_final: Whether the final answer is wanted, not a sub-question's.
    """
    is_line = is_final and RESULT.search(_format(query, DEFAULT_FORMAT))
    beginning = final_line(query, "").rstrip("} ") if is_line else ""
    return [*messages, ("ai", f"<think>\n{thought}\n</think>\n\n{beginning}")], beginning


def question_block(query: Query, *, show_level: bool) -> str:
    """Return the question, and what was given with it, marked off as data.

    Args:
        query: The question.
        show_level: Whether to say the level, if it is known.
    """
    conversation = query.get("conversation")
    lines = [f"{conversation}\n\nThe question to answer now:"] if conversation else []
    lines.append(f"<question>\n{as_data(query['question'])}\n</question>")
    if query["reference"]:
        lines.append(f"<reference>\n{as_data(query['reference'])}\n</reference>")
    if show_level and query["level"] is not None:
        lines.append(f"Difficulty: level {query['level']} of 5.")
    return "\n".join(lines)


def _amount(tokens: int, query: Query, settings: Settings) -> str:
    unit = "words" if settings.is_paper else "tokens"  # the paper calls tokens words
    return f"{settings.told(tokens, query['level'])} {unit}"


def as_data(text: str) -> str:
    """Return text that can neither close nor open the tags that it stands between."""
    return _OUR_TAG.sub("&lt;", text)


def _prompt(
    query: Query, system: Iterable[str | None], parts: Iterable[str], style: Style | None = None
) -> list[PromptMessage]:
    """Return a system message unless it is empty, examples in the form of the question, and it."""
    said, text, media = "\n".join(filter(None, system)), "\n\n".join(parts), query.get("media")
    messages: list[PromptMessage] = [("system", said)] if said else []
    for question, working, answer, plan in style.examples if style else ():
        shown = [f"<question>\n{as_data(question)}\n</question>"]
        if style and plan:
            lines = [f"{number}. {step}" for number, step in enumerate(plan, 1)]
            shown += ["\n".join([_OUTLINE, *lines]), style.instruction, _closing(query, style)]
        reply = [working] if answer is None else [working, final_line(query, answer)]
        messages += [("human", "\n\n".join(shown)), ("ai", "\n".join(filter(None, reply)))]
    return [*messages, ("human", [{"type": "text", "text": text}, *media] if media else text)]


def _sub_question_line(step: SubQuestion) -> str:
    hint = f" (hint: {step['hint']})" if step["hint"] else ""
    return f"{step['index'] + 1}. {step['question']}{hint}"


def _closing(query: Query, style: Style) -> str:
    """Return the end of a request: the form of the answer, and what its style says after it."""
    form = _format(query, WITH_WORKING if style.instruction else DEFAULT_FORMAT)
    return style.ending if style.compute else f"{form} {style.ending}".strip()


def _format(query: Query, default: str) -> str:
    """Return the form of the answer; the default only where something is worked out."""
    return query["answer_format"] or ("" if is_composed(query) else default)
