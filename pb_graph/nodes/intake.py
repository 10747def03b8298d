"""Read the question from the input or a host's messages, check it, and set its limit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, cast

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage
from langgraph.types import Overwrite
from pydantic import BaseModel, Field, StringConstraints, ValidationError

from pb_graph.budget.account import available_tokens
from pb_graph.budget.allocation import LEVELS, LevelTable
from pb_graph.errors import InputError, describe_errors
from pb_graph.methods import METHODS
from pb_graph.models.classes import CLASSES
from pb_graph.prompts import as_data
from pb_graph.run.run import Run
from pb_graph.settings import ClassName, Settings
from pb_graph.state import State
from pb_graph.tasks import needed_tokens
from pb_graph.types import Query

MAX_CONVERSATION = 24_000  # characters of earlier turns that are shown: some 6,000 tokens
_ROLES = {"human": "user", "ai": "assistant"}
_NO_TEXT = "Reply to the images or files."  # the question of a message that has no text


class _Given(BaseModel):
    """A question with its options and the conversation around it, checked."""

    question: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
    reference: str | None = None
    instruction: str | None = None
    answer_format: str | None = None
    domain: str | None = None
    level: Annotated[int, Field(strict=True, ge=1, le=5)] | None = None
    budget: Annotated[int, Field(strict=True, ge=1)] | None = None
    conversation: str | None = None
    media: list[dict[str, Any]] = []
    turns_left_out: int = 0


async def intake(state: State, run: Run) -> State:
    """Turn the input into a `Query`, and clear the state of an earlier question on the thread.

    Raises:
        InputError: If the input has no question or a wrong part, or a pause no checkpointer.
    """
    fields = {name: state.get(name) for name in _Given.model_fields if state.get(name) is not None}
    if "question" not in fields:
        fields = read_conversation(state.get("messages") or []) | fields
    try:
        given = _Given.model_validate(fields)
    except ValidationError as error:
        raise InputError(describe_errors(error)) from error
    form = run.parts.answer_type.form if run.parts.answer_type else None
    query = cast("Query", given.model_dump(exclude={"turns_left_out"}))
    query["answer_format"] = "\n".join(filter(None, (given.answer_format, form))) or None
    query |= {"domain": given.domain or run.settings.domain, "budget": None}
    if given.budget:
        run.settings = run.settings.model_copy(update={"budget": given.budget})
    has_own, method = run.settings.budget is not None, METHODS[run.settings.method]
    found = planner = await run.class_of("solver")
    if method.plans or method.budgets or has_own:  # the level may be asked for
        planner = await run.class_of("planner")
    run.settings = settings = _fitted(run.settings, query, found.name, planner.name)
    run.goto = "plan" if settings.has_plan else "estimate" if settings.has_budget else "answer"
    planning, solving = settings.bounds(query)
    room = 0
    if found.source == "default" and not has_own and settings.has_budget:
        room = (CLASSES["thinking"].thinking or {}).get(given.level or max(LEVELS), 0)
    pauses = (settings.review_plan and settings.has_plan) or run.parts.on_used_up == "pause"
    if pauses and run.journal is None:
        msg = "A pause needs a checkpointer: build_graph(…, checkpointer=InMemorySaver())"
        raise InputError(msg)
    limit = available_tokens(planning + solving + room)
    if count := given.turns_left_out:
        note = f"{count} earlier turn(s) were left out or cut, as the conversation is too long"
        run.warn("conversation_cut", note)
    told = settings.model_dump(include={"method", "model_class", "execution", "plan_from"})
    run.emit("intake", limit=limit, model_class_source=found.source, **told)
    update: dict[str, Any] = {"query": query, "level_source": "given" if given.level else None}
    update |= {"model_class_source": found.source, "thinking_room": room, "limit": limit}
    update |= {"planning_bound": planning, "results": Overwrite([]), "charges": Overwrite([])}
    update |= {"plan": [], "shares": [], "effort": None, "finish": None, "answer_id": None}
    return cast("State", update | {"answer": "", "budget_used_up": Overwrite(value=False)})


def _fitted(settings: Settings, query: Query, found: ClassName, planner: ClassName) -> Settings:
    """Return settings with the defaults of a domain, of a length, and of a class of models."""
    model, splits, has_own = CLASSES[found], settings.splits_budget, settings.budget is not None
    settings = settings.for_domain(query["domain"])
    defaults = {**model.settings, "planner_cap": CLASSES[planner].planner_cap}
    chosen = {*settings.set_fields(exclude_none=True)}
    chosen |= {"plan_from"} & settings.model_fields_set  # where None is a choice as well
    if not splits:  # the baselines keep the paper's prompts
        chosen.add("style")
    for name in chosen:
        defaults.pop(name, None)
    fitted = settings.model_copy(update={"model_class": found, **defaults})
    if has_own or not settings.has_budget:
        return fitted
    budgets = settings.budgets
    if tokens := splits and model.budgets.get(query["domain"].casefold()):
        budgets = dict.fromkeys(LEVELS, tokens)
    if needed := splits and needed_tokens(query):
        notes = fitted.is_stepwise and fitted.synthesis != "join"
        room = {n: needed_tokens(query, notes=notes and fitted.is_planned(n)) for n in LEVELS}
        budgets = {level: max(room[level] or 0, budget) for level, budget in budgets.items()}
    budget: Any = settings.budget
    if model.thinking and settings.enforcement == "force":
        budget = LevelTable(tokens=budgets, thinking=dict(model.thinking))
    elif splits and not (model.thinking or fitted.plan_from):
        budget = max(budgets.values())  # no level is asked for the budget alone
    elif needed or tokens:
        budget = LevelTable(tokens=budgets) if needed else tokens
    return fitted if budget is settings.budget else fitted.model_copy(update={"budget": budget})


def read_conversation(messages: Sequence[AnyMessage]) -> dict[str, Any]:
    """Take the last human message as the question, and the other messages as context.

    Messages after the question (another agent's findings, a tool's result) are shown after a mark.
    A conversation that is too long loses its oldest turns. System messages are the instruction, and
    the media are those of all human messages; without a human message, an `InputError` is raised.
    """
    human = [message for message in messages if isinstance(message, HumanMessage)]
    if not human:
        msg = 'There is no question. Give {"question": "..."} or {"messages": [...]}.'
        raise InputError(msg)
    question, room, turns_left_out, recent = human[-1], MAX_CONVERSATION, 0, list[str]()
    for message in reversed(messages[:-1] if messages[-1] is question else messages):
        text = "(the question below)" if message is question else _words(message)
        turns_left_out += bool(text) and len(text) > room
        if text and room > 0:
            role = " ".join(filter(None, (_ROLES.get(message.type, message.type), message.name)))
            cut = "[…] " if len(text) > room else ""
            recent.insert(0, f'<turn role="{role}">\n{cut}{text[-room:]}\n</turn>')
            room -= len(text)
    lines = ["<conversation>", *recent, "</conversation>"]
    system = [_text(message) for message in messages if isinstance(message, SystemMessage)]
    return {
        "question": _text(question).strip() or (_NO_TEXT if _files_of(question) else ""),
        "instruction": "\n\n".join(filter(None, system)) or None,
        "conversation": "\n".join(lines) if recent else None,
        "media": [block for message in messages for block in _files_of(message)],
        "turns_left_out": turns_left_out,
    }


def _text(message: AnyMessage) -> str:
    """Return the text of a message, each block on lines of its own."""
    if isinstance(message, AIMessage):  # citations may split its text anywhere
        return message.text
    return "\n".join(block["text"] for block in message.content_blocks if block["type"] == "text")


def _words(message: AnyMessage) -> str:
    """Return the text of a turn as data; empty for system messages and hand-overs."""
    if isinstance(message, SystemMessage) or "handoff" in " ".join(message.response_metadata):
        return ""
    files = len(_files_of(message))
    parts = [_text(message).strip(), f"[{files} image(s) or file(s)]" if files else ""]
    return as_data("\n".join(filter(None, parts)))


def _files_of(message: AnyMessage) -> list[dict[str, Any]]:
    """Return the content blocks of a human message that are images or files."""
    blocks = message.content if isinstance(message, HumanMessage) else ()
    return [block for block in blocks if isinstance(block, dict) and block.get("type") != "text"]
