"""A long answer cut at a smaller budget: what a method would have said with fewer tokens.

The solver is asked once, at the largest budget, and the cache keeps that. For a smaller one the
answer is cut after as many tokens and its result is asked for, as ``enforcement="force"`` does.
Charged is what such a run would cost; what was really asked and paid is in the cache.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from langchain_core.messages import AIMessage, convert_to_messages

from optim.methods import ENDING
from pb_graph.models.client import ChatClient
from pb_graph.models.reply import Purpose, Reply
from pb_graph.prompts import forced
from pb_graph.state import Query

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_core.messages import BaseMessage

    from optim.datasets import Question
    from optim.methods import Truncation
    from pb_graph.models.caps import Limits
    from pb_graph.models.streaming import OnText

# About a token each: a word or a long word's piece, a digit, a sign, a line feed.
_PIECE = re.compile(r" ?[A-Za-z]{1,9}| ?\d|\n+| ?[^\sA-Za-z\d]| +|\s")
_HIDDEN = 2.0  # tokens to a piece of visible text, beyond which most were thinking
_BOX = r"\boxed{"
_OPENING = "\n\nFinal answer:"


class TruncatingClient(ChatClient):
    """Answers as the client behind it would have within a smaller budget."""

    def __init__(self, client: ChatClient, truncation: Truncation, question: Question) -> None:
        super().__init__(client.model)
        self._client, self._truncation, self._question = client, truncation, question

    async def reply_to(
        self,
        messages: Sequence[BaseMessage],
        limits: Limits,
        purpose: Purpose,
        on_text: OnText | None,
        *,
        blocking: bool,
    ) -> Reply:
        """Make one call, and one more for the result where the answer has to be cut.

        Raises:
            ModelCallError: Either call failed for good.
        """
        asked = replace(limits, cap=min(limits.cap, self._truncation.asked))
        whole = await self._client.reply_to(messages, asked, purpose, on_text, blocking=blocking)
        kept = self._kept(whole)
        if kept is whole:
            return whole
        request = self._ending(messages, kept, limits)
        ending = await self._client.reply_to(*request, Purpose(ENDING), None, blocking=blocking)
        return self._joined(kept, ending)

    def _kept(self, whole: Reply) -> Reply:
        """The answer up to the budget's reserve; itself where it ends before."""
        room, spent = self._truncation.room, whole.charge["output_tokens"]
        if whole.text and whole.finish != "length" and spent <= room:
            return whole
        kept = min(room, spent)
        text = beginning(whole.text, kept, spent, whole.charge["reasoning_tokens"])
        seconds = whole.charge["seconds"] * kept / spent if spent else 0.0
        cost = whole.charge.copy()
        cost["output_tokens"], cost["seconds"] = kept, round(seconds, 4)
        cost["reasoning_tokens"] = min(kept, cost["reasoning_tokens"])
        cost["cap"], cost["finish"] = room, "length"
        return Reply(text, "length", cost, whole.lost)

    def _ending(
        self, messages: Sequence[BaseMessage], kept: Reply, limits: Limits
    ) -> tuple[Sequence[BaseMessage], Limits]:
        """The request for the result."""
        short = replace(limits, cap=self._truncation.held_back, thinking="off")
        if self._truncation.ending == "continuation":
            return [*messages, AIMessage(kept.text + self._opening)], short
        demand = forced((), kept.text, _query(self._question), final=True)
        return [*messages, *convert_to_messages(demand)], short

    @property
    def _opening(self) -> str:
        """Words that the model goes on from to its result."""
        return f"{_OPENING} {_BOX}" if _BOX[:-1] in self._question.answer_format else _OPENING

    def _joined(self, kept: Reply, ending: Reply) -> Reply:
        """The cut answer with its result, each part charged by itself."""
        if self._truncation.ending == "continuation":
            begun = (kept.text + self._opening).strip()
            said = ending.text.removeprefix(begun)  # llama.cpp says again what it goes on from
            text = begun + (_closed(said) if begun.endswith(_BOX) else said)
        else:
            text = f"{kept.text}\n\n{ending.text}".strip()
        return Reply(text, "length", ending.charge, (*kept.lost, kept.charge, *ending.lost))


def beginning(text: str, kept: int, tokens: int, hidden: int = 0) -> str:
    """Give what had been written of a text after some of its tokens.

    No tokenizer is at hand, so its pieces (words, digits, signs) are counted, and scaled to the
    tokens that were charged.

    Args:
        text: What is visible of the answer.
        kept: Tokens to keep.
        tokens: Tokens of the whole answer.
        hidden: Those of them that were thinking, which comes first. Where a server does not tell,
            it shows: the text is then far too short for its tokens.
    """
    pieces = _PIECE.findall(text)
    if tokens - hidden > _HIDDEN * len(pieces):
        hidden = tokens - len(pieces)
    if kept <= hidden or tokens <= hidden:
        return ""
    share = (kept - hidden) / (tokens - hidden)
    return "".join(pieces[: int(share * len(pieces))]).rstrip()


def _closed(said: str) -> str:
    """What fills a box that is open, up to the brace that closes it."""
    depth = 1
    for place, letter in enumerate(said):
        depth += {"{": 1, "}": -1}.get(letter, 0)
        if depth == 0:
            return said[: place + 1]
    return said.partition("\n")[0].rstrip() + "}"


def _query(question: Question) -> Query:
    return Query(
        question=question.question,
        reference=question.reference,
        instruction=question.instruction,
        answer_format=question.answer_format,
        domain=question.domain,
        level=question.level,
    )
