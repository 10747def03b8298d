"""Text that goes round in circles, as models write it until their cap ends it."""

from __future__ import annotations

_TIMES = 4
_LEAST = 240
"""Characters that the same has to fill, so that no row of dashes or column of zeros counts."""
_LONGEST = 800
SEEN = _TIMES * _LONGEST
"""Characters at the end of a text that tell whether it repeats itself."""
_ENDING = 16


def repeated(text: str) -> int:
    """How many characters at the end of a text only say again what stands before them.

    They do where the text ends in the same thing, of up to 800 characters, four times in a row or
    more, and in 240 characters of it at least; all but the first time is repeated. A model that
    picks the likeliest token does not find out of that any more.
    """
    tail = text[-SEEN:]
    ending = tail[-_ENDING:]
    at = len(tail) - len(ending)
    while (at := tail.rfind(ending, 0, at + len(ending) - 1)) >= 0 and ending:
        period = len(tail) - len(ending) - at
        if period > _LONGEST:
            break
        filled = max(_LEAST, _TIMES * period)
        if len(tail) >= filled and tail[period - filled :] == tail[-filled:-period]:
            return _all_of(text, period) - period
    return 0


def _all_of(text: str, period: int) -> int:
    """Characters at the end of a text that have this period, the first time included."""
    start = len(text) - period
    while start > 0 and text[start - 1] == text[start - 1 + period]:
        start -= 1
    return len(text) - start
