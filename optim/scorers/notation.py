r"""Read how a result is written: units, number words, clocks, and the notations of other places.

Math-Verify drops what it takes for a unit: "2 \text{ h } 30 \text{ min}" is 2 and "3 \text{ dozen}"
is 3. Here words are a unit only where they change no number.
"""

# ruff: noqa: RUF001 -- signs that look alike are its subject
from __future__ import annotations

import re
import unicodedata
from fractions import Fraction

_SYMBOLS = str.maketrans(
    {"\N{MINUS SIGN}": "-", "~": " ", "\N{FRACTION SLASH}": "/", "÷": "/", "’": "'", "、": ","}
    | {"∞": r"\infty ", "π": r"\pi ", "°": r"^\circ ", "×": r"\times ", "·": r"\cdot "}
    | {"⋅": r"\cdot ", "≤": r"\le ", "≥": r"\ge ", "≠": r"\ne ", "±": r"\pm ", "∪": r"\cup "}
    | {"∩": r"\cap ", "∅": r"\emptyset ", "∈": r"\in ", "،": ",", "٫": ".", "٪": "%"}
    | dict.fromkeys("€£¥₹₽₩₺٬\u200b\u200e\u200f\u2060\ufeff")
)
_RAISED = re.compile("[⁰¹²³⁴-⁹⁺⁻]+|[₀-₉]+")
_VULGAR = re.compile("[¼-¾⅐-⅞]")
_DASH = re.compile(r"(?<!\d)[‐-―]|[‐-―](?!\d)")  # between figures it is a range

_NUMBER = r"-?(?:\d[\d.,]*(?:\s+\d+/\d+|/\d+)?|\.\d+)"
_CURRENCY = r"(?:(?:USD|US|EUR|GBP|CHF|CAD|AUD|INR|Rs\.?|R(?=\\?\$))\s*)?\\?\$?\s*(?=[-\d])"
_GROUPS = r"(?<![\d.,/^_'])[1-9]\d{0,2}(?:(?:\{,\}|[ '_])\d{3})+(?![\d/])"  # 1 234 567, 1'234
_POINTS = r"(?<![\d.,])[1-9]\d{0,2}(?:(?:\.\d{3}){2,}(?!\d)|(?:\.\d{3})+(?=,\d))"  # 1.234.567
_REWRITTEN: tuple[tuple[str, str], ...] = (
    (r"\\!\s*|\\displaystyle|\\(?:text)?color\s*\{\w+\}", ""),
    (r"\\(?:[,;: ]|q?quad(?![A-Za-z]))", " "),
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
    (r"\\varnothing|^\s*\\\{\s*\\\}\s*$", r"\\emptyset"),
)
_GROUPED = re.compile(r"-?[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?|-?[1-9]\d?(?:,\d\d)+,\d{3}(?:\.\d+)?")
_LAST = re.compile(r"(?:[^,]*=\s*)?(?P<number>-?\d+(?:,\d+)+(?:\.\d+)?)(?:\s*\\?%)?")

# A command around text or bold figures, but neither \mathrm{e} nor an index.
_WRAPPED = re.compile(
    r"(?<![_^])\\(?:text\w*|mbox|math(?:rm|bf|it|sf|tt)|boldsymbol|bm|underline|emph)\s*"
    r"\{(?!\s*[eidTxyzn]?\s*\})(?P<inner>(?:[^{}]|\{[^{}]*\})*)\}|\{\\(?:bf|rm|it)\s+(?P<old>[^{}]*)\}"
)
_FUNCTIONS = (
    r"(?:and|or|percent\w*|pct|sin|cos|tan|cot|log|ln|exp|sqrt|lim|mod|gcd|lcm|pi|inf\w*)"
    r"(?![A-Za-z])"
)
_UNIT_SYMBOL = (
    r"(?:(?<!\d)[mgshlLJNWVACFK]|[kcmdnμ]m|[kmμ]g|[mμ]s|hrs?|min|sec|ft|in|yds?|mi|lbs?|oz|[mc][lL]|mph|km?ph|rpm|cc|"
    r"[kMG]?Hz|[kM][WJN]|k?Pa|mol|k?cal|[kMGT]B|mn|bn|USD|EUR|GBP|INR|JPY|CNY|CHF|Rs|"
    r"(?:Newton|Joule|Watt|Volt|Kelvin|Celsius|Fahrenheit|Pascal|Hertz|Euro|Dollar)s?)"
    r"(?![A-Za-z])"
)
_SCRIPT = (  # letters that are written without spaces
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff"
    r"\U00020000-\U0003ffff]"
)
UNSPACED = re.compile(_SCRIPT)
_WORD = (
    rf"(?:{_SCRIPT}+|{_UNIT_SYMBOL}|"
    rf"(?!{_FUNCTIONS})[^\W\d_]{{3,}}(?:['-][^\W\d_]+)*)\.?(?:\s*\^\s*\{{?-?\d\}}?)?"
)
_COUNTED = r"(?:for|in|per|every|each|after|within)\s+\d[\d.,]*"  # dollars for 3 people
_UNIT = re.compile(
    rf"(?<![\\A-Za-z{{_^])({_WORD}(?:(?:[\s,]+|\s*/\s*|\s*\\cdot\s*)"
    rf"(?:{_COUNTED}|{_WORD}|[a-z]{{1,2}}(?![A-Za-z])))*)"
)
_LETTERS = re.compile(rf"(?<![\\A-Za-z])(?!{_FUNCTIONS})[^\W\d_]{{2,}}")
_ATTACHED = re.compile(rf"({_NUMBER})(?:[mshglLNJWVA])")  # 5m
_FACTORS = (
    (r"hundreds?|[百백]", "100"),
    (r"thousands?|mil|mill?[ae]|tausend|duizend|тыс(?:яч\w*)?|[千천]", "1000"),
    (r"lakhs?", "10^{5}"),
    (r"crores?", "10^{7}"),
    (r"dozens?", "12"),
    (r"[万萬만]", "10^{4}"),
    (r"[億亿억]", "10^{8}"),
    (r"mill?i?[oóõ]n\w*|milh\w+|milj\w+|миллион\w*|млн|mio|mn", "10^{6}"),
    (r"billions?|mill?iard\w*|миллиард\w*|млрд|mrd|bn", "10^{9}"),
    (r"trillions?|трлн|[兆조]", "10^{12}"),
    ("hal(?:f|ves)", r"\frac{1}{2}"),
    ("thirds?", r"\frac{1}{3}"),
    ("(?:quarter|fourth)s?", r"\frac{1}{4}"),
    *((f"{word}s?", rf"\frac{{1}}{{{part}}}") for word, part in (
        ("fifth", 5), ("sixth", 6), ("seventh", 7), ("eighth", 8), ("ninth", 9), ("tenth", 10),
        ("hundredth", 100), ("thousandth", 1000),
    )),
)  # fmt: skip
_FACTOR_WORD = "|".join(word for word, _ in _FACTORS)
# Words that make another number of the one before them, or a date of it.
_CHANGING = re.compile(
    "zero|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|(?:thir|four|fif|six|seven"
    "|eigh|nine)teen|(?:twen|thir|for|fif|six|seven|eigh|nine)ty|half|plus|minus|squared|cubed"
    "|divided|multiplied|over|factorial|root|remainder|than|out|if|point|except|not|negative|power"
    "|choose|modulo|january|february|march|april|may|june|july|august|september|october|november"
    "|december"
)
_AFTER_TIMES = re.compile("an?|as|more|less|larger|bigger|smaller|faster|per|each|every|")
_CLOCK = re.compile(
    r"(?<![\d:.,])(?P<hour>\d{1,2})(?::(?P<minute>[0-5]\d)(?::(?P<second>[0-5]\d))?)?(?![\d:])"
    r"\s*(?:(?P<half>[ap])\.?\s?m(?![a-z])\.?)?",
    re.IGNORECASE,
)
_NOT_ALONE = r"and\s+an?\s+\w+|out\s+of|(?:more|less|fewer)\s+than|squared|cubed|minus|plus|over"
_BOUND = r"not|(?:more|less|fewer|greater)\s+than|at\s+(?:least|most)|between"
_IN_PROSE = re.compile(
    rf"(?<![\w.,$\\-])(?P<bound>(?:{_BOUND})\s+)?(?:\$|\\\()?(?P<number>{_NUMBER})(?:\$|\\\))?"
    rf"(?(bound)(?:\s+and\s+\$?{_NUMBER}\$?)?|\s*(?:(?P<factors>(?:(?:{_FACTOR_WORD})(?![A-Za-z])\s*)+)"
    rf"|(?P<second>[a-z]+(?:,?\s+and|,)?\s+{_NUMBER}\s+[a-z]+)|(?P<changed>(?:{_NOT_ALONE}"
    rf"|divided|multiplied|times\s+[a-z])(?![A-Za-z])(?:\s+{_NUMBER})?)))"
)
_RELATION = re.compile(r"\s*(?:[<>=]|\\(?:le|ge|lt|gt|ne|leq|geq|neq)(?![A-Za-z]))")
_BY_OR = re.compile(r"\s*(?:\\text\s*\{\s*or\s*\}|(?<![A-Za-z\\])or(?![A-Za-z])|\\vee|\\lor)\s*")
_INEQUALITY = re.compile(
    r"[a-z]\s*(?P<sign>[<>]|\\[lg](?:t|eq?)(?![A-Za-z]))\s*(?P<end>[^<>=\\,]+)"
)


def one_script(text: str) -> str:
    r"""Return a text with ASCII figures and signs, and LaTeX for mathematical symbols."""
    text = _RAISED.sub(lambda at: f"{'_' if '₀' <= at[0][0] <= '₉' else '^'}{{{at[0]}}}", text)
    text = unicodedata.normalize("NFKC", _VULGAR.sub(lambda found: f" {found[0]}", text))
    text = "".join(str(unicodedata.decimal(char, char)) for char in text)
    return _DASH.sub("-", text).translate(_SYMBOLS)


def readings(formula: str, *, is_target: bool = False) -> list[str]:
    r"""Return what a result may mean, in LaTeX for Math-Verify.

    "3 dozen eggs" is 3 times 12, "2 h 30 min" a sum in two units, and "2,5" a list or a number.

    Args:
        formula: A result without dollar signs, through `one_script`.
        is_target: Whether it is a target, in which a comma is none of a decimal number.
    """
    formula = _rewritten(re.sub(rf"^{_CURRENCY}", "", " ".join(formula.split())))
    if _RELATION.match(formula):  # "> 4", which is read as 4
        formula = f"x {formula}"
    pieces = _UNIT.split(unwrapped(formula))
    terms = []
    for number, unit in zip(pieces[::2], pieces[1::2], strict=False):
        term = _term(number.strip(" ,").removeprefix("and ").strip(" ,"), unit)
        if term is None:
            break
        terms.append(term)
    is_sum = len(terms) > 1 and not all(re.match(rf"\(?{_NUMBER}", number) for number, _ in terms)
    if is_sum or len(terms) != len(pieces) // 2 or not terms or pieces[-1].strip(" .,"):
        return _numbers(unwrapped(formula, only_figures=True), is_target=is_target)
    if all(not unit for _, unit in terms[:-1]):  # 5 thousand 3 hundred dollars
        return _numbers(" + ".join(number for number, _ in terms), is_target=is_target)
    return [" + ".join(rf"{number} \cdot u_{{{unit}}}" for number, unit in terms)]


def _term(number: str, words: str) -> tuple[str, str] | None:
    """Return a number with its factors and its unit's first letter, None if it is no quantity."""
    if not number or _LETTERS.search(number):
        return None
    unit = re.sub("([百백千천万萬만億亿억兆조])", r"\1 ", words).split()
    while unit and (factor := _factor(unit[0], number)):
        number, unit = rf"({number}) \cdot {factor}", unit[1:]
    known = [word.casefold().strip(".,") for word in unit]
    if any(_CHANGING.fullmatch(word) or _factor(word) for word in known):
        return None
    if "times" in known and not _AFTER_TIMES.fullmatch(([*known, ""])[known.index("times") + 1]):
        return None
    if unit and unit[0][0].isupper() and not re.match(_UNIT_SYMBOL, unit[0]):
        return None  # a name, such as a month
    return number, "".join(unit)[:1]


def _factor(word: str, number: str = "2") -> str | None:
    """Return what a number word multiplies by. One third is a third, "5 third" is nothing."""
    word = word.casefold().strip(".,")
    factor = next((value for words, value in _FACTORS if re.fullmatch(words, word)), None)
    is_part = factor is not None and factor.startswith(r"\frac")
    return None if is_part and not word.endswith("s") and number != "1" else factor


def unwrapped(formula: str, *, only_figures: bool = False) -> str:
    """Return a formula without the commands around text, or only around bold figures."""

    def bare(found: re.Match[str]) -> str:
        inner = found["inner"] or found["old"] or ""
        return (
            found[0]
            if only_figures and re.search(r"(?<![\\A-Za-z])[A-Za-z]{2}", inner)
            else f" {inner} "
        )

    return _WRAPPED.sub(bare, formula).strip()


def _rewritten(formula: str) -> str:
    """Return a formula with numbers as Math-Verify reads them."""
    for written, read in _REWRITTEN[:2]:
        formula = re.sub(written, read, formula)
    formula = re.sub(_GROUPS, lambda found: re.sub(r"\D", "", found[0]), formula)
    formula = re.sub(_POINTS, lambda found: found[0].replace(".", ""), formula)
    for written, read in _REWRITTEN[2:]:
        formula = re.sub(written, read, formula)
    return formula


def _numbers(formula: str, *, is_target: bool) -> list[str]:
    """Return the readings of commas: groups of figures, a decimal comma, or a list."""
    formula = formula.strip().removesuffix(".")
    ends = [_INEQUALITY.fullmatch(part) for part in _BY_OR.split(formula)]
    if len(ends) > 1 and all(ends):
        return [formula, r" \cup ".join(map(_interval, filter(None, ends)))]
    read = formula
    found = None if is_target else _LAST.fullmatch(formula)
    if ";" in formula and not is_target:  # (1,5; 2,5)
        read = re.sub(r"(?<=\d),(?=\d)", ".", formula).replace(";", ",")
    elif found and _GROUPED.fullmatch(found["number"]):
        read = formula.replace(",", "")
    elif found and found["number"].count(",") == 1 and "." not in found["number"]:
        read = formula.replace(",", ".")
    share = re.fullmatch(r"(-?[1-9]\d*\.\d+)\s*\\?%", read)  # Math-Verify: 15 % is 15
    return list(dict.fromkeys([formula, read, share[1] if share else read]))


def _interval(inequality: re.Match[str]) -> str:
    sign, end = inequality["sign"], inequality["end"]
    is_closed = "e" in sign
    if sign in {">", r"\gt", r"\ge", r"\geq"}:
        return rf"{'[' if is_closed else '('}{end}, \infty)"
    return rf"(-\infty, {end}{']' if is_closed else ')'}"


def attached(formula: str) -> list[str]:
    """Return the number of "5m", whose letter may be a unit."""
    found = _ATTACHED.fullmatch(formula.strip())
    return [found[1]] if found else []


def clock(text: str) -> tuple[int, int | None] | None:
    """Return the last time in a text in seconds, as written and by "am" or "pm" if that is said."""
    times = [at for at in _CLOCK.finditer(unwrapped(text)) if at["minute"] or at["half"]]
    if not times:
        return None
    hour, minute, second = (int(times[-1][name] or 0) for name in ("hour", "minute", "second"))
    rest, half = minute * 60 + second, (times[-1]["half"] or "").casefold()
    return hour * 3600 + rest, (hour % 12 + 12 * (half == "p")) * 3600 + rest if half else None


def same_time(time: tuple[int, int | None], other: tuple[int, int | None]) -> bool:
    """Return whether two times are one: 3:15 PM is 15:15 and 3:15, but not 3:15 AM."""
    (written, said), (others, meant) = time, other
    if said is not None and meant is not None:
        return said == meant
    return others in {written, said} or written in {others, meant}


def words(text: str) -> tuple[list[str], bool] | None:
    r"""Return the words of a text that holds nothing else, and whether they can be no product."""
    bare = unwrapped(text).strip(" .$")
    if not re.fullmatch(r"[^\W\d_]+(?:[\s,'-]+[^\W\d_]+)*", bare):
        return None
    is_text = bare != text.strip(" .$") or re.search(r"[^\W\d_]{5}|\s", bare) is not None
    return [word for word in bare.casefold().split() if word not in {"a", "an", "the"}], is_text


def ratio(text: str) -> list[Fraction] | None:
    """Return the parts of a ratio such as 1:2:3 by the first one."""
    if not re.fullmatch(r"\d{1,9}(?:\s*:\s*\d{1,9})+", text):
        return None
    parts = [Fraction(part) for part in text.split(":")]
    return [part / parts[0] for part in parts] if parts[0] else None


def in_prose(text: str) -> str:
    """Return a text whose quantities Math-Verify would misread as formulas between dollars."""

    def formula(found: re.Match[str]) -> str:
        if found["changed"] or found["bound"]:
            said = re.sub(r"[$\\()]", "", found[0])
            return rf"$\text{{{said}}}$"
        phrase = found["number"] + " " + (found["factors"] or found["second"])
        read = readings(phrase)[-1]
        return found[0] if read.strip() == phrase.strip() else f"${read}$ "

    text = re.sub(rf"(?<={_SCRIPT})(?=[-\d$])|(?<=[\d$])(?={_SCRIPT})", " ", text)
    return _IN_PROSE.sub(formula, text)
