"""Find the steps of a plan, the grades and the level in a planner's reply, however it is written.

A reply is data: it is parsed, and never evaluated. A list is taken for the plan by what is known of
plans: its name, its place, or that it asks questions. Any other list is left alone.
"""

# ruff: noqa: RUF001 -- marks and digits of other scripts

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice, pairwise
from typing import Any, NamedTuple

from json_repair import repair_json

from pb_graph.answers import without_thinking

_MAX_LENGTH, _MAX_STARTS, _MAX_VALUES = 40_000, 40, 4
_MAX_REPAIRED = 2_000  # characters: the time to repair JSON grows with the square of its length

# JSON begins a line, or is an object or a list of quoted texts: "{1, 2}" is mathematics.
_JSON_START = re.compile(r"^[ \t>]*(?=[\[{])|(?=[\[{]\s*\{?\s*[\"'“])", re.MULTILINE)
# A LaTeX command that a model wrote into JSON without doubling its backslash.
_BARE_LATEX = re.compile(r"(?<!\\)\\(?=[A-Za-z]{2})(?!u[0-9a-fA-F]{4})")

_FIELDS = {
    "question": "question subquestion part task subtask step subproblem problem goal section frage "
    "schritt étape pregunta paso вопрос шаг 问题 子问题 步骤 description text action title name",
    "hint": "hint tip method how hinweis tipp indice astuce pista подсказка 提示 ヒント",
    "after": "after dependson dependencies requires needs prerequisites",
    "level": "level levels evaluatedlevel difficulty",
    "credit": "credit credits points",
}
"""Names of the fields of a step as models write them, the surest first."""
_FIELD_OF = {word: field for field, words in _FIELDS.items() for word in words.split()}
_PLAN = re.compile(
    r"plan|steps?\b|questions?\b|\bparts?\b|tasks?\b|problems\b|decompos|outline|sections?\b|stages?"
    r"\b|approach|here|sure\b|certainly|of course|follow|schritt|teil|frage|étapes|pasos|preguntas|"
    r"шаги|вопросы|план|步|问题|問題|计划|計画|ステップ|단계",
    re.IGNORECASE,
)
_NO_PLAN = re.compile(
    r"given|fact|known|\bdata\b|reason|note|assum|constraint|missing|can(?:not|['’]?t)\b|\bunable|"
    r"won['’]t|\bnot able|sorry|refus|gegeben|gründe|kann .*nicht|données|raisons|datos|razones|"
    r"дано|причин|已知|条件|理由|原因|无法|不能",
    re.IGNORECASE,
)
_ROMAN = ("i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix", "x")
_COUNTED = (
    "first second third fourth fifth",
    "one two three four five",
    "一 二 三 四 五 六 七 八 九 十",
)
_NUMBER_OF = {word: n for words in _COUNTED for n, word in enumerate(words.split(), 1)}
_NUMERAL_MARK = re.compile(
    r"([①-⒇❶-➓㈠-㈩㊀-㊉])[.、]?|(\d)\ufe0f?\u20e3"
    r"|^[ \t]*[(（]?第?([一二三四五六七八九十])步?[、，．.:：)）]"
    r"|\b(?:step|question|part) (one|two|three|four|five)\b:?"
    r"|^(first|second|third|fourth|fifth)(?:ly)?[,:]",
    re.IGNORECASE | re.MULTILINE,
)
_MARK = re.compile(
    r"""(?P<indent>[ \t]*)(?:>[ \t]*)*(?:\#+[ \t]*|[^\w\s\x00-\x7f]\ufe0f?[ \t]+(?=\d))?[*_`]*(?:
      (?:(?P<word>(?:sub[- ]?)?(?:question|task|problem|part)|step|q|section|teil|(?:teil)?frage|
        schritt|étape|paso|parte|шаг|вопрос|子?[問问質][题題問]|步[骤驟]|ステップ|단계|第)[ \t]*)?
      (?P<open>[(（\[【])?(?P<digits>\d{1,2})(?P<dots>(?:\.\d{1,2})+)?(?:[步题題]|단계)?
      (?:[ \t]*[*_`]*\\?[.)）\]】:：、．，](?!\d)|[*_`]+(?=[ \t:：]|$)
        |(?(word)(?:[ \t]*[-–—][ \t]|[ \t]*$)|(?P<dash>[ \t]*[-–—])(?=[ \t])))
      |\(?(?P<letter>[a-j]|[ivx]{1,4})[.)](?=\s)
      |(?P<bullet>[-*+]|[^\w\s\x00-\x7f“”„«»…¿¡]\ufe0f?)(?:[ \t]+\[[ x]?\])?(?=\s)
    )(?P<text>.*)""",
    re.IGNORECASE | re.VERBOSE,
)
_INLINE = re.compile(r"(?:^|(?<=[\s?？。；;]))\(?(\d{1,2})(?:[.)](?=\s)|[、．）])")
_FIELD_LINE = re.compile(r"[ \t>*_`+•-]*([^\W\d_][^:：\n]{1,24}?)[*_`]*[:：][*_`]*(.*)")
_TABLE_RULE = re.compile(r"[ \t]*\|?[ \t]*:?-{2,}:?[ \t]*(?:\|[ \t]*:?-{2,}:?[ \t]*)+\|?[ \t]*$")
_TAGGED = re.compile(r"<(step|question|part|task|item|li)\b[^>]*>([^<]*)</\1>", re.IGNORECASE)
_SAYS = re.compile(r"[^\W_]")
_ENDS, _QUESTION = re.compile(r"[.?!。？！:：]\W*$"), re.compile(r"[?？؟]\W*(?:\||$)")
_ORDINAL = re.compile(r"\D{0,16}\d{1,2}\W?")
_FORM = re.compile(
    r"\W*(?:(?:your|the|an?|first|next)\W+)?(?:sub\W*)?(?:question|step|part)s?[^\w?]*\d*[^\w?]*",
    re.IGNORECASE,
)
_Steps = list[dict[str, Any]]


class Found(NamedTuple):
    """The steps of a reply, as fields by name; and what the reply says of the whole plan."""

    steps: _Steps
    about: Mapping[str, Any]


def find_plan(text: str) -> Found:
    """Return the steps that a reply lists; none if it holds no plan.

    Args:
        text: The reply, with its thinking.
    """
    text = without_thinking(text)[:_MAX_LENGTH]
    values = _json_values(text)
    whole = [value for _, value, is_whole in values if is_whole]
    named = [found for value in whole for found in _named(value)][-1:]  # drafts stand before it
    named += [found for _, value, is_whole in values if not is_whole for found in _named(value)]
    if named:
        return named[0]
    objects = [value for value in whole if isinstance(value, Mapping)]
    lists: list[tuple[str, Sequence[Any]]] = [("", objects)]
    lists += [(label, value) for label, value, _ in values if isinstance(value, list)]
    lists += _lists_in_lines(text)
    ranked = [(_rank(label, steps), steps) for label, items in lists if (steps := _steps(items))]
    best = max((rank for rank, _ in ranked), default=0)
    return Found([steps for rank, steps in ranked if rank == best][-1] if best else [], {})


def _json_values(text: str) -> list[tuple[str, Any, bool]]:
    """Return the JSON values of a text: the words before each, and whether it was whole."""
    body, end, values = _BARE_LATEX.sub(r"\\\\", text), 0, list[tuple[str, Any, bool]]()
    for start in islice((match.end() for match in _JSON_START.finditer(body)), _MAX_STARTS):
        if start < end:
            continue
        label, value = body[end:start].strip(" \t\n`").removesuffix("json").strip(" \t\n`"), None
        with suppress(ValueError, RecursionError):
            value, end = json.JSONDecoder(strict=False).raw_decode(body, start)
        is_whole = end > start
        if not is_whole and len(values) < _MAX_VALUES:
            with suppress(ValueError, RecursionError):
                value = repair_json(body[start : start + _MAX_REPAIRED], return_objects=True)
        values.append((label, value, is_whole))
    return values


def _named(value: object, depth: int = 3) -> list[Found]:
    """Return the plans under keys that name one, last that under "steps"; else under any key."""
    if not isinstance(value, Mapping) or not depth:
        return []
    found: list[Found] = []
    names = [key for key in value if _is_plan(str(key)) and not _ORDINAL.fullmatch(str(key))]
    for key in sorted(names, key=lambda key: _letters(key) == "steps"):
        found += _named(value[key], depth - 1)
        if steps := _steps(_entries(value[key])):
            for name, column in value.items():  # grades in lists of their own
                field = _FIELD_OF.get(_letters(name).removesuffix("s"), "question")
                if field != "question" and isinstance(column, list) and len(column) == len(steps):
                    pairs = zip(steps, column, strict=True)
                    steps = [{field: entry, **step} for step, entry in pairs]
            found.append(Found(steps, value))
    numbered = [
        entry
        for key, entry in value.items()
        if _ORDINAL.fullmatch(str(key)) and _FIELD_OF.get(_letters(key), "question") == "question"
    ]
    if not found and (steps := _steps(numbered)):
        found = [Found(steps, value)]
    for inner in () if found else value.values():
        steps = [] if isinstance(inner, Mapping) else _steps(_entries(inner))
        found += [Found(steps, value)] if steps and _rank("unknown", steps) else []
        found += _named(inner, depth - 1)
    return found


def _entries(value: object) -> Sequence[object]:
    """Return the items of a list, of an object by number, name or question, or of lines."""
    if isinstance(value, str):
        return find_plan(value).steps if re.search(r"\n|\d[.)]|[\[{]", value) else []
    if not isinstance(value, Mapping):
        return value if isinstance(value, list) else []
    lists = [entry for entry in value.values() if isinstance(entry, list)]
    return [value] if _to_step(value) else [*lists, [{k: v} for k, v in value.items()]][0]


def _steps(items: Sequence[object]) -> _Steps:
    """Return items as steps; none where all only repeat the form of the reply."""
    steps = [step for item in items if (step := _to_step(item))]
    needs = [step["after"] if isinstance(step.get("after"), list) else [] for step in steps]
    if any(0 in numbers for numbers in needs):  # counted from 0
        for step, numbers in zip(steps, needs, strict=True):
            step["after"] = [number + 1 for number in numbers if isinstance(number, int)]
    is_form = all(_FORM.fullmatch(step["question"].partition("|")[0]) for step in steps)
    return [] if is_form else steps


def _to_step(item: object) -> dict[str, Any] | None:
    """Return an item as fields by our names, or None if it asks for nothing."""
    if isinstance(item, list) and all(isinstance(part, str) for part in item):
        item = " | ".join(item)
    if not isinstance(item, Mapping):
        is_text = isinstance(item, str) and any(map(str.isalpha, item))
        return {"question": item} if is_text else None
    fields: dict[str, Any] = {}
    names = {_letters(name): value for name, value in item.items()}
    for name in sorted(names.keys() & _FIELD_OF.keys(), key=[*_FIELD_OF].index):
        value, field = names[name], _FIELD_OF[name]
        if field != "question" or (isinstance(value, str) and any(map(str.isalpha, value))):
            fields.setdefault(field, value)
    if "question" in fields or len(item) != 1:
        return fields if "question" in fields else None
    ((key, value),) = item.items()  # {"Step 1": "…"}, {"eggs": "How many?"}, {"How many?": "hint"}
    if _QUESTION.search(str(key)):
        return {"question": key, **(value if isinstance(value, Mapping) else {"hint": value})}
    is_asked = _ORDINAL.fullmatch(str(key)) or _QUESTION.search(str(value))
    return _to_step(value) if is_asked and not isinstance(value, list) else None


def _rank(label: str, steps: _Steps) -> int:
    """Return how surely a list is the plan: 3 by its name, 2 by its questions, 0 if it is not."""
    if _is_plan(label.rpartition("\n")[2]) and not _NO_PLAN.search(label):
        return 3
    asking = sum(bool(_QUESTION.search(step["question"])) for step in steps)
    return 2 if 2 * asking >= len(steps) else int(not label)


def _is_plan(label: str) -> bool:
    return bool(_PLAN.search(label)) and not _NO_PLAN.search(label)


def _letters(key: object) -> str:
    return "".join(filter(str.isalpha, str(key).casefold()))


def without_mark(text: str) -> str:
    """Return a text without a number or a bullet before it: "What?" for "Step 1: What?"."""
    mark = _MARK.match(text)
    if mark is None or mark["dash"] or not mark["text"].strip():
        return text
    is_title = (mark["word"] or "").casefold() in {"part", "section", "teil", "parte"}
    return text if is_title else mark["text"]


def _lists_in_lines(text: str) -> list[tuple[str, _Steps]]:
    """Return the numbered lines, bullets and tables of a text, each with the words before it."""
    lists = _Lists()
    for line in filter(_SAYS.search, _lines(text)):
        lists.add(line)
    return lists.found


def _lines(text: str) -> Iterator[str]:
    """Yield the lines of a text; "1. … 2. …" on a line, table rows and tags are lists as well."""
    lines = _TAGGED.sub(r"\n- \2\n", _NUMERAL_MARK.sub(_to_digits, text)).splitlines()
    said = [line.strip() for line in lines if line.strip()]
    if all(_QUESTION.search(line) and line[0].isalpha() and not _MARK.match(line) for line in said):
        lines = [f"- {line}" for line in said]
    in_table = False
    for line, below in pairwise([*lines, ""]):
        if _TABLE_RULE.match(below) or _TABLE_RULE.match(line):
            in_table = True
            yield "Steps" if _is_plan(line) else "Table" if "|" in line else line
            continue
        if in_table := in_table and "|" in line:
            cells = map(str.strip, line.strip(" \t|").split("|"))
            yield "- " + " | ".join(cell for cell in cells if any(map(str.isalpha, cell)))
            continue
        marks = [*_INLINE.finditer(line)]
        numbers = [int(mark[1]) for mark in marks]
        is_list = len(marks) > 1 and numbers == [*range(1, len(marks) + 1)]
        places = [0, *(mark.start() for mark in marks if is_list), None]
        yield from (line[start:end] for start, end in pairwise(places))


class _Lists:
    """Collects the lists of a text line by line."""

    def __init__(self) -> None:
        self.found: list[tuple[str, _Steps]] = []
        self.label = ""
        self.style, self.indent, self.number = "", 0, 0

    def add(self, line: str) -> None:
        """Add a line: an item, a part of the item before it, or words before a list."""
        mark, named, text = _MARK.match(line), _FIELD_LINE.match(line), line.strip(" \t>*_`#")
        field = _FIELD_OF.get(_letters(named[1])) if named else None
        item = self.found[-1][1][-1] if self.found and not self.label else None
        said = named[2].strip() if named and field == "question" else text
        if item and named and field and field != "question":
            item.setdefault(field, named[2].strip())
        elif mark and self._begins_item(mark):
            self._add_item(mark)
        elif item and not item["question"]:
            item["question"] = said
        elif item and (mark or _indent(line) > self.indent or text[:1].islower()):
            is_point = mark or item.get("hint") or _ENDS.search(item["question"])
            name, joint = ("hint", "; ") if is_point else ("question", " ")
            parts = [item.get(name), mark["text"].strip() if mark else text]
            item[name] = joint.join(filter(None, parts))
        else:
            self.label = f"{self.label}\n{line.strip()}".strip()

    def _begins_item(self, mark: re.Match[str]) -> bool:
        """Return whether a mark begins an item of this list or of a new one, not a sub-point."""
        style, number = _place_of(mark)
        if not self.found:
            return style != "letter" or number == 1
        if mark["word"] or (self.label and number <= 1 and not mark["dots"]):
            return True
        if mark["dots"] or (style != self.style and not (self.style == "bullet" and number == 1)):
            return False
        has_points = "hint" in self.found[-1][1][-1]
        goes_on = 0 < number == self.number + 1 and not has_points
        return goes_on or _indent(mark["indent"]) <= self.indent + 1

    def _add_item(self, mark: re.Match[str]) -> None:
        (style, number), named = _place_of(mark), _FIELD_LINE.match(mark["text"])
        is_headed = self.label and _ENDS.search(self.label) and number <= 1
        if is_headed or style != self.style or number == 1 < self.number or not self.found:
            self.found.append((self.label, []))
            self.indent = _indent(mark["indent"])
        self.style, self.number, self.label = style, number, ""
        is_named = named and _FIELD_OF.get(_letters(named[1])) == "question"
        text = named[2] if named and is_named else mark["text"]
        self.found[-1][1].append({"question": text.strip(" \t*_`")})


def _indent(line: str) -> int:
    line = line.expandtabs(4)
    return len(line) - len(line.lstrip())


def _place_of(mark: re.Match[str]) -> tuple[str, int]:
    """Return the style and the number of a mark; 0 for a bullet."""
    if mark["digits"]:
        return "word" if mark["word"] else f"digits{mark['open'] or ''}", int(mark["digits"])
    letter = (mark["letter"] or "").casefold()
    number = _ROMAN.index(letter) + 1 if letter in _ROMAN else ord(letter or "`") - ord("`")
    return "letter" if letter else "bullet", number


def _to_digits(mark: re.Match[str]) -> str:
    """Return a number of another script, or in words, as a mark such as "2."."""
    sign = next(filter(None, mark.groups())).casefold()
    return f" {_NUMBER_OF.get(sign) or int(unicodedata.numeric(sign))}. "


_SCALE = re.compile(
    r"(?:\b(?:on|from|of|between|scale)\s+)*\b(?:L?[01]|one)\s*(?:\([^)]*\)\s*)?"
    r"(?:to|through|and|[-–—~]|bis|à|至|到)\s*(?:L?5|five)\b(?:\s*\([^)]*\))?"
    r"|(?:out\s+of|of|/)\s*(?:5|five)\b(?:\s+levels?)?|\b(?:5|five)[ -](?:levels?|points?)\b"
    r"|\b[1-5]\s*(?:=|means|is)\s*(?:the\s+)?(?:very\s+)?(?:easy|easiest|hard|hardest)\b"
    r"|\b(?:not|than|below|above|under|over)\W+(?:an?\W+|the\W+)?(?:level\W+)?L?[1-5]\b",
    re.IGNORECASE,
)
"""Names of a scale, or of a level that is denied."""
_NUMERAL = (
    r"(?:L[ -]?|#)?(?:(?P<d>[1-5](?:[.,]\d+)?)(?=L[1-5]|[一-鿿぀-ヿ]|\W|$)"
    r"(?!\.\d|\s*(?:/|out of)\s*\d)"
    r"|(?P<w>one|two|three|four|five|I{1,3}V?|IV|V|[一二三四五])(?=级|級|\W|$))"
)
_CALLED = re.compile(
    r"(?:level|lvl|difficulty|stufe|niveau|nivel|уровень|难度|難度|等级|レベル|난이도)(?:[\W_]*\b(?:is|it"
    r"|of|as|be|would|should|rated|an?|at|about|around|probably|solid|ist|est|es)\b)*"
    rf"[\W_为是は]*{_NUMERAL}|(?P<nth>[1-5])(?:st|nd|rd|th)[ -]level",
    re.IGNORECASE,
)
_BARE = re.compile(rf"(?<![\w./-]){_NUMERAL}", re.IGNORECASE)
_WORDS_OF = ("one i 一", "two ii 二", "three iii 三", "four iv 四", "five v 五")
_AROUND = " \n*_#\"'`({!."


def find_level(text: str) -> int | None:
    """Return the level from 1 to 5 that a reply names; None where it names none, or several.

    The number that is called a level counts, not one of a scale or of another thing.

    Args:
        text: The reply, with its thinking.
    """
    text = without_thinking(text)[:_MAX_LENGTH].translate({0xBC: ".25", 0xBD: ".5", 0xBE: ".75"})
    signs = unicodedata.normalize("NFKC", text)
    plain = "".join(f"{unicodedata.decimal(sign, sign)}" for sign in signs)
    plain, scales = _SCALE.subn(" ", plain)
    called, bare = [*_CALLED.finditer(plain)], [*_BARE.finditer(plain)]
    digits = [match for match in bare if match["d"]]
    if not called and not bare:
        return None
    first = (called or digits or bare)[0]
    opens, rest = not plain[: first.start()].strip(_AROUND), plain[first.end() :]
    if called:
        return _to_level(first if opens and re.match(r"\W*(?:$|[.,;(\n])", rest) else called[-1])
    is_only = len({match["d"] for match in digits}) == 1 if digits else len(bare) == 1
    is_alone = digits or scales or not rest.strip(_AROUND)
    return _to_level(first) if (opens or is_only) and is_alone else None


def _to_level(match: re.Match[str]) -> int:
    named = match.groupdict()
    if digits := named["d"] or named.get("nth"):
        return min(int(float(digits.replace(",", ".")) + 0.5), 5)
    word = named["w"].casefold()
    return next(level for level, words in enumerate(_WORDS_OF, 1) if word in words.split())


def find_grades(text: str) -> dict[str, Any]:
    """Return the ``level`` of a problem, and the ``levels`` and ``credits`` of its parts.

    Args:
        text: The reply, with its thinking.
    """
    text = without_thinking(text)[:_MAX_LENGTH]
    lines = {line[1]: line[2] for line in map(_FIELD_LINE.match, text.splitlines()) if line}
    values = [*(value for _, value, _ in _json_values(text)), lines]
    return next((grades for value in values if (grades := _grades(value))), {})


def _grades(value: object) -> dict[str, Any]:
    """Return the grades in a JSON value: in lists of their own, or in an object for each part."""
    grades: dict[str, Any] = {}
    about = value if isinstance(value, Mapping) else {}
    for key, entry in about.items():
        field = _FIELD_OF.get(_letters(key))
        if isinstance(entry, str) and len(numbers := re.findall(r"\d[\d.]*", entry)) > 1:
            entry = numbers  # noqa: PLW2901 -- "2, 4"
        if field == "question" and isinstance(entry, Mapping):  # {"problem": {"level": 4}, "1": …}
            grades.update(level=_by_field(entry).get("level"))
        elif field in {"level", "credit"} and isinstance(entry, list | Mapping):
            grades[f"{field}s"] = [*entry.values()] if isinstance(entry, Mapping) else entry
        elif field == "level":
            grades["level"] = entry
    rows = [entry for key, entry in about.items() if _ORDINAL.fullmatch(str(key))]
    for items in (rows, *(entry for entry in (value, *about.values()) if isinstance(entry, list))):
        fields = [_by_field(item) for item in items if isinstance(item, Mapping)]
        for field in ("level", "credit"):
            if len(items) == len(column := [row[field] for row in fields if field in row]) > 0:
                grades.setdefault(f"{field}s", column)
    return grades


def _by_field(item: Mapping[str, Any]) -> dict[str | None, Any]:
    return {_FIELD_OF.get(_letters(key)): value for key, value in item.items()}
