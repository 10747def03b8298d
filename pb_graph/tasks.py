"""Tell what a question asks for: something to work out, or a text, and how long a text."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal

from pb_graph.types import Query


def _pattern(pattern: str) -> re.Pattern[str]:
    """Compile a pattern that may stand on several lines; the case of letters does not count."""
    return re.compile(f"(?i){pattern}".replace("\n", ""))


MATHEMATICS = frozenset({"arithmetic", "mathematics"})  # where all questions are worked out
TRAVEL = "travel planning"
_MAX_LENGTH, _ANY_TEXT, _MAX_TRIP = 20_000, 1_000, 31 * 300  # tokens

# Completion tokens of a unit of length, with room for languages that take more; and how its names
# begin. Data of a program may have the last three as well: they only add to the room of a text.
_UNITS: dict[str, tuple[float, str]] = {
    "sign": (2, r"字|文字|글자|자"),
    "word": (2, r"word|w[öo]rt|mots|palabra|parol[ae]|palavra|слов|단어"),
    "sentence": (45, r"sentence|s[äa]tze|phrase|frase|oracion|frasi|предложени|句|文|문장"),
    "paragraph": (200, r"paragra|abs[äa]tze|p[áa]rr?afo|parágrafo|абзац|段|단락"),
    "page": (1_000, r"page|seit(?:en?\b|ig)|p[áa]gin|страниц|页|頁|ページ|페이지|쪽"),
    "day": (300, r"days?\b|tag(?:en?)?\b|t[äa]gig|jours|d[íi]as|giorn|дн(?:я|ей)|天|日|일"),
    "week": (2_100, r"weeks?\b|woche|wöchig|semain|semana|settiman|недел|周|週|주"),
    "minute": (300, r"minut|min[üu]tig|минут|分|분"),
    "line": (20, r"line|zeile|ligne|vers|l[íi]nea|righe|linha|строк|行|줄"),
    # "characters …" stands in the mark of `ends_of`.
    "character": (0.5, r"character(?!s …)|zeichen|caract[èe]re|caratteri|символ|знак"),
    "item": (60, r"(?:[a-zé]+[ -]){0,2}(?:bullet|points|item|idea|tip|example|question|name|idee)"),
}
_NAMES_OF = """one ein un uno um uma одну 一 /two zwei deux dos due dois duas два две 二 两 /three
drei trois tres tre três три 三 /four vier quatre cuatro quattro quatro 四 /five fünf cinq cinco
cinque пять 五 /six sechs seis sei 六 /seven sieben sept siete sette sete 七 /eight acht huit ocho
otto oito 八 /nine neun neuf nueve nove 九 /ten zehn dix diez dieci dez десять 十 /hundred hundert
cent cents cien cento 百 /thousand tausend mille mil mila тысяч 千"""
_FIGURES = zip([*range(1, 11), 100, 1_000], _NAMES_OF.split("/"), strict=True)
_NUMBER_OF = {name: figure for figure, names in _FIGURES for name in names.split()}
_NAMES = "|".join(sorted(_NUMBER_OF, key=len, reverse=True))
_LENGTH = re.compile(
    rf"(?i)(?<![^\W一-鿿぀-ヿ가-힣])(?<![.,])"  # no letter of a script with spaces
    rf"(\d{{1,3}}(?:[,. ]\d{{3}})+|\d{{1,6}}|an?|eine?n?|un[ea]|(?:(?:{_NAMES})[- ]?){{1,7}}?)[- ]?"
    rf"(?:{'|'.join(f'(?P<{unit}>{names})' for unit, (_, names) in _UNITS.items())})"
)
_WEEKLY = _pattern(r"weekly|wochenplan|hebdomadaire|\bsemanal|settimanale|일주일")
_TEXTS = r"""(?:essay|summary|letter|article|story|speech|review|report|e-?mail|poem|song
|aufsatz|brief|bericht|gedicht|lettre|ensayo|carta|poes[íi]a|saggio|эссе|письм|сочинени|стих)"""
# What asks for a text: a verb that begins a sentence, a wish for a text, or the form of the reply.
_ASKED = r"""(?:^|[.!?:\n]\s*|(?P<aside>,\s*|\b(?:to|and|then)\s+)|\b(?:please|now|(?:can|could) you
|me|bitte|peux-tu|pou[rv]+(?:ez|iez)-vous|puedes|podrías|puoi|potresti|pode(?:ria)?|можешь)\s+)"""
_VERBS = r"""(?:write|draft|compose|create|design|implement|plan|suggest|recommend|outline
|translate|summari[sz]e|describe|explain|generate|program|compare|discuss|proofread|brainstorm
|shorten|improve|polish|make it|(?:para|re)phrase|draw up|come up with|tell me a(?:bout)?|list \d+
|recipe for|how (?:do|can) i|(?:fix|correct|refactor|debug|convert) (?:this|my|the (?:text|spell
|gramm|code)\w*))\b|schreib|verfass|erstell|entw[ie]rf|plane?\b|übersetz|fasse|erkl[äa]r|beschreib
|nenne? mir \d|korrigier|[ée]cri|r[ée]dig|r[ée]sum|tradui|planifi|expliqu|d[ée]cri|corrig|escrib
|redact|resum|traduc|explica|describ|organi[zs]|scriv|riassum|spiega|pianific|crea\b|escrev|descrev
|traduz|planej|напи[сш]|состав|перевед|опиш|объясн|перескаж|исправ|(?:кратко )?излож"""
_WISHES = rf"""(?:i(?:'d like| would like| need| want)|give|make|get|show|build|prepare|provide
|help me|gib|mach|ich (?:brauche|möchte)|donne|fais|j'ai besoin|dame|haz|hacer|necesito|quiero
|dammi|fammi|vorrei|me d[êe]|d[êe]-me|faça|preciso|quero|дай|сделай|мне нуж)[^.?!\n]{{0,50}}?\b(?:
{_TEXTS}|рецепт|таблиц|список|(?:recipe|table|list|idea|tip|name|plan|outline|itinerary|query
|function|script|program|code|regex|guide|rezept|tabelle|liste|ideen|funktion|skript|abfrage|recette
|tableau|idée|receta|tabla|lista|riassunto|ricetta|tabella|resumo|receita|tabela)s?\b)"""
_FORMS = r"""\bpros and cons\b|\btl;?dr\b|\b(?:as|in|into|valid|return|output|als|en|como
|формате) (?:an? |valid )?(?:json|yaml|csv)\b|\b(?:kannst|könn(?:test|en|ten)) .{0,80}(?:schreib
|zusammenfass|übersetz|erstell|erklär)en|写|撰|总结|概括|翻译|规划|制定|解释|食谱|实现|書いて|作って
|作成|翻訳|要約|説明して|レシピ|実装|써|작성|번역|요약|설명|계획을|레시피|구현"""
_COMPOSES = _pattern(rf"{_ASKED}(?:(?:re-?)?(?:{_VERBS})|{_WISHES})|{_FORMS}")
_TEXT = _pattern(rf"\b{_TEXTS}|作文|文章|论文|小論文|レポート|에세이")
_SPEECH = _pattern(r"""\b(?:speech|talk|presentation|sermon|podcast|lecture|rede|vortrag
|präsentation|disc(?:o|u|ou)rs|presenta[cz]i|apresenta|речь|доклад|выступлени)|演[讲講説]|スピーチ
|発表|연설|발표""")
_COUNTS = _pattern(r"""\bhow (?:many|much|long|far|old)|when (?:is|will|do)|wie ?(?:viele?|lange)
|\bcombien|\bcu[áa]nt|сколько|\bquant[aieo]s?\b|多少|几|何|いく|몇|얼마""")
_REWRITES = _pattern(r"""\b(?:translat|proofread|re-?write|(?:para|re)phras|übersetz|korrigier
|tradui|corrig|traduc|traduz|перевед|исправ)|翻译|翻訳|번역""")
_TRAVELS = _pattern(r"""\b(?:(?:trip|tour)s?\b|travel|itinerary|journey|vacation|holiday|weekend
|stopover|menu|meal plan|reise|urlaub|ausflug|wochenende|radtour|essensplan|speiseplan|wochenplan
|voyage|repas|itin[ée]rar?i|viaj|comidas|viaggio|pasti|viagem|refei|поездк|путешеств|питания|меню
|(?:day|week|night|tage?n?|woche|jour|semaine|d[íi]a|semana|giorn[oi])s? (?:in|on|at|à|en)\b)|旅行
|行程|旅程|食谱|献立|여행|식단""")
_PROGRAM = _pattern(r"""\b(?:python|java|javascript|typescript|sql|bash|shell|rust|golang|c\+\+
|regex|functions?|script|programs?|code|query|funktion|skript|fonction|funci[óo]n)\b""")
_FIGURE = r"[(\s]*-?\d[\d.,]*[)\s]*"
_SUM = re.compile(rf"{_FIGURE}(?:(?:[+*\u00d7\u00f7]|(?<=[\s)])[-\u2212/x](?=[\s(])){_FIGURE})+")
_SUM_WORDS = """what is the of to for me please can you calculate compute evaluate solve simplify
work out find give state tell only just as your following arithmetic problem expression calculation
addition subtraction multiplication division sum difference product result value total number final
answer how much was ist wie viel berechne ergebnis combien font fait calcule cuánto es calcula
quanto fa calcola сколько будет вычисли"""
_MAX_SUM = 500  # characters
RESULT = re.compile(r"(?i)\\boxed|final answer:")  # formats of a result that ends a working


def is_composed(query: Query) -> bool:
    """Return whether the whole reply is the answer, as of a text or a trip, not its last line."""
    domain, form = query["domain"].casefold(), query["answer_format"] or ""
    if domain in {*MATHEMATICS, "instruction following"} or RESULT.search(form):
        return False
    return domain == TRAVEL or _composes(ends_of(query["question"])) or bool(asked_length(query))


@lru_cache(maxsize=64)  # each prompt of a question asks again
def _composes(text: str) -> bool:
    """Return whether a text asks for another text; an aside of a question for a number does not."""
    counts = bool(_COUNTS.search(text))
    return any(not (counts and found["aside"]) for found in _COMPOSES.finditer(text))


def is_sum(question: str) -> bool:
    """Return whether a question is a sum of figures, beside words that ask for its result."""
    if len(question) > _MAX_SUM:  # so that it is read in linear time
        return False
    others, figures = _SUM.subn(" ", question)
    words = re.findall(r"[^\W\d_]+", others.casefold())
    return bool(figures) and set(words) <= set(_SUM_WORDS.split()) and ".." not in others


def kind_of(query: Query) -> Literal["program", "trip", "text"]:
    """Return what a question that asks for a text asks for: a trip is any plan of days."""
    text = ends_of(query["question"])
    if _PROGRAM.search(text):
        return "program"
    travels = query["domain"].casefold() == TRAVEL or _TRAVELS.search(text)
    return "trip" if travels and not _TEXT.search(text) else "text"


def asked_length(query: Query) -> int | None:
    """Return the completion tokens of the length that is asked for; None if none is."""
    parts = (ends_of(query["question"]), query["instruction"], query["answer_format"])
    turn = (query.get("conversation") or "").rpartition("<turn ")[2]  # that may be meant by "it"
    given = f"{query['question']}{query['reference'] or ''}{turn}".encode(errors="replace")
    return _length_in("\n".join(filter(None, parts)), query["domain"].casefold(), len(given) // 2)


@lru_cache(maxsize=64)
def _length_in(text: str, domain: str, given: int) -> int | None:
    if domain in MATHEMATICS:
        return None
    writes, counts = _composes(text), bool(_COUNTS.search(text))
    travels = domain == TRAVEL or (bool(_TRAVELS.search(text)) and (writes or not counts))
    writes, sizes = writes or bool(_TEXT.search(text) and not counts), [0.0]
    for found in _LENGTH.finditer(text):
        unit = found.lastgroup or "word"
        tokens = _number(found[1].casefold()) * _UNITS[unit][0]
        is_meant = writes and (unit not in {"line", "character", "item"} or tokens > _ANY_TEXT)
        if unit in {"day", "week"}:
            is_meant = travels and tokens <= _MAX_TRIP
        elif unit == "minute":
            is_meant = writes and bool(_SPEECH.search(text))
        sizes.append(tokens if is_meant else 0)
    if travels and (_WEEKLY.search(text) or (domain == TRAVEL and not any(sizes))):
        sizes.append(7 * _UNITS["day"][0])
    if not any(sizes) and given > _ANY_TEXT and _REWRITES.search(text):
        sizes.append(given)
    return min(int(max(sizes)), _MAX_LENGTH) or None


def _number(written: str) -> int:
    """Return a number in digits or words, such as "1,200", "two thousand" and "一千五百"."""
    digits, number, digit = re.sub(r"[,. ]", "", written), 0, 0
    if digits.isdecimal():
        return int(digits)
    for name in re.findall(_NAMES, written):
        value = _NUMBER_OF[name]
        number, digit = (number, value) if value % 10 else (number + (digit or 1) * value, 0)
    return number + digit or 1


def needed_tokens(query: Query, *, notes: bool = False) -> int | None:
    """Return the completion tokens that an answer needs; None where nothing is composed."""
    length, kind = asked_length(query), kind_of(query)
    if (length and kind == "text") or not (length or is_composed(query)):
        return length
    # "The first 3 words" are data of a program; with notes, parts come before the answer.
    room = max(length or 0, _ANY_TEXT if kind == "program" or not length else 0)
    return room * 3 // 2 if notes else room


def ends_of(text: str, head: int = 1_500, tail: int = 1_500) -> str:
    """Return the head and the tail of a text, which say what it asks for; all of a short text.

    Args:
        text: The text.
        head: Characters of its head.
        tail: Characters of its tail.
    """
    left_out = len(text) - head - tail
    return text if left_out <= 0 else f"{text[:head]}\n[… {left_out} characters …]\n{text[-tail:]}"
