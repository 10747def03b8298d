"""What a planned sub-question says: whether it asks, whether it gives a result away, what it is.

A planner that works while it plans states results, and a solver takes them for given. Only figures
that the question itself has are facts; what else is stated is left out. All patterns are English
and mathematics; what they do not know stays as it was written.
"""

from __future__ import annotations

import re
from collections.abc import Set as AbstractSet

_MATHS = str.maketrans(
    {"\N{MINUS SIGN}": "-", "\N{EN DASH}": "-", "\N{MULTIPLICATION SIGN}": "*", "·": "*", "÷": "/"}
)
_TOKEN = re.compile(r"\d+(?:[.,]\d+)*|[^\W\d_]+|[^\w\s.,;:?\"'`$“”\u2018\u2019…]")
# Words that change nothing about what is asked, where they are what two sub-questions differ in.
_FILLERS = frozenset(
    ("a", "an", "the", "is", "are", "what", "find", "calculate", "compute", "determine", "evaluate")
)
_OPENING = re.compile(r"^\W*(?:(?:first(?:ly)?|next),|(?:then|now|finally|so),?)\s+")
_PLACEHOLDERS = frozenset(
    {"sub question", "subquestion", "sub - question", "question", "step", "hint", "none", "n / a"}
)

_NUMBER = re.compile(r"(?<![\w^.])\d+(?:[.,]\d+)*(?![\w^])")
_WORDS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen twenty"
)
_NUMBER_WORDS = {word: str(value) for value, word in enumerate(_WORDS.split())} | {"dozen": "12"}

# Verbs that are nouns as well ("sum", "total") are left out: what states no result stays anyway.
_IMPERATIVES = (
    "add|analy[sz]e|apply|arrange|assume|calculate|check|choose|combine|compare|compute|conclude|"
    "consider|convert|create|decide|deduce|define|derive|describe|determine|differentiate|divide|"
    "draw|eliminate|enumerate|equate|evaluate|examine|expand|explain|express|extract|factori[sz]e|"
    "find|give|identify|integrate|interpret|isolate|justify|let|make|minimi[sz]e|maximi[sz]e|"
    "multiply|obtain|pick|plug|prove|rearrange|recall|reduce|rewrite|round|select|set|simplify|"
    "solve|sort|split|substitute|subtract|summari[sz]e|take|transform|translate|try|use|using|"
    "verify|write"
)
_ASKS = re.compile(
    r"\?|^\W*(?:(?:first|next|then|now|finally|please|and|or|also|we|you|must|should|need|to)\W+)*"
    rf"(?:{_IMPERATIVES}|what|which|who|whose|whom|when|where|why|how|do|does|did|can|could|"
    rf"will|would|should|is|are|was|were)\b|[,;]\s*(?:then\s+|and\s+)?(?:{_IMPERATIVES})\b"
    rf"|\b(?:then|and|to)\s+(?:{_IMPERATIVES})\b",
    re.IGNORECASE,
)
# A figure, and no unknown beside it: "= 12 cm", not "= 2x".
_VALUE = (
    r"[-+]?[$€£]?\s?\\?[($]?[-+]?"
    r"(?:\d+(?:[.,]\d+)*(?![\w(^]|[.,]\d)(?!\s*[*+/-]\s*[^\W\d])|\\[dt]?frac|\\sqrt|√)"
)
_RESULT = re.compile(
    r"\b(?:is|are|was|were|equals?|gives|yields|leaves|has|have|gets?|costs?|becomes?|makes?)\s+"
    r"(?:(?:equal|to|about|approximately|exactly|thus|therefore|then|simply|just|only)\s+)*"
    rf"(?:{_VALUE}|(?:{_WORDS.replace(' ', '|')})\b)|[=≈]\s*{_VALUE}",
    re.IGNORECASE,
)
_BARE = re.compile(rf"^\W*{_VALUE}\W*$")
_UNKNOWN = re.compile(r"\d[^\W\d]|\b[^\W\d]\s?[-+*/^]|[-+*/^]\s?[^\W\d]\b")
_CONCLUDES = re.compile(r"^\W*(?:therefore|thus|hence|so|since|because)\b", re.IGNORECASE)
# "3 * 4 = 12", of which only the left side is a task; "x + 3 * 4 = 12" is an equation.
_WORKED = re.compile(
    r"(?<![\w^*/+=.)-])(?P<task>[$(]*\d[\d.,]*[%)]*(?:\s?[-+*/^]\s?[$(]*\d[\d.,]*[%)]*)+)"
    rf"\s?[=≈]\s?{_VALUE}"
)
_ASIDE = re.compile(
    rf"(?:,?\s(?:which|that|and it)\s(?:is|equals|gives)\s{_VALUE}|\s\([=≈]?\s?{_VALUE}).*$",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"(?<=[?!.;:])\s+|\s*(?:=>|->|⇒|→)\s*")
_ASSIGNED = re.compile(rf"[=≈]\s*{_VALUE}")


def numbers_in(*texts: str) -> frozenset[str]:
    """The figures in texts, also those that are words, in one spelling: 1000 for 1,000.0."""
    text = " ".join(texts).translate(_MATHS)
    words = re.findall(r"[a-z]+", text.casefold())
    said = (_NUMBER_WORDS[word] for word in words if word in _NUMBER_WORDS)
    return frozenset({*map(_spelled, re.findall(r"\d+(?:[.,]\d+)*", text)), *said})


def key_of(question: str) -> str:
    """What two sub-questions have in common that ask the same; empty for one that asks nothing.

    Case, spaces, punctuation and words that only fill do not count; figures, letters, operators
    and the order of words do.
    """
    text = _OPENING.sub("", question.translate(_MATHS).casefold()).replace("value of ", "")
    tokens = _TOKEN.findall(text)
    if " ".join(tokens) in _PLACEHOLDERS:
        return ""
    return " ".join([token for token in tokens if token not in _FILLERS] or tokens)


def asking_part(question: str, known: AbstractSet[str]) -> str:
    """A sub-question without the results that it states; empty where it asks for nothing."""
    kept: list[str] = []
    asks = False
    for sentence in _SENTENCE.split(question):
        if _ASKS.search(sentence) or not _states(sentence):
            asks = True
            kept.append(_without_results(sentence, known))
        elif not asks and not _new(sentence, known):  # what follows a question is its answer
            kept.append(sentence)
    return " ".join(kept).strip(" :;,") if asks else ""


def names_a_value(hint: str, known: AbstractSet[str]) -> bool:
    """Whether a hint says more than a way: what something equals, or a figure that is not given."""
    text = hint.translate(_MATHS)
    return bool(_ASSIGNED.search(text)) or _new(text, known)


def _states(sentence: str) -> bool:
    """Whether it says that something is so, with a value or as a conclusion."""
    text = sentence.translate(_MATHS)
    if _CONCLUDES.search(text) or _BARE.search(text):
        return True
    return any(not _solves(text[: found.end()]) for found in _RESULT.finditer(text))


def _solves(text: str) -> bool:
    """Whether it is an equation for something unknown, such as "2x + 4 = 12"."""
    left, relation, right = text.partition("=")
    return bool(relation and _UNKNOWN.search(left)) and "=" not in right


def _without_results(sentence: str, known: AbstractSet[str]) -> str:
    """A sentence that asks, without what it works out itself."""
    text = sentence.translate(_MATHS)
    worked = _WORKED.search(text)
    aside = _ASIDE.search(text)
    if worked and _new(worked.group(), known):
        text = _WORKED.sub(lambda found: found["task"].strip(), text)
        aside = _ASIDE.search(text)
    if aside and _new(aside.group(), known):
        end = "?" if sentence.endswith("?") else ""
        text = text[: aside.start()].rstrip(" .?") + end
    return sentence if text == sentence.translate(_MATHS) else text


def _new(text: str, known: AbstractSet[str]) -> bool:
    """Whether there is a figure in it that is not given."""
    return not set(map(_spelled, _NUMBER.findall(text))) <= known


def _spelled(number: str) -> str:
    plain = re.sub(r",(?=\d{3}(?!\d))", "", number)
    return plain.rstrip("0").rstrip(".") if "." in plain else plain
