r"""How large the numbers of a LaTeX expression are, told from their logarithms.

A tower of powers in a box would cost a comparison its whole time limit, twice. Nothing is computed
here but logarithms, so that it can be refused before.
"""

from __future__ import annotations

import ast
import math
import re

_HUGE = 1e7  # digits
_HUGE_EXPONENT = 1e4  # of a sum in brackets, which is multiplied out
_MANY_TERMS = 1e6
_LONGEST_NUMBER = 100  # characters; anything longer is left to the process
_SMALL_POWER = re.compile(r"\^(?:\w|\{[^{}^]{1,4}\})")
_AS_PYTHON = ((r"\cdot", "*"), (r"\times", "*"), ("{", "("), ("}", ")"), ("^", "**"), ("!", "**F"))
_WHOLE = re.compile(r"(?:[\d\s+*^!(){}]|\\cdot|\\times)+")
_COSTLY = re.compile(r"\^|!+|\\[dt]?binom(?=\{)|\\(?:sum|prod)(?![A-Za-z])")
_NUMBER_BEFORE = re.compile(r"\d[\d,.]{0,40}$")
_SUM = re.compile(r"[A-Za-z].*[+-]|[+-].*[A-Za-z]")
_BRACKETS = {")": "(", "}": "{", "]": "["}


def is_larger_than_all(said: str, targets: tuple[str, ...]) -> bool:
    """Whether it is certainly a number with more digits than any of the targets can stand for."""
    return digits(said) > _HUGE and all(
        len(target) <= _LONGEST_NUMBER
        and "!" not in target
        and "^" not in _SMALL_POWER.sub("", target)
        for target in targets
    )


def is_beyond_computing(text: str) -> bool:
    """Whether some part of an expression is too large to be worked out.

    Powers and factorials of more than ten million digits, sums in brackets to a power above ten
    thousand, binomials as large, sums and products of more than a million terms. What cannot be
    read counts as small. Takes time that grows with the length of the text, and no faster.
    """
    text = text.replace(r"\left", "").replace(r"\right", "")
    ends = _bracket_pairs(text)
    starts = {end: start for start, end in ends.items()}
    return any(_is_beyond(text, found, ends, starts) for found in _COSTLY.finditer(text))


def digits(text: str) -> float:
    """Decimal logarithm of a text of whole numbers, +, times, powers and factorials; 0 for others.

    None of these operations makes a number smaller.
    """
    text = re.sub(r"(?<=\d),(?=\d{3})", "", text.strip().strip("$"))
    if len(text) > _LONGEST_NUMBER or not _WHOLE.fullmatch(text):
        return 0.0
    for written, python in _AS_PYTHON:
        text = text.replace(written, python)
    try:
        return _logarithm(ast.parse(text.strip(), mode="eval").body)
    except OverflowError:
        return math.inf
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return 0.0


def _logarithm(node: ast.expr) -> float:
    match node:
        case ast.Constant(value=int(value)):
            return math.log10(value)  # a ValueError for 0
        case ast.BinOp(left, ast.Add(), right):
            return max(_logarithm(left), _logarithm(right))
        case ast.BinOp(left, ast.Mult(), right):
            return _logarithm(left) + _logarithm(right)
        case ast.BinOp(left, ast.Pow(), ast.Name("F")):
            return _factorial(_logarithm(left))
        case ast.BinOp(left, ast.Pow(), right):
            base = _logarithm(left)
            return base * 10.0 ** _logarithm(right) if base else 0.0
    raise ValueError


def _value(text: str) -> float:
    return math.pow(10.0, digits(text))


def _factorial(logarithm: float) -> float:
    return math.lgamma(10.0**logarithm + 1) / math.log(10)


def _is_beyond(
    text: str, found: re.Match[str], ends: dict[int, int], starts: dict[int, int]
) -> bool:
    at = found.end()
    try:
        if found[0] == "^":
            return _power_is_beyond(text, found.start(), ends, starts)
        if found[0].startswith("!"):
            size = digits(_operand_before(text, found.start(), starts))
            for _ in found[0]:
                size = _factorial(size)
            return size > _HUGE
        if found[0].endswith("binom"):
            upper, after = _group_at(text, at, ends)
            lower, _ = _group_at(text, after, ends)
            return digits(upper) * _value(lower) > _HUGE
        limit = re.compile(r"\s*_").match(text, at)
        _, after = _group_at(text, limit.end() if limit else at, ends)
        upper, _ = _group_at(text, after + 1, ends)
        return text[after : after + 1] == "^" and _value(upper) > _MANY_TERMS
    except OverflowError:
        return True


def _power_is_beyond(text: str, at: int, ends: dict[int, int], starts: dict[int, int]) -> bool:
    exponent, _ = _group_at(text, at + 1, ends)
    times = _value(exponent.replace("{-", "{", 1))
    base = _operand_before(text, at, starts)
    size = digits(base)
    if not size and re.fullmatch(r"\d+\.\d+", base):
        size = abs(math.log10(float(base) or 1.0))
    if not size and _SUM.search(base):
        return times > _HUGE_EXPONENT
    return size * times > _HUGE


def _group_at(text: str, at: int, ends: dict[int, int]) -> tuple[str, int]:
    """The bracketed group, or the single character, that stands at a place; and where it ends."""
    end = ends.get(at, at) + 1
    return text[at:end] if end - at <= _LONGEST_NUMBER else "", end


def _operand_before(text: str, at: int, starts: dict[int, int]) -> str:
    """The bracketed group or the number that ends right before a place."""
    if at - 1 in starts:
        start = starts[at - 1]
        return text[start:at] if at - start <= _LONGEST_NUMBER else ""
    number = _NUMBER_BEFORE.search(text[max(0, at - 42) : at])
    return number[0] if number else ""


def _bracket_pairs(text: str) -> dict[int, int]:
    pairs: dict[int, int] = {}
    opened: list[int] = []
    for at, character in enumerate(text):
        if character in _BRACKETS.values():
            opened.append(at)
        elif opened and text[opened[-1]] == _BRACKETS.get(character):
            pairs[opened.pop()] = at
    return pairs
