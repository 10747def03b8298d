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

MAX_REPAIRED = 2_000
"""Characters of broken JSON to repair: the time for it grows with the square of the length."""
_MOST_STARTS, _MOST_REPAIRS, _LONGEST = 40, 3, 40_000

# JSON begins a line, or is an object or a list of quoted texts: "{1, 2}" is mathematics.
_JSON_START = re.compile(
    r"^[ \t>]*(?=[\[{])|(?=\{\s*[\"'“])|(?=\[\s*(?:[\"'“]|\{\s*[\"'“]))", re.MULTILINE
)
# A LaTeX command that a model wrote into JSON without doubling its backslash.
_BARE_LATEX = re.compile(r"(?<!\\)\\(?=[A-Za-z]{2})(?!u[0-9a-fA-F]{4})")

_FIELDS = {
    "question": "question subquestion part subpart task subtask step substep subproblem problem "
    "goal section teilfrage frage schritt aufgabe étape paso pregunta шаг вопрос 子问题 问题 步骤 "
    "問題 ステップ description text content instruction action title name",
    "hint": "hint hints tip method how hinweis tipp indice astuce pista подсказка 提示 ヒント 힌트",
    "after": "after dependson dependencies dependency depends requires needs prerequisites",
    "level": "level levels evaluatedlevel difficulty",
    "credit": "credit credits points weight share",
}
"""Names of the fields of a step as models write them, the surest first."""
_FIELD_OF = {word: field for field, words in _FIELDS.items() for word in words.split()}
_PLAN = re.compile(
    r"plan|steps?\b|questions?\b|\bparts?\b|tasks?\b|problems\b|decompos|break|outline|sections?\b|"
    r"stages?\b|phases?\b|approach|solv|here|sure\b|"
    r"certainly|of course|follow|schritt|teile|fragen|aufgaben|[ée]tapes|parties|pasos|preguntas|"
    r"passos|partes|шаги|вопросы|части|план|步|问题|問題|计划|計|部分|任务|ステップ|질문|단계|계획",
    re.IGNORECASE,
)
_NO_PLAN = re.compile(
    r"given|fact|known|\bdata\b|reason|note|assum|constraint|require|missing|gegeben|gr[üu]nde|"
    r"donn[ée]es|raisons|datos|razones|дано|причин|已知|条件|理由|原因",
    re.IGNORECASE,
)
_REFUSES = re.compile(
    r"can(?:not|['’]?t)\b|\bunable|won['’]t|\bnot able|sorry|refus|kann .*nicht|无法|不能|できない",
    re.IGNORECASE,
)
_WORDS = (
    r"(?:sub[- ]?)?(?:question|task|problem|part)|step|q|section|phase|stage|(?:teil)?(?:frage|"
    r"aufgabe)|teil|schritt|[ée]tape|partie|paso|parte|passo|pregunta|pergunta|шаг|вопрос|часть|"
    r"(?:子)?问题|(?:子)?問題|步骤|步驟|部分|任务|ステップ|質問|질문|단계|第"
)
_ROMAN = ("i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix", "x")
_HAN = "〇一二三四五六七八九十"
_MARK = re.compile(
    rf"""(?P<indent>[ \t]*)(?:>[ \t]*)*(?:[#]+[ \t]*|[✅✔👉☑]\ufe0f?[ \t]*(?=\d))?[*_`]*(?:
      (?:(?P<word>{_WORDS})[ \t#]*)?(?P<open>[(（\[【])?
      (?:(?P<digits>\d{{1,2}})(?P<dots>(?:\.\d{{1,2}})+)?|(?P<han>[{_HAN}]{{1,2}}))
      (?:[步题題]|部分|个问题|단계)?\ufe0f?
      (?:\u20e3|[ \t]*[*_`]*\\?[.)）\]】:：、．，](?!\d)|[*_`]+(?=[ \t:：]|$)
        |(?(word)(?:[ \t]*[-–—][ \t]|[ \t]*$)|[ \t]*[-–—](?=[ \t])))
      |(?P<ring>[①-⑳❶-❿])[.、]?
      |\(?(?P<letter>[a-j]|[ivx]{{1,4}})[.)](?=\s)
      |(?P<bullet>[-*+]|[^\w\s\x00-\x7f“”„«»…¿¡]\ufe0f?)(?:[ \t]+\[[ x]?\])?(?=\s)
    )(?P<text>.*)""",
    re.IGNORECASE | re.VERBOSE,
)
_INLINE = re.compile(
    r"(?:^|(?<=\s)|(?<=[?？。；;]))(?:\(?(\d{1,2})(?:[.)](?=\s)|[、．）])|([①-⑳]))"
)
_FIELD_LINE = re.compile(r"[ \t>*_`+•-]*([^\W\d_][^:：\n]{1,24}?)[*_`]*[:：][*_`]*(.*)")
_INLINE_HINT = re.compile(
    rf"[\s*_`(\[]*\b({'|'.join(_FIELDS['hint'].split()[:2])}|hinweis|tipp|indice|提示)[*_`]*[:：]",
    re.IGNORECASE,
)
_TABLE_RULE = re.compile(r"[ \t]*\|?[ \t]*:?-{2,}:?[ \t]*(?:\|[ \t]*:?-{2,}:?[ \t]*)+\|?[ \t]*$")
_ENDS = re.compile(r"[.?!。？！:：]\W*$")
_QUESTION = re.compile(r"[?？؟]\W*(?:\||$)")
_ORDINAL = re.compile(r"[^\W\d]{0,12}[\W_]{0,2}\d{1,2}\W?")
_TAGGED = re.compile(
    r"<(step|sub[-_]?question|question|part|task|item|li)\b[^>]*>([^<]*)</\1>", re.IGNORECASE
)
_TAGGED_HINT = re.compile(r"<hint>([^<]*)</hint>", re.IGNORECASE)
_FORM = re.compile(
    r"[\W\d_]*(?:(?:your|the|an?|first|next)\W+)?(?:sub[\W_]*)?(?:question|step|part)s?[^\w?？]*\d*[^\w?？]*",
    re.IGNORECASE,
)


class Found(NamedTuple):
    """The steps of a reply, as fields by name; and what the reply says of the whole plan."""

    steps: list[dict[str, Any]]
    about: Mapping[str, Any]


def find_plan(text: str) -> Found:
    """Return the steps that a reply lists; none if it holds no plan.

    Args:
        text: The reply, with its thinking.
    """
    text = without_thinking(text)[:_LONGEST]
    values = list(_json_values(text))
    for is_whole in (True, False):  # repaired JSON only where no whole value has a plan's name
        named = [
            found for _, value, whole in values if whole is is_whole for found in _named(value)
        ]
        if named:  # a draft stands before the plan, and so does an echo of the form
            return named[-1 if is_whole else 0]
    objects = [value for _, value, _ in values if isinstance(value, Mapping)]
    lists = [(label, value) for label, value, _ in values if isinstance(value, list)]
    lists += [("", objects), *_lists_in_lines(text)]
    ranked = [(_rank(label, steps), steps) for label, items in lists if (steps := _steps(items))]
    best = max((rank for rank, _ in ranked), default=0)
    return Found([steps for rank, steps in ranked if rank == best][-1] if best else [], {})


def _json_values(text: str) -> Iterator[tuple[str, Any, bool]]:
    """Yield the JSON values of a text, the words before each, and whether it was whole."""
    body = _BARE_LATEX.sub(r"\\\\", text)
    decoder, end, repairs = json.JSONDecoder(strict=False), 0, 0
    for match in islice(_JSON_START.finditer(body), _MOST_STARTS):
        start = match.end()
        if start < end:
            continue
        label = body[end:start].strip(" \t\n`").removesuffix("json").strip(" \t\n`")
        with suppress(ValueError, RecursionError):
            value, end = decoder.raw_decode(body, start)
            yield label, value, True
            continue
        if repairs < _MOST_REPAIRS:
            repairs += 1
            with suppress(ValueError, RecursionError):
                part = body[start : start + MAX_REPAIRED]
                yield label, repair_json(part, return_objects=True), False


def _named(value: object, depth: int = 3) -> Iterator[Found]:
    """Yield the steps of an object under the first key that names a plan, "steps" before others."""
    if not isinstance(value, Mapping) or not depth:
        return
    keys = [key for key in value if _is_plan(str(key)) and not _ORDINAL.fullmatch(str(key))]
    for key in sorted(keys, key=lambda key: _letters(key) != "steps"):
        found = [*_named(value[key], depth - 1)]
        if not found and (steps := _steps(_entries(value[key]))):
            found = [Found(_with_grades(steps, value), value)]
        if found:
            yield found[0]
            return
    numbered = [entry for key, entry in value.items() if _ORDINAL.fullmatch(str(key))]
    if numbered and (steps := _steps(numbered)):
        yield Found(steps, value)
        return
    for inner in value.values():
        yield from islice(_named(inner, depth - 1), 1)


def _entries(value: object) -> Sequence[object]:
    """Return the items of a list, of an object by number, name or question, or of lines."""
    if isinstance(value, str):
        return next((items for _, items in reversed(_lists_in_lines(value))), [])
    if not isinstance(value, Mapping):
        return value if isinstance(value, list) else []
    if _to_step(value):
        return [value]
    lists = [entry for entry in value.values() if isinstance(entry, list)]
    return (
        lists[0]
        if lists
        else [
            {"question": key, **(entry if isinstance(entry, Mapping) else {"hint": entry})}
            if _QUESTION.search(str(key))
            else entry
            for key, entry in value.items()
        ]
    )


def _with_grades(steps: list[dict[str, Any]], about: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return steps with what stands in lists of its own: their hints, levels and credits."""
    for key, values in about.items():
        field = _FIELD_OF.get(_letters(key))
        if (
            field not in {None, "question"}
            and isinstance(values, list)
            and len(values) == len(steps)
        ):
            steps = [{field: entry, **step} for step, entry in zip(steps, values, strict=True)]
    return steps


def _steps(items: Sequence[object]) -> list[dict[str, Any]]:
    """Return items as steps; none where all only repeat the form of the reply."""
    steps = [step for item in items if (step := _to_step(item))]
    needs = [step.get("after") for step in steps]
    if any(isinstance(numbers, list) and 0 in numbers for numbers in needs):  # counted from 0
        for step, numbers in zip(steps, needs, strict=True):
            step["after"] = [n + 1 for n in numbers or [] if isinstance(n, int)]
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
    if "question" not in fields and len(item) == 1:  # {"Step 1": "…"}, {"How many?": "hint"}
        ((key, value),) = item.items()
        if _QUESTION.search(str(key)):
            return {"question": key, "hint": value}
        return _to_step(value) if _ORDINAL.fullmatch(str(key)) else None
    return fields if "question" in fields else None


def _rank(label: str, steps: Sequence[Mapping[str, Any]]) -> int:
    """Return how surely a list is the plan: 3 by its name, 2 by its questions, 0 if it is not."""
    asking = sum(bool(_QUESTION.search(step["question"])) for step in steps)
    if _is_plan(label.rpartition("\n")[2]) and not _REFUSES.search(label):
        return 3
    return 2 if 2 * asking >= len(steps) else int(not label)


def _is_plan(label: str) -> bool:
    return bool(_PLAN.search(label)) and not _NO_PLAN.search(label) and not _REFUSES.search(label)


def _letters(key: object) -> str:
    return "".join(filter(str.isalpha, str(key).casefold()))


def _lists_in_lines(text: str) -> list[tuple[str, list[dict[str, Any]]]]:
    """Return the numbered lines, bullets and tables of a text, each with the words before it."""
    lists, lines, blank = _Lists(), [*_lines(text)], True
    while lines:
        line = lines.pop(0)
        if lines and _TABLE_RULE.match(lines[0]):
            rows = [line]
            while lines and "|" in lines[0]:
                rows.append(lines.pop(0))
            lists.add_table([_cells(row) for row in rows if not _TABLE_RULE.match(row)])
        elif any(map(str.isalnum, line)) or _MARK.match(line):
            lists.add_line(line, after_blank=blank)
        blank = not line.strip()
    return lists.found


def _lines(text: str) -> Iterator[str]:
    """Yield the lines of a text; "1. … 2. …" on one line counts as two."""
    for line in _TAGGED.sub(r"\n- \2\n", _TAGGED_HINT.sub(r"\nHint: \1\n", text)).splitlines():
        marks = [*_INLINE.finditer(line)]
        numbers = [int(unicodedata.numeric(mark[2])) if mark[2] else int(mark[1]) for mark in marks]
        places = [mark.start() for mark in marks] if numbers == [*range(1, len(marks) + 1)] else []
        if len(places) < 2:  # noqa: PLR2004 -- one item is no list
            yield line
        else:
            yield from filter(str.strip, (line[a:b] for a, b in pairwise([0, *places, None])))


def _cells(row: str) -> list[str]:
    return [cell.strip() for cell in row.strip().strip("|").split("|")]


class _Lists:
    """Collects the lists of a text line by line."""

    def __init__(self) -> None:
        self.found: list[tuple[str, list[dict[str, Any]]]] = []
        self.label: list[str] = []
        self.items: list[dict[str, Any]] = []
        self.style, self.indent, self.number, self.has_points = "", 0, 0, False

    def add_line(self, line: str, *, after_blank: bool) -> None:
        """Add a line: an item, a part of the item before it, or words between the lists."""
        mark, text, named = _MARK.match(line), line.strip(" \t>*_`#"), _FIELD_LINE.match(line)
        field = _FIELD_OF.get(_letters(named[1])) if named else None
        item = self.items[-1] if self.items and not self.label else None
        if item and named and field and field != "question":
            item.setdefault(field, named[2].strip())
        elif mark and self._is_item(mark):
            self._add_item(mark)
        elif item is None or not text:
            self.label.append(line.strip())
        elif not item["question"]:
            item["question"] = named[2].strip() if named and field else text
        elif item.get("hint") == "":
            item["hint"] = text
        elif mark:
            self._add_point(mark["text"].strip())
        elif _indent(line) <= self.indent and not text[:1].islower():
            self.label.append(line.strip())
        elif after_blank or self.has_points or _ENDS.search(item["question"]):
            self._add_point(text)
        else:
            item["question"] += f" {text}"

    def _is_item(self, mark: re.Match[str]) -> bool:
        """Return whether a mark begins an item of this list or of a new one, not a sub-point."""
        style, number = _place_of(mark)
        if not self.items:
            return style != "letter" or number == 1
        if mark["word"] or (self.label and number <= 1 and not mark["dots"]):
            return True
        starts_below_bullets = self.style == "bullet" and number == 1
        if mark["dots"] or (style != self.style and not starts_below_bullets):
            return False
        goes_on = 0 < number == self.number + 1 and not self.has_points
        return goes_on or _indent(mark["indent"]) <= self.indent + 1

    def _add_item(self, mark: re.Match[str]) -> None:
        (style, number), named = _place_of(mark), _FIELD_LINE.match(mark["text"])
        is_headed = self.label and _ENDS.search(self.label[-1]) and number <= 1
        if is_headed or style != self.style or number == 1 < self.number or not self.items:
            self.items, self.indent = [], _indent(mark["indent"])
            self.found.append(("\n".join(self.label), self.items))
        self.style, self.number, self.has_points, self.label = style, number, False, []
        is_named = named and _FIELD_OF.get(_letters(named[1])) == "question"
        text = named[2] if named and is_named else mark["text"]
        self.items.append({"question": text.strip(" \t*_`")})

    def _add_point(self, text: str) -> None:
        """Add a sub-point to the hint of its item."""
        item, self.has_points = self.items[-1], True
        item["hint"] = "; ".join(filter(None, [item.get("hint"), text]))

    def add_table(self, rows: list[list[str]]) -> None:
        """Add a table, whose first row is its head."""
        head, *rest = rows
        names = [_FIELD_OF.get(_letters(name)) for name in head]
        sizes = [sum(len(row[at]) for row in rest if at < len(row)) for at in range(len(head))]
        self.label += ["steps" if "question" in names else "?"]
        if any(sizes) and "question" not in names:
            names[sizes.index(max(sizes))] = "question"
        items = [dict(zip(names, row, strict=False)) for row in rest]
        self.found.append(
            ("\n".join(self.label), [{k: v for k, v in item.items() if k} for item in items])
        )
        self.label, self.items = [], []


def _indent(line: str) -> int:
    line = line.expandtabs(4)
    return len(line) - len(line.lstrip())


def _place_of(mark: re.Match[str]) -> tuple[str, int]:
    """Return the style and the number of a mark; 0 for a bullet."""
    style = next(
        name for name in ("word", "digits", "han", "ring", "letter", "bullet") if mark[name]
    )
    if mark["digits"]:
        return f"{style}{mark['open'] or ''}", int(mark["digits"])
    if mark["han"]:
        tens, ten, ones = mark["han"].rpartition("十")
        return style, (_HAN.index(tens or "一") * 10 if ten else 0) + (
            _HAN.index(ones) if ones else 0
        )
    if mark["ring"]:
        return style, int(unicodedata.numeric(mark["ring"]))
    letter = (mark["letter"] or "").casefold()
    number = _ROMAN.index(letter) + 1 if letter in _ROMAN else ord(letter[:1] or "`") - ord("`")
    return style, number if letter else 0


_SCALE = re.compile(
    r"(?:\b(?:on|from|of|between|scale)\s+)*\b(?:L?[01]|one)\s*(?:\([^)]*\)\s*)?"
    r"(?:to|through|and|[-–—~]|bis|à|至|到)\s*(?:L?5|five)\b(?:\s*\([^)]*\))?"
    r"|(?:out\s+of|of|/)\s*(?:5|five)\b(?:\s+levels?)?|\b(?:5|five)[ -](?:levels?|points?)\b"
    r"|\b[1-5]\s*(?:=|means|is)\s*(?:the\s+)?(?:very\s+)?(?:easy|easiest|hard|hardest)\b",
    re.IGNORECASE,
)
_NUMERAL = (
    r"(?:L[ -]?|#)?(?:(?P<d>[1-5](?:[.,]\d+)?)(?=L[1-5]|级|級|\W|$)(?!\.\d|\s*(?:/|out of)\s*\d)"
    r"|(?P<w>one|two|three|four|five|I{1,3}V?|IV|V|[一二三四五])(?=级|級|\W|$))"
)
_CALLED = re.compile(
    r"(?:level|lvl|difficulty|stufe|niveau|nivel|уровень|难度|難度|等级|レベル|난이도|수준)(?:[\W_]*\b(?:is|it|of|as|be|would|should|rating|"
    rf"rated|a|an|at|about|around|probably|solid|ist|est|es|为|是|は)\b)*[\W_为是は]*{_NUMERAL}",
    re.IGNORECASE,
)
_BARE = re.compile(rf"(?<![\w./-]){_NUMERAL}", re.IGNORECASE)
_NOT = re.compile(
    r"\b(?:not|than|below|above|under|over|nicht)\W+(?:a\W+|the\W+)?(?:level\W+)?L?[1-5]\b",
    re.IGNORECASE,
)
_NTH = re.compile(r"\b([1-5])(?:st|nd|rd|th)[ -]level", re.IGNORECASE)
_WORDS_OF = ("one i 一", "two ii 二", "three iii 三", "four iv 四", "five v 五")


def find_level(text: str) -> int | None:
    """Return the level from 1 to 5 that a reply names; None where it names none, or several.

    The number that is called a level counts, not one of a scale or of another thing.

    Args:
        text: The reply, with its thinking.
    """
    plain = without_thinking(text)[:_LONGEST].translate({0xBC: ".25", 0xBD: ".5", 0xBE: ".75"})
    plain = "".join(
        str(unicodedata.decimal(sign)) if sign.isdecimal() else sign
        for sign in unicodedata.normalize("NFKC", plain)
    )
    plain, scales = _SCALE.subn(" ", _NTH.sub(r"level \1", plain))
    plain = _NOT.sub(" ", plain)
    called, bare = [*_CALLED.finditer(plain)], [*_BARE.finditer(plain)]
    if called:
        opens = not plain[: called[0].start()].strip(" \n*_#\"'{`") and re.match(
            r"\W*(?:$|[.,;(\n])", plain[called[0].end() :]
        )
        return _to_level(called[0 if opens else -1])
    digits = [match for match in bare if match["d"]]
    if digits and (
        not plain[: digits[0].start()].strip(" \n*_#\"'`(") or len({m["d"] for m in digits}) == 1
    ):
        return _to_level(digits[0])
    is_alone = len(bare) == 1 and (
        scales or not plain.replace(bare[0][0], "", 1).strip(" \n*_.!\"'`")
    )
    return _to_level(bare[0]) if is_alone else None


def _to_level(match: re.Match[str]) -> int:
    if match["d"]:
        return min(int(float(match["d"].replace(",", ".")) + 0.5), 5)
    word = match["w"].casefold()
    return next(level for level, words in enumerate(_WORDS_OF, 1) if word in words.split())


def find_grades(text: str) -> dict[str, Any]:
    """Return the ``level`` of a problem, and the ``levels`` and ``credits`` of its parts.

    Args:
        text: The reply, with its thinking.
    """
    text = without_thinking(text)[:_LONGEST]
    values = [*(value for _, value, _ in _json_values(text)), _fields_in_lines(text)]
    return next((grades for value in values if (grades := _grades(value))), {})


def _grades(value: object) -> dict[str, Any]:
    """Return the grades in a JSON value: in lists of their own, or in an object for each part."""
    grades: dict[str, Any] = {}
    rows = value if isinstance(value, list) else []
    if isinstance(value, Mapping):
        for key, entry in value.items():
            field, count = _FIELD_OF.get(_letters(key)), len(_numbers_in(str(entry)))
            if isinstance(entry, Mapping) and field == "question":  # {"problem": {"level": 4}}
                grades.update(zip(["level"], _column([entry], "level"), strict=False))
            elif field == "level" and not isinstance(entry, list | Mapping) and count < 2:  # noqa: PLR2004
                grades["level"] = entry
            elif field in {"level", "credit"}:
                grades[f"{field}s"] = _numbers_in(entry)
        rows = [entry for key, entry in value.items() if _ORDINAL.fullmatch(str(key))]
        rows = rows or next((entry for entry in value.values() if _column(entry, "level")), [])
    for field in ("level", "credit"):
        if column := _column(rows, field):
            grades.setdefault(f"{field}s", column)
    return grades


def _column(rows: object, field: str) -> list[Any]:
    """Return the values of one field of a list of objects; none where an object lacks it."""
    rows = rows if isinstance(rows, list) else []
    named = [
        {_FIELD_OF.get(_letters(k)): v for k, v in row.items()}
        for row in rows
        if isinstance(row, Mapping)
    ]
    return [row[field] for row in named if field in row] if len(named) == len(rows) else []


def _numbers_in(entry: object) -> list[Any]:
    """Return the values of a list, of an object by number, or of a text such as "2, 4"."""
    if isinstance(entry, Mapping):
        return [*entry.values()]
    return entry if isinstance(entry, list) else re.findall(r"\d+(?:\.\d+)?", str(entry))


def _fields_in_lines(text: str) -> dict[str, str]:
    """Return the lines such as "Levels: 2, 4" by the name before the colon."""
    lines = map(_FIELD_LINE.match, text.splitlines())
    return {line[1]: line[2] for line in lines if line and re.search(r"\d", line[2])}
