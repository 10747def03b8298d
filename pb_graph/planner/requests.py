"""The requests to a planner: the inputs, and the form of the reply. Loads no DSPy."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from pb_graph.planner.parsing import Difficulty, GradedPlan, Level, Plan

if TYPE_CHECKING:
    from pb_graph.settings import Settings
    from pb_graph.types import Query, SubQuestion

T_co = TypeVar("T_co", covariant=True)

LEVEL_FORM = "Reply with the level alone: L1, L2, L3, L4 or L5."
LEVEL_CAP = 2
"""Tokens for the letter and the digit. Small models take a digit alone for the answer."""

# Written for this package, and part of no data set.
LEVEL_EXAMPLES = """Level 1: What is 15 % of 60?
Level 2: The sides of a rectangle are 3:4 and its diagonal is 20 cm long. What is its area?
Level 3: How many whole numbers below 1000 are divisible by neither 2 nor 5?
Level 4: For which real a do x^2 + ax + 1 = 0 and x^2 + x + a = 0 have a root in common?
Level 5: How many ways are there to tile a 2 by 12 board with dominoes and 2 by 2 \
squares such that no two squares touch?"""

_PENS = "A shop sells pens at 3 for $2. How many pens can be bought with $14?"
_GROUPS = "How many groups of 3 pens does $14 pay for? | divide by the price of a group"
_PENS_IN_ALL = "How many pens is that? | multiply by the group size"
_LEVEL_LINE = re.compile(r"^Level ([1-5]):", re.MULTILINE)
_MIXED = "31524"
"""Order in which problems of known level are shown: in a rising order a model continues it."""
_ANY_DOMAIN = "general problem solving"
"""Default of ``Settings.domain``; it says nothing, so it is not told."""
_LIKE_EXAMPLES = frozenset({"mathematics", "arithmetic"})
"""Domains that say nothing beside `LEVEL_EXAMPLES`."""
_LEVEL = {"type": "integer", "minimum": 1, "maximum": 5}
_CREDIT = {"type": "integer", "minimum": 1, "maximum": 100}
_STEP = {"type": "string", "maxLength": 160}


class Example(NamedTuple):
    """An exchange that shows the form of a reply: the input fields by name, and the reply."""

    inputs: Mapping[str, str]
    reply: str


class UnreadableReplyError(Exception):
    """A planner's reply could not be read. Internal: nodes ask once more, or go on without."""


@dataclass(frozen=True, slots=True)
class PlannerRequest(Generic[T_co]):
    """One request to a planner.

    Attributes:
        predictor: Name of the planner's predictor.
        node: Name of the node that the call is charged to.
        answer: Type of the value that is asked for.
        inputs: Values of input fields by name; those that the signature has not are not sent.
        form: The form of the reply, in words.
        schema: The form as a JSON schema, for servers that constrain decoding; None for no JSON.
        examples: Exchanges to imitate while the predictor has no demos.
        cap: Completion tokens, where fewer than ``Settings.planner_cap`` are enough. The model is
            then asked not to think.
    """

    predictor: str
    node: str
    answer: type[T_co]
    inputs: dict[str, str]
    form: str
    schema: dict[str, Any] | None = field(repr=False)
    examples: tuple[Example, ...] = ()
    cap: int | None = None

    def corrected(self, complaint: str) -> PlannerRequest[T_co]:
        """Return the same request with a complaint about the last reply."""
        return replace(self, inputs=self.inputs | {"correction": complaint})


def decompose_request(query: Query, settings: Settings) -> PlannerRequest[Plan]:
    """Return the request for a plan.

    Args:
        query: The question; its level, if it has one, is told.
        settings: Settings of the run.
    """
    most = settings.max_steps
    form = (
        f'Reply with JSON only: {{"steps": ["sub-question | hint", ...]}}, at most {most} steps. '
        "Where a step does not need the one before it, add the numbers of those it needs: "
        '"sub-question | hint | after 1".'
    )
    inputs = _inputs(query)
    schema = _object(steps=_array(_STEP, min(2, most), most))
    example = Example(_example_inputs(inputs), json.dumps({"steps": [_GROUPS, _PENS_IN_ALL]}))
    return PlannerRequest("decompose", "plan", Plan, inputs, form, schema, (example,))


def fused_request(query: Query, settings: Settings) -> PlannerRequest[GradedPlan]:
    """Return the request for a plan with levels and credits.

    Args:
        query: The question; its level, if it has one, is told.
        settings: Settings of the run.
    """
    most, inputs = settings.max_steps, _inputs(query) | _level_examples(settings)
    step = '{"question": "sub-question | hint", "level": N, "credit": N}'
    form = f'Reply with JSON only: {{"steps": [{step}, ...]}}, at most {most} steps.'
    graded = _object(question=_STEP, level=_LEVEL, credit=_CREDIT)
    schema = _object(steps=_array(graded, min(2, most), most))
    grades = ((_GROUPS, 60), (_PENS_IN_ALL, 40))
    rows = [{"question": text, "level": 1, "credit": credit} for text, credit in grades]
    example = Example(_example_inputs(inputs), json.dumps({"steps": rows}))
    return PlannerRequest("fused", "plan", GradedPlan, inputs, form, schema, (example,))


def estimate_request(
    query: Query, plan: Sequence[SubQuestion], settings: Settings
) -> PlannerRequest[Difficulty]:
    """Return the request for levels and credits, and for the level of the question if unknown.

    Args:
        query: The question.
        plan: The sub-questions to grade; none to ask for the level of the question only.
        settings: Settings of the run.
    """
    parts: dict[str, tuple[str, dict[str, Any], object]] = {}
    if query["level"] is None:
        parts["level"] = ("level of the whole problem", _LEVEL, 1)
    if count := len(plan):
        parts["levels"] = (f"{count} levels, in order", _array(_LEVEL, count, count), [1, 1])
        parts["credits"] = (f"{count} credits, sum 100", _array(_CREDIT, count, count), [60, 40])
    words = ", ".join(f'"{name}": <{meaning}>' for name, (meaning, _, _) in parts.items())
    schema = _object(**{name: schema for name, (_, schema, _) in parts.items()})
    reply = json.dumps({name: value for name, (_, _, value) in parts.items()})
    inputs = _inputs(query) | _level_examples(settings) | {"sub_questions": _lines(plan)}
    shown = _example_inputs(inputs)
    if plan:
        shown["sub_questions"] = "\n".join(
            f"{place}. {text.partition(' | ')[0]}"
            for place, text in enumerate((_GROUPS, _PENS_IN_ALL), 1)
        )
    form = f"Reply with one line of JSON only: {{{words}}}"
    example = Example(shown, reply)
    return PlannerRequest("estimate", "estimate", Difficulty, inputs, form, schema, (example,))


def level_request(query: Query, settings: Settings) -> PlannerRequest[Level]:
    """Return the request for the level of the question alone: about two tokens.

    Problems of known level that are written as lines of "Level 2: …" are shown as exchanges.

    Args:
        query: The question.
        settings: Settings of the run.
    """
    inputs = _inputs(query) | _level_examples(settings)
    before, *parts = _LEVEL_LINE.split(inputs["examples"])
    if before.strip() or not parts:  # in the user's own words
        examples = [Example({"problem": _PENS}, "L1")]
    else:
        inputs["examples"] = ""
        if inputs["domain"].casefold() in _LIKE_EXAMPLES:
            inputs["domain"] = ""
        known = sorted(
            zip(parts[::2], parts[1::2], strict=True), key=lambda line: _MIXED.index(line[0])
        )
        examples = [Example({"problem": text.strip()}, f"L{level}") for level, text in known]
    return PlannerRequest(
        "level", "estimate", Level, inputs, LEVEL_FORM, None, tuple(examples), LEVEL_CAP
    )


def _inputs(query: Query) -> dict[str, str]:
    """Return the question as input fields; also those that only a user's own signature has."""
    problem = query["question"]
    if before := query.get("conversation"):
        problem = f"{before}\n\nThe problem to look at now:\n{problem}"
    if media := query.get("media"):
        problem += f"\n({len(media)} image(s) or file(s), which only the solver gets to see.)"
    level = query["level"]
    others = ("reference", "instruction", "answer_format")
    return {
        "domain": "" if query["domain"] == _ANY_DOMAIN else query["domain"],
        "problem": problem,
        "level": "" if level is None else f"level {level} of 5",
        "correction": "",
        **{name: str(query[name] or "") for name in others},  # type: ignore[literal-required]
    }


def _example_inputs(inputs: Mapping[str, str]) -> dict[str, str]:
    """Return the inputs of the example; with a level if the real problem has one."""
    return {"problem": _PENS, "level": "level 1 of 5" if inputs["level"] else ""}


def _level_examples(settings: Settings) -> dict[str, str]:
    own = settings.level_examples
    return {"examples": LEVEL_EXAMPLES if own is None else own}


def _lines(plan: Sequence[SubQuestion]) -> str:
    return "\n".join(f"{step['index'] + 1}. {step['question']}" for step in plan)


def _object(**properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _array(items: dict[str, Any], least: int, most: int) -> dict[str, Any]:
    return {"type": "array", "items": items, "minItems": least, "maxItems": most}
