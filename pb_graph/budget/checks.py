"""What passes for a number here, and the error when something does not."""

from math import isfinite
from numbers import Integral, Real


def real_number(name: str, value: object) -> float:
    """Return `value` as a finite float.

    Any real type will do, numpy's scalars among them; a bool will not: it is an `int` to Python,
    but where a weight or a parameter is meant it is a mistake.

    Raises:
        ValueError: when it is no number, or not finite; the message begins with `name`.
    """
    # float and int come first because asking an abstract type takes ten times as long.
    if isinstance(value, bool) or not isinstance(value, (float, int, Real)):
        msg = f"{name} must be a number, not {value!r}"
        raise ValueError(msg)  # noqa: TRY004 - one kind of error for every unusable value
    try:
        number = float(value)
    except OverflowError:
        number = float("inf")
    if not isfinite(number):
        msg = f"{name} must be finite, not {value}"
        raise ValueError(msg)
    return number


def whole_number(name: str, value: object, *, least: int) -> int:
    """Return `value` as an int of at least `least`.

    Raises:
        ValueError: when it is no whole number, or too small; the message begins with `name`.
    """
    if isinstance(value, bool) or not isinstance(value, (int, Integral)) or value < least:
        msg = f"{name} must be a whole number of at least {least}, not {value!r}"
        raise ValueError(msg)
    return int(value)
