"""What the planner can be asked: the inputs, and the form of the reply. Loads no DSPy."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from pb_graph.planner.parsing import Difficulty, GradedPlan, Level, Plan

if TYPE_CHECKING:
    from pb_graph.models.reply import Reply
    from pb_graph.settings import Settings
    from pb_graph.types import Query, SubQuestion

T_co = TypeVar("T_co", covariant=True)


class Example(NamedTuple):
    """An exchange that shows the form of a reply: what was asked, and how it was answered."""

    asked: str
    answered: str


PLAN_FORM = """Reply with JSON only: {"steps": ["sub-question | hint", ...]}. Where a step does \
not need the one before it, add the numbers of those it needs: "sub-question | hint | after 1"."""
FUSED_FORM = """Reply with JSON only: {"level": N, "steps": [{"question": "sub-question | hint", \
"level": N, "credit": N}, ...]}."""

# Written for this purpose, and part of no data set.
EXAMPLES = """Level 1: What is 15 % of 60?
Level 2: The sides of a rectangle are 3:4 and its diagonal is 20 cm long. What is its area?
Level 3: How many whole numbers below 1000 are divisible by neither 2 nor 5?
Level 4: For which real a do x^2 + ax + 1 = 0 and x^2 + x + a = 0 have a root in common?
Level 5: How many ways are there to tile a 2 by 12 board with dominoes and 2 by 2 \
squares such that no two squares touch?"""

LEVEL_FORM = "Reply with the level alone: L1, L2, L3, L4 or L5."
LEVEL_CAP = 2
"""The letter and the digit. A small model takes a digit alone for the answer to the problem."""
_LEVEL_LINE = re.compile(r"^Level ([1-5]):", re.MULTILINE)
_MIXED = "31524"  # levels as they are shown: rising, the next would seem to be told
_UNSAID = frozenset({"general problem solving", "mathematics", "arithmetic"})
"""Fields that say nothing beside these examples: without them the wording was measured."""

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
class PlannerRequest(Generic[T_co]):
    """What to ask which predictor.

    Attributes:
        predictor: Name of the planner's predictor.
        node: Node that the calls are charged to.
        answer: The type of the value that is asked for.
        inputs: Values of the signature's input fields.
        form: What the reply has to look like, in words.
        schema: The same as a JSON schema, for servers that constrain decoding; None for no JSON.
        examples: Exchanges to imitate, where the form needs some.
        cap: Completion tokens, where the reply needs fewer than any planner's; then the model is
            not to think.
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
        """The same question again, with what was wrong about the last reply."""
        return replace(self, inputs=self.inputs | {"correction": complaint})


@dataclass(frozen=True, slots=True)
class PlannerReply(Generic[T_co]):
    """What the planner made of it: the value of the one output field, and every call's reply."""

    value: T_co
    replies: list[Reply]


def decomposition(query: Query, settings: Settings) -> PlannerRequest[Plan]:
    """Ask for a plan."""
    schema = _object(steps=_array(_STEP, min(2, settings.max_steps), settings.max_steps))
    inputs = _about(query)
    return PlannerRequest("decompose", "plan", Plan, inputs, PLAN_FORM, schema, (PLAN_EXAMPLE,))


def graded_decomposition(query: Query, settings: Settings) -> PlannerRequest[GradedPlan]:
    """Ask for a plan with levels and credits."""
    inputs = _about(query) | _examples(settings)
    step = _object(question=_STEP, level=_LEVEL, credit=_CREDIT)
    steps = _array(step, min(2, settings.max_steps), settings.max_steps)
    schema = _object(level=_LEVEL, steps=steps)
    return PlannerRequest("fused", "plan", GradedPlan, inputs, FUSED_FORM, schema, (FUSED_EXAMPLE,))


def estimation(
    query: Query, plan: Sequence[SubQuestion], settings: Settings
) -> PlannerRequest[Difficulty]:
    """Ask for the level of the question, and levels and credits of its sub-questions."""
    lines = [f"{step['index'] + 1}. {step['question']}" for step in plan]
    inputs = _about(query) | _examples(settings) | {"sub_questions": "\n".join(lines)}
    form, schema, example = _difficulty_form(len(plan), ask_level=query["level"] is None)
    return PlannerRequest("estimate", "estimate", Difficulty, inputs, form, schema, (example,))


def level_alone(query: Query, settings: Settings) -> PlannerRequest[Level]:
    """Ask for the level of the question in two tokens, with the chances of the other levels.

    Problems of known level are shown as exchanges, if they are written as lines of "Level 2: …".
    """
    about, known = _about(query), _examples(settings)
    parts = _LEVEL_LINE.split(known["examples"])
    lines = sorted(
        zip(parts[1::2], parts[2::2], strict=True), key=lambda line: _MIXED.index(line[0])
    )
    if parts[0].strip() or not lines:  # in words of the user's own
        inputs = {"domain": about["domain"], "problem": about["problem"]} | known
        shown: tuple[Example, ...] = (Example(_EXAMPLE_PROBLEM, "L1"),)
    else:
        domain = "" if about["domain"].casefold() in _UNSAID else about["domain"]
        inputs = {"domain": domain, "problem": about["problem"], "examples": ""}
        shown = tuple(Example(f"Problem:\n{text.strip()}", f"L{level}") for level, text in lines)
    return PlannerRequest("level", "estimate", Level, inputs, LEVEL_FORM, None, shown, LEVEL_CAP)


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


def _examples(settings: Settings) -> dict[str, str]:
    """Problems of known level to compare with: the user's, or else the package's own."""
    own = settings.level_examples
    return {"examples": EXAMPLES if own is None else own}


def _about(query: Query) -> dict[str, str]:
    level, problem = query["level"], query["question"]
    if before := query.get("conversation"):
        problem = f"{before}\n\nThe problem to look at now:\n{problem}"
    if media := query.get("media"):
        problem += f"\n({len(media)} image(s) or file(s), which only the solver gets to see.)"
    return {
        "domain": query["domain"],
        "problem": problem,
        "level": "" if level is None else f"level {level} of 5",
        "correction": "",
    }
