"""Work out a calculation that a model has written, without running it."""

from __future__ import annotations

import ast
import math
import operator
from fractions import Fraction
from typing import Any

_MAX_LENGTH, _BITS = 10_000, 1000  # characters of a calculation; bits of a figure


def evaluate(code: str) -> str | None:
    """Return the value of ``answer`` after Python assignments, else that of the last name.

    Nothing is run: of Python's grammar only numbers, names, the operators of arithmetic and a few
    functions are followed. Imports and expressions that are not assigned are ignored.

    Args:
        code: The assignments.

    Returns:
        The figure in digits, worked out exactly and shown with at most six decimals. None if there
        is any other statement, or a value that is not rational.
    """
    if len(code) > _MAX_LENGTH:
        return None
    names: dict[str, Fraction] = {}
    value = None
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
    except (SyntaxError, ArithmeticError, KeyError, TypeError, ValueError):
        return None
    except (RecursionError, MemoryError):  # how Python's parser refuses what is nested too deeply
        return None
    value = names.get("answer", value)
    if value is None:
        return None
    is_whole = value.denominator == 1
    text = str(value) if is_whole else f"{float(value):.6f}".rstrip("0").rstrip(".")
    return text if is_whole or float(text) else None  # too small to be written


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
        case ast.Call(
            func=ast.Name(id=name) | ast.Attribute(value=ast.Name(id="math"), attr=name),
            args=given,
            keywords=[],
        ):
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
