"""Define the styles that ``Settings.style`` names, with examples that are of no benchmark."""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

from pb_graph.types import Query


class Example(NamedTuple):
    """A question with its answer, which the solver is shown as an example."""

    question: str
    working: str
    answer: str | None = None  # bare, without its format; None: `working` is all of the reply
    plan: tuple[str, ...] = ()  # the sub-questions that the question is shown with


@dataclass(frozen=True, slots=True)
class Style:
    """A way to write: with examples, instruction and answer's format go into the system message."""

    instruction: str  # how to work
    examples: tuple[Example, ...] = ()  # earlier exchanges
    ending: str = ""  # said after the answer's format
    compute: Callable[[str, Query], str | None] | None = None
    """Computes the answer from a reply. The prompt then leaves out the answer's format."""
    is_paper: bool = False  # follows the paper's templates, as long as there are no examples


def final_line(query: Query, answer: str) -> str:
    r"""Return an answer as its format wants it: in a ``\boxed`` if it names one, else on a line.

    Args:
        query: The question, with its answer format.
        answer: The bare answer.
    """
    boxed = r"\boxed" in (query["answer_format"] or "")
    return rf"\boxed{{{answer}}}" if boxed else f"Final answer: {answer}"


_COAT = Example(
    "A coat of $80 is reduced by 25 %, then by another $6. How many dollars does it cost now?",
    "1. Price after 25 %: 80 * 0.75 = 60.\n2. After another $6: 60 - 6 = 54.",
    "54",
)
_RECTANGLE = Example(
    "A rectangle is 3 cm longer than wide, and its area is 40 cm^2. What is its perimeter in cm?",
    "1. Let the width be w. Then w(w + 3) = 40, so w^2 + 3w - 40 = (w - 5)(w + 8) = 0. A width is "
    "positive, so w = 5.\n2. The length is 5 + 3 = 8, so the perimeter is 2(5 + 8) = 26.",
    "26",
    ("How wide is the rectangle?", "What is its perimeter?"),
)
# Small models follow an instruction only with examples: a question, its working and its answer.
_EXAMPLES = """\
Pears cost $3 for 4. Mia pays for 20 pears with a $20 note. What change does she get?
20 pears are 20 / 4 = 5 bundles. They cost 5 * 3 = $15. She gets back 20 - 15 = $5. => 5
Is this review positive or negative? "The soup was cold, and nobody came when we asked."
 => negative
Tom had 24 marbles. He gave some to Ann and has 15 left. How many did he give away?
24 - x = 15; x = 24 - 15 = 9 => 9
A baker fills 6 trays with 12 rolls each and sells 50 rolls. How many rolls are left?
6 * 12 = 72; 72 - 50 = 22 => 22
What is the sum of the roots of x^2 - 7x + 10 = 0?
(x - 2)(x - 5) = 0; x = 2, 5; 2 + 5 = 7 => 7
If today is Friday, which day of the week will it be in 10 days?
10 = 7 + 3; Friday + 3 = Monday => Monday"""
_PEARS, _REVIEW, *_DRAFTS = (
    Example(asked, *reply.split(" => ")) for asked, reply in re.findall(r"(.+)\n(.+)", _EXAMPLES)
)
_IN_ORDER = """Work through the sub-questions in order. Derive each result step by step, and use \
it in the next."""
BY_PLAN = Style(_IN_ORDER, (_RECTANGLE,))
"""Replaces a style with examples over a plan, which small models else take for the solution."""
_MAX_CODE, _BITS = 10_000, 1000  # characters of a calculation; bits of a figure
_LINES_IF_NEEDED = """Work out what has to be calculated or derived in short numbered lines, one \
for each step, with its calculation. A task that only asks to write, choose, label or rewrite \
something gets its output at once, without any working. Restate nothing."""
_IN_FIVE_WORDS = """Think step by step, but keep only a minimal draft of each thinking step, five \
words at most."""
_LINE_BY_LINE = "Write the solution as Python assignments, one line for each step,"
_AT_ONCE = "Do not reason, explain or repeat anything: write that at once, and nothing else."


def _calculated_answer(text: str, query: Query) -> str | None:
    """Return a calculation with its result, as the question wants it; None if it has no result."""
    fenced = re.search(r"```\w*\n(.*?)(?:```|\Z)", text, re.DOTALL)
    code = (fenced[1] if fenced else text).strip()
    result = evaluate(code)
    return result and f"```python\n{code}\n```\n\n{final_line(query, result)}"


def _calculation(lead: str, result: str, plan: tuple[str, ...] = ()) -> Style:
    working = "# pears come in bundles of 4\nbundles = 20 / 4\n# each bundle costs $3\n"
    working += "cost = bundles * 3\n# change is what is left of $20\nanswer = 20 - cost"
    return Style(
        f"{lead} under a short comment that says what it is and why. Compute each quantity from "
        "numbers of the question and from names above; leave the arithmetic to Python. The last "
        f"line assigns {result} to `answer`.",
        (Example(_PEARS.question, working, plan=plan),),
        ending="Write the assignments only.",
        compute=_calculated_answer,
    )


_BUNDLES = ("How many bundles of 4 are 20 pears?", "What do these bundles cost?")
CALCULATION_BY_PLAN = _calculation(
    "Answer the sub-questions in order by Python assignments, each",
    "the answer to the whole question",
    (*_BUNDLES, "How much is left of $20?"),
)
COMPOSED = Style("Give the whole of what is asked for, in the language of the question.")
"""Replaces a style that works something out, where the reply itself is the answer."""

STYLES: Mapping[str, Style] = {
    "auto": Style(_LINES_IF_NEEDED, (_COAT, _REVIEW)),
    "draft": Style(_IN_FIVE_WORDS, tuple(_DRAFTS)),
    "calculation": _calculation(_LINE_BY_LINE, "the result"),
    "concise": Style("Think step by step, and be concise.", (_PEARS,)),
    "prose": Style("Reason step by step."),
    "plain": Style(""),
    "paper": Style("Reason step by step.", is_paper=True),
    # Said behind the answer's format: before it, small models answer twice.
    "answer": Style("", ending=_AT_ONCE),
}


def evaluate(code: str) -> str | None:
    """Return the value of ``answer`` after Python assignments, else that of the last name.

    Nothing is run: of Python's grammar only numbers, names, the operators of arithmetic and a few
    functions are followed. Imports and expressions that are not assigned are ignored; for other
    statements the value is None. A figure is exact, and has at most six decimals.
    """
    if len(code) > _MAX_CODE:
        return None
    names, value = dict[str, Fraction](), None
    try:
        for statement in ast.parse(code).body:
            match statement:
                case ast.Assign(targets=[ast.Name(id=name)], value=expression):
                    names[name] = value = _value(expression, names)
                case ast.AugAssign(target=ast.Name(id=name) as before, op=sign, value=change):
                    names[name] = value = _value(ast.BinOp(before, sign, change), names)
                case ast.Import() | ast.ImportFrom() | ast.Expr():
                    pass
                case _:
                    return None
    except (SyntaxError, ArithmeticError, LookupError, TypeError, ValueError):
        return None
    except (RecursionError, MemoryError):  # how Python's parser refuses what is nested too deeply
        return None
    value = names.get("answer", value)
    if value is None or value.denominator == 1:
        return None if value is None else str(value)
    text = f"{float(value):.6f}".rstrip("0").rstrip(".")
    return text if float(text) else None  # too small to be written


def _value(node: ast.expr, names: dict[str, Fraction]) -> Fraction:
    match node:
        case ast.Constant(value=int() | float() as number):
            result = Fraction(str(number))
        case ast.Name(id=name):
            result = names[name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            result = -_value(operand, names)
        case ast.BinOp(left=left, op=sign, right=right):
            result = Fraction(_OPERATORS[type(sign)](_value(left, names), _value(right, names)))
        case ast.Call(ast.Name(name) | ast.Attribute(ast.Name("math"), name), given, []):
            result = Fraction(_FUNCTIONS[name](*(_value(each, names) for each in given)))
        case _:
            raise ValueError
    if max(result.numerator.bit_length(), result.denominator.bit_length()) > _BITS:
        raise OverflowError
    return result


def _power(base: Fraction, exponent: Fraction) -> Fraction:
    size = max(base.numerator.bit_length(), base.denominator.bit_length())
    if exponent.denominator != 1 or size * abs(exponent) > _BITS:
        raise ValueError
    return base ** int(exponent)


_OPERATORS: dict[type[ast.operator], Any] = {ast.Add: operator.add, ast.Sub: operator.sub}
_OPERATORS |= {ast.Mult: operator.mul, ast.Div: operator.truediv, ast.FloorDiv: operator.floordiv}
_OPERATORS |= {ast.Mod: operator.mod, ast.Pow: _power}
_FUNCTIONS: dict[str, Any] = {"abs": abs, "min": min, "max": max, "int": math.trunc}
_FUNCTIONS |= {"floor": math.floor, "ceil": math.ceil, "round": lambda x, n=0: round(x, int(n))}
