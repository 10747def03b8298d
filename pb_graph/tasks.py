"""Tell what a question asks for: something to work out, or a text, and how long a text."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pb_graph.types import Query

TOKENS_OF = {"word": 2, "sign": 2, "day": 300, "sentence": 45, "paragraph": 200, "page": 1_000}
"""Completion tokens of a unit of length, with room for languages that take more."""
MATHEMATICS = frozenset({"arithmetic", "mathematics"})
"""Domains in which every question has something to work out."""
TRAVEL = "travel planning"
_MAX_LENGTH, _ANY_TEXT = 20_000, 1_000
_SHOWN = 1_500  # characters of the head and of the tail of a question
_MAX_TRIP = 31

_UNITS = {
    "word": r"words?|w[öo]rtern?|worten?|mots|palabras|parole|palavras|слова?|단어",
    "sentence": r"sentences?|s[äa]tzen?|phrases|frases|oraciones|frasi|предложени\w+|句话?|문장",
    "paragraph": r"paragraphs?|abs[äa]tzen?|paragraphes|p[áa]rrafos|paragrafi|абзац\w*|段落?",
    "page": r"pages?|seiten?|p[áa]ginas?|pagine|страниц\w*|页|頁|ページ",
    "day": r"days?|tagen?|tage|jours?|d[íi]as?|giorni|дн(?:я|ей)|天|日間?",
    "sign": r"字|文字|글자",
}
_NUMBERS = (
    "one two three four five six seven eight nine ten",
    "ein zwei drei vier fünf sechs sieben acht neun zehn",
    "un deux trois quatre cinq six sept huit neuf dix",
    "uno dos tres cuatro cinco seis siete ocho nueve diez",
    "一 二 三 四 五 六 七 八 九 十",
)
_NUMBER_OF = {word: n for words in _NUMBERS for n, word in enumerate(words.split(), 1)}
_WEEKS = re.compile(
    r"\b(?:one|a|1|eine|une|una|un)[- ]?(?:week|woche|semaine|se[mt]i?t?ana)|一[周週]",
    re.IGNORECASE,
)
_LETTER = r"[^\W一-鿿぀-ヿ가-힣]"  # of a script with spaces between its words
_LENGTH = re.compile(
    rf"(?<!{_LETTER})(?<![.,])"
    rf"(\d{{1,3}}(?:[,. ]\d{{3}})+|\d{{1,6}}|{'|'.join(_NUMBER_OF)}|an?|eine?n?)[- ]?"
    rf"(?:{'|'.join(f'(?P<{unit}>{names})' for unit, names in _UNITS.items())})(?!{_LETTER})",
    re.IGNORECASE,
)
_COMPOSES = re.compile(
    r"(?:^|[.!?:,\n]\s*|\b(?:please|you|to|and|then|me|bitte)\s+)(?:re-?)?(?:write|draft|compose"
    r"|create|design|implement|plan|suggest|recommend|outline|translat|summari[sz]|describ|explain"
    r"|generat|program"
    r"|schreib|verfass|erstell|entw[ie]rf|plane?\b|übersetz|fasse|erkl[äa]r|beschreib|[ée]cri|r[ée]dig"
    r"|r[ée]sum|tradui|planifi|expliqu|d[ée]cri|escrib|redact|resum|traduc|planific|explica|describ"
    r"|scriv|riassum|spiega|escrev|напиш|состав|перевед|опиш|объясн)|写|撰|总结|概括|翻译|规划|解释|"
    r"書いて|作成|翻訳|要約|説明して|써|작성|번역|요약|설명",
    re.IGNORECASE,
)
_TEXT = re.compile(
    r"\b(?:essay|summary|letter|article|story|speech|review|report|aufsatz|brief|bericht|lettre|ensayo"
    r"|carta|saggio|эссе|письмо|сочинени)|作文|文章|小論文|에세이",
    re.IGNORECASE,
)
_TRAVELS = re.compile(
    r"\b(?:(?:trip|tour)s?\b|travel|itinerary|journey|vacation|holiday|weekend|stopover|meal plan"
    r"|menu|reise|urlaub|ausflug|wochenende|radtour|voyage"
    r"|itin[ée]raire|viaje|itinerario|viaggio|viagem|поездк|путешеств"
    r"|(?:day|week|night|tage?n?|woche|jour|semaine|d[íi]a|semana|giorn[oi])s? (?:in|on|at|à|en)\b)"
    r"|旅行|行程|旅程|여행",
    re.IGNORECASE,
)
RESULT = re.compile(r"\\boxed|final answer:", re.IGNORECASE)
"""A format of a result that ends a working: a box, or a line."""


def is_composed(query: Query) -> bool:
    """Return whether the whole reply is the answer, as a text, a program or a trip is.

    Elsewhere something is worked out, and the answer ends with its result, as in the measured tasks
    of the domain "instruction following".
    """
    domain, form = query["domain"].casefold(), query["answer_format"] or ""
    if domain in {*MATHEMATICS, "instruction following"} or RESULT.search(form):
        return False
    text = ends_of(query["question"])
    return domain == TRAVEL or bool(_COMPOSES.search(text)) or asked_length(query) is not None


def is_text(query: Query) -> bool:
    """Return whether a question speaks of an essay, a letter or the like."""
    return bool(_TEXT.search(ends_of(query["question"])))


def is_trip(query: Query) -> bool:
    """Return whether a question speaks of a trip, or of another plan of days."""
    text = ends_of(query["question"])
    return query["domain"].casefold() == TRAVEL or bool(_TRAVELS.search(text))


def asked_length(query: Query) -> int | None:
    """Return the completion tokens of the text that a question asks for; None if it says no length.

    Words, sentences, paragraphs and pages count where something is to be written, days where a trip
    or the like is to be planned. Of several lengths the largest counts. A long question is looked
    at in its head and its tail.
    """
    parts = (ends_of(query["question"]), query["instruction"], query["answer_format"])
    return _length_in("\n".join(filter(None, parts)), query["domain"].casefold())


@lru_cache(maxsize=64)  # each prompt of a question asks again
def _length_in(text: str, domain: str) -> int | None:
    if domain in MATHEMATICS:
        return None
    writes, is_travel = bool(_COMPOSES.search(text) or _TEXT.search(text)), domain == TRAVEL
    is_trip, sizes = is_travel or bool(_TRAVELS.search(text)), [0]
    for found in _LENGTH.finditer(text):
        unit, written = found.lastgroup or "word", found[1].casefold()
        digits = re.sub(r"[,. ]", "", written)
        number = int(digits) if digits.isdecimal() else _NUMBER_OF.get(written, 1)
        if (is_trip and number <= _MAX_TRIP) if unit == "day" else writes:
            sizes.append(number * TOKENS_OF[unit])
    if is_trip and (_WEEKS.search(text) or (is_travel and len(sizes) == 1)):
        sizes.append(7 * TOKENS_OF["day"])
    return min(max(sizes), _MAX_LENGTH) or None


def needed_tokens(query: Query) -> int | None:
    """Return the completion tokens that an answer needs at least; None where nothing is composed.

    A text without a length gets room for some 500 words, or a program of a page.
    """
    return asked_length(query) or (_ANY_TEXT if is_composed(query) else None)


def ends_of(text: str, head: int = _SHOWN, tail: int = _SHOWN) -> str:
    """Return the head and the tail of a text, which say what it asks for; all of a short text.

    Args:
        text: The text.
        head: Characters of its head.
        tail: Characters of its tail.
    """
    left_out = len(text) - head - tail
    return text if left_out <= 0 else f"{text[:head]}\n[… {left_out} characters …]\n{text[-tail:]}"
