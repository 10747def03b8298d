"""Find the steps of a plan, and levels and credits, in a planner's reply in any form.

A reply is parsed into lists, never evaluated; the plan is the list whose label or questions say so.
"""
# ruff: noqa: RUF001 -- marks and digits of other scripts

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import islice
from textwrap import dedent
from typing import Any, NamedTuple, cast
from unicodedata import numeric

from json_repair import repair_json

_MAX_STARTS, _MAX_BROKEN, _SUREST = 40, 4, 6
_DECODER = json.JSONDecoder(strict=False)
_MAX_REPAIRED = 2_000  # characters: the time to repair JSON grows with the square of its length
# JSON begins a line, or is an object or a list of quoted texts: "{1, 2}" is mathematics.
_JSON_START = re.compile(r"^[ \t>]*(?=[\[{])|(?=[\[{]\s*\{?\s*\\?[\"'“])", re.MULTILINE)
# A LaTeX command that a model wrote into JSON without doubling its backslash.
_BARE_LATEX = re.compile(r"(?<!\\)\\(?=[A-Za-z]{2})(?!u[0-9a-fA-F]{4})")
_STEP = (  # in the languages in which models number steps
    "step|question|task|problem|goal|stage|phase|schritt|frage|aufgabe|étape|paso|pregunta|passo"
    "|domanda|questão|pergunta|etapa|fase|stap|vraag|krok|adım|langkah|bước|шаг|вопрос|задача|этап"
    "|крок|الخطوة|خطوة|السؤال|सवाल|प्रश्न|चरण|שלב|ขั้นตอนที่|步骤|步驟|步|问题|問題|任务|題|题|質問"
    "|ステップ|手順|단계|질문"
)
_SUB = "(?:sub|unter|teil|sous|sotto|deel|под|उप|子|小|サブ|하위)"
_TITLED = "part|section|day|chapter|teil|parte|tag|jour|día|天"  # "Day 1: hills" keeps its name
_FIELDS = {  # of a step, as models name them, the surest first; a result is not read
    "question": f"{_STEP}|{_TITLED}|li|item|instruction|prompt|query|objective|todo|description"
    "|descripción|text|content|action|title|name",
    "hint": "hint|tip|method|how|hinweis|tipp|indice|astuce|pista|dica|подсказка|提示|ヒント|힌트",
    "after": "after|dependson|dep|dependency|dependencies|requires|needs|prerequisites",
    "level": "level|evaluatedlevel|difficulty",
    "credit": "credit|point|weight",
    "id": "id|stepid|taskid|number|stepnumber",
    "result": "answer|result|solution|finalanswer",
}
_PLAN = re.compile(
    rf"(?i)(?<![a-z])(?:(?:{_SUB}[-_ ]?|(?!(?:question|problem)\b))(?:{_STEP})\w{{0,3}}(?![a-z])"
    rf"|(?:part|section|chapter|day)s?(?![a-z])|plan|d[eé]compos|break|broken|outline|itinerary"
    r"|strategy|approach|structure|procedure|method|workflow|roadmap|sequence|action|agenda"
    r"|milestone|check-?list|process|to-?do|proceed|here|sure\b|okay|certainly|of course|got it"
    r"|alright|absolutely|follow|solve|need to|do this|to (?:find|answer|get)\b|let['’]?s\b"
    r"|let (?:us|me)\b|final|better|revis|enumerate|ecco|passi|passaggi|piano|vorgehen|lösungsweg"
    r"|démarche|rencana|план|порядок|kế hoạch|خطوات|خطة|योजना|计划|計画|分解|分为|解き方|계획|나눌"
    r"|과정)"
)
_NO_PLAN = re.compile(
    r"(?i)(?<![a-z])(?:(?<!the )given|facts?\b|known|we know|need to (?:know|consider)|data\b"
    r"|reason(?!abl)|note|assum|constraint|missing|insight|details\b|consideration|user\b|critique"
    r"|(?:give|tell)s? us|(?:answer|result)s?\W*$|checks?\b|rules?\b|examples?\b|clarif|summary of"
    r"|why (?:I|it|this)\b|(?:need|provide) .*more (?:info|detail)|more (?:info|detail).* need"
    r"|gegeben|bekannt|gründe|données|raisons|datos|razones|дано|известно|причин)|已知|条件|给出"
    r"|理由|原因"
)
_PURPOSE = re.compile(r"(?is)(plan|steps|questions|parts|tasks|problems) (?:to|for|of|with|in)\b.*")
_REFUSES = re.compile(
    r"(?i)\b(?:can(?:not|['’]?t)|unable|won['’]t|not able|sorry(?! for| about)|as an AI)\b"
    r"|do for you|refus|decline|n['’o]t have|kann .*nicht|no puedo|ne peux pas|не могу|无法|不能"
)
_BESIDE = re.compile(  # a list that comes with a plan, and is the plan only where no other is
    r"(?i)(?<![a-z])(?:next|follow[-_ ]?ups?\b|how (?:to use|the|this|these|they|each)\b|why|explan"
    r"|justif|verif|alternativ|reject|backup|outcome|expected|summary|(?:this|the) plan works"
    r"|(?:hint|level|credit)s? (?:of|for)|nächste|weitere|siguientes|下一步)"
)
_BULLET = re.compile(  # signs and words that stand for a number
    r"(?im)(?:^|(?<=[\s?？。；;]))(?:[①-⒇❶-➓㈠-㈩㊀-㊉][.、]?|\d\ufe0f?\u20e3)|^[ \t]*\\item\b"
    r"|^[^\w\n]*(?:first|second|third|fourth|fifth|then|next|final|last)(?:ly)?[,:]"
    r"|^(?:首先|其次|然后|最后)[，：]"
)
_MARK = re.compile(
    rf"""(?ix)[ \t]*(?:>[ \t]*)*(?:\#+[ \t]*|[^\w\s\x00-\x7f]\ufe0f?[ \t]+(?=\d))?[*_`【]*(?:
      (?:[\[(（]?(?P<word>(?:{_SUB}[-_ ]?)?(?:{_STEP}|sq|[qst]|第)|(?P<title>{_TITLED}))[ _\#]*)?
      (?P<open>[(（\[【])?(?P<digits>\d{{1,2}}|one|two|three|four|five|[一二三四五六七八九十]
        |(?(word)(?<=[ _])(?:[ivx]{{1,4}}|[a-j])(?![a-z])|(?!)))
      (?P<dots>(?:\.\d{{1,2}})+)?(?:[步题題天]|단계)?(?(word)(?:[ \t]*(?:/|of)[ \t]*\d{{1,2}})?)
      (?:[ \t]*[*_`]*\\?[.)）\]】:：、．，]+(?(word)|(?!\d))|[*_`]+(?=[ \t:：]|$)
        |(?(word)(?:[ \t]*[-–—→][ \t]|[ \t]*$)|(?P<dash>[ \t]*[-–—])(?=[ \t])))
      |\(?(?P<letter>[a-j]|[ivx]{{1,4}})[.)](?=\s)
      |(?:[-*+]|[^\w\s\x00-\x7f“”„«»…¿¡]\ufe0f?)(?:[ \t]+\[[ x]?\])?(?=\s)
    )(?P<text>.*)"""
)
_INLINE = re.compile(r"(?:^|(?<=[\s?？。；;]))\(?(\d{1,2})(?:[.)](?=\s)|[、．）])")
_FIELD_LINE = re.compile(r"[ \t>*_`+•-]*([^\W\d_][^:：\n]{1,24}?)[*_`]*[:：][*_`]*(.*)")
_TABLE_RULE = re.compile(r"[ \t]*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)+\|?[ \t]*$")
_TAG = re.compile(r"(?:</[A-Za-z][\w-]*>\s*)*(<(/?)([A-Za-z][\w-]*)\b[^<>\n]*>)")
_HEADING = re.compile(r"[ \t]*(?:#|<[^<>]*>\W*$|\*\*[^*]+\*\*\W*$|.*[:：]\W*$)")
_ENDS, _QUESTION = re.compile(r"[.?!。？！:：]\W*$"), re.compile(r"[?？؟]\W*(?:\||$)")
_AROUND, _ORDINAL = " \t*_", re.compile(r"(\D{0,16})(\d{1,2})\W?")
_NUMBER, _QUOTED = re.compile(r"-?\d{1,9}(?:[.,]\d+)?"), re.compile(r'"[^"]*"|`[^`]*`')
_FORM = re.compile(  # or a refusal in place of a step
    r"\W*(?:\w{2,5}\W+)?(?:sub\W*)?(?:question|step|part)s?[^\w?]*\d*[^\w?]*"
    r"|\W*(?:i|we|sorry|as an ai)\b.*(?:can(?:not|['’]t)|unable|not able|sorry|won['’]t)\b.*"
)
_AFTER = r"(?:after|depends on|needs|requires|nach|après|después de|после)\b"
_NEEDED = rf"(?:\W|\d|and|und|et|parts?|nothing|none|{_SUB}?(?:{_STEP})s?)*"
_NEEDS = re.compile(rf"(?i)\W*{_AFTER}{_NEEDED}")
_NEED = re.compile(r"(?i)\d{1,3}|\bno(?:ne|thing)?\b|^\W*(?:after)?\W*$")  # or that it needs none
_PART = re.compile(  # |x - 3| and P(A|B) are mathematics
    r"(?i)(?:^|\s)\|(?=\s|$)|｜|(?<=\?)\||[\s*_`(（\[—–-]+(?=(?:hint|hinweis|提示)[*_`]*[:：])"
    rf"|\s[(\[](?={_AFTER}{_NEEDED}[)\]]\s*$)"
)


class _List(NamedTuple):
    """A list in a reply, the words that it stands under, and the JSON object that holds it."""

    label: str
    items: Sequence[object]
    about: Mapping[str, Any] = {}


def find_plan(text: str) -> dict[str, Any]:
    """Return the fields of the `Plan` that a reply holds; none if it holds no plan."""
    best, plan = 0, dict[str, Any]()
    for listed in _lists(text):
        if (steps := _steps(listed)) and (rank := _rank(listed, steps)) > best:
            said = re.search(r"\b(all|last)\b", str(listed.about.get("delivers")).casefold())
            best = rank  # of lists as sure the last one counts: drafts stand before their plan
            level = _to_number(listed.about.get("level"))
            plan = {"steps": steps, "delivers": said and said[1], "level": level}
        if best == _SUREST:
            break
    return plan


def _lists(text: str, depth: int = 6) -> Iterator[_List]:
    """Yield the lists in a text, the last one first."""
    values = _json_values(text)
    objects = [value for _, value in values if isinstance(value, dict)]
    if len(objects) > 1:
        yield _List("", objects)
    for label, value in reversed(values):
        yield from reversed([*_lists_in(value, _List(label, ()), depth)])
    yield from reversed(_lists_of_lines(text))


def _lists_in(value: object, place: _List, depth: int) -> Iterator[_List]:
    """Yield the lists in a JSON value, an object by number, name or question among them."""
    if isinstance(value, str) and re.search(r"\n|\d[.)]|[\[{]", value) and depth:
        for listed in reversed([*_lists(value, depth - 1)]):
            yield place._replace(items=listed.items, label=listed.label or place.label)
    if isinstance(value, list) and not all(isinstance(item, int | float) for item in value):
        yield place._replace(items=value)
        if len(value) == 1 and depth:
            inner = place if isinstance(value[0], str) else _List("…", ())
            yield from _lists_in(value[0], inner, depth - 1)
    if not isinstance(value, dict) or not depth:
        return
    numbered: dict[str, dict[str, Any]] = {}  # {"Step 1": "…", "Hint 1": "…"}
    label = "" if place.about == {} else place.label
    for key, entry in value.items():
        if number := _ORDINAL.fullmatch(str(key)):
            word = _letters(number[1])
            label = label or word
            fields = entry if isinstance(entry, dict) else {word or "step": entry}
            numbered.setdefault(number[2], {}).update(fields)
        else:
            yield from _lists_in(entry, _List(f"{key}:", (), value), depth - 1)
    if numbered:
        yield _List(label, [*numbered.values()], value)
    elif _PLAN.search(place.label):
        yield place._replace(items=[{key: entry} for key, entry in value.items()])


def _json_values(text: str) -> list[tuple[str, Any]]:
    """Return the JSON values of a text, each with the words before it."""
    body, end, values = _BARE_LATEX.sub(r"\\\\", text), 0, list[tuple[str, Any]]()
    for start in islice((match.end() for match in _JSON_START.finditer(body)), _MAX_STARTS):
        if start < end:
            continue
        label, value = body[end:start].strip(" \t\n`").removesuffix("json").strip(" \t\n`"), None
        with suppress(ValueError, RecursionError):
            value, end = _DECODER.raw_decode(body, start)
        if end <= start and len(values) < _MAX_BROKEN:
            with suppress(ValueError, RecursionError):
                value = repair_json(body[start : start + _MAX_REPAIRED], return_objects=True)
        values.append(("…" if re.search(r"[\[{]", label) else label, value))  # in another value
    return values


def _steps(listed: _List) -> list[dict[str, Any]]:
    """Return items as steps; none where all only repeat the form of the reply."""
    items = listed.items
    for name, column in listed.about.items():  # hints and grades in lists of their own
        is_column = isinstance(column, list) and len(column) == len(items)
        if is_column and _field_of(name) not in {"", "question"}:
            rows = (item if isinstance(item, dict) else {"step": item} for item in items)
            items = [{name: entry, **row} for entry, row in zip(column, rows, strict=True)]
    parts = (item.items() for item in items if isinstance(item, dict))
    ids = (value for part in parts for name, value in part if _field_of(name) in {"id", "question"})
    steps = [step for item in items if (step := _to_step(item))]
    needs = [(need, place) for place, step in enumerate(steps) for need in step["after"] or ()]
    if needs and all(need < place for need, place in needs) and 0 in [*ids, *dict(needs)]:
        # Counted from 0, as no step then needs itself; else "after 0" says that it needs none.
        for step in steps:
            step["after"] = step["after"] and [number + 1 for number in step["after"]]
    return [] if all(_FORM.fullmatch(step["question"].casefold()) for step in steps) else steps


def _rank(listed: _List, steps: list[dict[str, Any]]) -> int:
    """Return how surely a list is the plan, from its name (4 to 6) to 0, if it is not."""
    sentence = re.split(r"[.!?。！？]\s|\n", _PURPOSE.sub(r"\1:", listed.label))[-1]
    clauses = filter(lambda part: _PLAN.search(part) or _NO_PLAN.search(part), sentence.split(","))
    words = [sentence, *clauses][-1]
    is_other = _NO_PLAN.search(words) or _REFUSES.search(listed.label)
    if _PLAN.search(words) and not is_other:
        is_step = _letters(words) == "step"
        return 1 if _BESIDE.search(words) else _SUREST - 2 + bool(listed.about) * (1 + is_step)
    if is_other and re.match(rf"{_HEADING.pattern}|.*[?？]$", words):
        return 0
    asking = sum(bool(_QUESTION.search(step["question"])) for step in steps)
    is_bare = not re.sub(r"<[^<>]*>|\W|assistant|json|output", "", listed.label.casefold())
    return 3 if 2 * asking >= len(steps) else 2 * is_bare


@lru_cache
def _letters(name: object) -> str:
    """Return the letters of a name, without "sub" and the ending of a plural."""
    letters = "".join(filter(str.isalpha, str(name).casefold()))
    return re.sub(rf"^{_SUB}(?=\w)", "", letters).removesuffix("s")


_FIELD_OF = {_letters(word): field for field, words in _FIELDS.items() for word in words.split("|")}
_PLACE_OF = {name: place for place, name in enumerate(_FIELD_OF)}


@lru_cache  # of names that each step has
def _field_of(name: object) -> str:
    return _FIELD_OF.get(_letters(name), "")


def _to_step(item: object) -> dict[str, Any] | None:
    """Return an item as the fields of a `PlannedStep`, or None if it asks for nothing."""
    if isinstance(item, list) and all(isinstance(part, str) for part in item):
        item = " | ".join(item)
    if isinstance(item, str):
        return _split({"question": item}) if _says(item) else None
    if not isinstance(item, dict):
        return None
    fields, points = dict[str, Any](), ""
    for name in sorted(filter(_field_of, item), key=lambda key: _PLACE_OF[_letters(key)]):
        field, value = _field_of(name), item[name]
        if isinstance(value, list) and field in {"question", "hint"}:
            points = points or "; ".join(part for part in value if isinstance(part, str))
        elif field != "question" or (isinstance(value, str) and _says(value)):
            fields.setdefault(field, value)
    if points and _ORDINAL.fullmatch(str(fields.get("question", "1"))):  # "Phase 1"
        fields["question"], points = points, ""
    if "question" in fields or len(item) != 1:
        return _split({"hint": points, **fields}) if "question" in fields else None
    ((key, value),) = item.items()  # {"Step 1": "…"}, {"eggs": "How many?"}, {"How many?": "hint"}
    if _QUESTION.search(str(key)):
        return _to_step({"step": key, **(value if isinstance(value, dict) else {"hint": value})})
    is_step = _ORDINAL.fullmatch(str(key)) or _field_of(key) == "question"
    is_asked = is_step or _QUESTION.search(str(value))
    return _to_step(value) if is_asked and isinstance(value, str | dict) else None


def _split(fields: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the fields of a step, among them those in its text: "What? | hint | after 1, 2"."""
    question, *parts = _PART.split(fields["question"])
    question = _to_line(question)
    mark = _MARK.match(question)
    if mark and not (mark["dash"] or mark["title"]) and mark["text"].strip():  # "Step 1: What?"
        question = _to_line(mark["text"])
    hints, after = [str(fields.get("hint") or "")], fields.get("after")
    for part in parts:
        _, said = _field_in(part) or ("hint", part)
        if _NEEDS.fullmatch(part):
            after = part
        elif said.strip() != "-":
            hints.append(said.removesuffix(")"))
    step: dict[str, Any] = {name: _to_number(fields.get(name)) for name in ("level", "credit")}
    step["hint"] = " ".join(filter(None, map(_to_line, hints)))
    needs = () if after is None else _NEED.findall(str(after))
    after = [int(need) for need in needs if need.isdecimal()] if needs else None
    return {**step, "question": question, "after": after} if _says(question) else None


def _says(text: str) -> bool:
    return any(map(str.isalpha, text))


def _to_line(text: str) -> str:
    """Return text on one line, without the Markdown around it."""
    line = " ".join(text.split()).replace("**", "").strip("*_ ;")
    return line[1:-1] if _QUOTED.fullmatch(line) else line


def _to_number(value: object) -> float | None:
    match = value is not None and _NUMBER.search(str(value))  # 4, "4" or "level 4"
    return float(match[0].replace(",", ".")) if match else None


def _lines(text: str) -> Iterator[str]:
    """Yield the lines of a text; tags, table rows and "1. … 2. …" on a line are items as well."""
    first, _, rest = text.partition("\n")  # what was before the first line has been stripped
    text = f"{first}\n{dedent(rest)}".expandtabs(4)
    tags = [_letters(tag[3]) for tag in _TAG.finditer(text) if _field_of(tag[3]) == "question"]
    item = max(dict.fromkeys(tags), key=tags.count, default="")

    def to_mark(tag: re.Match[str]) -> str:  # a bullet for an item, and its name for a field
        if tag[2] or _field_of(tag[3]) in {"", "result", "id"}:
            return "\n" if tag[2] else tag[1]
        if _letters(tag[3]) != item:
            return f"\n{tag[3]}: "
        return f"\n{tag[1]}\n" if tag[3].endswith("s") else "\n- "  # <steps> around each <step>

    text = _TAG.sub(to_mark, text)
    lines = _BULLET.sub(lambda sign: f"\n{numeric(sign[0][:1], 0):.0f}. ", text).splitlines()
    said = [line.strip() for line in lines if line.strip()]
    is_asked = (line[0].isalpha() and (_QUESTION.search(line) or " | " in line) for line in said)
    if len(said) > 1 and all(is_asked):
        lines = [f"- {line}" for line in said]
    columns, row = list[str](), [""]
    for line in lines:
        above, row = row, [cell.strip(_AROUND) for cell in line.strip(" \t|").split("|")]
        columns = above if _TABLE_RULE.match(line) else columns if "|" in line else []
        cells = [pair for pair in zip(columns, row, strict=False) if pair[1].strip("-:")]
        named = [f"{name}: {cell}" if _field_of(name) else cell for name, cell in cells]
        yield from (f"{'  ' * bool(place)}- {part}" for place, part in enumerate(named))
        if cells:
            continue
        numbers = [int(number) for number in _INLINE.findall(line)]
        is_list = numbers[1:] and numbers == [*range(1, len(numbers) + 1)]
        yield from (_INLINE.sub(r"\n\g<0>", line) if is_list else line).split("\n")


def _lists_of_lines(text: str) -> list[_List]:
    """Return the lists of a text: a line is an item, a part of an item, or words before a list."""
    found, label, style = list[_List](), "", ""
    indent, number, goes_on, is_heading = 0, 0, False, False
    for line in _lines(text):
        place, words = len(line) - len(line.lstrip()), line.lstrip(" >#").strip(_AROUND)
        mark, field = _MARK.match(line), _field_in(words)
        its_style, its_number = _place_of(mark)
        is_top = its_style == "word" or place <= indent + 1
        is_part = bool(mark) or place > indent or (goes_on and not _HEADING.match(line))
        is_part |= field is not None and _FIELD_OF[field[0]] != "question"
        restarts = number > 1 if its_style == style else style == "bullet"
        is_new = is_top and its_number == 1 and restarts
        if is_new or (its_style and its_number <= 1 and (label or not found)):
            found.append(_List(label, []))
            indent, style, is_top = place, its_style, True
        items = cast("list[dict[str, str]]", found[-1].items) if found else [{}]
        if mark and is_top and its_style == style:
            items.append({})
            number, label, goes_on = its_number, "", True
            is_heading = line.strip(" >").startswith(("#", "**"))
            _add_text(items[-1], words if mark["title"] else mark["text"])
        elif not _says(words) or words.startswith("```"):
            goes_on &= is_heading or not items[-1]  # below a heading all belongs to it
        elif found and not label and is_part:
            _add_text(items[-1], mark["text"] if mark else words, is_point=bool(mark))
        elif not field:
            label = f"{label}\n{line.strip()}".strip()
    return found


def _add_text(item: dict[str, str], text: str, *, is_point: bool = False) -> None:
    """Add words to an item: a field by its name, a title, the question of the title, or a hint."""
    text = text.strip(_AROUND)
    heads = (part for name, part in item.items() if _FIELD_OF[name] == "question" and _says(part))
    head, field = next(heads, ""), _field_in(text)
    if field and not (_FIELD_OF[field[0]] == "question" and _ENDS.search(head)):
        item.setdefault(*field)
    elif not _says(text):
        return
    elif not head:
        item["title"] = text
    elif not is_point and _QUESTION.search(text) and not _QUESTION.search(head):
        item.setdefault("question", text)
    elif not is_point and text[0].islower() and "hint" not in item and not _ENDS.search(head):
        item["title"] = f"{head} {text}"
    else:
        item["hint"] = "; ".join(filter(None, [item.get("hint"), text]))


def _field_in(text: str) -> tuple[str, str] | None:
    """Return the name and the value of a field on a line of its own, such as "Hint: add"."""
    if not (line := _FIELD_LINE.match(text)):
        return None
    name, value, field = line[1], line[2].strip(_AROUND), _field_of(line[1])
    is_title = field == "question" and re.search(r"\d", name)  # "Day 1: the museums"
    return (_letters(name), value) if value and field and not is_title else None


def _place_of(mark: re.Match[str] | None) -> tuple[str, int]:
    """Return the style of a mark, none for "1.2", and its number; 0 for a bullet."""
    if not mark or mark["dots"]:
        return "", 0
    if digits := mark["digits"]:
        style = "word" if mark["word"] else f"digits{mark['open'] or ''}"
        return style, int(digits) if digits.isdecimal() else 0  # "Step two", "二、"
    letter = mark["letter"]
    return ("letter", 1 if letter in {*"aAiI"} else 2) if letter else ("bullet", 0)


def find_grades(text: str) -> dict[str, Any]:
    """Return the ``level`` of a problem, and the ``levels`` and ``credits`` of its parts."""
    lines = {line[1]: line[2] for line in map(_FIELD_LINE.match, text.splitlines()) if line}
    values = [*(value for _, value in _json_values(text)), lines]
    return next((grades for value in values if (grades := _grades(value))), {})


def _grades(value: object) -> dict[str, Any]:
    """Return the grades in a JSON value: in lists of their own, or in an object for each part."""
    grades, rows = dict[str, Any](), list[dict[str, Any]]()
    for key, entry in (value if isinstance(value, dict) else {"": value}).items():
        if (field := _field_of(key)) in {"level", "credit"}:
            parts: Any = [*entry.values()] if isinstance(entry, dict) else entry
            parts = re.findall(r"\d[\d.]*", entry) if isinstance(entry, str) else parts  # "2, 4"
            if isinstance(entry, list) or (isinstance(parts, list) and len(parts) > 1):
                grades[f"{field}s"] = [*map(_to_number, parts)]
            else:
                grades[field] = _to_number(entry)
        elif isinstance(entry, dict) and not _ORDINAL.fullmatch(str(key)):
            grades |= _grades(entry)  # {"problem": {"level": 4}, "1": {"level": 2}, …}
        else:
            items = entry if isinstance(entry, list) else [entry]
            rows += [_grades(item) for item in items if isinstance(item, dict)]
    for field in ("level", "credit"):
        if any(field in row for row in rows):
            grades.setdefault(f"{field}s", [row.get(field) for row in rows])
    return grades
