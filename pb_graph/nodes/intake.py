"""Reads the question, checks it, and starts a clean account for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from langgraph.types import Overwrite

from pb_graph.budget import LEVELS
from pb_graph.errors import InputError
from pb_graph.methods import METHODS
from pb_graph.nodes.allocate import first_ceiling
from pb_graph.nodes.conversation import Conversation, read_conversation
from pb_graph.run.journal import checkpointer
from pb_graph.state import State, reset_values
from pb_graph.types import Query, ReportWarning

if TYPE_CHECKING:
    from pb_graph.run.run import Run
    from pb_graph.settings import Settings

MAX_QUESTION = 100_000
MAX_REFERENCE = 400_000
MAX_EXTRA = 20_000


async def intake(state: State, run: Run) -> State:
    """Turn the input into a `Query`, and forget what an earlier question left on the thread.

    A question of its own (``question``) stands alone; one in messages comes with its conversation.

    Raises:
        InputError: No question, an empty or oversized one, a level outside 1 to 5, a budget that is
            no positive number, an image or file that the model cannot be sent, or a plan to be
            reviewed without a checkpointer.
    """
    own = state.get("question")
    said = Conversation(own) if own is not None else read_conversation(state.get("messages") or [])
    settings, warnings = _settings(state.get("budget"), run)
    form = _text(state.get("answer_format"), "'answer_format'", MAX_EXTRA)
    typed = run.options.answer_type.form if run.options.answer_type else None
    query = Query(
        question=_question(said.question),
        reference=_text(state.get("reference"), "'reference'", MAX_REFERENCE),
        instruction=_text(state.get("instruction"), "'instruction'", MAX_EXTRA)
        or _text(said.instruction, "The system message", MAX_QUESTION),
        answer_format="\n".join(part for part in (form, typed) if part) or None,
        domain=_text(state.get("domain"), "'domain'", MAX_EXTRA) or settings.domain,
        level=_level(state.get("level")),
        conversation=said.turns,
        media=[*said.media],
    )
    if said.media:
        await run.check_media(said.media)
    if settings.review_plan and settings.has_plan and checkpointer() is None:
        msg = (
            "review_plan pauses for a person, and goes on from a checkpoint, which nothing keeps "
            "here: build_graph(…, checkpointer=InMemorySaver()), and a thread_id"
        )
        raise InputError(msg)
    ceiling, planning = first_ceiling(settings, query)
    run.emit({"event": "intake", "method": settings.method, "ceiling": ceiling})
    update = reset_values() | {
        "settings": settings.model_dump(mode="json"),
        "query": query,
        "level_source": None if query["level"] is None else "given",
        "ceiling": ceiling,
        "planning_bound": planning,
        "warnings": Overwrite([*said.warnings, *warnings]),
    }
    return cast("State", update)


def _settings(budget: object, run: Run) -> tuple[Settings, list[ReportWarning]]:
    """The settings of this question, and a warning for what is given and has no use."""
    settings = run.settings
    if budget is not None:
        if isinstance(budget, bool) or not isinstance(budget, int) or budget < 1:
            msg = f"A budget is a whole number of tokens, at least 1, not {budget!r}."
            raise InputError(msg)
        settings = settings.model_copy(update={"budget": budget})
    if not run.options.tools or METHODS[settings.method].tools:
        return settings, []
    note = f"intake: the method {settings.method!r} calls no tools: those given were not used"
    return settings, [ReportWarning(code="tools_unused", message=note)]


def _question(given: object) -> str:
    if not isinstance(given, str):
        msg = 'There is no question. Give {"question": "..."} or {"messages": [...]}.'
        raise InputError(msg)
    # Without halves of characters, which JSON can carry and no request can hold.
    question = given.encode(errors="replace").decode().strip()
    if not question:
        msg = "The question is empty. Give it as text, also with an image or a file."
        raise InputError(msg)
    if len(question) > MAX_QUESTION:
        msg = (
            f"The question has {len(question)} characters; at most {MAX_QUESTION} are taken. "
            "Shorten it, or give long material as 'reference'."
        )
        raise InputError(msg)
    return question


def _text(value: object, what: str, limit: int) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        msg = f"{what} must be text, not {type(value).__name__}."
        raise InputError(msg)
    if len(value) > limit:
        msg = f"{what} has {len(value)} characters; at most {limit} are taken. Shorten it."
        raise InputError(msg)
    return value.encode(errors="replace").decode() or None


def _level(value: object) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value not in LEVELS:
        msg = f"A level is a whole number from 1 (easiest) to 5 (hardest), not {value!r}."
        raise InputError(msg)
    return value
