r"""Free-text answers: ROUGE-L F with stemming; and as the paper's release computes it, to compare.

The release scores instruction-following answers with the answer parser of Qwen2.5-Math, which
was made for mathematics. Reproduced here, in our own words, because published numbers went
through it:

- The answer is the first "final answer is $…$. I hope", else the last `\boxed{}`, else what
  follows the last "he answer is" or "final answer is", else the last number: prose without any of
  these is thrown away. Thinking is searched like everything else.
- All spaces are deleted, so that an answer of several words becomes a single token.
- Units are deleted where they stand as words of their own: also "a", "are", "by", "day", "man",
  "more", "number", "s", "t", "women", … (a text that is nothing but one unit is kept).
- "and" and "%" and "$" are deleted, "and" even inside words; "inf" becomes `\infty`.
- A "j" becomes an "i" when the text has no "i".
- Text with a number word in it ("two dogs") becomes that number; "3/4" becomes `\frac{3}{4}`.
- All of it happens twice. The reference answer is left as it is.

Not reproduced: the odd results of the release's number-word library for sequences that are not
a number ("one two"), and for decimals in words.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from optim.scorers.base import Score, ScorerError, register
from pb_graph.answers import boxed_answer, final_answer, without_text_commands, without_thinking

if TYPE_CHECKING:
    from optim.datasets import Question

_LONGEST = 20_000  # characters kept from the end; ROUGE-L is quadratic in the length


_UNITS = (
    # lengths, areas, volumes, weights
    "mile|ft|feet|inch|inches|yard|meter|metre|mtr|km|cm|dm|mm|mt|cc|cu cm|cu . m|cm 2|pi sq m|"
    "sq m|sq . m|sq inch|m sqaure|sq|square|cubic|cube|acre|hectare|litre|liter|lt|gal|gallon|"
    "kg|gm|lb|π r 2|"
    # times, speeds, angles, electricity
    "second|sec|minute|minw|min|hour|hr|day|month|year|yr|noon|am|pm|a . m|p . m|mph|kmph|kmh|"
    "degree|deg|° f|ohm|"
    # money, shares, counts, things
    "rupee|rs .|rs|profit of rs|profit|loss|gain|rise|increase|decrease|excess|percent|ratio|per|"
    "more|less|number|unit|prime|mark|rounds|no change|mp|pure|"
    "man|men|woman|women|soldier|monkey|apple|pie|toy|tile|coin|Surface|"
    # directions and fragments of words
    "east| m east|west|way|by|are|bc|ab|rd|st|th|"
    "q .|a .|b .|c .|d .|e .|f .|g .|h .|o|t|a|h|c|l|s|g|m|d|s ."
)
# The dots are wildcards in the release, too, so the order counts; each unit also with an "s".
_UNIT_RULES = [
    re.compile(rf"(^|\W){unit}($|\W)")
    for unit in [*_UNITS.split("|"), *(f"{unit}s" for unit in _UNITS.split("|"))]
]
_RENAMED = (
    ("bmatrix", "pmatrix"),
    ("tfrac", "frac"),
    ("dfrac", "frac"),
    (r"\neq", r"\ne"),
    (r"\leq", r"\le"),
    (r"\geq", r"\ge"),
    (r"\left", ""),
    (r"\right", ""),
    (r"\{", "{"),
    (r"\}", "}"),
)
_DROPPED = (r"^{\circ}", r"^\circ", r"\$", "$", r"\(", r"\)")
_ASSIGNED = ("x=", "y=", "z=", *(rf"{x}\{to}" for to in ("in", "to") for x in "xyz"))
_SMALL = (
    "zero|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|"
    "fifteen|sixteen|seventeen|eighteen|nineteen"
)
_TENS = "twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety"
_NUMBERS = {
    **{word: number for number, word in enumerate(_SMALL.split("|"))},
    **{word: 10 * tens for tens, word in enumerate(_TENS.split("|"), start=2)},
    "hundred": 100,
    "thousand": 10**3,
    "million": 10**6,
    "billion": 10**9,
    "point": 0,  # a number word to the release: "the point is clear" is 0
}


@register("rouge")
class RougeScorer:
    r"""ROUGE-L F-measure (Porter stemming) of the answer against the best of the targets.

    The answer is the last `\boxed{…}`, else what a "Final answer:" line says, else the whole
    output; thinking does not count. A text that is equal to a target, up to spacing, scores 1
    also where ROUGE's tokenizer (which keeps a-z and 0-9 only) sees nothing in it.
    """

    def __init__(self) -> None:
        from rouge_score import rouge_scorer  # type: ignore[import-untyped]  # noqa: PLC0415 - slow

        self._rouge = rouge_scorer.RougeScorer(["rougeL"], use_stemmer=True)

    def score(self, output: str, question: Question) -> Score:
        """Score an output against the question's targets.

        Raises:
            ScorerError: The question has no target.
        """
        if not question.targets:
            msg = "a question without a target cannot be scored by the rouge scorer"
            raise ScorerError(msg)
        return self._judged(output, question.targets)

    def _judged(self, output: str, targets: tuple[str, ...]) -> Score:
        answer = read_answer(output)
        values = [
            1.0 if target.split() == answer.split() else self.f_measure(target, answer)
            for target in targets
        ]
        best = max(range(len(values)), key=values.__getitem__)
        said = f"ROUGE-L {values[best]:.3f} against {targets[best]!r}"
        return Score(values[best], answer or None, said, {"target": best})

    def f_measure(self, target: str, answer: str) -> float:
        """ROUGE-L F of an answer, as rouge_score computes it."""
        return float(self._rouge.score(target, answer)["rougeL"].fmeasure)


@register("rouge_compatible")
class PaperRougeScorer(RougeScorer):
    """ROUGE-L as the release computes it, to compare with the paper's published numbers.

    Only the first target counts, thinking is not removed, and the answer passes, twice, through a
    normalizer written for mathematics; the target does not. A perfect boxed answer scores about 0.6
    on average, and hardly ever 1 when it has several words.
    """

    def _judged(self, output: str, targets: tuple[str, ...]) -> Score:
        answer = released_answer(output[-_LONGEST:])
        value = self.f_measure(targets[0], answer)
        return Score(value, answer or None, f"ROUGE-L {value:.3f} against {targets[0]!r}")


def read_answer(output: str) -> str:
    r"""The answer in an output: the last box, else a "Final answer:" line, else all of it."""
    text = without_thinking(output)[-_LONGEST:]
    boxed = boxed_answer(text)
    if boxed is not None:
        return without_text_commands(boxed)
    return final_answer(text) or text


def released_answer(output: str) -> str:
    """The answer in an output as the release sees it, normalized."""
    answer = re.sub(r"\n\s*", "", _extract(output))
    answer = answer.removeprefix(":").removesuffix(".").removesuffix("/")
    return normalize(normalize(answer))


def _extract(output: str) -> str:
    if "final answer is $" in output and "$. I hope" in output:
        return output.partition("final answer is $")[2].partition("$. I hope")[0].strip()
    if "boxed" in output:
        return _last_box(output.rpartition("boxed")[2])
    for lead in ("he answer is", "final answer is"):
        if lead in output:
            return output.rpartition(lead)[2].strip()
    numbers: list[str] = re.findall(r"-?\d*\.?\d+", output.replace(",", ""))
    return numbers[-1] if numbers else ""


def _last_box(tail: str) -> str:
    """What follows the word "boxed", up to the brace that closes it, or all if none does."""
    if not tail.startswith("{"):
        return tail.partition("$")[0].strip()
    depth = 0
    for brace in re.finditer(r"[{}]", tail):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return tail[1 : brace.start()]
    return tail[1:]


def normalize(text: str) -> str:
    """One pass of the release's normalizer."""
    text = text.strip().replace("\n", "").rstrip(".").replace(r"\!", "")
    text = _replace_closed(r"\\begin\{array\}\{.*?\}", r"\\begin{pmatrix}", text)
    text = re.sub(r"\\end\{array\}", r"\\end{pmatrix}", text)
    for old, new in _RENAMED:
        text = text.replace(old, new)
    before, found, _ = text[:-1].partition(r"\text{")  # from the first on, if the last closes it
    text = (before if found and text.endswith("}") else text).strip() or text
    for rule in (*_UNIT_RULES, *_UNIT_RULES):  # twice, as the release does
        text = rule.sub(r"\1\2", text) or text
    for mark in _DROPPED:
        text = text.replace(mark, "")
    text = _number_words(text)
    text = _without_wrappers(text)
    return _tighten(text) if text else text


def _replace_closed(pattern: str, by: str, text: str) -> str:
    """Replace what ends with a brace; what comes after the last one is not searched in vain."""
    end = text.rfind("}") + 1
    return re.sub(pattern, by, text[:end]) + text[end:]


def _number_words(text: str) -> str:
    """The number that a text's number words make, or the text when it has none."""
    words = text.lower().replace("-", " ").split()
    known = [word for word in words if word in _NUMBERS]
    if not known:
        return text
    total = group = 0
    for word in known:
        number = _NUMBERS[word]
        if number >= 1000:  # noqa: PLR2004 - thousand, million, billion
            total, group = total + max(group, 1) * number, 0
        else:
            group = max(group, 1) * 100 if word == "hundred" else group + number
    return str(total + group)


def _without_wrappers(text: str) -> str:
    text = _replace_closed(r"\\text\{(.*?)\}", r"\1", text)
    for name in _ASSIGNED:
        text = text.replace(name, "")
    text = text.replace(r"\emptyset", "{}").replace(r"(-\infty,\infty)", r"\mathbb{R}")
    text = text.replace(r"\%", "").replace("%", "").replace(" .", " 0.").replace("{.", "{0.")
    text = text.replace("infinity", r"\infty")
    if r"\infty" not in text:
        text = text.replace("inf", r"\infty")
    text = text.replace("and", "").replace(r"\mathbf", "")
    text = _replace_closed(r"\\mbox{.*?}", "", text)
    return text.replace("j", "i") if "j" in text and "i" not in text else text


def _tighten(text: str) -> str:
    """Decimals, a leading "k=", spaces, roots and fractions."""
    # The release has no look-behind: it only saves trying each digit of a long number as a start.
    text = re.sub(r"(?<!\d)(\d+)\.0*([^\d])", r"\1\2", text)
    text = re.sub(r"(?<!\d)(\d+)\.0*$", r"\1", text)
    text = f"0{text}" if text.startswith(".") else text
    sides = text.split("=")
    if len(sides) == 2 and len(sides[0]) <= 2:  # noqa: PLR2004 - one equation, a short name
        text = sides[1]
    text = re.sub(r"\\sqrt(\w+)", r"\\sqrt{\1}", text).replace(" ", "")
    return _slashed(_braced_fractions(text))


def _braced_fractions(text: str) -> str:
    r"""`\frac12` as `\frac{1}{2}`; unchanged as a whole where a fraction is too short."""
    head, *fractions = text.split(r"\frac")
    for index, rest in enumerate(fractions):
        if rest.startswith("{"):
            continue
        if len(rest) < 2:  # noqa: PLR2004 - numerator and denominator
            return text
        denominator = rest[1] if rest[1] == "{" else f"{{{rest[1]}}}"
        fractions[index] = f"{{{rest[0]}}}{denominator}{rest[2:]}"
    return r"\frac".join([head, *fractions])


def _slashed(text: str) -> str:
    r"""`a/b` of two whole numbers (or roots) as `\frac{a}{b}`."""
    parts = text.split("/")
    whole = re.compile(r"-?(?:0|[1-9]\d*)|.*sqrt.*")
    if len(parts) == 2 and all(whole.fullmatch(part) for part in parts):  # noqa: PLR2004
        return rf"\frac{{{parts[0]}}}{{{parts[1]}}}"
    return text
