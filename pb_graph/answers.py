"""Read a model's output, in linear time: remove thinking, and find the answer."""

# ruff: noqa: RUF001 -- marks of other scripts

from __future__ import annotations

import json
import re
from contextlib import suppress
from functools import lru_cache
from typing import Any

from pydantic import TypeAdapter

from pb_graph.errors import InputError

_TAG = r"(?:seed:)?think(?:ing)?|thoughts?"
_OPENS = rf"""<(?:{_TAG})>|\[THINK\]|◁think▷|<\|(?:begin_of_thought|START_THINKING)\|>
|<\|channel\|>analysis<\|message\|>""".replace("\n", "")
_CLOSES = rf"""</(?:{_TAG})>|\[/THINK\]|◁/think▷|<\|(?:end_of_thought|END_THINKING)\|>
|(?:<\|start\|>assistant)?<\|channel\|>final<\|message\|>""".replace("\n", "")
_OPEN, _CLOSE = re.compile(f"(?i){_OPENS}"), re.compile(f"(?i){_CLOSES}")
_THINKING = re.compile(rf"(?is)\A(?:\s*(?:{_OPENS}).*?(?:{_CLOSES}|\Z))+")
# Tokens that end a reply, which a server with a wrong template leaves in the text.
_STOP = re.compile(r"(?:<(?:\|(?!end_of_box)\w+\||end_of_turn|/s|eos|｜end▁of▁sentence｜)>\s*)+\Z")
_BRACES = re.compile(r"\\{1,2}(?:boxed|fbox)\s*\{|\\[\\{}]|[{}]")
_WIDEST_GAP = 40  # characters between two boxes that are one answer
# What may stand between two boxes that are one answer: "$\boxed{1}$ and $\boxed{2}$".
_BETWEEN = re.compile(r"[\s$\\()\[\],;]*(?:(?:text\{)?\s*\b(?:and|or)\b\s*\}?)?[\s$\\()\[\],;]*")

_FINAL = r"""final[ \t_]+answer|endg[üu]ltige[ \t]+antwort|endergebnis|r[ée]ponse[ \t]+finale
|(?:respuesta|resposta)[ \t]+final|risposta[ \t]+finale|(?:окончательный|итоговый)[ \t]+ответ
|الإجابة[ \t]+النهائية|最[终終]的?(?:答案|结果|結果)|最終的?な?(?:答え|回答)
|최종[ \t]*(?:정답|답변?)"""
_PLAIN = r"""answer|antwort|ergebnis|r[ée]ponse|respuesta|resposta|risposta|ответ|الإجابة|答案|答え?
|정답|답|उत्तर|الجواب|antwoord|odpowiedź|cevap|jawaban|đáp[ \t]+án|คำตอบ"""
_LEAD = r"""(?:(?:so|thus|hence|therefore|and|the|my|step \d+[:.]|\d+[.)]
|所以|因此)[,，]?[ \t]*){0,3}"""
_IS_WORD = "(?:is|是|为|為|は|es|est|ist)"
_COLON = rf"[ \t]*(?:{_IS_WORD}?[ \t]*[:：]|$)[ \t]*"
_SAYS = rf"[ \t]*(?:{_IS_WORD}?[ \t]*[:：]|is\b|是|$)[ \t]*"
_PAIRS = {mark: mark for mark in ("**", "__", "*", "_", "$$", "$", "`", '"', "'")}
_PAIRS |= {"“": "”", "«": "»", "「": "」", r"\(": r"\)", r"\[": r"\]"}
# "**Final answer**: X", "**Final answer:** X", "**Final answer: X**", or "So the final answer is X"
_FINAL_LINE, _ANSWER_LINE = (
    re.compile(
        rf"""(?im)(?:^[^\w\n]*?|(?<=[.!?。] )){lead}(?P<mark>[*_]{{0,3}})(?:{words})
(?:(?P=mark){says}|{says}(?P=mark)|(?P<open>){says})(?P<answer>.*)""".replace("\n", "")
    )
    for words, says, lead in ((_FINAL, _SAYS, _LEAD), (_PLAIN, _COLON, ""))
)
_TAGGED = re.compile(r"(?is)<(?:\w*answer|\|begin_of_box\|)>(.*?)(?:</\w*answer>|<\|end_of|\Z)")
_IN_JSON = re.compile(r"[\"'](?:final_?)?answer[\"']\s*:\s*(\"(?:[^\"\\]|\\.)*\"|-?[\d.]+)")
_ASKS = re.compile(r"(?im)^\W*(?:question|q|frage|pregunta|вопрос|问题|問題|질문)\W*\d*[:：]")
_IS = re.compile(r"\A(?:therefore,?\s*)?(?:the\s+)?(?:final\s+)?answer\s+is\s*:?\s*", re.IGNORECASE)
_MAX_LENGTH = 20_000  # characters read from the end, where the answer stands


@lru_cache(maxsize=16)  # of a reply it is asked several times
def without_thinking(output: str) -> str:
    """Return a text without the thinking that it begins with, and without its stop tokens.

    Thinking stands between ``<think>`` and ``</think>``, or other models' marks. Without the
    closing mark, all text is thinking; without the opening mark, which some chat templates write
    into the prompt, the text up to the closing mark. A mark that the answer only mentions stays.
    """
    text = _THINKING.sub("", output)
    closed = _CLOSE.search(text)
    if closed and not _OPEN.search(text, 0, closed.start()):
        text = text[closed.end() :]
    end = "" if "<s>" in text else text.strip()[-200:]  # "</s>" is HTML as well
    return (text.strip().removesuffix(end) + _STOP.sub("", end)).strip()


def thinking_in(output: str) -> str:
    """Return the thinking that a text begins with, without its marks; empty without any."""
    thought = output[: output.rfind(without_thinking(output))].strip()
    return _CLOSE.sub("", _OPEN.sub("", thought)).strip()


def boxed_answer(text: str) -> str | None:
    """Return the content of the last box, or once of each of the last boxes, side by side."""
    boxes = list[tuple[int, int, str]]()  # start, end and content, nested ones included
    opened, contents, later = list[re.Match[str]](), list[str](), 0
    for token in _BRACES.finditer(text):
        if token[0].endswith("{") and token[0] != r"\{":
            opened.append(token)
        elif token[0] == "}" and opened:
            box = opened.pop()
            if box[0] != "{":
                boxes.append((box.start(), token.end(), text[box.end() : token.start()]))
    for start, end, content in sorted(boxes, reverse=True):
        is_near = 0 <= later - end <= _WIDEST_GAP and _BETWEEN.fullmatch(text, end, later)
        if contents and not is_near:
            break
        contents.append(content.strip())
        later = start
    return ", ".join(dict.fromkeys(reversed(contents))) if contents else None


def final_answer(text: str, *, is_whole: bool = False, is_lenient: bool = False) -> str | None:
    """Return what the last "Final answer:" or ``<answer>`` says, on the same line or below.

    "Answer:" counts as well, unless the text has several, or questions of its own. Without these,
    a field of JSON that is called "answer" counts.

    Args:
        text: A text without thinking.
        is_whole: Whether to read to the end of the text instead of the end of the paragraph.
        is_lenient: Whether the last of several "Answer:" counts, too.

    Returns:
        The answer without the marks around it. None where there is none.
    """
    if tagged := _TAGGED.findall(text):
        return unmarked(without_lead(tagged[-1].strip())) or None
    lines, plain = [*_FINAL_LINE.finditer(text)], [*_ANSWER_LINE.finditer(text)]
    if not lines and (is_lenient or (len(plain) == 1 and not _ASKS.search(text))):
        lines = plain
    if not lines:
        fields = _IN_JSON.findall(text)
        return unmarked(fields[-1].replace(r"\\", "\\")) if fields else None
    line = lines[-1]
    answer = (line["answer"] + text[line.end() :]).lstrip()
    answer = (answer if is_whole else answer.partition("\n\n")[0]).rstrip()
    answer = answer.removesuffix(line["mark"]) if line["open"] is not None else answer
    return unmarked(without_lead(answer)) or None


def unmarked(text: str) -> str:
    """Return a text without emphasis, dollars, code marks or quotes around all of it."""
    text = re.sub(r"(?<=[*_`$\"”»」])[.。]$", "", text)
    text = re.sub(r"\A```\w*\n([^\n]*)\n?```\Z", r"\1", text)
    for left, right in _PAIRS.items():
        inner = text.removeprefix(left).removesuffix(right)
        if inner.strip() and text == left + inner + right and left not in inner:
            text = inner.strip()
    return text


def without_lead(text: str) -> str:
    """Return a text without a leading "The answer is"."""
    return _IS.sub("", text)


def stated_answer(output: str) -> str | None:
    """Return the last box of an output without its thinking, else its final answer, if any."""
    text = without_thinking(output)[-_MAX_LENGTH:]
    return boxed_answer(text) or final_answer(text)


class AnswerType:
    """The JSON type of the final answer, made of a pydantic model.

    A model that may write nothing but JSON cannot work anything out. So a reply works first, and
    ends with the object. Only the call that asks for a missing result sends the `schema`.
    """

    def __init__(self, model: type[Any]) -> None:
        try:
            self._type: TypeAdapter[Any] = TypeAdapter(model)
        except Exception as error:
            msg = f"response_format must be a pydantic model, not {model!r:.100}"
            raise InputError(msg) from error
        self.schema = self._type.json_schema()
        self.form = "End with the final answer as one JSON object that follows this schema: "
        self.form += json.dumps(self.schema, ensure_ascii=False)
        self.reserve = len(self.form) // 4  # tokens to keep back for writing it

    def read(self, text: str) -> Any:  # noqa: ANN401 -- JSON
        """Return the last object in a text that fits, as plain JSON; None if none fits."""
        fitting, text = None, text[-_MAX_LENGTH:]
        decoder, at = json.JSONDecoder(strict=False), text.find("{")
        while at >= 0:
            end = at + 1
            with suppress(ValueError, RecursionError):  # ValidationError is a ValueError
                value, end = decoder.raw_decode(text, at)
                fit = self._type.validate_python(value)
                fitting = self._type.dump_python(fit, mode="json", by_alias=True)
            at = text.find("{", end)
        return fitting
