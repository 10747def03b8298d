"""The promises of an endpoint, one function each: what is asked, and what the reply shows.

They are looked at in this order: which policy bounds thinking is found out first, and the others
go by it.

A verdict is ``broken`` only on evidence. What could not be seen (a reply that was empty, thinking
that ended by itself) is ``unclear``; what was refused, or is done by no server of its kind, is
``not there``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from langchain_core.messages import AIMessage, HumanMessage

from pb_graph.models.caps import CapPolicy, llama_cpp, openai_compatible, sglang, vllm
from pb_graph.models.caps.probed import Verdict
from pb_graph.models.options import CallOptions
from pb_graph.models.usage import tokens_of
from pb_graph.probe.session import COUNT, PUZZLE, THINKS_FROM, Seen, Session

_LONG_TOKEN = 8  # characters of a token of numbers and commas, with room to spare
_BOUNDED = CallOptions(192, 1.0)  # its room for thinking is 128 tokens
_OFF = CallOptions(64, 1.0, thinking="off")
_SLACK = 32
_KNOWN, _BEGUN = "The quick brown fox jumps over the lazy dog.", "The quick brown"
_SCHEMA = {
    "type": "object",
    "properties": {"colour": {"type": "string", "enum": ["teal"]}, "number": {"type": "integer"}},
    "required": ["colour", "number"],
    "additionalProperties": False,
}


class Finding(NamedTuple):
    """A verdict, and what it rests on in a few words."""

    verdict: Verdict
    seen: str


@dataclass(frozen=True, slots=True)
class Check:
    """One promise.

    Attributes:
        name: Of it in ``caps.json``.
        promise: What is promised.
        broken: What it means for budgets when it is not kept.
        missing: What it means when it was never made.
        look: Finds out.
    """

    name: str
    promise: str
    broken: str
    missing: str
    look: Callable[[Session], Finding]


CHECKS: list[Check] = []


def check(promise: str, *, broken: str, missing: str = "") -> Callable[[Any], Any]:
    """Register a function that finds out whether a promise is kept; it is called by its name."""

    def register(look: Callable[[Session], Finding]) -> Callable[[Session], Finding]:
        CHECKS.append(Check(look.__name__, promise, broken, missing or broken, look))
        return look

    return register


@check(
    "thinking leaves room for an answer",
    broken="thinking eats the answer; ample budgets only, or none",
    missing="it does not think: nothing to bound",
)
def thinking_budget(session: Session) -> Finding:
    """A question that overruns the room for thinking, by the policy or by one that fits better."""
    if not session.thinks:
        return _does_not_think(session)
    if session.free.hidden <= _BOUNDED.thinking_room + _SLACK:
        return Finding("unclear", f"it thinks no more than {session.free.hidden} tokens anyway")
    found = Finding("broken", "nothing that is sent bounds it")
    for policy in _that_say(session, _BOUNDED):
        seen = session.ask(PUZZLE, _BOUNDED.cap, thinking="bounded", policy=policy)
        if seen.text and seen.hidden <= _BOUNDED.thinking_room + _SLACK:
            session.policy = policy
            return Finding("kept", f"{seen.hidden} of {_BOUNDED.thinking_room} tokens")
        told = f"{seen.hidden} tokens instead of {_BOUNDED.thinking_room}"
        found = Finding("broken", told if seen.text else f"{told}, and no answer")
    return found


@check(
    "thinking can be switched off",
    broken="a forced ending may come out empty",
    missing="it does not think: nothing to switch off",
)
def thinking_off(session: Session) -> Finding:
    """The same question, to be answered at once."""
    if not session.thinks:
        return _does_not_think(session)
    found = Finding("broken", "nothing that is sent switches it off")
    for policy in _that_say(session, _OFF):
        seen = session.ask(PUZZLE, _OFF.cap, thinking="off", policy=policy)
        found = Finding("broken", f"{seen.hidden} tokens hidden")
        if seen.text and seen.hidden < THINKS_FROM:
            session.policy = policy
            return found._replace(verdict="kept")
    return found


@check("a reply ends at its cap", broken="no budget can hold here")
def output_cap(session: Session) -> Finding:
    """Count to 100 within 24 tokens, unless another call has shown already that it does not."""
    return _capped(session.overrun or session.counted)


@check("a streamed reply ends at its cap", broken="streamed answers exceed their budget")
def stream_cap(session: Session) -> Finding:
    """The same as a stream."""
    if session.streamed.refused:
        return _no_reply(session.streamed)
    return _capped(session.streamed)


@check(
    "a reply that was cut off says so",
    broken="unfinished answers pass for finished: no forced ending",
)
def cut_is_said(session: Session) -> Finding:
    """Its reason is 'length'."""
    seen = session.counted
    if not seen.reply or seen.tokens != seen.cap:
        return Finding("unclear", "no reply was cut off")
    return Finding("kept" if seen.ended == "length" else "broken", f"said: {seen.ended}")


@check("a reply tells its tokens", broken="accounts are estimates from the text")
def usage(session: Session) -> Finding:
    """Of a plain reply."""
    return _measured(session.counted)


@check("a streamed reply tells its tokens", broken="accounts of streamed answers are estimates")
def stream_usage(session: Session) -> Finding:
    """Of a streamed reply, which has been asked for it."""
    if session.streamed.refused:
        return _no_reply(session.streamed)
    if session.streamed.tokens > session.streamed.cap:
        return Finding("unclear", "ended by us: it went on beyond its cap")
    return _measured(session.streamed)


@check("the tokens are those of the text", broken="T, E³ and every budget count too little")
def honest_usage(session: Session) -> Finding:
    """No fewer tokens than could hold the text, and a sum without hidden parts."""
    for seen in (session.counted, session.streamed, session.free):
        told = seen.message.usage_metadata
        if not told:
            continue
        if told["total_tokens"] > told["input_tokens"] + told["output_tokens"]:
            hidden = told["total_tokens"] - told["input_tokens"] - told["output_tokens"]
            return Finding("broken", f"{hidden} tokens are in the total only")
        if told["output_tokens"] * _LONG_TOKEN < len(seen.message.text):
            said = f"{told['output_tokens']} tokens for {len(seen.message.text)} characters"
            return Finding("broken", said)
    if not session.counted.message.usage_metadata:
        return Finding("unclear", "no tokens are told")
    return Finding("kept", f"{session.counted.tokens} for {len(session.counted.text)} characters")


@check("a stream comes piece by piece", broken="the answer shows only when it is whole")
def streaming(session: Session) -> Finding:
    """More than one piece."""
    seen = session.streamed
    if seen.refused:
        return _no_reply(seen)
    if not seen.pieces:
        return Finding("unclear", "no text")
    return Finding("kept" if seen.pieces > 1 else "broken", f"{seen.pieces} pieces")


@check(
    "a lower effort thinks less",
    broken="effort levels change nothing: the cap alone bounds thinking",
    missing="no levels of effort",
)
def effort(session: Session) -> Finding:
    """The same question with low and with high effort."""
    if not session.thinks:
        return _does_not_think(session)
    low, high = (
        session.ask(PUZZLE, 384, extra={"reasoning_effort": level}) for level in ("low", "high")
    )
    if not (low.reply and high.reply):
        return _no_reply(low if high.reply else high)
    told = f"{low.hidden} against {high.hidden} tokens"
    return Finding("kept" if low.hidden < high.hidden else "broken", told)


@check("a reply ends before a stop word", broken="stop words are ignored", missing="no stop words")
def stop(session: Session) -> Finding:
    """Count, and stop before the 7."""
    seen = session.ask(COUNT, 64, thinking="off", extra={"stop": ["7"]})
    if not seen.reply:
        return _no_reply(seen)
    if "7" in seen.text:
        return Finding("broken", "went on behind it")
    return Finding("kept" if "5" in seen.text else "unclear", f"{len(seen.text)} characters")


@check(
    "a reply follows a JSON schema",
    broken="schemas are ignored: caps.json leaves them out, and plans are read as they come",
    missing="no schemas: plans are read as they come",
)
def schema(session: Session) -> Finding:
    """Say hello, in a form that nobody would choose."""
    limits = CallOptions(128, 1.0, thinking="off")
    asked = CallOptions(128, 1.0, schema=_SCHEMA, thinking="off")
    if session.policy(session.model, limits) == session.policy(session.model, asked):
        return Finding("not there", "this policy sends none")
    seen = session.ask("Say hello.", limits.cap, thinking="off", schema=_SCHEMA)
    if seen.refused:
        return _no_reply(seen)
    try:
        said = json.loads(seen.text)
    except ValueError:
        cut = seen.ended == "length" and (not seen.text or seen.text.startswith("{"))
        return Finding("unclear" if cut else "broken", "no JSON" if seen.text else "no text")
    follows = isinstance(said, dict) and said.keys() == {"colour", "number"}
    follows = follows and said["colour"] == "teal" and type(said["number"]) is int
    return Finding("kept" if follows else "broken", "as asked" if follows else "another form")


@check("a begun answer is continued", broken="a begun answer begins anew")
def continuation(session: Session) -> Finding:
    """A sentence that everybody knows how to end."""
    begun = [HumanMessage(f"Write this sentence: {_KNOWN}"), AIMessage(_BEGUN)]
    seen = session.ask(begun, 32, thinking="off", continues=True)
    if not seen.reply:
        return _no_reply(seen)
    if not seen.text:
        return Finding("unclear", "no text")
    follows = seen.text.lstrip().startswith(_KNOWN.removeprefix(_BEGUN).split()[0])
    return Finding("kept" if follows else "not there", f"{seen.text[:16]!r}")


@check(
    "tokens come with probabilities",
    broken="probabilities are invented",
    missing="no probabilities",
)
def logprobs(session: Session) -> Finding:
    """Of the likeliest tokens at each place, which cannot be likelier than 1 together."""
    seen = session.ask(COUNT, 8, thinking="off", extra={"logprobs": True, "top_logprobs": 3})
    if not seen.reply:
        return _no_reply(seen)
    places = (seen.message.response_metadata.get("logprobs") or {}).get("content") or []
    tops = [[top["logprob"] for top in place.get("top_logprobs") or []] for place in places]
    if not any(tops):
        return Finding("not there", "none came")
    sums = [math.fsum(math.exp(min(value, 1.0)) for value in top) for top in tops]
    honest = all(total <= 1.01 for total in sums)  # noqa: PLR2004 -- rounding
    return Finding("kept" if honest else "broken", f"{len(places)} tokens")


@check(
    "the same seed gives the same reply",
    broken="runs cannot be repeated",
    missing="no seed: runs cannot be repeated",
)
def seed(session: Session) -> Finding:
    """Twice the same at a temperature of 1."""
    asked = "Write ten words that have nothing to do with each other."
    drawn = [
        session.ask(asked, 32, thinking="off", extra={"seed": 7, "temperature": 1.0})
        for _ in range(2)
    ]
    one, two = drawn
    if not (one.reply and two.reply):
        return _no_reply(two if one.reply else one)
    if not (one.text or two.text):
        return Finding("unclear", "no text")
    return Finding("kept" if one.text == two.text else "broken", "twice at temperature 1")


def _that_say(session: Session, limits: CallOptions) -> list[CapPolicy]:
    """The policies that say something about thinking: the chosen one, or those it stands for.

    Servers that one runs oneself look alike from here, and ignore each other's words.
    """
    others = (vllm, sglang, llama_cpp) if session.policy is openai_compatible else ()
    free = replace(limits, thinking="free")
    return [
        policy
        for policy in (session.policy, *others)
        if policy(session.model, limits) != policy(session.model, free)
    ]


def _capped(seen: Seen) -> Finding:
    if not seen.reply:
        return Finding("unclear", f"no reply ({seen.refused or seen.failed})")
    text = len(seen.message.text)
    told = f"{seen.tokens} tokens, {text} characters, for a cap of {seen.cap}"
    if seen.tokens > seen.cap or text > seen.cap * _LONG_TOKEN:
        return Finding("broken", told)
    cut = seen.tokens == seen.cap or seen.ended == "length"
    return Finding("kept" if cut else "unclear", told)


def _measured(seen: Seen) -> Finding:
    if not seen.reply:
        return Finding("unclear", f"no reply ({seen.refused or seen.failed})")
    measured = tokens_of(seen.message, []).measured
    return Finding("kept" if measured else "broken", "told" if measured else "not told")


def _does_not_think(session: Session) -> Finding:
    if not session.free.reply:
        return _no_reply(session.free)
    return Finding("not there", f"{session.free.hidden} tokens hidden")


def _no_reply(seen: Seen) -> Finding:
    """Not there, if it was refused; else something else went wrong."""
    if seen.refused:
        return Finding("not there", f"refused ({seen.refused})")
    return Finding("unclear", f"no reply ({seen.failed})")
