"""The requests to a planner: the inputs, and the form of the reply. Loads no DSPy."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

from pb_graph import paper
from pb_graph.planner.plans import Difficulty, Level, Plan
from pb_graph.settings import DOMAIN_STYLES, LEVEL_CAP, Settings
from pb_graph.types import Query, SubQuestion

T_co = TypeVar("T_co", covariant=True)

LEVEL_FORM = "Reply with the level alone."

# Written for this package, and part of no data set.
LEVEL_EXAMPLES = """Level 1: What is 15 % of 60?
Level 2: The sides of a rectangle are 3:4 and its diagonal is 20 cm long. What is its area?
Level 3: How many whole numbers below 1000 are divisible by neither 2 nor 5?
Level 4: For which real a do x^2 + ax + 1 = 0 and x^2 + x + a = 0 have a root in common?
Level 5: How many ways are there to tile a 2 by 12 board with dominoes and 2 by 2 \
squares such that no two squares touch?"""

_PENS = "A shop sells pens at 3 for $2. How many pens can be bought with $14?"
_PENS_STEPS = (
    "How many groups of 3 pens does $14 pay for? | divide by the price of a group",
    "How many pens is that? | multiply by the group size",
)
_PENS_CREDITS = (60, 40)
_LEVEL_LINE = re.compile(r"^Level ([1-5]):", re.MULTILINE)
_MIXED = "31524"
"""Order in which problems of known level are shown: in a rising order a model continues it."""
_ANY_DOMAIN = "general problem solving"
"""Default of ``Settings.domain``; it says nothing, so it is not told."""
_LEVEL = {"type": "integer", "minimum": 1, "maximum": 5}
_CREDIT = {"type": "integer", "minimum": 1, "maximum": 100}
_STEP = {"type": "string", "maxLength": 160}


class Example(NamedTuple):
    """An exchange that shows the form of a reply: the input fields by name, and the reply."""

    inputs: Mapping[str, str]
    reply: str


class UnreadableReplyError(Exception):
    """A planner's reply could not be read. Nodes ask again, or continue without the reply."""


@dataclass(frozen=True, slots=True)
class PlannerRequest(Generic[T_co]):
    """One request to a planner, for a value of one type.

    Attributes:
        predictor: Name of the planner's predictor.
        node: Name of the node that the call is charged to.
        inputs: Values of input fields by name. Fields that the signature lacks are not sent.
        form: The form of the reply, in words.
        schema: The form as a JSON schema, for servers that constrain decoding; None for no JSON.
        examples: Exchanges to imitate while the predictor has no demos.
        cap: Completion tokens, where fewer than ``Settings.planner_cap`` are enough. The model is
            then asked not to think.
    """

    predictor: str
    node: str
    inputs: dict[str, str]
    form: str
    schema: dict[str, Any] | None = field(repr=False)
    examples: tuple[Example, ...] = ()
    cap: int | None = None


def plan_request(query: Query, settings: Settings, *, graded: bool = False) -> PlannerRequest[Plan]:
    """Return the request for a plan.

    Args:
        query: The question. Its level is stated if it is known.
        settings: Settings of the run.
        graded: Whether to ask for the level and the credit of each step, too.
    """
    limit, inputs = settings.max_steps, _inputs(query, settings)
    is_paper = settings.style == "paper"
    example_steps, level = (paper.STEPS, 3) if is_paper else (_PENS_STEPS, 1)
    credits_ = paper.CREDITS if is_paper else _PENS_CREDITS
    steps: Sequence[object]
    if graded:
        pattern = '{"question": "sub-question | hint", "level": N, "credit": N}'
        item = _object(question=_STEP, level=_LEVEL, credit=_CREDIT)
        steps = [
            {"question": text, "level": level, "credit": credit}
            for text, credit in zip(example_steps, credits_, strict=True)
        ]
    else:
        pattern, item, steps = '"sub-question | hint"', _STEP, example_steps
    form = f'Reply with JSON only: {{"steps": [{pattern}, ...]}}, at most {limit} steps.'
    if settings.is_stepwise:  # independent steps run in parallel
        form += (
            " Where a step does not need the one before it, add the numbers of those it needs: "
            '"sub-question | hint | after 1".'
        )
    if is_paper:
        form = f"{paper.PLANNER}\n\n{form}"
    example = Example(_example_inputs(inputs, settings), json.dumps({"steps": steps}))
    schema = _object(steps=_array(item, min(2, limit), limit))
    predictor = "fused" if graded else "decompose"
    return PlannerRequest(predictor, "plan", inputs, form, schema, (example,))


def estimate_request(
    query: Query, plan: Sequence[SubQuestion], settings: Settings
) -> PlannerRequest[Difficulty]:
    """Return the request for levels and credits, and for the level of the question if unknown.

    Args:
        query: The question.
        plan: The sub-questions to grade; none to ask for the level of the question only.
        settings: Settings of the run.
    """
    words: list[str] = []
    parts: dict[str, dict[str, Any]] = {}
    reply: dict[str, object] = {}
    inputs = _inputs(query, settings)
    in_example = _example_inputs(inputs, settings)
    is_paper = settings.style == "paper"
    steps, credits_ = (paper.STEPS, paper.CREDITS) if is_paper else (_PENS_STEPS, _PENS_CREDITS)
    example_level = 3 if is_paper else 1
    if query["level"] is None:
        words.append('"level": <level of the whole problem>')
        parts["level"], reply["level"] = _LEVEL, example_level
    if count := len(plan):
        words += [f'"levels": <{count} levels, in order>', f'"credits": <{count} credits, sum 100>']
        parts["levels"] = _array(_LEVEL, count, count)
        parts["credits"] = _array(_CREDIT, count, count)
        reply |= {"levels": [example_level] * len(steps), "credits": credits_}
        inputs["examples"] = _known_problems(query, settings)
        inputs["sub_questions"] = _numbered(step["question"] for step in plan)
        in_example["sub_questions"] = _numbered(text.partition(" | ")[0] for text in steps)
    form = f"Reply with one line of JSON only: {{{', '.join(words)}}}"
    if is_paper:
        form = f"{paper.GRADER}\n\n{form}"
    example = Example(in_example, json.dumps(reply))
    return PlannerRequest("estimate", "estimate", inputs, form, _object(**parts), (example,))


def level_request(query: Query, settings: Settings) -> PlannerRequest[Level]:
    """Return the request for the level of the question alone: about two tokens.

    Examples in the form "Level 2: …" are shown as exchanges.

    Args:
        query: The question.
        settings: Settings of the run.
    """
    inputs = _inputs(query, settings)
    intro, *parts = _LEVEL_LINE.split(inputs["examples"])
    if intro.strip() or not parts:  # the user rewrote the examples
        examples = [Example({"problem": _PENS}, "L1")]
    else:
        inputs["examples"] = ""
        if inputs["domain"].casefold() in DOMAIN_STYLES:  # `LEVEL_EXAMPLES` show it
            inputs["domain"] = ""
        problems = zip(parts[::2], parts[1::2], strict=True)
        examples = [
            Example({"problem": text.strip()}, f"L{level}")
            for level, text in sorted(problems, key=lambda line: _MIXED.index(line[0]))
        ]
    return PlannerRequest(
        "level", "estimate", inputs, LEVEL_FORM, None, tuple(examples), cap=LEVEL_CAP
    )


def _inputs(query: Query, settings: Settings) -> dict[str, str]:
    """Return the question as input fields, including fields of a user's own signature.

    Problems of known level are shown only if the level of the question is unknown.
    """
    problem = query["question"]
    if conversation := query.get("conversation"):
        problem = f"{conversation}\n\nThe problem to look at now:\n{problem}"
    if media := query.get("media"):
        problem += f"\n({len(media)} image(s) or file(s), which only the solver gets to see.)"
    level = query["level"]
    return {
        "examples": _known_problems(query, settings) if level is None else "",
        "domain": "" if query["domain"] == _ANY_DOMAIN else query["domain"],
        "problem": problem,
        "level": "" if level is None else f"level {level} of 5",
        "correction": "",
        "reference": query["reference"] or "",
        "instruction": query["instruction"] or "",
        "answer_format": query["answer_format"] or "",
    }


def _known_problems(query: Query, settings: Settings) -> str:
    """Return the problems of known level that a planner is shown; '' for none."""
    if settings.level_examples is not None:
        return settings.level_examples
    is_of_another_field = query["domain"].casefold() not in (*DOMAIN_STYLES, _ANY_DOMAIN)
    return "" if is_of_another_field else LEVEL_EXAMPLES  # ours are of mathematics


def _example_inputs(inputs: Mapping[str, str], settings: Settings) -> dict[str, str]:
    """Return the inputs of the example; with a level if the real problem has one."""
    problem, level = (paper.PROBLEM, 3) if settings.style == "paper" else (_PENS, 1)
    return {"problem": problem, "level": f"level {level} of 5" if inputs["level"] else ""}


def _numbered(questions: Iterable[str]) -> str:
    return "\n".join(f"{place}. {question}" for place, question in enumerate(questions, 1))


def _object(**properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _array(items: dict[str, Any], minimum: int, maximum: int) -> dict[str, Any]:
    return {"type": "array", "items": items, "minItems": minimum, "maxItems": maximum}
