"""A curve of budgets: one long answer cut at each, and runs of their own to check that against.

The solver is asked once, at the largest budget, and the cache keeps that. For a smaller one the
answer is cut after as many tokens and its result is asked for, as ``enforcement="force"`` does:
what a method would have said with fewer tokens. Charged is what such a run would cost; what was
really asked and paid is in the cache.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from langchain_core.messages import AIMessage, convert_to_messages

from optim.methods import ENDING, Ending, Method, Truncation
from pb_graph.budget.rules import Fixed
from pb_graph.errors import InputError
from pb_graph.methods import METHODS
from pb_graph.models.client import ChatClient
from pb_graph.models.reply import Reply
from pb_graph.prompts import forced
from pb_graph.types import Purpose, Query

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

    from optim.datasets import Question
    from pb_graph.models.caps import Limits
    from pb_graph.models.streaming import OnText

CURVE: Final = "curve"
"""Cut from the one long answer."""
SEPARATE: Final = "separate"
"""The same request with a cap that is real."""
TOLD: Final = "told"
"""A method that is told the budget beforehand, and held to it."""

_NAME = re.compile(rf"({CURVE}|{SEPARATE}|{TOLD})_(.+)\[(\d+)\+0L\]")
_TOLD = {"vanilla": "global_budget", "planned_vanilla": "planned_global_budget"}
# About a token each: a word or a long word's piece, a digit, a sign, a line feed.
_PIECE = re.compile(r" ?[A-Za-z]{1,9}| ?\d|\n+| ?[^\sA-Za-z\d]| +|\s")
_HIDDEN = 2.0  # tokens to a piece of visible text, beyond which most were thinking
_BOX = r"\boxed{"
_OPENING = "\n\nFinal answer:"


class CurveName(NamedTuple):
    """What the name of such a row says."""

    kind: str
    method: str
    budget: int


def curve_name(method: str) -> CurveName | None:
    """Read the name of a row; None where it is of no curve."""
    found = _NAME.fullmatch(method)
    return CurveName(found[1], found[2], int(found[3])) if found else None


def curve_methods(
    method: Method,
    budgets: Iterable[int],
    checked: Iterable[int] = (),
    *,
    ending: Ending | None = None,
) -> tuple[Method, ...]:
    """Give the rows of a curve, such as ``curve_vanilla[100+0L]``.

    A budget of the method's own is still said to the model, but no longer enforced.

    Args:
        method: Answers in one call.
        budgets: Completion tokens of solving.
        checked: Those of them that are also run by themselves: as ``separate_vanilla[100+0L]``, and
            as ``told_vanilla[100+0L]`` where there is a method that says its budget.
        ending: As in `Truncation`.

    Raises:
        InputError: No budget, one below 2, one to check that is not on the curve, or a
            method that solves in several calls.
    """
    settings = method.settings
    registered = METHODS[settings.method]
    if not registered.is_prompt or (registered.splits and settings.execution == "stepwise"):
        msg = (
            f"{method.name!r} solves in several calls, so there is no one answer to cut; take one "
            "that asks once, such as vanilla, planned_vanilla, or a schedule in a single pass"
        )
        raise InputError(msg)
    curve, checks = sorted(set(budgets)), sorted(set(checked))
    if not curve:
        msg = "no budget to cut the answers at"
        raise InputError(msg)
    if strange := [budget for budget in checks if budget not in curve]:
        msg = f"--check {strange[0]}: there is no such budget on the curve, only {curve}"
        raise InputError(msg)
    method = replace(method, settings=settings.model_copy(update={"enforcement": "prompt"}))
    return (
        *(_row(method, CURVE, Truncation(b, curve[-1], ending=ending)) for b in curve),
        *(row for budget in checks for row in _checks(method, budget, ending)),
    )


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
        held_back = self._truncation.budget - self._truncation.room
        short = replace(limits, cap=held_back, thinking="off")
        if self._truncation.ending == "continuation":
            return [*messages, AIMessage(kept.text + self._opening)], short
        asked = {name: getattr(self._question, name, None) for name in Query.__annotations__}
        demand = forced((), kept.text, cast("Query", asked), final=True)
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


def _row(method: Method, kind: str, truncation: Truncation) -> Method:
    name = f"{kind}_{method.name}[{truncation.budget}+0L]"
    return replace(method, name=name, truncation=truncation)


def _checks(method: Method, budget: int, ending: Ending | None) -> Iterator[Method]:
    apart = _row(method, SEPARATE, Truncation(budget, budget, ending=ending))
    yield apart
    told = _TOLD.get(method.settings.method)
    if told is not None:
        rule = {"method": told, "budget": Fixed(tokens=budget), "enforcement": "force"}
        reserve = {"reserve": Truncation(budget, budget).reserve}
        settings = method.settings.model_copy(update=rule | reserve)
        yield replace(method, name=apart.name.replace(SEPARATE, TOLD, 1), settings=settings)


def _closed(said: str) -> str:
    """What fills a box that is open, up to the brace that closes it."""
    depth = 1
    for place, letter in enumerate(said):
        depth += {"{": 1, "}": -1}.get(letter, 0)
        if depth == 0:
            return said[: place + 1]
    return said.partition("\n")[0].rstrip() + "}"
