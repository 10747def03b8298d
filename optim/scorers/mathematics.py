r"""Mathematical answers: find the result, read how it is written, and compare it.

Results are written in the notations of many places, with units, number words and times. Math-Verify
drops what it takes for a unit: "2 \text{ h } 30 \text{ min}" is 2 and "3 \text{ dozen}" is 3. Here
words are a unit only where they change no number, and a bound, such as "at least 3", is no number.
"""

# ruff: noqa: RUF001 -- signs that look alike are its subject
from __future__ import annotations

import re
import unicodedata
from typing import Any

from optim.datasets import Question
from optim.extras import require_modules
from optim.scorers.scorer import Score, ScorerError, register
from optim.scorers.worker import WORKER
from pb_graph.answers import boxed_answer, final_answer, unmarked, without_lead, without_thinking

_MAX_LENGTH = 20_000  # characters kept from the end, where the answer stands
_SHORT = 80  # characters of an output that is nothing but its result
_GSM8K_MARK = re.compile(r"####\s*(?=[-+$€£.\d])")
_DOLLAR = re.compile(r"(?<!\\)\$")
_COMMAND = re.compile(r"\\[A-Za-z]+")
_PROSE = re.compile(r"(?!and\b)[A-Za-z]{3,}")
_WORDS = re.compile(rf"\n|{_PROSE.pattern}")
_SPREAD = (r"\begin", r"\[", "$$")  # what a formula of several lines starts with
# The sentence that an output closes with: "The answer is 3, -3.", "So we get $2:3$."
_CLOSING = re.compile(
    r"(?:\banswer\s+is\b:?\s*(?P<said>(?:(?!answer\s+is|[.!?]\s)[^\n])+?)"
    r"|(?<![\d$\\])\$(?P<formula>(?:\\.|[^$\n\\])+)\$)[.!]?\s*\Z",
    re.IGNORECASE,
)
_SYMBOLS = str.maketrans(
    dict(zip("\N{MINUS SIGN}~\N{FRACTION SLASH}÷’、،٫٪", "- //',,.%", strict=True))
    | {"∞": r"\infty ", "π": r"\pi ", "°": r"^\circ ", "×": r"\times ", "±": r"\pm ", "∈": r"\in "}
    | {"·": r"\cdot ", "⋅": r"\cdot ", "≤": r"\le ", "≥": r"\ge ", "≠": r"\ne ", "∅": r"\emptyset "}
    | {"‰": r"\cdot 10^{-3} ", "∪": r"\cup ", "∩": r"\cap "}
    | dict.fromkeys("€£¥₹₽₩₺٬\u200b\u200e\u200f\u2060\ufeff")
)  # fmt: skip
_SMALL = re.compile("(?P<up>[⁰¹²³⁴-⁹⁺⁻]+)|(?P<down>[₀-₉]+)|[¼-¾⅐-⅞]")
_DASH = re.compile(r"(?<!\d)[‐-―]|[‐-―](?!\d)")  # between figures it is a range
# A command around text or bold figures, but neither \mathrm{e} nor an index.
_WRAPPED = re.compile(
    r"(?<![_^])(?:\\(?:text\w*|mbox|math(?:rm|bf|it|sf|tt)|boldsymbol|bm|underline|emph)\s*"
    r"\{(?!\s*[eidTxyzn]?\s*\})|\{\\(?:bf|rm|it)\s)(?P<inner>(?:[^{}]|\{[^{}]*\})*)\}"
)
_NUMBER = r"-?(?:\d[\d.,]*(?:\s+\d+/\d+|/\d+)?|\.\d+)"
# 1 234 567 and 1'234; 1.234.567 and 1.234,5; 1,234,567 and 12,34,567
_GROUPED = re.compile(
    r"(?<![\d.,/^_'])[1-9]\d{0,2}(?:(?:\{,\}|[ '_])\d{3})+(?![\d/])"
    r"|(?<![\d.,])[1-9]\d{0,2}(?:(?:\.\d{3}){2,}(?!\d)|(?:\.\d{3})+(?=,\d))"
)
_REWRITTEN: tuple[tuple[str | re.Pattern[str], Any], ...] = (  # and what is put there
    (r"^(?:(?:USD|US|EUR|GBP|CHF|CAD|AUD|INR|Rs\.?|R(?=\\?\$))\s*)?\\?\$?\s*(?=[-\d])", ""),
    (r"^([^&\\]+)&([^&\\]+)$", r"\1, \2"),
    (r"^(?:minus|negative)\s+(?=\d)", "-"),
    (r"\\!\s*|\\displaystyle|\\(?:text)?color\s*\{\w+\}", ""),
    (r"\\(?:[,;: ]|q?quad(?![A-Za-z]))", " "),
    (_GROUPED, lambda found: re.sub(r"\D", "", found[0])),
    (r"(?<![\d.,/])(\d+)\s+(\d+)/(\d+)(?![.,/]?\d)", r"\1\\frac{\2}{\3}"),  # 3 1/2
    (r"(?<=\d)\{,\}(?=\d)", "."),
    (r"\s*(?:\\text\s*\{\s*)?(?:percent(?:age)?|pct)(?![A-Za-z])\s*\}?", r"\\%"),
    (r"(?<=[\w)])\*\*(?=[\w(])", "^"),
    (r"(?:√|(?<![\\A-Za-z])sqrt)\s*(\d+|\w|\([^()]*\))", r"\\sqrt{\1}"),
    (r"(?<![\\A-Za-z])(?:pi(?![A-Za-z])|(?:sin|cos|tan|ln|log|exp)(?=\s*\())", r"\\\g<0> "),
    (r"(?<![\w.])(\d+(?:\.\d+)?)[eE]([+-]?\d+)(?!\w)", r"\1\\cdot 10^{\2}"),
    (r"(?<=\d)\s*[xX*]\s*(?=10\s*\^)", r"\\cdot "),
    (r"\^\s*\(?([+-]\d+)\)?", r"^{\1}"),
    (r"(?<=\d)[ij](?![A-Za-z])", r"\\cdot i"),
    (r"\\math(?:rm|sf)\s*\{\s*([ei])\s*\}", r" \1 "),
    (r"\\varnothing|^\s*\\\{\s*\\\}\s*$", r"\\emptyset"),
    (r"^(?=[<>=]|\\(?:[lgn]eq?|[lg]t)(?![A-Za-z]))", "x "),  # "> 4" is not 4
)
_COMMAS = re.compile(
    r"(?:[^,]*=\s*)?-?(?P<number>[1-9]\d{0,2}(?:,\d{2,3})*,\d{3}|\d+,\d+)(?!\d)[^,]*"
)

_FUNCTIONS = r"(?:and|or|sin|cos|tan|cot|log|ln|exp|sqrt|lim|mod|gcd|lcm|pi|inf\w*)(?![A-Za-z])"
_UNIT_SYMBOL = (
    r"(?:(?<!\d)[mgshlLJNWVACFK]|[kcmdnμ]m|[kmμ]g|[mμ]s|hrs?|min|sec|ft|in|yds?|mi|lbs?|oz|[mc][lL]"
    r"|mph|km?ph|rpm|cc|[kMG]?Hz|[kM][WJN]|k?Pa|mol|k?cal|[kMGT]B|mn|bn|[A-Z]{3}|Rs"
    r"|(?:Newton|Joule|Watt|Volt|Kelvin|Celsius|Fahrenheit|Hertz|Euro|Dollar)s?)(?![A-Za-z])"
)
_SCRIPT = (
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff"
    r"\U00020000-\U0003ffff]"
)
UNSPACED = re.compile(_SCRIPT)
"""A letter of a script that puts no spaces between words."""
_OTHER_PROSE = re.compile(rf"{_SCRIPT}|[\u0400-\u04ff]{{2}}")
_WORD = (
    rf"(?:{_SCRIPT}+|{_UNIT_SYMBOL}|(?!{_FUNCTIONS})[^\W\d_]{{3,}}(?:['-][^\W\d_]+)*)\.?"
    r"(?:\s*\^\s*\{?-?\d\}?)?"
)
_COUNTED = r"(?:for|in|per|every|each|after|within)\s+\d[\d.,]*"  # dollars for 3 people
_UNIT = re.compile(
    rf"(?<![\\A-Za-z{{_^])({_WORD}(?:(?:[\s,]+|\s*/\s*|\s*\\cdot\s*)"
    rf"(?:{_COUNTED}|{_WORD}|[a-z]{{1,2}}(?![A-Za-z])))*)"
)
_LETTERS = re.compile(rf"(?<![\\A-Za-z])(?!{_FUNCTIONS})[^\W\d_]{{2,}}")
_FACTORS = {
    r"hundreds?|[百백]": "100",
    r"thousands?|mil|mill?[ae]|tausend|duizend|тыс(?:яч\w*)?|[千천]": "1000",
    "lakhs?": "10^{5}", "crores?": "10^{7}", "dozens?": "12", "score": "20", "gross": "144",
    "[万萬만]": "10^{4}", "[億亿억]": "10^{8}", r"trillions?|трлн|[兆조]": "10^{12}",
    r"mill?i?[oóõ]n\w*|milh\w+|milj\w+|миллион\w*|млн|mio|mn": "10^{6}",
    r"billions?|mill?iard\w*|миллиард\w*|млрд|mrd|bn": "10^{9}",
    "hal(?:f|ves)": r"\frac{1}{2}", "thirds?": r"\frac{1}{3}",
    "(?:quarter|fourth)s?": r"\frac{1}{4}", "fifths?": r"\frac{1}{5}", "sixths?": r"\frac{1}{6}",
    "sevenths?": r"\frac{1}{7}", "eighths?": r"\frac{1}{8}", "ninths?": r"\frac{1}{9}",
    "tenths?": r"\frac{1}{10}", "hundredths?": r"\frac{1}{100}", "thousandths?": r"\frac{1}{1000}",
}  # fmt: skip
# Words that make another number of the one before them, or a date of it.
_CHANGING = re.compile(
    "zero|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|\\w+teen|twenty|thirty"
    "|forty|fifty|plus|minus|squared|cubed|divided|multiplied|over|factorial|root|remainder|than"
    "|out|if|point|except|not|negative|power|january|february|march|april|may|june|july|august"
    f"|september|october|november|december|{'|'.join(_FACTORS)}"
)
_MONTHS = (
    "jan(?:uary)?|feb(?:ruary)?|march|april|may|june|july|aug(?:ust)?|sept(?:ember)?|oct(?:ober)?"
    "|nov(?:ember)?|dec(?:ember)?"
)
_TIMES = re.compile(r"times(?! (?:an?|as|more|less|\w+er|per|each|every)\b)\s+\S")  # "times y"
# What makes another number, a bound or a date of the number behind it, or before it.
_BEFORE = (
    r"(?:not|(?:more|less|fewer|greater|higher|lower|larger|smaller)\s+than|at\s+(?:least|most)"
    r"|up\s+to|past|either|log|ln|sin|cos|tan|over|under|above|below|between|twice|thrice|double|triple|half(?:\s+of)?|roots?\s+of"
    rf"|negative|minus|plus|{_MONTHS})\s+(?:the\s+)?"
)
_AFTER = (
    r"or\s+(?:more|less|fewer|higher|lower|above|below|over|under)|and\s+(?:up|above|over|more|below)"
    r"|at\s+(?:most|least)|and\s+an?\s+\w+|out\s+of|squared|cubed|factorial|remainder|minus|plus"
    r"|(?:more|less|fewer)\s+than|over|divided|multiplied|times\s+(?:[a-z]|\d)|to\s+(?=\d)"
    r"|(?:percent|\\?%|x)\s+(?:more|less|fewer|off)|(?:st|nd|rd|th)?\s*root|to\s+the\s+\w+(?:\s+of)?|-?fold"
    rf"|(?:st|nd|rd|th)?\s*(?:of\s+)?(?:{_MONTHS})"
)
_BOUND = re.compile(
    rf"(?:^|\s){_BEFORE}\$?{_NUMBER}|\d\s*(?:(?:{_AFTER})(?![A-Za-z])|\+\s*$|[‐-―]\s*\d)",
    re.IGNORECASE,
)
_IN_PROSE = re.compile(
    rf"(?<![\w.,$\\-])(?P<bound>{_BEFORE})?(?:\$|\\\()?(?P<number>{_NUMBER})(?:\$|\\\))?"
    rf"(?(bound)(?:\s+(?:and|or)\s+\$?{_NUMBER}\$?)?|\s*"
    rf"(?:(?P<factors>(?:(?:{'|'.join(_FACTORS)})(?![A-Za-z])\s*)+)"
    rf"|(?P<second>[a-z]+(?:,?\s+and|,)?\s+{_NUMBER}\s+[a-z]+)"
    rf"|(?:{_AFTER}|(?:and|or|&)(?=\s+\d))(?![A-Za-z])(?:\s*{_NUMBER})?))",
    re.IGNORECASE,
)
_CLOCK = re.compile(
    r"(?<![\d:.,])(\d{1,2})(?::([0-5]\d)(?::([0-5]\d))?)?(?![\d:])\s*(?:([ap])\.?\s?m(?![a-z])\.?)?",
    re.IGNORECASE,
)
_BASED = re.compile(r"\$?(\d[0-9A-Za-z]*)_\{?(\d+)\}?\$?")
_DATE = re.compile(r"(\d{4})([-/.])(\d{1,2})\2(\d{1,2})|(\d{1,2})([-/.])(\d{1,2})\6(\d{4})")
_RATIO = re.compile(r"(\d+)\s*:\s*(\d+)\s*:\s*(\d+)(?:\s*:\s*(\d+))?")


@register("math")
class MathScorer:
    r"""1 for an answer equal to a reference, 0 for any other. Thinking does not count.

    The last `\boxed{}` is the answer (boxes side by side are read together). Without a box it is
    the last "Final answer:" line, a closing "the answer is …" or formula, or the whole of a short
    output. In any other text Math-Verify looks for the last expression or number, from GSM8K's
    "####" on where there is one.
    Equal texts are equal; everything else is compared by Math-Verify, as
    `verify($gold$, prediction)`. Units do not count: "5 oranges" is right for "5 apples", and
    "5 km" for "5 m". A number that states another base than the reference is wrong.

    An answer that takes more than 5 seconds of CPU time to compare, such as a tower of powers, is
    wrong. Waiting does not count, so a busy machine changes no score.

    Several threads may call it; they wait for each other. It blocks, so call it through
    `asyncio.to_thread` from an event loop. All scorers share one worker process, which starts with
    the first comparison and ends at exit.
    """

    def __init__(self) -> None:
        require_modules("math_verify", "loky")

    def score(self, output: str, question: Question) -> Score:
        """Score as `Scorer.score`, against the question's targets."""
        if not question.targets:
            msg = "a question without a target cannot be scored by the math scorer"
            raise ScorerError(msg)
        text = without_thinking(output)[-_MAX_LENGTH:]
        result, is_formula = _result(text)
        said = one_script(unmarked(text if result is None else result))
        targets = [_target(target) for target in question.targets]
        is_equal, left = _compared(said, targets)
        read = [] if is_equal or not left else _formulas(said, result, is_formula=is_formula)
        if isinstance(read, str):  # prose
            found = WORKER.read(in_prose(read))
            result = found if result is None else result
            is_equal, left = _compared(found, left) if found else (False, left)
            read = readings(found) if found else []
        if read and left and not is_equal:
            golds = [gold for target in left for gold in readings(target, is_target=True)]
            compared = WORKER.compare(golds, read)
            if compared.error is not None:
                return Score(0.0, result, f"could not be compared: {compared.error}")
            is_equal = compared.is_equal
        expected = " or ".join(question.targets)
        if result is None and not is_equal:
            return Score(0.0, None, f"no mathematical answer found; expected {expected}")
        verdict = "equals" if is_equal else "differs from"
        result = said if result is None else result
        return Score(float(is_equal), result, f"{result} {verdict} {expected}")


def _compared(said: str, targets: list[str]) -> tuple[bool, list[str]]:
    """Return whether a result is a target by its letters, and the targets that formulas decide."""
    verdicts = {target: same(said, target) for target in targets}
    return True in verdicts.values(), [one for one, is_same in verdicts.items() if is_same is None]


def _result(text: str) -> tuple[str | None, bool]:
    """Return the result that an output states, if it states one, and whether that is a formula."""
    boxed = boxed_answer(text)
    if boxed is not None:
        return boxed, True
    closing = None if "####" in text else _CLOSING.search(text)
    said = final_answer(text, is_lenient=True)
    result = said or (closing and (closing["said"] or closing["formula"]))
    letters = _COMMAND.sub("", text)
    if len(text) <= _SHORT and re.search(r"\d|\\", text) and not _WORDS.search(letters):
        result = result or text.removesuffix(".")
    return result, bool(closing and result == closing["formula"])


def _target(text: str) -> str:
    r"""Return what a target says: 42 for `\boxed{42}`, `$42$`, or GSM8K's "#### 42"."""
    boxed = boxed_answer(text)
    said = _GSM8K_MARK.split(text)[-1] if boxed is None else boxed
    return one_script(_DOLLAR.sub("", said))


def _formulas(said: str, result: str | None, *, is_formula: bool) -> list[str] | str:
    """Return the formulas to compare, or prose in which Math-Verify looks for one."""
    if is_formula:
        return readings(said)
    if result is None:
        marks = list(_GSM8K_MARK.finditer(said))
        return said[marks[-1].end() :] if marks else re.sub(r"</?[a-z]+>", " ", said)
    line = said if said.startswith(_SPREAD) else said.partition("\n")[0]
    if len(_DOLLAR.findall(line)) % 2:
        line = _DOLLAR.sub("", line)  # a price
    if _DOLLAR.search(line) or r"\(" in line or r"\[" in line:
        return line
    read = readings(line)
    is_prose = _PROSE.search(_COMMAND.sub("", read[0])) or _OTHER_PROSE.search(read[0])
    return line if is_prose else read


def one_script(text: str) -> str:
    r"""Return a text with ASCII figures and signs, and LaTeX for mathematical symbols."""

    def small(at: re.Match[str]) -> str:
        return f"^{{{at[0]}}}" if at["up"] else f"_{{{at[0]}}}" if at["down"] else f" {at[0]}"

    text = unicodedata.normalize("NFKC", _SMALL.sub(small, text))
    text = "".join(str(unicodedata.decimal(char, char)) for char in text)
    return _DASH.sub("-", text).translate(_SYMBOLS)


def unwrapped(formula: str, *, only_figures: bool = False) -> str:
    """Return a formula without the commands around text, or only around bold figures."""

    def bare(found: re.Match[str]) -> str:
        is_text = only_figures and re.search(r"(?<![\\A-Za-z])[A-Za-z]{2}", found["inner"])
        return found[0] if is_text else f" {found['inner']} "

    return _WRAPPED.sub(bare, formula).strip()


def readings(formula: str, *, is_target: bool = False) -> list[str]:
    r"""Return what a result may mean, in LaTeX for Math-Verify.

    "3 dozen eggs" is 3 times 12, "2 h 30 min" a sum in two units, and "2,5" a list or a number.

    Args:
        formula: A result without dollar signs, through `one_script`.
        is_target: Whether it is a target, which is read in one way only.
    """
    formula = " ".join(formula.split())
    if _BOUND.search(re.sub("^(?:minus|negative) ", "", unwrapped(formula))):
        return [rf"\text{{{unwrapped(formula)}}}"]
    if re.fullmatch(r"-?[\d.]+(?: -?[\d.]+)+", formula) and not _GROUPED.fullmatch(formula):
        formula = formula.replace(" ", ", ")  # 1 7 is not 17
    for written, read in _REWRITTEN:
        formula = re.sub(written, read, formula)
    pieces = _UNIT.split(unwrapped(formula))
    terms = [_term(*pair) for pair in zip(pieces[::2], pieces[1::2], strict=False)]
    known = [term for term in terms if term is not None]
    is_sum = len(known) > 1 and not all(re.match(rf"\(?{_NUMBER}", number) for number, _ in known)
    if not terms or len(known) < len(terms) or is_sum or pieces[-1].strip(" .,"):
        formula = unwrapped(formula, only_figures=True)
    elif all(not unit for _, unit in known[:-1]):  # 5 thousand 3 hundred dollars
        formula = " + ".join(number for number, _ in known)
    else:
        formula = " + ".join(rf"{number} \cdot u_{{{unit}}}" for number, unit in known)
    formula = formula.strip().removesuffix(".")
    return [formula] if is_target else list(dict.fromkeys([formula, *_also(formula)]))


def _term(number: str, words: str) -> tuple[str, str] | None:
    """Return a number with its factors and its unit's first letter, None if it is no quantity."""
    number = number.strip(" ,").removeprefix("and ").strip(" ,")
    unit = re.sub("([百백千천万萬만億亿억兆조])", r"\1 ", words).split()
    is_one = number == "1"
    while unit:
        word = unit[0].casefold().strip(".,")
        factor = next((value for name, value in _FACTORS.items() if re.fullmatch(name, word)), None)
        if factor is None or ("frac" in factor and not is_one and not word.endswith("s")):
            break  # one third is a third, "5 third" is nothing
        number, unit = rf"({number}) \cdot {factor}", unit[1:]
    said = [word.casefold().strip(".,") for word in unit]
    is_name = unit and unit[0][0].isupper() and not re.match(_UNIT_SYMBOL, unit[0])
    if not number or _LETTERS.search(number) or is_name or any(map(_CHANGING.fullmatch, said)):
        return None
    return None if _TIMES.search(" ".join(said)) else (number, "".join(unit)[:1])


def _also(formula: str) -> list[str]:
    """Return other readings: a decimal comma, groups of figures, "5m", and 12.5 % as 12.5."""
    if ";" in formula:  # (1,5; 2,5)
        return [re.sub(r"(?<=\d),(?=\d)", ".", formula).replace(";", ",")]
    commas = _COMMAS.fullmatch(formula)
    if commas:
        is_grouped = re.fullmatch(r"[1-9].*,\d{3}", commas["number"])
        formula = formula.replace(",", "" if is_grouped else ".")
    found = re.fullmatch(rf"({_NUMBER})[mshglLJNWVA]|([1-9]\d*\.\d+)\s*\\?%", formula)
    return [formula, found[1] or found[2]] if found else [formula]


def same(result: str, target: str) -> bool | None:
    """Return whether two results are one where letters, words, times, ratios or bases decide.

    Returns:
        None where they are formulas, for Math-Verify to compare.
    """
    if _plain(result) == _plain(target):
        return True
    said, meant = _words(result), _words(target)
    if said and meant and (said[1] or meant[1]):
        return said[0] == meant[0]
    time, other = _clock(result), _clock(target)
    if time and other:  # 3:15 PM is 15:15 and 3:15, but not 3:15 AM
        is_said = None not in time and None not in other
        return time[1] == other[1] if is_said else other[0] in time or time[0] in other
    for kind in (_BASED, _RATIO, _DATE):  # Math-Verify ignores a base, divides and subtracts
        first, second = kind.fullmatch(result), kind.fullmatch(target)
        if first and second:
            return first.groups() == second.groups()
    return None


def _plain(text: str) -> str:
    """Return a text for comparison letter by letter: "east" for "The answer is east."."""
    bare = unwrapped(without_lead(text)).removesuffix(".")
    bare = (re.fullmatch(r"\(([A-Za-z])\)", bare) or [bare, bare])[1]
    return re.sub(r"(?<!\d)\s+|\s+(?!\d)", "", bare)  # 3 1/2 is not 31/2


def _clock(text: str) -> tuple[int, int | None] | None:
    """Return the last time in a text in seconds, as written and by "am" or "pm" if that is said."""
    times = [at.groups() for at in _CLOCK.finditer(unwrapped(text)) if at[2] or at[4]]
    if not times:
        return None
    *parts, half = times[-1]
    hour, minute, second = (int(part or 0) for part in parts)
    rest = minute * 60 + second
    return hour * 3600 + rest, (hour % 12 + 12 * (half in "pP")) * 3600 + rest if half else None


def _words(text: str) -> tuple[list[str], bool] | None:
    r"""Return the words of a text that holds nothing else, and whether they can be no product."""
    bare = unwrapped(text).strip(" .$")
    if not re.fullmatch(r"[^\W\d_]+(?:[\s,'-]+[^\W\d_]+)*", bare):
        return None
    is_text = (
        bare != text.strip(" .$") or re.search(r"[^\W\d_]{5}|\s|^[A-Z]+[A-Z]$", bare) is not None
    )
    return [word for word in bare.casefold().split() if word not in {"a", "an", "the"}], is_text


def in_prose(text: str) -> str:
    """Return a text whose quantities Math-Verify would misread as formulas between dollars."""

    def formula(found: re.Match[str]) -> str:
        if not (found["factors"] or found["second"]):
            return r"$\text{bound}$ "
        phrase = f"{found['number']} {found['factors'] or found['second']}"
        read = readings(phrase)[-1]
        return found[0] if read.strip() == phrase.strip() else f"${read}$ "

    text = re.sub(rf"(?<={_SCRIPT})(?=[-\d$])|(?<=[\d$])(?={_SCRIPT})", " ", text)
    return _IN_PROSE.sub(formula, text)
