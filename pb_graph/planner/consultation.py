"""One question to the planner: its inputs, the form of the reply, and how it is asked."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import dspy
from dspy.utils.exceptions import AdapterParseError

from pb_graph.models.caps import Limits
from pb_graph.models.client import ChatClient
from pb_graph.models.faults import explain
from pb_graph.models.reply import Purpose, Reply
from pb_graph.planner.adapter import Example, TerseAdapter
from pb_graph.planner.engine import LangChainEngine, language_model

if TYPE_CHECKING:
    from pb_graph.planner.planner import Planner
    from pb_graph.settings import Settings
    from pb_graph.state import Query, SubQuestion

PLAN_FORM = """Reply with JSON only: {"steps": ["sub-question | hint", ...]}. Where a step does \
not need the one before it, add the numbers of those it needs: "sub-question | hint | after 1"."""
FUSED_FORM = """Reply with JSON only: {"level": N, "steps": [{"question": "sub-question | hint", \
"level": N, "credit": N}, ...]}."""

# An exchange to imitate, set apart from the real problem: inside the instructions its words would
# turn up in a small model's plans.
_EXAMPLE_PROBLEM = "Problem:\nA shop sells pens at 3 for $2. How many pens can be bought with $14?"
_EXAMPLE_SUB_QUESTIONS = """

Sub-questions:
1. How many groups of 3 pens does $14 pay for?
2. How many pens is that?"""
PLAN_EXAMPLE = Example(
    _EXAMPLE_PROBLEM,
    '{"steps": ["How many groups of 3 pens does $14 pay for? | divide by the price of a group", '
    '"How many pens is that? | multiply by the group size"]}',
)
FUSED_EXAMPLE = Example(
    _EXAMPLE_PROBLEM,
    '{"level": 1, "steps": [{"question": "How many groups of 3 pens does $14 pay for? | divide by '
    'the price of a group", "level": 1, "credit": 60}, {"question": "How many pens is that? | '
    'multiply by the group size", "level": 1, "credit": 40}]}',
)

_LEVEL = {"type": "integer", "minimum": 1, "maximum": 5}
_CREDIT = {"type": "integer", "minimum": 1, "maximum": 100}
_STEP = {"type": "string", "maxLength": 160}


class UnreadableReplyError(Exception):
    """The planner answered, but not with what was asked. Internal: nodes repair or fall back."""

    def __init__(self, reason: str, replies: list[Reply]) -> None:
        super().__init__(reason)
        self.replies = replies


@dataclass(frozen=True, slots=True)
class Consultation:
    """What to ask which predictor.

    Attributes:
        predictor: Name of the planner's predictor.
        node: Node that the calls are charged to.
        inputs: Values of the signature's input fields.
        form: What the reply has to look like, in words.
        schema: The same as a JSON schema, for servers that constrain decoding.
        example: An exchange to imitate, where the form needs one.
    """

    predictor: str
    node: str
    inputs: dict[str, str]
    form: str
    schema: dict[str, Any] = field(repr=False)
    example: Example | None = None

    def corrected(self, complaint: str) -> Consultation:
        """The same question again, with what was wrong about the last reply."""
        return replace(self, inputs=self.inputs | {"correction": complaint})


@dataclass(frozen=True, slots=True)
class Opinion:
    """What the planner made of it: the value of the one output field, and every call's reply."""

    value: Any
    replies: list[Reply]


def decomposition(query: Query, settings: Settings) -> Consultation:
    """Ask for a plan."""
    schema = _object(steps=_array(_STEP, min(2, settings.max_steps), settings.max_steps))
    return Consultation("decompose", "plan", _about(query), PLAN_FORM, schema, PLAN_EXAMPLE)


def graded_decomposition(query: Query, settings: Settings, examples: str) -> Consultation:
    """Ask for a plan with levels and credits."""
    inputs = _about(query) | {"examples": examples}
    step = _object(question=_STEP, level=_LEVEL, credit=_CREDIT)
    steps = _array(step, min(2, settings.max_steps), settings.max_steps)
    schema = _object(level=_LEVEL, steps=steps)
    return Consultation("fused", "plan", inputs, FUSED_FORM, schema, FUSED_EXAMPLE)


def estimation(query: Query, plan: Sequence[SubQuestion], examples: str) -> Consultation:
    """Ask for the level of the question, and levels and credits of its sub-questions."""
    lines = [f"{step['index'] + 1}. {step['question']}" for step in plan]
    inputs = _about(query) | {"examples": examples, "sub_questions": "\n".join(lines)}
    form, schema, example = _difficulty_form(len(plan), ask_level=query["level"] is None)
    return Consultation("estimate", "estimate", inputs, form, schema, example)


def consult(
    planner: Planner, client: ChatClient, ask: Consultation, settings: Settings, *, traced: bool
) -> Opinion:
    """Ask once.

    Args:
        planner: Whose predictor is asked.
        client: The chat model behind it.
        ask: What to ask.
        settings: Cap and time-out of a planner call.
        traced: Whether an active DSPy trace shall see it, as an optimizer needs. Otherwise not:
            DSPy's default trace is one global list that only grows.

    Raises:
        UnreadableReplyError: The reply held nothing usable; its charge is in ``replies``.
        ModelCallError: The model could not be called.
    """
    engine = _engine(client, ask, settings)
    with _planner_context(engine, ask, traced=traced):
        # Said once more at the call: a predictor may have been saved with a model of its own, which
        # nobody would cap or count.
        try:
            prediction = getattr(planner, ask.predictor)(**ask.inputs, lm=dspy.settings.lm)
        except Exception as error:  # noqa: BLE001 -- raised on, as what it really is
            raise _cause(error, engine) from _root(error, engine)
    return _opinion(prediction, engine)


async def aconsult(
    planner: Planner, client: ChatClient, ask: Consultation, settings: Settings, *, traced: bool
) -> Opinion:
    """`consult` for an event loop."""
    engine = _engine(client, ask, settings)
    with _planner_context(engine, ask, traced=traced):
        try:
            predictor = getattr(planner, ask.predictor)
            prediction = await predictor.acall(**ask.inputs, lm=dspy.settings.lm)
        except Exception as error:  # noqa: BLE001 -- raised on, as what it really is
            raise _cause(error, engine) from _root(error, engine)
    return _opinion(prediction, engine)


def _engine(client: ChatClient, ask: Consultation, settings: Settings) -> LangChainEngine:
    cap = min(settings.planner_cap, settings.cutoff)
    return LangChainEngine(client, Limits(cap, settings.timeout, ask.schema), Purpose(ask.node))


def _planner_context(
    engine: LangChainEngine, ask: Consultation, *, traced: bool
) -> AbstractContextManager[None]:
    """DSPy's settings for this one call; never ``dspy.configure``, which is the host's."""
    context: AbstractContextManager[None] = dspy.context(
        lm=language_model(engine),
        adapter=TerseAdapter(ask.form, ask.example),
        trace=dspy.settings.trace if traced else None,
        disable_history=True,
        track_usage=False,
    )
    return context


def _cause(error: Exception, engine: LangChainEngine) -> Exception:
    """What really went wrong below DSPy, with the replies that were paid for."""
    if engine.errors:
        return explain(engine.errors[-1])
    if isinstance(error, AdapterParseError) or engine.replies:
        return UnreadableReplyError(str(error.__cause__ or "it was empty"), engine.replies)
    return explain(error)


def _root(error: Exception, engine: LangChainEngine) -> BaseException | None:
    """The provider's own exception, not what DSPy made of it: an error is never its own cause."""
    return engine.errors[-1].__cause__ if engine.errors else error


def _opinion(prediction: Any, engine: LangChainEngine) -> Opinion:  # noqa: ANN401 -- untyped DSPy
    (name,) = prediction.keys()
    return Opinion(prediction[name], engine.replies)


def _difficulty_form(steps: int, *, ask_level: bool) -> tuple[str, dict[str, Any], Example]:
    """Words, schema and example for as many levels and credits as there are sub-questions."""
    parts: dict[str, tuple[str, dict[str, Any], str]] = {}
    if ask_level:
        parts["level"] = ("level of the whole problem", _LEVEL, "1")
    if steps:
        parts["levels"] = (f"{steps} levels, in order", _array(_LEVEL, steps), "[1, 1]")
        parts["credits"] = (f"{steps} credits, sum 100", _array(_CREDIT, steps), "[60, 40]")
    words = ", ".join(f'"{name}": <{meaning}>' for name, (meaning, _, _) in parts.items())
    schema = _object(**{name: schema for name, (_, schema, _) in parts.items()})
    answered = ", ".join(f'"{name}": {value}' for name, (_, _, value) in parts.items())
    asked = _EXAMPLE_PROBLEM + (_EXAMPLE_SUB_QUESTIONS if steps else "")
    form = f"Reply with one line of JSON only: {{{words}}}"
    return form, schema, Example(asked, f"{{{answered}}}")


def _object(**properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _array(items: dict[str, Any], least: int, most: int | None = None) -> dict[str, Any]:
    return {"type": "array", "items": items, "minItems": least, "maxItems": most or least}


def _about(query: Query) -> dict[str, str]:
    level = query["level"]
    return {
        "domain": query["domain"],
        "problem": query["question"],
        "level": "" if level is None else f"level {level} of 5",
        "correction": "",
    }
