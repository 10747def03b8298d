"""Read an instruction, earlier turns, images and files from the messages of a host."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage

from pb_graph.errors import InputError
from pb_graph.prompts import as_data, text_of
from pb_graph.types import ReportWarning

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MAX_CONVERSATION = 24_000
"""Characters of earlier turns that planner and solver are shown: some 6,000 tokens."""
MAX_MEDIA = 20_000_000
"""Characters of images and files, as JSON, that the solver is sent with a question."""
_WORTH_SHOWING = 200

# As LangChain, OpenAI and Anthropic name the blocks of a message that are not its text.
_MEDIA = re.compile(r"(?:input_)?(?:image|image_url|audio|video|file)|document|media|text-plain")
_ROLES = {"human": "user", "ai": "assistant"}


class Conversation(NamedTuple):
    """The messages of a host, taken apart; ``question`` is None when nobody asks one."""

    question: str | None
    instruction: str | None = None
    turns: str | None = None
    media: Sequence[dict[str, Any]] = ()
    warnings: Sequence[ReportWarning] = ()


def read_conversation(messages: Sequence[AnyMessage]) -> Conversation:
    """Take the last human message as the question, and the rest as what was said around it.

    What follows the question (another agent's findings, a tool's result) is shown, too, after a
    mark where it was asked. Too long a conversation loses its oldest turns, with a warning.

    Raises:
        InputError: The question comes with something that cannot be passed on.
    """
    asked = max(
        (at for at, said in enumerate(messages) if isinstance(said, HumanMessage)), default=None
    )
    if asked is None:
        return Conversation(None)
    system = [text_of(said.content) for said in messages if isinstance(said, SystemMessage)]
    turns = [
        _turn(said, "(the question below)" if at == asked else None)
        for at, said in enumerate(messages)
        if not isinstance(said, SystemMessage)
    ]
    if asked == len(messages) - 1:
        turns.pop()
    shown, left_out = _newest([turn for turn in turns if turn])
    media, unsent = _media(messages, asked)
    warnings: list[ReportWarning] = []
    if left_out:
        note = f"intake: {left_out} earlier turn(s) were left out or cut, as the conversation is "
        warnings.append(ReportWarning(code="conversation_cut", message=f"{note}too long"))
    if unsent:
        note = f"intake: {unsent} image(s) or file(s) of other messages were not passed on"
        warnings.append(ReportWarning(code="media_left_out", message=note))
    return Conversation(
        question=text_of(messages[asked].content),
        instruction="\n\n".join(filter(None, system)) or None,
        turns="\n".join(["<conversation>", *shown, "</conversation>"]) if shown else None,
        media=media,
        warnings=warnings,
    )


def _turn(said: AnyMessage, instead: str | None) -> str:
    """One turn, marked off as data; empty for a call of a tool or a supervisor's hand-over."""
    if any("handoff" in key for key in said.response_metadata):
        return ""
    files = sum(_is_media(block) for block in _blocks(said))
    # A model's parts are one text, which citations may cut anywhere.
    words = said.text if isinstance(said, AIMessage) else text_of(said.content)
    parts = [words.strip(), f"[{files} image(s) or file(s)]" if files else ""]
    text = instead or "\n".join(part for part in parts if part)
    if not text:
        return ""
    name = re.sub(r"[^\w .-]", "", said.name or "")[:40]
    role = _ROLES.get(said.type, said.type) + (f" {name}" if name else "")
    return f'<turn role="{role}">\n{as_data(text.encode(errors="replace").decode())}\n</turn>'


def _newest(turns: list[str]) -> tuple[list[str], int]:
    """The newest turns that there is room for, and how many are missing or cut."""
    shown: list[str] = []
    room = MAX_CONVERSATION
    for turn in reversed(turns):
        if len(turn) > room:
            head, _, text = turn.partition("\n")
            room -= len(head)
            cut = [f"{head}\n[…] {text[-room:]}"] if room >= _WORTH_SHOWING else []
            return [*cut, *shown[::-1]], len(turns) - len(shown)
        shown.append(turn)
        room -= len(turn)
    return shown[::-1], 0


def _media(messages: Sequence[AnyMessage], asked: int) -> tuple[list[dict[str, Any]], int]:
    """Images and files of the question and, as far as there is room, of what was asked before it.

    Those of tools and other agents are only counted.
    """
    media, room = _passable(_blocks(messages[asked])), MAX_MEDIA
    room -= _size(media)
    if room < 0:
        msg = f"The images and files have more than {MAX_MEDIA} characters. Send smaller ones."
        raise InputError(msg)
    unsent = 0
    for said in reversed([*messages[:asked], *messages[asked + 1 :]]):
        found = [block for block in _blocks(said) if _is_media(block)]
        if found and isinstance(said, HumanMessage) and _size(found) <= room:
            media, room = [*found, *media], room - _size(found)
        else:
            unsent += len(found)
    return media, unsent


def _passable(blocks: Iterable[Any]) -> list[dict[str, Any]]:
    """All but the text of the question, if a model can be sent it."""
    other = [
        block for block in blocks if not isinstance(block, str) and block.get("type") != "text"
    ]
    for block in other:
        if not _is_media(block):
            msg = f"The question holds a content block of type {block.get('type')!r}, which cannot "
            msg += "be passed on. Give text, images and files only."
            raise InputError(msg)
    return other


def _size(blocks: list[dict[str, Any]]) -> int:
    try:
        return len(json.dumps(blocks)) if blocks else 0
    except (TypeError, ValueError) as error:
        msg = "An image or a file must be plain JSON: a URL, or its bytes as base64 text."
        raise InputError(msg) from error


def _blocks(said: AnyMessage) -> list[Any]:
    return said.content if isinstance(said.content, list) else []


def _is_media(block: Any) -> bool:  # noqa: ANN401 -- whatever a host put there
    return isinstance(block, dict) and bool(_MEDIA.fullmatch(str(block.get("type"))))
