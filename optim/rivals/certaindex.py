"""Certaindex: asks for the result every so many tokens, and stops once it no longer changes."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from optim.rivals.adaptive_consistency import comparable
from pb_graph.answers import without_thinking
from pb_graph.errors import ModelCallError, ModelSetupError
from pb_graph.methods import method
from pb_graph.prompts import MethodInput, PromptMessage, single_call_prompt
from pb_graph.styles import STYLES, final_line
from pb_graph.types import Purpose

if TYPE_CHECKING:
    from pb_graph.models.reply import Reply
    from pb_graph.run.run import Run
    from pb_graph.settings import Settings
    from pb_graph.state import State
    from pb_graph.types import Query

PROBE_EVERY = 64
"""Tokens of an answer between two probes for its result."""
PROBES_AGREE = 3
"""Equal probes in a row that end the answer."""
PROBE_TOKENS = 20
PROBE = "\n\nI can already tell the result of the whole problem.\n\n**Final answer:** \\boxed{"
_HEDGES = re.compile(r"\b(?:wait|hold|but|okay|no|hmm)\b", re.IGNORECASE)


def _limit(settings: Settings, _: Query) -> int:
    """Return the cutoff for the answer, and a probe behind each of its pieces."""
    return settings.cutoff + PROBE_TOKENS * -(-settings.cutoff // PROBE_EVERY)


@method(
    "certaindex",
    "Probes for the result every few tokens and stops when several probes agree.",
    source="Dynasor, arXiv:2412.20993",
    limit=_limit,
)
async def certaindex(given: MethodInput, run: Run) -> State:
    """Write the answer in pieces of `PROBE_EVERY` tokens, with a probe behind each.

    Pieces are charged to ``answer``, probes to ``probe``; a probe is not part of the answer.
    """
    settings = run.settings
    prompt = single_call_prompt(replace(given, style=STYLES["prose"], budget=None))
    level = given.query["level"]
    answering, probing = Purpose("answer", level=level), Purpose("probe", level=level)
    written, left = "", settings.cutoff
    agreed: list[str] = []
    while left > 0:
        cap = min(PROBE_EVERY, left)
        try:
            piece = await _piece(prompt, written, cap, answering, run)
            written, left = written + piece.text, left - piece.tokens
            if piece.finish != "length" or piece.tokens < cap:
                break
            if not piece.text:
                msg = "certaindex probes the thinking, which this server hides: leave it out"
                raise ModelSetupError(msg)
            probe = await _piece(prompt, written + PROBE, PROBE_TOKENS, probing, run)
        except ModelCallError as failure:
            if not written:
                raise
            run.warn(failure.code, str(failure))
            break
        result = result_in(probe.text)
        if result is None or (agreed and comparable(result) != comparable(agreed[-1])):
            agreed = []
        agreed += [result] if result else []
        if result and len(agreed) == PROBES_AGREE:
            line = final_line(given.query, result)
            return {"answer": f"{without_thinking(written)}\n\n{line}".strip()}
    return {"answer": without_thinking(written)}


async def _piece(
    prompt: list[PromptMessage], written: str, cap: int, purpose: Purpose, run: Run
) -> Reply:
    from pb_graph.models.options import CallOptions  # noqa: PLC0415 -- loads LangChain

    start: list[PromptMessage] = [("ai", written)] if written else []
    options = CallOptions(cap, purpose=purpose, thinking="free", continue_last=True)
    return await run.ask([*prompt, *start], options)


def result_in(probe: str) -> str | None:
    """Return the content of a probe's box; None if the box stays open or the model hedges."""
    depth = 1
    for place, letter in enumerate(probe):
        depth += {"{": 1, "}": -1}.get(letter, 0)
        if depth == 0:
            return None if _HEDGES.search(probe, place) else probe[:place].strip() or None
    return None
