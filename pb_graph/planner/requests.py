"""The requests to a planner: inputs, the form of the reply, and examples. Loads no DSPy."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from pb_graph.planner.plans import Difficulty, Level, Plan
from pb_graph.settings import LEVEL_CAP, Settings
from pb_graph.tasks import MATHEMATICS, asked_length, ends_of, is_composed, kind_of
from pb_graph.types import Query, SubQuestion

T_co = TypeVar("T_co", covariant=True)
Exchange = tuple[dict[str, str], str]  # input fields by name, and the reply to imitate

LEVEL_FORM = "Reply with the level alone."
# Written for this package, as all tasks below are, and part of no data set.
LEVEL_EXAMPLES = """Level 1: What is 15 % of 60?
Level 2: The sides of a rectangle are 3:4 and its diagonal is 20 cm long. What is its area?
Level 3: How many whole numbers below 1000 are divisible by neither 2 nor 5?
Level 4: For which real a do x^2 + ax + 1 = 0 and x^2 + x + a = 0 have a root in common?
Level 5: How many ways are there to tile a 2 by 12 board with dominoes and 2 by 2 \
squares such that no two squares touch?"""
LEVEL_RUBRIC = """L1: one fact, or one step
L2: two or three simple steps, or a few sentences
L3: several steps that build on each other, or a short text or program
L4: many steps or conditions at once, or a long text
L5: several ideas have to be found and joined, and it is easy to go wrong"""
"""Meaning of the levels in a field of which there are no problems of known level."""

_HARDEST = """Plan a week by train through Japan for a family of five with a baby, all vegetarian, \
for $4,000 in all."""
_ANY_DOMAIN = "general problem solving"  # default of ``Settings.domain``; it says nothing
_LEVEL = {"type": "integer", "minimum": 1, "maximum": 5}
_CREDIT = {"type": "integer", "minimum": 1, "maximum": 100}
_STEP = {"type": "string", "maxLength": 600}  # a part and its hint, of 300 characters each
_Task = dict[str, Any]  # a problem and its plan: what a reply says of it, by the name of the field
_Asked = dict[str, tuple[str, dict[str, Any]]]  # words and schema of each field of a reply
_PAPER_PLANNER = """You are an experienced expert and designer of exam questions, and help \
students break a hard problem into 2 to 5 simpler sub-questions: few for an easy problem, more for \
a hard one, and none in too much detail. Each one builds on the one before it, and its hint says \
what the student achieves by it; no hint tells the solution. Do not reason and do not think about \
it: write the sub-questions at once, by your first impression.\n\n"""
_PAPER_GRADER = """You are an experienced expert and designer of exam questions. Compare the \
problem and its sub-questions with the problems of known level. Adhere to the given sub-questions, \
and make no new ones. Their credits sum to exactly 100.\n\n"""


@dataclass(frozen=True, slots=True)
class PlannerRequest(Generic[T_co]):
    """One request to a planner, for a value of one type."""

    predictor: str  # name of the planner's predictor
    node: str  # name of the node that the call is charged to
    inputs: dict[str, str]  # by the name of the field; those that the signature lacks are not sent
    form: str  # the form of the reply, in words
    schema: dict[str, Any] | None = field(repr=False)  # where a server constrains decoding to JSON
    examples: Sequence[Exchange] = ()  # imitated while the predictor has no demos
    cap: int | None = None  # tokens, if few are enough: the model is then told not to think


def plan_request(
    query: Query, settings: Settings, *, graded: bool = False, tools: Sequence[str] = ()
) -> PlannerRequest[Plan]:
    """Return the request for a plan.

    Args:
        query: The question. Its level is stated if it is known.
        settings: Settings of the run.
        graded: Whether to ask for the steps' levels and credits, and an unknown level of the whole.
        tools: What the solver can call, a line for each tool.
    """
    inputs, tasks = _inputs(query, settings), _similar_tasks(query, settings)
    predictor, pattern, item, limit = "decompose", '"part | hint"', _STEP, settings.max_steps
    if tools:
        inputs["problem"] += "".join(["\nTools that can be called:", *(f"\n- {t}" for t in tools)])
    if graded:
        predictor, pattern = "fused", '{"question": "part | hint", "level": N, "credit": N}'
        item = _object(question=_STEP, level=_LEVEL, credit=_CREDIT)
        tasks = [{**task, "steps": task["parts"]} for task in tasks]
    asked: _Asked = {"level": ("N", _LEVEL)} if graded and query["level"] is None else {}
    if settings.style != "paper" and settings.synthesis == "auto":
        asked["delivers"] = ('"last" or "all"', {"type": "string", "enum": ["last", "all"]})
    asked["steps"] = (f"[{pattern}, ...]", _array(item, min(2, limit), limit))
    intro = _PAPER_PLANNER if settings.style == "paper" else ""
    form, schema = _form_of(f"{intro}Reply with JSON only", asked)
    form += f", at most {limit} steps."
    if settings.is_stepwise:  # independent steps run in parallel
        form += " Where a step does not need the one before it, add the numbers of those it needs: "
        form += '"part | hint | after 1".'
    examples = [_exchange(task, inputs, asked) for task in tasks]
    return PlannerRequest(predictor, "plan", inputs, form, schema, examples)


def estimate_request(
    query: Query, plan: Sequence[SubQuestion], settings: Settings
) -> PlannerRequest[Difficulty]:
    """Return the request for levels and credits, and for the level of the question if unknown.

    Args:
        query: The question.
        plan: The sub-questions to grade; none to ask for the level of the question only.
        settings: Settings of the run.
    """
    task, inputs, count = _similar_tasks(query, settings)[0], _inputs(query, settings), len(plan)
    level = ("<level of the whole problem>", _LEVEL)
    asked: _Asked = {"level": level} if query["level"] is None else {}
    if count:
        asked["levels"] = (f"<{count} levels, in order>", _array(_LEVEL, count, count))
        asked["credits"] = (f"<{count} credits, sum 100>", _array(_CREDIT, count, count))
        inputs["sub_questions"] = _numbered(step["question"] for step in plan)
    intro = _PAPER_GRADER if settings.style == "paper" else ""
    form, schema = _form_of(f"{intro}Reply with one line of JSON only", asked)
    examples = [_exchange(task, inputs, asked)]
    return PlannerRequest("estimate", "estimate", inputs, form, schema, examples)


def level_request(query: Query, settings: Settings) -> PlannerRequest[Level]:
    """Return the request for the level of the question alone: about two tokens.

    Args:
        query: The question.
        settings: Settings of the run.
    """
    inputs = _inputs(query, settings, brief=True)
    intro, *parts = re.split(r"(?m)^Level ([1-5]):", inputs["examples"])
    shown = [*zip(parts[1::2], parts[::2], strict=True)]
    if inputs["examples"] == LEVEL_RUBRIC:
        shown = [(_LETTER["problem"], "3"), ("What is the capital of Kenya?", "1"), (_HARDEST, "5")]
    elif intro.strip() or not parts:  # the user rewrote the examples
        shown = [(_TANK["problem"], f"{_TANK['level']}")]
    else:
        inputs["examples"] = ""
        if inputs["domain"].casefold() in MATHEMATICS:  # `LEVEL_EXAMPLES` show it
            inputs["domain"] = ""
        shown.sort(key=lambda pair: "31524".index(pair[1]))  # a rising order would be continued
    examples = [({"problem": text.strip()}, f"L{level}") for text, level in shown]
    return PlannerRequest("level", "estimate", inputs, LEVEL_FORM, None, examples, cap=LEVEL_CAP)


def _inputs(query: Query, settings: Settings, *, brief: bool = False) -> dict[str, str]:
    """Return the question as input fields, among them those that only a user's signature has."""
    head, tail = (600, 400) if brief else (6_000, 2_000)  # characters
    problem = ends_of(query["question"], head, tail)
    if conversation := query.get("conversation"):
        problem = f"{conversation[-head - tail :]}\n\nThe problem to look at now:\n{problem}"
    if not brief and (reference := query["reference"]):
        problem += f"\n\nA text of {len(reference)} characters comes with it, which begins:\n"
        problem += reference[:tail]
    if media := query.get("media"):
        problem += f"\n({len(media)} image(s) or file(s), which only the solver gets to see.)"
    level, examples = query["level"], settings.level_examples
    if examples is None:
        copies = _has_text(query) and not brief  # a small model plans the problems of known level
        compares = settings.style == "paper" or (settings.model_class == "small" and not copies)
        fields = {*MATHEMATICS, _ANY_DOMAIN} if compares else MATHEMATICS
        examples = LEVEL_EXAMPLES if query["domain"].casefold() in fields else LEVEL_RUBRIC
    return {
        "examples": examples,
        "domain": "" if query["domain"] == _ANY_DOMAIN else query["domain"],
        "problem": problem,
        "level": "" if level is None else f"level {level} of 5",
        "correction": "",
        "reference": query["reference"] or "",
        "instruction": query["instruction"] or "",
        "answer_format": query["answer_format"] or "",
    }


def _exchange(task: _Task, inputs: dict[str, str], asked: _Asked) -> Exchange:
    """Return a task, with a level and parts where the inputs have them, and the reply to it."""
    shown = {name: text for name, text in task["fields"].items() if inputs.get(name)}
    return shown, json.dumps({name: task[name] for name in asked})


def _numbered(questions: Iterable[str]) -> str:
    return "\n".join(f"{place}. {question}" for place, question in enumerate(questions, 1))


def _form_of(lead: str, asked: _Asked) -> tuple[str, dict[str, Any]]:
    """Return the form of a JSON object in words, after those that lead to it, and as a schema."""
    words = ", ".join(f'"{name}": {said}' for name, (said, _) in asked.items())
    return f"{lead}: {{{words}}}", _object(**{name: schema for name, (_, schema) in asked.items()})


def _object(**properties: dict[str, Any]) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "required": [*properties]}
    return {**schema, "additionalProperties": False}


def _array(items: dict[str, Any], minimum: int, maximum: int) -> dict[str, Any]:
    return {"type": "array", "items": items, "minItems": minimum, "maxItems": maximum}


def _task(text: str) -> _Task:
    """Return a task with its plan: the problem, then each part after its level and its credit."""
    problem, *lines = text.split("\n")
    *numbers, steps = zip(*(line.split(" ", 2) for line in lines), strict=True)
    levels, credit = ([*map(int, column)] for column in numbers)
    rows = zip(steps, levels, credit, strict=True)
    parts = [{"question": step, "level": level, "credit": part} for step, level, part in rows]
    asked, level = _numbered(step.partition(" | ")[0] for step in steps), max(levels)
    fields = {"problem": problem, "level": f"level {level} of 5", "sub_questions": asked}
    task = {"problem": problem, "delivers": "last", "level": level, "fields": fields}
    return {**task, "parts": parts, "steps": steps, "levels": levels, "credits": credit}


_TANK = _task("""A tank holds 240 litres. A pump brings 8 litres a minute, and a leak loses 3. How \
many hours does it take to fill the tank?
1 20 How many litres a minute are gained? | take the leak from the pump
2 50 How many minutes does the tank take? | divide by what is gained a minute
1 30 How many hours is that? | minutes of an hour""")
_LETTER = _task("""Write a letter to a hotel about a noisy room, and ask for the price of one \
night back.
2 20 Choose the facts to tell | what happened, when, who was told
2 25 Decide what to ask for, and why | what was promised and not kept
3 55 Write the letter | three short paragraphs, polite and firm""")
_ESSAY = _task("""Write an essay of 500 words on whether schools should begin later in the morning.
2 20 Write the opening, which asks the question | whom it concerns, why now
3 50 Write the reasons for and against | sleep and marks, buses and parents
3 30 Write the closing, which answers the question | weigh both sides""") | {"delivers": "all"}
_FUNCTION = _task("""Write a Python function that returns the second largest number of a list, and \
a test for it.
2 20 Decide what short lists and equal numbers give | list the cases
2 25 Choose the algorithm | one pass, keep the two largest so far
3 55 Write all that is asked for: the function and its test | every case, clear names""")
_TRIP = _task("""Plan two days in Rome for a couple who walk slowly, for 300 euros.
2 25 Choose the sights of each day | few, and close to each other
3 30 Choose where to eat and sleep within the money | prices of each, and their sum
3 45 Write the whole plan, day by day | times, ways, meals and costs""")
_DAYS = _task("""Plan three days in Rome for a couple who walk slowly, for 500 euros.
3 35 Write day 1: arrival, and the old town | way there, hotel, dinner
3 40 Write day 2: the Vatican, and a park | tickets, lunch between both, dinner
2 25 Write day 3: a market, and the way home | time left, sum of all costs""") | {"delivers": "all"}
_MILL = _task("""The mill burned in 1834, as the miller had left a lamp alight. A new one opened \
two years later, of stone. How long was the town without a mill, and why?
1 30 Find when the mill burned, and when the new one opened | dates of the text
2 25 How long was the town without a mill? | from the one date to the other
2 45 Answer the whole question: how long, and why | the reason stands in the text""")
_PRODUCT = _task("""What are the last two digits of 3 * 33 * 333 * ..., a product of 50 such \
factors?
3 25 What is the product modulo 4? | reduce each factor, as 100 is a multiple of 4
3 45 What is the product modulo 25? | reduce each factor, and write equal ones as a power
3 30 Which number below 100 fits both? | join the results by the Chinese remainder theorem""")


def _has_text(query: Query) -> bool:
    return bool(query["reference"]) or "\n\n" in query["question"].strip()


def _similar_tasks(query: Query, settings: Settings) -> Sequence[_Task]:
    """Return tasks of two fields, the nearest last, where a model copies its form most."""
    if settings.style == "paper":
        return [_PRODUCT]
    if query["domain"].casefold() in MATHEMATICS:
        return _TANK, _PRODUCT
    if not is_composed(query):
        return _TANK, _MILL if _has_text(query) else _LETTER
    if (kind := kind_of(query)) == "program":
        return _TANK, _FUNCTION
    joins, is_auto = settings.synthesis == "join", settings.synthesis == "auto"
    if kind == "trip":
        return (_ESSAY, _DAYS) if joins else (_TANK, _TRIP)
    return (_LETTER, _ESSAY) if joins or (is_auto and asked_length(query)) else (_TANK, _LETTER)
