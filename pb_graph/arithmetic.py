"""Arithmetic that a model wrote down as assignments: read as data, and worked out exactly.

Nothing is run. Lines are parsed, and of what Python's grammar knows only numbers, names, the
operators of arithmetic and a few functions of numbers are followed; all else makes a text
unreadable. Figures are bounded in size, so that a text of any content takes milliseconds.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable
from fractions import Fraction

_LONGEST, _LINES, _BITS = 300, 100, 2048  # characters of a line; lines; bits of a figure
# Without quotes, and without a letter right behind a digit, Python's parser has nothing to warn of.
_LINE = re.compile(r"(?!.*\d[^\W\d_])[\w\s.+*/%(),=-]+")
_SKIPPED = re.compile(r"```.*|(?:from\s.*)?import\s.*|print\s*\(.*|")


class _UnreadableError(Exception):
    """A line that is no arithmetic, or none that can be worked out."""


def result_of(text: str) -> Fraction | None:
    """What assignments, one on each line, give to ``answer``; else to the last name.

    Comments, fences, imports and calls of ``print`` are passed over.

    Returns:
        The exact figure; None if any line is unreadable, or has no exact rational value.
    """
    lines = [line.partition("#")[0].strip() for line in text.splitlines()]
    lines = [line for line in lines if not _SKIPPED.fullmatch(line)]
    if not lines or len(lines) > _LINES:
        return None
    names: dict[str, Fraction] = {}
    try:
        for line in lines:
            name, value = _assigned(line, names)
            names[name] = value
    except (_UnreadableError, ArithmeticError, ValueError, RecursionError):
        return None
    return names.get("answer", value)


def _assigned(line: str, names: dict[str, Fraction]) -> tuple[str, Fraction]:
    if len(line) > _LONGEST or not _LINE.fullmatch(line):
        raise _UnreadableError
    try:
        (statement,) = ast.parse(line).body
    except (SyntaxError, ValueError, MemoryError) as error:
        raise _UnreadableError from error
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=expression):
            return name, _value(expression, names)
        case ast.AugAssign(target=ast.Name(id=name), op=sign, value=expression):
            return name, _of_two(sign, _named(name, names), _value(expression, names))
    raise _UnreadableError


def _value(node: ast.expr, names: dict[str, Fraction]) -> Fraction:
    match node:
        case ast.Constant(value=int() | float() as number):  # of True, there is no Fraction
            return _bounded(Fraction(str(number)))
        case ast.Name(id=name):
            return _named(name, names)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, names)
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _value(operand, names)
        case ast.BinOp(left=left, op=sign, right=right):
            return _of_two(sign, _value(left, names), _value(right, names))
        case ast.Call(
            func=ast.Name(id=name) | ast.Attribute(value=ast.Name(id="math"), attr=name),
            args=given,
            keywords=[],
        ) if name in _FUNCTIONS:
            try:
                return _bounded(_FUNCTIONS[name](*(_value(each, names) for each in given)))
            except TypeError as error:  # another number of them
                raise _UnreadableError from error
    raise _UnreadableError


def _named(name: str, names: dict[str, Fraction]) -> Fraction:
    if name not in names:
        raise _UnreadableError
    return names[name]


def _of_two(sign: ast.operator, left: Fraction, right: Fraction) -> Fraction:
    if isinstance(sign, ast.Pow):
        return _power(left, right)
    if type(sign) not in _OPERATORS:
        raise _UnreadableError
    return _bounded(Fraction(_OPERATORS[type(sign)](left, right)))


def _power(base: Fraction, exponent: Fraction) -> Fraction:
    if exponent == Fraction(1, 2):
        return _root(base)
    times = _whole(exponent)
    size = max(base.numerator.bit_length(), base.denominator.bit_length())
    if size * abs(times) > _BITS:
        raise _UnreadableError
    return base**times


def _bounded(value: Fraction) -> Fraction:
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > _BITS:
        raise _UnreadableError
    return value


def _whole(value: Fraction) -> int:
    if value.denominator != 1:
        raise _UnreadableError
    return value.numerator


def _root(value: Fraction) -> Fraction:
    """The exact root; most numbers have none."""
    if value < 0:
        raise _UnreadableError
    root = Fraction(math.isqrt(value.numerator), math.isqrt(value.denominator))
    if root * root != value:
        raise _UnreadableError
    return root


def _counted(value: Fraction) -> int:
    """A whole number that is small enough for what grows with it."""
    number = _whole(value)
    if not 0 <= number <= _LONGEST:
        raise _UnreadableError
    return number


_OPERATORS: dict[type[ast.operator], Callable[[Fraction, Fraction], Fraction | int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}

_FUNCTIONS: dict[str, Callable[..., Fraction]] = {
    "abs": abs,
    "min": min,
    "max": max,
    "int": lambda value: Fraction(math.trunc(value)),
    "float": lambda value: value,
    "floor": lambda value: Fraction(math.floor(value)),
    "ceil": lambda value: Fraction(math.ceil(value)),
    "round": lambda value, digits=Fraction(0): Fraction(round(value, _counted(digits))),
    "sqrt": _root,
    "pow": _power,
    "gcd": lambda *values: Fraction(math.gcd(*map(_whole, values))),
    "lcm": lambda *values: Fraction(math.lcm(*map(_whole, values))),
    "factorial": lambda value: Fraction(math.factorial(_counted(value))),
    "comb": lambda total, chosen: Fraction(math.comb(_counted(total), _counted(chosen))),
    "perm": lambda total, chosen: Fraction(math.perm(_counted(total), _counted(chosen))),
}
