"""Program-aided arithmetic: the model writes assignments, and a parser evaluates them."""

from __future__ import annotations

import ast
import math
import operator
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from pb_graph.methods import method
from pb_graph.models.options import CallOptions
from pb_graph.prompts import STYLES, Example, MethodInput, Style, final_line, single_call_prompt
from pb_graph.types import Purpose

if TYPE_CHECKING:
    from pb_graph.run.run import Run
    from pb_graph.state import State
    from pb_graph.types import Query

CAP = 300
"""Completion tokens of a calculation: the longest of 60 that were looked at has 175."""
_LONGEST, _LINES, _BITS = 300, 100, 2048  # characters of a line; lines; bits of a figure

STYLE = Style(
    "Write the solution as Python assignments, one line for each step, under a short comment that "
    "says what it is and why. Compute each quantity from numbers of the question and from names "
    "above; leave the arithmetic to Python. The last line assigns the result to `answer`.",
    (
        Example(
            "Pears cost $3 for 4. Mia pays for 20 pears with a $20 note. What change does she get?",
            "# pears come in bundles of 4\nbundles = 20 / 4\n# each bundle costs $3\n"
            "cost = bundles * 3\n# change is what is left of $20\nanswer = 20 - cost",
        ),
        Example(
            "Tom is 4 years older than Ann. In 5 years their ages will add up to 40. How old is "
            "Ann now?",
            "# in 5 years both are 5 years older, so now the sum is 10 less\n"
            "sum_now = 40 - 2 * 5\n# Tom is 4 older: without these 4, it is twice Ann's age\n"
            "answer = (sum_now - 4) / 2",
        ),
        Example(
            "A van carries 8 children. How many vans do the 3 classes of 25 children each need?",
            "# children in all\nchildren = 3 * 25\n# a van that is not full is needed, too\n"
            "answer = ceil(children / 8)",
        ),
    ),
)


@method(
    "program_aided",
    "Writes the calculation, which is worked out exactly; where it fails, asks in prose.",
    source="PAL, arXiv:2211.10435",
    ceiling=lambda settings, _: min(CAP, settings.cutoff) + settings.cutoff,
)
async def program_aided(given: MethodInput, run: Run) -> State:
    """Return the calculation with its result. If a calculation fails, the model is asked again."""
    query, purpose = given.query, Purpose("calculation", level=given.query["level"])
    only: Query = {**query, "answer_format": "Write the assignments only."}
    prompt = single_call_prompt(only, given.settings, STYLE)
    written = await run.ask(prompt, CallOptions(CAP, purpose=purpose, thinking="off"))
    result = None if written.finish == "length" else evaluate(written.text)
    if result is not None:
        stated = final_line(query, format_number(result))
        return {"answer": f"```python\n{written.text}\n```\n\n{stated}", "finish": "stop"}
    prompt = single_call_prompt(query, given.settings, STYLES["prose"])
    purpose = Purpose("answer", level=query["level"])
    return (await run.call_within_budget(prompt, None, query, purpose)).update()


def format_number(value: Fraction) -> str:
    """Return a figure in digits, with at most six decimals."""
    return f"{float(value):.6f}".rstrip("0").rstrip(".")


def evaluate(text: str) -> Fraction | None:
    """Return the value of ``answer``, or of the last name, after the assignments of all lines.

    Nothing is run: of Python's grammar only numbers, names, the operators of arithmetic and a few
    functions are followed. Comments and fences are ignored.

    Returns:
        The exact figure; None if any line is unreadable, or has no exact rational value.
    """
    lines = [line.partition("#")[0].strip() for line in text.splitlines()]
    lines = [line for line in lines if line and not line.startswith(("```", "import ", "from "))]
    names: dict[str, Fraction] = {}
    if not lines or len(lines) > _LINES or max(map(len, lines)) > _LONGEST:
        return None
    value = Fraction(0)
    try:
        for line in lines:
            match ast.parse(line).body:
                case [ast.Assign(targets=[ast.Name(id=name)], value=expression)]:
                    names[name] = value = _value(expression, names)
                case _:
                    return None
    except (SyntaxError, ArithmeticError, KeyError, TypeError, ValueError, RecursionError):
        return None
    return names.get("answer", value)


def _value(node: ast.expr, names: dict[str, Fraction]) -> Fraction:
    match node:
        case ast.Constant(value=int() | float() as number):
            found = Fraction(str(number))
        case ast.Name(id=name):
            found = names[name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            found = -_value(operand, names)
        case ast.BinOp(left=left, op=sign, right=right):
            found = Fraction(_OPERATORS[type(sign)](_value(left, names), _value(right, names)))
        case ast.Call(func=ast.Name(id=name), args=given, keywords=[]):
            found = Fraction(_FUNCTIONS[name](*(_value(each, names) for each in given)))
        case _:
            raise ValueError
    if max(found.numerator.bit_length(), found.denominator.bit_length()) > _BITS:
        raise OverflowError
    return found


def _power(base: Fraction, exponent: Fraction) -> Fraction:
    size = max(base.numerator.bit_length(), base.denominator.bit_length())
    if exponent.denominator != 1 or size * abs(exponent) > _BITS:
        raise ValueError
    return base ** int(exponent)


_OPERATORS: dict[type[ast.operator], Any] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: _power,
}
_FUNCTIONS: dict[str, Any] = {
    "abs": abs,
    "min": min,
    "max": max,
    "int": math.trunc,
    "floor": math.floor,
    "ceil": math.ceil,
    "round": lambda value, digits=0: round(value, int(digits)),
}
