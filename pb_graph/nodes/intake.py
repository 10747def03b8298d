"""Take a question in: read a host's messages, check the input, and bound what it can cost."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, cast

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage
from langgraph.types import Overwrite
from pydantic import BaseModel, Field, StringConstraints, ValidationError

from pb_graph.budget import LEVELS
from pb_graph.budget.ledger import most_billed
from pb_graph.budget.scope import available_tokens
from pb_graph.errors import InputError, describe_errors
from pb_graph.methods import METHODS
from pb_graph.planner.requests import LEVEL_CAP
from pb_graph.prompts import as_data, text_of
from pb_graph.state import State
from pb_graph.types import Query

if TYPE_CHECKING:
    from pb_graph.run.run import Run
    from pb_graph.settings import Settings

MAX_CONVERSATION = 24_000
"""Characters of earlier turns that planner and solver are shown: some 6,000 tokens."""
_WORTH_SHOWING = 200
_ROLES = {"human": "user", "ai": "assistant"}

_Text = Annotated[str, Field(max_length=100_000)]


class _Given(BaseModel):
    """The input of one question, checked."""

    question: Annotated[
        str, StringConstraints(strip_whitespace=True, min_length=1, max_length=100_000)
    ]
    reference: Annotated[str, Field(max_length=400_000)] | None
    instruction: _Text | None
    answer_format: _Text | None
    domain: _Text | None
    level: Annotated[int, Field(strict=True, ge=1, le=5)] | None
    budget: Annotated[int, Field(strict=True, ge=1)] | None


async def intake(state: State, run: Run) -> State:
    """Turn the input into a `Query`, and forget what an earlier question left on the thread.

    A question of its own (``question``) stands alone; one in messages comes with its conversation.

    Raises:
        InputError: There is no question, a part of the input is of the wrong form or too long, or a
            plan is to be reviewed without a checkpointer.
    """
    own = state.get("question")
    said = Conversation(own) if own is not None else read_conversation(state.get("messages") or [])
    given = _check(said, state)
    settings = run.settings
    if given.budget is not None:
        settings = settings.model_copy(update={"budget": given.budget})
    domain = given.domain or settings.domain
    settings = settings.for_domain(domain)
    if settings.review_plan and settings.has_plan and run.journal is None:
        msg = (
            "review_plan pauses for a person, and goes on from a checkpoint, which nothing keeps "
            "here: build_graph(…, checkpointer=InMemorySaver()), and a thread_id"
        )
        raise InputError(msg)
    typed = run.options.answer_type.form if run.options.answer_type else None
    query = Query(
        question=given.question,
        reference=given.reference or None,
        instruction=given.instruction or None,
        answer_format="\n".join(filter(None, (given.answer_format, typed))) or None,
        domain=domain,
        level=given.level,
        conversation=said.turns,
        media=[*said.files],
    )
    if count := said.turns_left_out:
        note = f"{count} earlier turn(s) were left out or cut, as the conversation is too long"
        run.warn("conversation_cut", note)
    ceiling, planning = first_ceiling(settings, query)
    run.emit("intake", method=settings.method, ceiling=ceiling)
    blank: dict[str, Any] = {  # what nodes add to is overwritten
        "plan": [],
        "total": None,
        "shares": [],
        "results": Overwrite([]),
        "charges": Overwrite([]),
        "budget_used_up": Overwrite(value=False),
        "effort": None,
        "answer": "",
        "finish": None,
        "answer_id": None,
    }
    return {
        **cast("State", blank),
        "settings": settings.model_dump(mode="json"),
        "query": query,
        "level_source": None if given.level is None else "given",
        "ceiling": ceiling,
        "planning_bound": planning,
    }


def first_ceiling(settings: Settings, query: Query) -> tuple[int, int]:
    """Return the completion tokens that a question cannot exceed, before its first call.

    Args:
        settings: The settings of the run.
        query: The question. Without a level, the level with the largest total counts.

    Returns:
        The ceiling, planning included, and the part of it that is for planning.
    """
    level, cap, total = query["level"], settings.planner_cap, None
    if settings.has_budget:
        rule = settings.budget_rule
        levels = LEVELS if level is None and rule.needs_level else [level]
        total = max(map(rule.total, levels))
    planning = 0  # each call may be repeated once for its form
    if settings.is_planned(level):
        is_estimated = settings.needs_credits and settings.planning == "two_call"
        planning = 4 * cap if is_estimated else 2 * cap
    if level is None and settings.needs_level:
        planning += LEVEL_CAP + 2 * cap
    if total is not None and settings.enforcement != "prompt":  # as much again, and no more
        planning = min(planning, total)
    steps = settings.max_steps if settings.has_plan else 1
    solving = solving_bound(settings, query, total, steps)
    return available_tokens(planning + solving), planning


def solving_bound(settings: Settings, query: Query, total: int | None, steps: int) -> int:
    """Return the completion tokens that all calls after planning can cost together.

    Args:
        settings: The settings of the run.
        query: The question.
        total: The question's budget; None without one.
        steps: The sub-questions, at most. Where the budget is only said, the cutoff of each call is
            the only bound, and there may be one call more, when the last step comes to nothing.
    """
    method = METHODS[settings.method]
    most = method.ceiling(settings, query) if method.ceiling else settings.cutoff
    is_stepwise = method.splits and settings.execution == "stepwise"
    if total is None or settings.enforcement == "prompt":
        return settings.cutoff * (steps + 1) if is_stepwise else most
    if not is_stepwise:
        return min(total, most)
    has_synthesis = settings.synthesis == "call" and steps > 1
    return total + (min(synthesis_cap(total, 2, settings), settings.cutoff) if has_synthesis else 0)


def synthesis_cap(total: int, steps: int, settings: Settings) -> int:
    """Return the tokens of the closing call of ``synthesis="call"``: those of an average step."""
    return max(-(-total // steps), min(settings.min_step, total))


def lower_ceiling(state: State, to_come: int) -> int:
    """Return the ceiling once the calls to come are known: what was billed, and those."""
    now = most_billed(state["charges"]) + available_tokens(to_come)
    ceiling = state["ceiling"]
    return now if ceiling is None else min(now, ceiling)


class Conversation(NamedTuple):
    """The messages of a host, taken apart.

    Attributes:
        question: The text of the question; None when nobody asks one.
        instruction: The system messages.
        turns: What was said around the question, marked off as data.
        files: Images and files of the question and of what the person asked before it.
        turns_left_out: How many turns are missing or cut, for the conversation is too long.
    """

    question: str | None
    instruction: str | None = None
    turns: str | None = None
    files: Sequence[dict[str, Any]] = ()
    turns_left_out: int = 0


def read_conversation(messages: Sequence[AnyMessage]) -> Conversation:
    """Take the last human message as the question, and the rest as what was said around it.

    What follows the question (another agent's findings, a tool's result) is shown, too, after a
    mark where it was asked. Too long a conversation loses its oldest turns.
    """
    places = [at for at, said in enumerate(messages) if isinstance(said, HumanMessage)]
    if not places:
        return Conversation(None)
    asked = places[-1]
    system = [text_of(said.content) for said in messages if isinstance(said, SystemMessage)]
    turns = [
        (_role(said), "(the question below)" if at == asked else _words(said))
        for at, said in enumerate(messages)
        if at != asked or said is not messages[-1]
    ]
    shown, turns_left_out = _newest([turn for turn in turns if turn[1]])
    return Conversation(
        question=text_of(messages[asked].content),
        instruction="\n\n".join(filter(None, system)) or None,
        turns="\n".join(["<conversation>", *shown, "</conversation>"]) if shown else None,
        files=[block for said in messages for block in _files_of(said)],
        turns_left_out=turns_left_out,
    )


def _check(said: Conversation, state: State) -> _Given:
    """Return the input of a question, checked.

    Raises:
        InputError: There is no question, or a part of the input is of the wrong form or too long.
    """
    if said.question is None:
        msg = 'There is no question. Give {"question": "..."} or {"messages": [...]}.'
        raise InputError(msg)
    fields = {name: state.get(name) for name in _Given.model_fields}
    fields |= {"question": said.question}
    fields["instruction"] = fields["instruction"] or said.instruction
    try:
        return _Given.model_validate(fields)
    except ValidationError as error:
        raise InputError(describe_errors(error)) from error


def _role(said: AnyMessage) -> str:
    name = re.sub(r"[^\w .-]", "", said.name or "")[:40]
    return f"{_ROLES.get(said.type, said.type)} {name}".rstrip()


def _words(said: AnyMessage) -> str:
    """Return the text of a turn as data; none of a system message, or a supervisor's hand-over."""
    if isinstance(said, SystemMessage) or any("handoff" in key for key in said.response_metadata):
        return ""
    # A model's parts are one text, which citations may cut anywhere.
    words = said.text if isinstance(said, AIMessage) else text_of(said.content)
    files = len(_files_of(said))
    parts = [words.strip(), f"[{files} image(s) or file(s)]" if files else ""]
    return as_data("\n".join(filter(None, parts)))


def _newest(turns: list[tuple[str, str]]) -> tuple[list[str], int]:
    """Return the newest turns that there is room for, and how many are missing or cut."""
    shown: list[str] = []
    room = MAX_CONVERSATION
    while turns and room >= _WORTH_SHOWING:
        role, text = turns.pop()
        cut = "[…] " if len(text) > room else ""
        shown.insert(0, f'<turn role="{role}">\n{cut}{text[-room:]}\n</turn>')
        room -= len(text)
    return shown, len(turns) + (room < 0)


def _files_of(said: AnyMessage) -> list[dict[str, Any]]:
    """Return a person's content blocks that are images or files: all that are no text."""
    if not isinstance(said, HumanMessage) or isinstance(said.content, str):
        return []
    blocks = [block for block in said.content if isinstance(block, dict)]
    return [block for block in blocks if block.get("type") != "text"]
